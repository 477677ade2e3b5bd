//! A container that restarts in its pod takes its Lease back at once, if no process of its former run is left.

use anyhow::{Context, Result};
use hustings_client::{Campaign, Durations};
use hustings_core::model::SessionStamp;

use super::coordinated::{grant, nominated};
use super::stage::{LONG, SHORT, Stage, leads, patiently};

/// Starts an elector of the pod with this UID.
fn start(stage: &Stage, pod_uid: &str, timing: Durations) -> Result<Campaign> {
    let builder = stage.direct("pod")?.pod("pod", pod_uid).container("web").timing(timing);
    Ok(builder.build()?.start())
}

/// Returns the number and the token of the campaign's term. Drops the term itself, because a term keeps the lock.
async fn led(campaign: &Campaign) -> Result<(u32, u64)> {
    let term = leads(&campaign.leadership()).await?;
    Ok((term.number, term.token))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_container_that_restarts_takes_its_lease_back_at_once_and_another_pod_does_not() -> Result<()> {
    let stage = Stage::with_open_lease("reclaim").await?;
    let uid = stage.namespace.clone();
    let first = start(&stage, &uid, LONG)?;
    let (number, token) = led(&first).await?;
    let session = stage.lease().await?.record.session.stamp().context("a session")?.session.clone();
    let place = SessionStamp::place(&session).context("a place")?;
    assert!(place.starts_with(&format!("{uid}.web.")), "{place}");
    first.abort();
    patiently("the task ends", first.ended()).await?.unwrap_err();

    // Its namesake in another pod waits for the Lease to expire, which takes 300 s.
    let namesake = start(&stage, "another", LONG)?;
    let second = start(&stage, &uid, LONG)?;
    let (second_number, second_token) = led(&second).await?;
    assert!(!namesake.leadership().is_leader());
    assert_eq!(second_number, number + 1);
    let lease = stage.lease().await?.record;
    assert_eq!(lease.token, Some(second_token));
    assert!(second_token > token);
    Ok(())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_lease_is_not_taken_back_while_the_lock_of_the_former_run_is_held() -> Result<()> {
    let stage = Stage::with_open_lease("reclaim-heir").await?;
    let uid = stage.namespace.clone();
    let elector = stage.direct("pod")?.pod("pod", uid.as_str()).timing(SHORT).build()?;
    let heir = elector.instance_lock().context("a lock")?;
    let first = elector.start();
    leads(&first.leadership()).await?;
    first.abort();
    patiently("the task ends", first.ended()).await?.unwrap_err();
    let last_renewal = stage.lease().await?.record.renew_time.context("renewed")?;

    let second = stage.direct("pod")?.pod("pod", uid.as_str()).timing(SHORT).build()?;
    assert!(second.instance_lock().is_none());
    let second = second.start();
    leads(&second.leadership()).await?;
    let lease = stage.lease().await?.record;
    // Both times are by this machine's wall clock.
    let waited = lease.acquire_time.context("acquired")?.as_micros() - last_renewal.as_micros();
    assert!(waited >= 10_000_000, "the lease had its time: {waited} us");
    let session = &lease.session.stamp().context("a session")?.session;
    assert_eq!(SessionStamp::place(session), None, "{session}");
    drop(heir);
    Ok(())
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_candidates_container_restarts_without_an_election() -> Result<()> {
    let stage = Stage::with_candidates("reclaim-candidate").await?;
    let uid = stage.namespace.clone();
    let start =
        || -> Result<Campaign> { Ok(stage.coordinated("pod", "1.2.0")?.pod("pod", uid.as_str()).build()?.start()) };
    let first = start()?;
    stage.candidate_where("pod", "the candidate stands", |_| true).await?;
    let _standby = nominated(&stage, "standby", "1.1.0").await?;
    grant(&stage, "pod").await?;
    let (number, token) = led(&first).await?;
    first.abort();
    patiently("the task ends", first.ended()).await?.unwrap_err();
    let second = start()?;
    let (second_number, second_token) = led(&second).await?;
    assert_eq!(second_number, number + 1);
    assert!(second_token > token);
    Ok(())
}
