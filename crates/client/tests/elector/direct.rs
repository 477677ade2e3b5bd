//! Direct mode: electors without candidates.

use std::time::Duration;

use anyhow::Result;
use kube::api::DeleteParams;
use tokio::time::Instant;

use super::stage::{LEASE, LONG, SHORT, Stage, eventually, leads, patiently};

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
    assert!(crashed.elapsed() < Duration::from_mins(1), "took {:?}, and the lease lasts 10 s", crashed.elapsed());
    assert_eq!(second_term.number, first_term.number + 1);
    assert!(second_term.token > first_term.token);
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

// The test reads a log that all tests share, which must not delay the holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
        // What is written during the next two reads counts, and so does their time.
        let from = Instant::now();
        let (writes, reads) = (count(&["patch", "update"]).ok()?, count(&["get", "list"]).ok()?);
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
