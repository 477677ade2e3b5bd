//! Work that follows the terms of an elector, and the gate through which it writes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use hustings_client::gate::{WriteGate, is_not_leading};
use hustings_client::{Durations, Elector, Leadership, Term, lease_client};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::client::Body;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::stage::{LEASE, LONG, SHORT, Stage, eventually, leads, patiently};

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Began(u64),
    Stopped(u64),
}

#[tokio::test]
async fn work_runs_once_per_term_and_ends_before_the_lease_is_given_up() -> Result<()> {
    let stage = Stage::with_open_lease("work-terms").await?;
    let shutdown = CancellationToken::new();
    let elector = stage.direct("a")?.timing(SHORT).shutdown(&shutdown).build()?;
    let leadership = elector.leadership();
    let (events, mut seen) = mpsc::unbounded_channel();
    let at_stop = leadership.clone();
    let work = move |term: Term| {
        let (events, leadership) = (events.clone(), at_stop.clone());
        async move {
            let _ = events.send((Event::Began(term.token), leadership.is_leader()));
            term.cancelled().await;
            let _ = events.send((Event::Stopped(term.token), leadership.is_leader()));
        }
    };
    let running = tokio::spawn(elector.run(work));

    let (first, leading) = patiently("work begins", seen.recv()).await?.context("it runs")?;
    let Event::Began(first_token) = first else { anyhow::bail!("{first:?}") };
    assert!(leading);
    stage.edit_lease(&json!({ "spec": { "holderIdentity": "bogus" } })).await?;
    let (stopped, leading) = patiently("work is cancelled", seen.recv()).await?.context("it runs")?;
    assert_eq!((stopped, leading), (Event::Stopped(first_token), false), "the term was lost");

    let (second, _) = patiently("work begins again", seen.recv()).await?.context("it runs")?;
    let Event::Began(second_token) = second else { anyhow::bail!("{second:?}") };
    assert!(second_token > first_token);
    shutdown.cancel();
    let (stopped, leading) = patiently("work is cancelled", seen.recv()).await?.context("it runs")?;
    assert_eq!((stopped, leading), (Event::Stopped(second_token), true), "renewals continue while work is stopped");
    patiently("run returns", running).await???;
    assert!(stage.lease().await?.record.is_given_up());
    assert_eq!(seen.recv().await, None);
    Ok(())
}

#[tokio::test]
async fn functions_stop_then_the_flag_is_false_then_the_release_is_sent() -> Result<()> {
    let stage = Stage::with_open_lease("work-order").await?;
    let shutdown = CancellationToken::new();
    // The state when the release is sent, before any other process can observe the release.
    let (looks, mut looked) = mpsc::unbounded_channel();
    let watched: Arc<OnceLock<(Leadership, Arc<AtomicU32>)>> = Arc::default();
    let at_release = Arc::clone(&watched);
    let client = looking_at_releases(lease_client(stage.plane.config())?, move || {
        let seen = at_release.get().map(|(leadership, ended)| (ended.load(Ordering::SeqCst), leadership.is_leader()));
        let _ = looks.send((Instant::now(), seen));
    });
    let builder = Elector::direct(client, &stage.namespace, LEASE).identity("a").timing(LONG);
    let elector = builder.shutdown(&shutdown).build()?;
    let leadership = elector.leadership();
    let ended = Arc::new(AtomicU32::new(0));
    let _ = watched.set((leadership.clone(), Arc::clone(&ended)));
    let (stopped, mut seen) = mpsc::unbounded_channel();
    let function = |stop: Duration| {
        let (stopped, leadership, ended) = (stopped.clone(), elector.leadership(), Arc::clone(&ended));
        move |term: Term| {
            let (stopped, leadership, ended) = (stopped.clone(), leadership.clone(), Arc::clone(&ended));
            async move {
                term.cancelled().await;
                sleep(stop).await;
                let _ = stopped.send((Instant::now(), leadership.is_leader()));
                ended.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let [quick, slow] = [100, 1_500].map(|millis| function(Duration::from_millis(millis)));
    let running = tokio::spawn(elector.function("quick", quick).function("slow", slow).run());
    leads(&leadership).await?;
    assert_eq!(looked.len(), 0, "nobody releases before the end");

    shutdown.cancel();
    patiently("run returns", running).await???;
    assert!(stage.lease().await?.record.is_given_up());
    let (released, at_release) = looked.recv().await.context("it is released")?;
    assert_eq!(at_release, Some((2, false)), "both had stopped, and then nobody led");
    let mut last = released;
    for _ in 0..2 {
        let (at, led) = seen.recv().await.context("both say so")?;
        assert!(led, "the term lasts until the last one has stopped");
        last = at;
    }
    // The release follows within a second, as the tests in virtual time show. This limit is generous: half of the grace
    // of 30 s.
    assert!(released - last < LONG.stop_grace / 2, "{:?} after the last function", released - last);
    Ok(())
}

#[tokio::test]
async fn work_that_does_not_stop_is_dropped_after_its_grace_and_the_lease_expires() -> Result<()> {
    let stage = Stage::new("work-stuck").await?;
    let shutdown = CancellationToken::new();
    let timing = Durations { stop_grace: Duration::from_millis(500), ..SHORT };
    let elector = stage.direct("a")?.timing(timing).shutdown(&shutdown).build()?;
    let leadership = elector.leadership();
    let dropped = Arc::new(AtomicU32::new(0));
    let running = tokio::spawn(elector.run({
        let dropped = Arc::clone(&dropped);
        move |_| {
            let guard = CountDrops(Arc::clone(&dropped));
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            }
        }
    }));
    leads(&leadership).await?;
    shutdown.cancel();
    patiently("run returns", running).await???;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let lease = stage.lease().await?.record;
    assert_eq!(lease.holder.as_deref(), Some("a"), "what was not stopped is not given up");
    assert!(!lease.is_open());
    Ok(())
}

#[tokio::test]
async fn work_that_outlives_its_term_is_dropped_after_its_grace_and_the_next_term_has_its_own() -> Result<()> {
    let stage = Stage::with_open_lease("work-lost").await?;
    let timing = Durations { stop_grace: Duration::from_millis(500), ..SHORT };
    let elector = stage.direct("a")?.timing(timing).build()?;
    let leadership = elector.leadership();
    let dropped = Arc::new(AtomicU32::new(0));
    tokio::spawn(elector.run({
        let dropped = Arc::clone(&dropped);
        move |_| {
            let guard = CountDrops(Arc::clone(&dropped));
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            }
        }
    }));
    let first = leads(&leadership).await?;
    stage.edit_lease(&json!({ "spec": { "holderIdentity": "bogus" } })).await?;
    patiently("the term ends", first.cancelled()).await?;
    let second = eventually("it leads again", || async { leadership.term().filter(|term| *term != first) }).await?;
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "the old work has ended before the new term");
    assert!(second.token > first.token);
    Ok(())
}

#[tokio::test]
async fn dropping_run_drops_the_work_and_gives_the_lease_up() -> Result<()> {
    let stage = Stage::new("work-drop").await?;
    let elector = stage.direct("a")?.build()?;
    let leadership = elector.leadership();
    let dropped = Arc::new(AtomicU32::new(0));
    let guard = CountDrops(Arc::clone(&dropped));
    let mut guard = Some(guard);
    let running = elector.run(move |_| {
        let guard = guard.take();
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        }
    });
    tokio::select! {
        ended = running => anyhow::bail!("ended: {ended:?}"),
        term = leads(&leadership) => drop(term?),
    }
    eventually("the Lease is given up", || async {
        stage.lease().await.ok().filter(|lease| lease.record.is_given_up())
    })
    .await?;
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    Ok(())
}

#[tokio::test]
async fn only_the_leader_writes_and_the_other_reads() -> Result<()> {
    let stage = Stage::new("work-gate").await?;
    let first = stage.direct("first")?.build()?.start();
    leads(&first.leadership()).await?;
    let second = stage.direct("second")?.build()?.start();
    let api = |campaign: &hustings_client::Campaign| -> Result<Api<ConfigMap>> {
        let gate = WriteGate::new(campaign.leadership(), Duration::from_secs(5))?;
        Ok(Api::namespaced(gate.client(stage.plane.config())?, &stage.namespace))
    };
    let (leader, follower) = (api(&first)?, api(&second)?);
    leader.create(&PostParams::default(), &config_map("of-the-leader")).await?;
    let refused = follower.create(&PostParams::default(), &config_map("of-the-other")).await.unwrap_err();
    assert!(is_not_leading(&refused), "{refused}");
    assert_eq!(follower.list(&ListParams::default()).await?.items.len(), 1);

    patiently("the first stops", first.stop()).await??;
    let refused = leader.create(&PostParams::default(), &config_map("late")).await.unwrap_err();
    assert!(is_not_leading(&refused), "{refused}");
    leads(&second.leadership()).await?;
    follower.create(&PostParams::default(), &config_map("of-the-other")).await?;
    Ok(())
}

struct CountDrops(Arc<AtomicU32>);

impl Drop for CountDrops {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A client that calls `look` whenever it sends a write that leaves a Lease without a holder.
fn looking_at_releases(client: Client, look: impl Fn() + Send + Sync + 'static) -> Client {
    let look = Arc::new(look);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, look) = (client.clone(), Arc::clone(&look));
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let written: Value = serde_json::from_slice(&body).unwrap_or_default();
            if parts.uri.path().contains("/leases/") && written["spec"]["holderIdentity"] == "" {
                look();
            }
            client.send(Request::from_parts(parts, Body::from(body))).await
        }
    });
    Client::new(service, "default")
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..Default::default() }, ..Default::default() }
}
