//! Preference in direct mode: a better replica takes over from a live one, as among Istio's control planes, but never
//! by force.

use std::time::Duration;

use anyhow::Result;
use hustings_client::{Campaign, Durations};
use tokio::sync::watch;
use tokio::time::Instant;

use super::stage::{LONG, SHORT, Stage, eventually, leads, patiently};

const HIGH: Option<i64> = Some(3);
const LOW: Option<i64> = Some(1);

#[tokio::test]
async fn a_higher_key_takes_over_from_a_live_holder_whose_work_has_stopped() -> Result<()> {
    let stage = Stage::with_open_lease("key-higher").await?;
    let elector = stage.direct("other")?.key(LOW).build()?;
    let other = elector.leadership();
    let stopped = watch::Sender::new(None);
    let works = stopped.clone();
    let running = tokio::spawn(elector.run(move |term| {
        let works = works.clone();
        async move {
            term.cancelled().await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            works.send_replace(Some(Instant::now()));
        }
    }));
    let first = leads(&other).await?;

    let default = stage.direct("default")?.key(HIGH).build()?.start();
    // Long before the lease, which lasts 300 s, could expire.
    let second = leads(&default.leadership()).await?;
    assert!(stopped.borrow().is_some(), "its work had stopped before");
    assert!(!other.is_leader());
    assert!(second.token > first.token);
    assert_eq!(second.number, first.number + 1, "by one hand-over");
    let lease = stage.lease_where("the new holder shows its key", |lease| lease.record.key == HIGH).await?;
    assert_eq!((lease.record.holder.as_deref(), lease.record.preferred_holder), (Some("default"), None));

    patiently("the default stops", default.stop()).await??;
    leads(&other).await?;
    running.abort();
    Ok(())
}

#[tokio::test]
async fn an_equal_or_unknown_key_takes_no_lease_and_a_higher_key_that_becomes_known_does() -> Result<()> {
    let stage = Stage::with_open_lease("key-equal").await?;
    let holder = start(&stage, "holder", Some(1))?;
    let term = leads(&holder.leadership()).await?;
    let (default_revision, key) = watch::channel(None);
    let equal = start(&stage, "equal", Some(1))?;
    let unsynced = stage.direct("unsynced")?.key(key).build()?.start();
    for campaign in [&equal, &unsynced] {
        eventually("it sees the holder", || async { campaign.leadership().holder() }).await?;
    }
    // Ten renewals: after each version, the other electors could have asked the holder to hand over.
    let renewed = stage.lease().await?.record.resource_version;
    stage.lease_where("the holder renews", |lease| lease.record.resource_version >= renewed + 10).await?;
    assert_eq!(holder.leadership().term(), Some(term));

    default_revision.send_replace(Some(2));
    leads(&unsynced.leadership()).await?;
    // The default revision changes at run time: it lowers its own key, and the others take over.
    default_revision.send_replace(Some(0));
    eventually("another leads", || async {
        [&holder, &equal].into_iter().any(|campaign| campaign.leadership().is_leader()).then_some(())
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_holder_whose_work_does_not_stop_loses_the_lease_within_its_grace_and_one_lease_duration() -> Result<()> {
    let stage = Stage::with_open_lease("key-stuck").await?;
    let timing = Durations { stop_grace: Duration::from_millis(500), ..SHORT };
    let elector = stage.direct("stuck")?.key(1).timing(timing).build()?;
    let stuck = elector.leadership();
    // The work never stops. It is dropped when its grace is over, and would begin again in the next term.
    let running = tokio::spawn(elector.run(|_| std::future::pending()));
    leads(&stuck).await?;
    let asked = Instant::now();
    let higher = stage.direct("higher")?.key(2).timing(timing).build()?.start();
    let term = leads(&higher.leadership()).await?;
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}: the grace is 0.5 s, and the lease lasts 4 s");
    let lease_duration = Duration::from_secs(timing.lease_duration_seconds.into());
    assert!(took > lease_duration / 2, "{took:?}: it was not given up while work went on");
    assert!(!stuck.is_leader());
    stage.lease_where("the higher keeps it", |lease| lease.record.token == Some(term.token)).await?;
    running.abort();
    Ok(())
}

fn start(stage: &Stage, identity: &str, key: Option<i64>) -> Result<Campaign> {
    Ok(stage.direct(identity)?.key(key).timing(LONG).build()?.start())
}
