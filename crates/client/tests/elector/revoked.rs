//! A permission that is revoked during a term and then restored.

use anyhow::{Context, Result, ensure};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Elector, Term, lease_client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::coordinated::grant;
use super::permissions::Log;
use super::rights::{Account, CANDIDATES, LEASES};
use super::stage::{LEASE, LONG, SHORT, Stage, leads, patiently};

/// What the function of a term reports.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Began(u64),
    Stopped(u64),
}

/// A function that reports when it begins and when it is asked to stop; and the receiver of its reports.
fn function() -> (impl Fn(Term) -> futures::future::BoxFuture<'static, ()>, mpsc::UnboundedReceiver<Event>) {
    let (events, seen) = mpsc::unbounded_channel();
    let function = move |term: Term| -> futures::future::BoxFuture<'static, ()> {
        let events = events.clone();
        Box::pin(async move {
            let _ = events.send(Event::Began(term.token));
            term.cancelled().await;
            let _ = events.send(Event::Stopped(term.token));
        })
    };
    (function, seen)
}

#[tokio::test]
async fn without_the_right_to_write_leases_a_term_ends_before_the_next_begins() -> Result<()> {
    let (log, _guard) = Log::listen();
    let stage = Stage::with_open_lease("revoked-lease").await?;
    let account = Account::new(&stage, "a").await?;
    let shutdown = CancellationToken::new();
    let client = lease_client(account.config())?;
    let elector = Elector::direct(client, &stage.namespace, LEASE).identity("a").timing(SHORT);
    let elector = elector.shutdown(&shutdown).build()?;
    let leadership = elector.leadership();
    let (function, mut seen) = function();
    let running = tokio::spawn(elector.run(function));
    let first = leads(&leadership).await?;
    assert_eq!(patiently("the function begins", seen.recv()).await?, Some(Event::Began(first.token)));

    let successor = stage.direct("b")?.timing(SHORT).build()?.start();
    account.revoke(LEASES, "patch").await?;
    let second = leads(&successor.leadership()).await?;
    ensure!(!leadership.is_leader(), "two lead");
    // The term ended because no renewal succeeded, before the next term began.
    let lines = log.lines();
    let logged = |text: &str| lines.iter().position(|line| line.contains(text));
    let (lost, began) = (logged("term lost: no renewal succeeded in time"), logged(&format!("token={}", second.token)));
    ensure!(lost.is_some() && lost < began, "{lines:#?}");
    assert!(second.token > first.token);
    assert_eq!(patiently("the function stops", seen.recv()).await?, Some(Event::Stopped(first.token)));
    // The Lease is free, but the elector may not write it.
    patiently("it stops", successor.stop()).await??;
    assert!(!leadership.is_leader());

    account.restore().await?;
    let third = leads(&leadership).await?;
    assert!(third.token > second.token);
    assert_eq!(patiently("the function begins again", seen.recv()).await?, Some(Event::Began(third.token)));
    shutdown.cancel();
    patiently("run returns", running).await???;
    assert_eq!(seen.recv().await, Some(Event::Stopped(third.token)));
    assert_eq!(seen.recv().await, None, "each term has its function once");
    Ok(())
}

#[tokio::test]
async fn without_the_right_to_write_candidates_a_term_continues_and_the_ping_is_answered_later() -> Result<()> {
    let (log, _guard) = Log::listen();
    let stage = Stage::with_candidates("revoked-candidate").await?;
    let account = Account::new(&stage, "a").await?;
    let client = lease_client(account.config())?;
    let elector = Elector::coordinated(client, &stage.namespace, LEASE, "1.2.0").identity("a").timing(LONG);
    let elector = elector.build()?;
    let leadership = elector.leadership();
    let (function, mut seen) = function();
    let _running = tokio::spawn(elector.run(function));
    stage.candidate_where("a", "it stands", |_| true).await?;
    grant(&stage, "a").await?;
    let term = leads(&leadership).await?;

    account.revoke(CANDIDATES, "patch").await?;
    let candidate = stage.candidates().get("a").await?.record;
    let ping = SystemClock.wall().later_than(candidate.renew_time);
    stage.ping("a", &candidate.uid, ping).await?;
    log.tells("grant the verb patch on leasecandidates.hustings.io").await?;
    let renewed = stage.lease().await?.record.renew_time;
    stage.lease_where("it renews the Lease", |lease| lease.record.renew_time > renewed).await?;
    let candidate = stage.candidates().get("a").await?.record;
    ensure!(candidate.renew_time < Some(ping), "the ping is answered without the right: {candidate:?}");

    account.restore().await?;
    stage.candidate_where("a", "the ping is answered", |candidate| candidate.record.renew_time >= Some(ping)).await?;
    assert_eq!(leadership.term().as_ref(), Some(&term), "the term went on");
    assert_eq!(seen.recv().await.context("it runs")?, Event::Began(term.token));
    assert!(seen.is_empty(), "the function has run all the time");
    Ok(())
}
