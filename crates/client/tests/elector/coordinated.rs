//! Coordinated mode. The test acts as the controller.

use anyhow::Result;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Campaign, ElectorBuilder};
use hustings_core::model::{LeaseRecord, LeaseWrite, Purpose, SessionMark, Set};

use super::stage::{LEASE, Stage, leads};

#[tokio::test]
async fn a_grant_is_taken_up_under_its_own_version() -> Result<()> {
    let stage = Stage::with_candidates("grant").await?;
    let campaign = nominated(&stage, "a", "1.2.0").await?;
    let granted = grant(&stage, "a").await?;
    let term = leads(&campaign.leadership()).await?;
    assert_eq!(term.token, granted.resource_version);
    assert_eq!(term.number, granted.transitions);
    let lease = stage.lease().await?.record;
    assert_eq!(lease.holder.as_deref(), Some("a"));
    assert_eq!(lease.session.stamp().map(|stamp| stamp.term), Some(1));
    assert_eq!(lease.token, Some(term.token));
    Ok(())
}

fn start(builder: ElectorBuilder) -> Result<Campaign> {
    Ok(builder.build()?.start())
}

/// Starts an elector, and waits for its candidate.
pub(super) async fn nominated(stage: &Stage, identity: &str, version: &str) -> Result<Campaign> {
    let campaign = start(stage.coordinated(identity, version)?)?;
    stage.candidate_where(identity, "the candidate stands", |_| true).await?;
    Ok(campaign)
}

/// Grants the Lease as a controller does: creates it empty if it is missing, and then names the electee.
pub(super) async fn grant(stage: &Stage, electee: &str) -> Result<LeaseRecord> {
    let current = stage.create_lease(LEASE).await?;
    let mut write = LeaseWrite::new(Purpose::Grant, &current);
    write.holder = Set::To(electee.to_owned());
    write.duration_seconds = Set::To(5);
    write.acquire_time = Set::To(SystemClock.wall());
    write.renew_time = Set::To(SystemClock.wall());
    write.transitions = Set::To(current.transitions + 1);
    write.session = Set::To(SessionMark::Open);
    Ok(stage.write_lease(LEASE, &write).await?)
}
