//! Direct mode: electors without candidates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::BoxFuture;
use hustings_client::api::names;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{CampaignError, Moment, WireTime};
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::Instant;

use super::stage::{LEASE, LONG, SHORT, Stage, eventually, leads, leads_no_more, patiently};

#[tokio::test]
async fn of_two_electors_one_leads_and_a_crash_costs_one_lease() -> Result<()> {
    let stage = Stage::with_open_lease("direct-crash").await?;
    let first = stage.direct("first")?.timing(SHORT).build()?.start();
    let first_term = leads(&first.leadership()).await?;
    let second = stage.direct("second")?.timing(SHORT).build()?.start();
    stage
        .lease_where("the Lease is enrolled and held", |lease| {
            lease.record.enrolled && lease.record.holder.as_deref() == Some("first")
        })
        .await?;
    eventually("the second sees the holder", || async {
        (second.leadership().holder().as_deref() == Some("first")).then_some(())
    })
    .await?;
    assert!(!second.leadership().is_leader());

    first.abort();
    let error = patiently("the aborted task ends", first.ended()).await?.unwrap_err();
    assert!(error.to_string().contains(&format!("{}/{LEASE}", stage.namespace)), "{error}");

    let crashed = Instant::now();
    let second_term = leads(&second.leadership()).await?;
    assert!(crashed.elapsed() < Duration::from_secs(30), "took {:?}, and the lease lasts 4 s", crashed.elapsed());
    assert_eq!(second_term.number, first_term.number + 1);
    assert!(second_term.token > first_term.token);
    Ok(())
}

#[tokio::test]
async fn is_leader_becomes_false_when_the_task_is_aborted() -> Result<()> {
    let stage = Stage::new("direct-abort").await?;
    let campaign = stage.direct("a")?.build()?.start();
    let leadership = campaign.leadership();
    let term = leads(&leadership).await?;
    assert!(leadership.is_leader());
    campaign.abort();
    leads_no_more(&leadership).await?;
    patiently("the term is cancelled", term.cancelled()).await?;
    assert_eq!(patiently("no term is waited for", leadership.wait_until_leader()).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_panic_of_the_task_ends_the_term_and_is_reported() -> Result<()> {
    let stage = Stage::new("direct-panic").await?;
    let clock = Arc::new(FragileClock::default());
    let campaign = stage.direct("a")?.clock(clock.clone()).build()?.start();
    let leadership = campaign.leadership();
    leads(&leadership).await?;
    clock.broken.store(true, Ordering::SeqCst);
    leads_no_more(&leadership).await?;
    let error = patiently("the task ends", campaign.ended()).await?.unwrap_err();
    assert!(matches!(error, CampaignError::Died { ref source, .. } if source.is_panic()), "{error:?}");
    assert!(error.to_string().contains("start a new elector"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_graceful_stop_hands_the_lease_over_long_before_it_expires() -> Result<()> {
    let stage = Stage::new("direct-stop").await?;
    let first = stage.direct("first")?.build()?.start();
    leads(&first.leadership()).await?;
    let second = stage.direct("second")?.build()?.start();
    eventually("the second sees the holder", || async { second.leadership().holder() }).await?;

    let first_leadership = first.leadership();
    patiently("the first stops", first.stop()).await??;
    assert!(!first_leadership.is_leader());
    // The test does not wait for the 300 s that the lease lasts.
    leads(&second.leadership()).await?;
    patiently("the second stops", second.stop()).await??;

    let lease = stage.lease().await?.record;
    assert!(lease.is_given_up(), "{lease:?}");
    assert_eq!((lease.holder, lease.duration_seconds), (None, 1));
    Ok(())
}

#[tokio::test]
async fn a_deleted_lease_ends_the_term_and_the_next_term_has_a_greater_token() -> Result<()> {
    let stage = Stage::with_open_lease("direct-delete").await?;
    let campaign = stage.direct("a")?.timing(SHORT).build()?.start();
    let first = leads(&campaign.leadership()).await?;
    let uid = stage.lease().await?.record.uid;
    stage.leases().delete(LEASE, &DeleteParams::default()).await?;
    patiently("the term ends", first.cancelled()).await?;
    let second =
        eventually("it leads again", || async { campaign.leadership().term().filter(|term| *term != first) }).await?;
    assert!(second.token > first.token, "tokens grow across deletion");
    assert_ne!(stage.lease().await?.record.uid, uid);
    Ok(())
}

#[tokio::test]
async fn a_lease_overwritten_by_hand_ends_the_term_and_is_claimed_when_it_has_expired() -> Result<()> {
    let stage = Stage::with_open_lease("direct-edit").await?;
    let campaign = stage.direct("a")?.timing(SHORT).build()?.start();
    let first = leads(&campaign.leadership()).await?;
    let edited = stage.edit_lease(&json!({ "spec": { "holderIdentity": "bogus" } })).await?;
    patiently("the term ends", first.cancelled()).await?;
    assert!(!campaign.leadership().is_leader());
    let second =
        eventually("it leads again", || async { campaign.leadership().term().filter(|term| *term != first) }).await?;
    let waited = stage.lease().await?.record.acquire_time.zip(edited.record.renew_time);
    let (acquired, bogus) = waited.context("both have times")?;
    // Both times are by this machine's wall clock: the last renewal before the edit, and the claim.
    let micros = acquired.as_micros() - bogus.as_micros();
    assert!(micros >= 4_000_000, "the bogus holder had its time: {micros} us");
    assert!(second.number > first.number);
    Ok(())
}

#[tokio::test]
async fn a_holder_at_rest_writes_once_per_retry_period_and_reads_nothing() -> Result<()> {
    let stage = Stage::new("direct-rest").await?;
    let campaign = stage.direct("a")?.build()?.start();
    leads(&campaign.leadership()).await?;
    let count = |verbs: &[&str]| -> Result<usize> {
        let events = stage.plane.audit_events()?;
        let of_lease = |event: &&hustings_controlplane::AuditEvent| {
            event.stage == "ResponseComplete"
                && verbs.contains(&event.verb.as_str())
                && event.object_ref.as_ref().is_some_and(|o| o.resource == "leases" && o.namespace == stage.namespace)
        };
        Ok(events.iter().filter(of_lease).count())
    };
    eventually("the first renewal", || async { (count(&["patch"]).ok()? >= 3).then_some(()) }).await?;
    // On a busy machine, the watch is sometimes silent for two periods. The holder then reads the Lease.
    let (written, periods) = eventually("ten more renewals without a read", || async {
        let (writes, reads, from) = (count(&["patch", "update"]).ok()?, count(&["get", "list"]).ok()?, Instant::now());
        eventually("ten more renewals", || async { (count(&["patch"]).ok()? >= writes + 10).then_some(()) })
            .await
            .ok()?;
        let written = count(&["patch", "update"]).ok()? - writes;
        let periods = from.elapsed().as_millis() / LONG.retry_period.as_millis();
        (count(&["get", "list"]).ok()? == reads).then_some((written, periods))
    })
    .await?;
    assert!(written as u128 <= periods + 2, "{written} writes in {periods} periods");
    Ok(())
}

#[tokio::test]
async fn a_claim_shows_session_token_and_the_electors_own_duration() -> Result<()> {
    let stage = Stage::new("direct-claim").await?;
    let campaign = stage.direct("a")?.build()?.start();
    let term = leads(&campaign.leadership()).await?;
    let lease = stage.lease().await?;
    let stamp = lease.record.session.stamp().context("a session stands")?;
    assert_eq!((stamp.term, stamp.seconds), (1, LONG.lease_duration_seconds));
    assert_eq!(lease.record.token, Some(term.token));
    assert_eq!(lease.record.transitions, term.number);
    assert_eq!(lease.record.duration_seconds, LONG.lease_duration_seconds);
    let labels = lease.metadata.labels.context("it has labels")?;
    assert_eq!(labels.get(names::ENROLLED_LABEL).map(String::as_str), Some("true"));
    Ok(())
}

/// The machine's clocks, with a wall clock that panics once it is broken. Only the elector's task reads the wall clock.
#[derive(Default)]
struct FragileClock {
    broken: AtomicBool,
}

impl Clock for FragileClock {
    fn now(&self) -> Moment {
        SystemClock.now()
    }

    fn wall(&self) -> WireTime {
        assert!(!self.broken.load(Ordering::SeqCst), "the clock is broken on purpose");
        SystemClock.wall()
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        SystemClock.sleep_until(moment)
    }
}
