//! Many elections in one process, which share one watch of each kind.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::model::{LeaseWrite, Purpose, SessionMark, Set};
use hustings_client::{Campaign, Elections, ElectorBuilder, lease_client};
use hustings_controlplane::AuditEvent;
use kube::api::ListParams;

use super::stage::{LONG, Stage, eventually, leads};

const ELECTIONS: usize = 50;

#[tokio::test]
async fn fifty_elections_of_one_process_take_one_watch_of_each_kind() -> Result<()> {
    let stage = Stage::with_candidates("many-watches").await?;
    let campaigns = start(&stage, |elections, lease| {
        // The candidates would create the Leases themselves if the test took long.
        elections.coordinated(lease, "1.2.0").identity("a").timing(LONG).fallback(false)
    })?;
    let all = eventually("all stand", || async {
        let candidates = stage.candidates().list(&ListParams::default()).await.ok()?.items;
        (candidates.len() == ELECTIONS).then_some(candidates)
    })
    .await?;
    let candidate = all.iter().find(|candidate| candidate.record.lease_name == lease(7));
    ensure!(candidate.is_some_and(|candidate| candidate.record.name == format!("a.{}", lease(7))));

    try_join_all((0..ELECTIONS).map(|number| grant(&stage, number))).await?;
    for campaign in &campaigns {
        leads(&campaign.leadership()).await?;
    }
    let ping = SystemClock.wall();
    stage.ping(&all[0].record.name, &all[0].record.uid, ping).await?;
    let name = &all[0].record.name;
    stage.candidate_where(name, "the ping is answered", |candidate| candidate.record.renew_time >= Some(ping)).await?;

    for resource in ["leases", "leasecandidates"] {
        // For a moment, a watch that ends counts beside the one that follows it, or neither does.
        eventually(resource, || async { (open_watches(&stage, resource).ok()? == 1).then_some(()) }).await?;
    }
    Ok(())
}

/// Starts a process that stands for all the Leases.
fn start(stage: &Stage, builder: impl Fn(&Elections, String) -> ElectorBuilder) -> Result<Vec<Campaign>> {
    let elections = Elections::new(lease_client(stage.plane.config())?, &stage.namespace);
    (0..ELECTIONS).map(|number| Ok(builder(&elections, lease(number)).build()?.start())).collect()
}

fn lease(number: usize) -> String {
    format!("lease-{number}")
}

/// Grants the Lease as a controller does.
async fn grant(stage: &Stage, number: usize) -> Result<()> {
    let current = stage.create_lease(&lease(number)).await?;
    let write = LeaseWrite {
        holder: Set::To(format!("a.{}", lease(number))),
        duration_seconds: Set::To(5),
        acquire_time: Set::To(SystemClock.wall()),
        renew_time: Set::To(SystemClock.wall()),
        transitions: Set::To(current.transitions + 1),
        session: Set::To(SessionMark::Open),
        ..LeaseWrite::new(Purpose::Grant, &current)
    };
    stage.write_lease(&lease(number), &write).await?;
    Ok(())
}

/// The number of open watches of this test's namespace.
fn open_watches(stage: &Stage, resource: &str) -> Result<i64> {
    let events = of_stage(stage, resource)?;
    let watches = events.iter().filter(|event| event.verb == "watch").map(|event| match event.stage.as_str() {
        "ResponseStarted" => 1,
        "ResponseComplete" => -1,
        _ => 0,
    });
    Ok(watches.sum())
}

fn of_stage(stage: &Stage, resource: &str) -> Result<Vec<AuditEvent>> {
    let mut events = stage.plane.audit_events()?;
    events.retain(|event| {
        event.object_ref.as_ref().is_some_and(|of| of.resource == resource && of.namespace == stage.namespace)
    });
    Ok(events)
}
