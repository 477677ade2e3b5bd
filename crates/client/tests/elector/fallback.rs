//! Candidates without a controller: they elect among themselves, but for those that wait for one.

use anyhow::{Context, Result};
use kube::api::DeleteParams;

use super::coordinated::{grant, nominated, prefer};
use super::stage::{LEASE, Stage, eventually, leads, patiently};

#[tokio::test]
async fn a_candidate_that_waits_for_a_controller_never_claims() -> Result<()> {
    let stage = Stage::with_candidates("fallback-off").await?;
    // By rank it would go first.
    let waiting = stage.elector("waiting")?.binary_version("1.1.0").fallback(false).build()?.start();
    stage.candidate_where("waiting", "the candidate stands", |_| true).await?;
    let other = nominated(&stage, "other", "1.2.0").await?;
    leads(&other.leadership()).await?;
    assert!(!waiting.leadership().is_leader());
    // It still hands over to the candidate that a controller names.
    prefer(&stage, "waiting").await?;
    leads(&waiting.leadership()).await?;
    assert!(!other.leadership().is_leader());
    Ok(())
}

#[tokio::test]
async fn of_two_processes_of_one_identity_one_leads_and_the_other_waits() -> Result<()> {
    let stage = Stage::with_candidates("namesakes").await?;
    let first = nominated(&stage, "a", "1.2.0").await?;
    grant(&stage, "a").await?;
    let term = leads(&first.leadership()).await?;
    // Both keep the candidate, and the second sees itself named as holder.
    let second = stage.elector("a")?.binary_version("1.2.0").build()?.start();
    eventually("the second sees its name", || async {
        (second.leadership().holder().as_deref() == Some("a")).then_some(())
    })
    .await?;
    let before = stage.lease().await?.record.renew_time;
    stage.lease_where("the first renews", |lease| lease.record.renew_time > before).await?;
    assert_eq!(first.leadership().term(), Some(term));
    assert!(!second.leadership().is_leader());

    // When the first stops, its candidate is the second's: that stands again, and is elected.
    patiently("the first stops", first.stop()).await??;
    stage.candidate_where("a", "the candidate stands", |_| true).await?;
    stage.leases().delete(LEASE, &DeleteParams::default()).await.context("cannot delete the Lease")?;
    grant(&stage, "a").await?;
    leads(&second.leadership()).await?;
    Ok(())
}
