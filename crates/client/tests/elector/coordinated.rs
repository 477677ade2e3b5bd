//! Coordinated mode. The test acts as the controller.

use anyhow::{Context, Result};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Campaign, ElectorBuilder, WireTime};
use hustings_core::model::{LeaseRecord, LeaseWrite, Purpose, SessionMark, Set};
use kube::api::DeleteParams;
use serde_json::json;

use super::stage::{LEASE, SHORT, Stage, eventually, leads, patiently};

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

#[tokio::test]
async fn every_ping_is_answered_with_a_later_time_not_below_it() -> Result<()> {
    let stage = Stage::with_candidates("ping").await?;
    let _campaign = nominated(&stage, "a", "1.2.0").await?;
    let mut former = stage.candidates().get("a").await?.record;
    // The second ping is an hour ahead of the clock.
    for ping in [SystemClock.wall(), WireTime::from_micros(SystemClock.wall().as_micros() + 3_600_000_000)] {
        stage.ping("a", &former.uid, ping).await?;
        let acked = stage
            .candidate_where("a", "the ping is answered", |candidate| candidate.record.renew_time >= Some(ping))
            .await?
            .record;
        assert!(acked.renew_time > former.renew_time);
        assert_eq!(acked.ping_time, Some(ping), "the ping is the controller's");
        former = acked;
    }
    Ok(())
}

#[tokio::test]
async fn a_preferred_holder_leads_moments_after_it_is_named() -> Result<()> {
    let stage = Stage::with_candidates("prefer").await?;
    let first = nominated(&stage, "first", "1.2.0").await?;
    grant(&stage, "first").await?;
    let first_term = leads(&first.leadership()).await?;
    let second = nominated(&stage, "second", "1.1.0").await?;

    prefer(&stage, "second").await?;
    // Long before the lease, which lasts 300 s, could expire.
    let second_term = leads(&second.leadership()).await?;
    assert!(!first.leadership().is_leader());
    assert!(second_term.token > first_term.token);
    assert_eq!(second_term.number, first_term.number + 1);
    let lease = stage.lease().await?.record;
    assert_eq!((lease.holder.as_deref(), lease.preferred_holder.as_deref()), (Some("second"), None));
    Ok(())
}

#[tokio::test]
async fn a_deleted_candidate_is_created_again_and_the_term_continues() -> Result<()> {
    let stage = Stage::with_candidates("recreate").await?;
    let campaign = nominated(&stage, "a", "1.2.0").await?;
    grant(&stage, "a").await?;
    let term = leads(&campaign.leadership()).await?;
    let uid = stage.candidates().get("a").await?.record.uid;
    stage.candidates().delete("a", &DeleteParams::default()).await?;
    stage.candidate_where("a", "the candidate stands again", |candidate| candidate.record.uid != uid).await?;
    assert_eq!(campaign.leadership().term(), Some(term));
    Ok(())
}

#[tokio::test]
async fn a_new_process_refreshes_its_candidate_and_leaves_the_priority_alone() -> Result<()> {
    let stage = Stage::with_candidates("refresh").await?;
    let first = start(stage.coordinated("a", "1.1.0")?.priority(3).pod("a", "pod-1"))?;
    let created = stage.candidate_where("a", "the candidate stands", |_| true).await?;
    assert_eq!(created.record.priority, 3);
    assert_eq!(created.record.lease_duration_seconds, Some(300));
    assert_eq!(owner_uid(&created.metadata).as_deref(), Some("pod-1"));
    first.abort();
    stage.edit_candidate("a", &json!({ "spec": { "priority": 7 } })).await?;

    let _second = start(stage.coordinated("a", "1.2.0")?.priority(3).pod("a", "pod-2").timing(SHORT))?;
    let refreshed = stage
        .candidate_where("a", "the candidate is refreshed", |candidate| candidate.record.binary_version == "1.2.0")
        .await?;
    assert_eq!(refreshed.record.uid, created.record.uid);
    assert_eq!(refreshed.record.emulation_version.as_deref(), Some("1.2.0"));
    assert_eq!(refreshed.record.priority, 7);
    assert_eq!(refreshed.record.lease_duration_seconds, Some(4));
    assert_eq!(owner_uid(&refreshed.metadata).as_deref(), Some("pod-2"));
    assert!(refreshed.record.renew_time > created.record.renew_time);
    Ok(())
}

#[tokio::test]
async fn a_graceful_stop_deletes_the_candidate_and_then_empties_the_lease() -> Result<()> {
    let stage = Stage::with_candidates("stop").await?;
    let campaign = nominated(&stage, "a", "1.2.0").await?;
    grant(&stage, "a").await?;
    leads(&campaign.leadership()).await?;
    patiently("it stops", campaign.stop()).await??;
    assert!(stage.candidates().get_opt("a").await?.is_none());
    let lease = stage.lease().await?.record;
    assert!(lease.is_given_up(), "{lease:?}");
    Ok(())
}

#[tokio::test]
async fn a_grant_to_another_is_left_alone() -> Result<()> {
    let stage = Stage::with_candidates("other").await?;
    let campaign = nominated(&stage, "a", "1.2.0").await?;
    let granted = grant(&stage, "b").await?;
    eventually("it sees the other", || async {
        (campaign.leadership().holder().as_deref() == Some("b")).then_some(())
    })
    .await?;
    assert_eq!(stage.lease().await?.record.resource_version, granted.resource_version);
    assert!(!campaign.leadership().is_leader());
    Ok(())
}

#[tokio::test]
async fn of_two_processes_of_one_identity_one_leads_and_the_other_waits() -> Result<()> {
    let stage = Stage::with_candidates("namesakes").await?;
    let first = nominated(&stage, "a", "1.2.0").await?;
    grant(&stage, "a").await?;
    let term = leads(&first.leadership()).await?;
    // Both processes share the candidate. The second observes its own name as the holder.
    let second = stage.coordinated("a", "1.2.0")?.build()?.start();
    eventually("the second sees its name", || async {
        (second.leadership().holder().as_deref() == Some("a")).then_some(())
    })
    .await?;
    let before = stage.lease().await?.record.renew_time;
    stage.lease_where("the first renews", |lease| lease.record.renew_time > before).await?;
    assert_eq!(first.leadership().term(), Some(term));
    assert!(!second.leadership().is_leader());

    // The first deletes the candidate when it stops. The second creates it again, and is elected.
    patiently("the first stops", first.stop()).await??;
    stage.candidate_where("a", "the candidate stands", |_| true).await?;
    stage.leases().delete(LEASE, &DeleteParams::default()).await.context("cannot delete the Lease")?;
    grant(&stage, "a").await?;
    leads(&second.leadership()).await?;
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
    Ok(stage.write_lease(LEASE, &write, &current).await?)
}

/// Names a preferred holder. Tries again if a renewal comes first.
pub(super) async fn prefer(stage: &Stage, preferred: &str) -> Result<LeaseRecord> {
    eventually("the preferred holder is named", || async {
        let current = stage.lease().await.ok()?.record;
        let mut write = LeaseWrite::new(Purpose::Prefer, &current);
        write.preferred_holder = Set::To(preferred.to_owned());
        stage.write_lease(LEASE, &write, &current).await.ok()
    })
    .await
}

fn owner_uid(metadata: &kube::api::ObjectMeta) -> Option<String> {
    metadata.owner_references.as_ref()?.first().context("an owner").ok().map(|owner| owner.uid.clone())
}
