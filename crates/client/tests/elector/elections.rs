//! Many elections in one process, which share one watch of each kind.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use hustings_client::api::names;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::model::{LeaseWrite, Purpose, SessionMark, Set};
use hustings_client::{Campaign, Durations, Elections, ElectorBuilder, lease_client};
use hustings_controlplane::AuditEvent;
use kube::api::ListParams;
use serde_json::json;

use super::stage::{LONG, SHORT, Stage, eventually, leads, patiently};

const ELECTIONS: usize = 50;

/// A lease that expires soon. The retry period is so long that no elector polls because a busy machine's watch is
/// silent.
const TIMING: Durations = Durations {
    lease_duration_seconds: 8,
    renew_deadline: Duration::from_millis(7_900),
    retry_period: Duration::from_secs(1),
    ..SHORT
};

#[tokio::test]
async fn fifty_elections_of_one_process_take_one_watch_of_each_kind() -> Result<()> {
    let stage = Stage::with_candidates("many-watches").await?;
    let campaigns = start(&stage, |elections, lease| elections.coordinated(lease, "1.2.0").identity("a").timing(LONG))?;
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

    ensure!(open_watches(&stage, "leases")? == 1, "{} watches of Leases", open_watches(&stage, "leases")?);
    let candidates = open_watches(&stage, "leasecandidates")?;
    ensure!(candidates == 1, "{candidates} watches of candidates");
    Ok(())
}

/// The electors need a second thread, because reading the audit log over and over keeps one thread busy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_dead_process_are_claimed_by_another_that_has_hardly_read_any() -> Result<()> {
    let stage = Stage::new("many-takeover").await?;
    for number in 0..ELECTIONS {
        // A Lease that has been given up is free at once, unlike a newly created one. It has no label, like one that
        // kubectl creates.
        let given_up = json!({
            "metadata": { "name": lease(number), "annotations": { names::SESSION: "open" } },
            "spec": { "holderIdentity": "" },
        });
        let leases =
            kube::Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(stage.client.clone(), &stage.namespace);
        leases.create(&kube::api::PostParams::default(), &serde_json::from_value(given_up)?).await?;
    }
    let first = start(&stage, |elections, lease| elections.direct(lease).identity("first").timing(TIMING))?;
    for campaign in &first {
        leads(&campaign.leadership()).await?;
    }
    let second = start(&stage, |elections, lease| elections.direct(lease).identity("second").timing(TIMING))?;
    for campaign in &second {
        eventually("the holder is seen", || async {
            (campaign.leadership().holder().as_deref() == Some("first")).then_some(())
        })
        .await?;
    }
    // A watch that has ended restarts a moment later.
    let two = || async { (open_watches(&stage, "leases").ok()? == 2).then_some(()) };
    eventually("there is one watch for each process", two).await?;
    // On a busy machine, a watch is sometimes silent for two seconds. Without a watch, there would be a hundred reads
    // each time.
    eventually("hardly anybody reads anything for two hundred renewals", || async {
        let (reads, writes) = (count(&stage, &["get", "list"]).ok()?, count(&stage, &["patch"]).ok()?);
        eventually("two hundred renewals", || async {
            count(&stage, &["patch"]).ok().filter(|now| *now >= writes + 4 * ELECTIONS)
        })
        .await
        .ok()?;
        (count(&stage, &["get", "list"]).ok()? - reads <= ELECTIONS / 5).then_some(())
    })
    .await?;

    for campaign in &first {
        campaign.abort();
    }
    for campaign in &second {
        leads(&campaign.leadership()).await?;
    }
    try_join_all(second.into_iter().map(Campaign::stop)).await?;
    let lease = stage.leases().get(&lease(0)).await?.record;
    ensure!(lease.is_given_up(), "{lease:?}");
    patiently(
        "the watch ends",
        eventually("the watch ends", || async { (open_watches(&stage, "leases").ok()? == 0).then_some(()) }),
    )
    .await?
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
    stage.write_lease(&lease(number), &write, &current).await?;
    Ok(())
}

/// The number of open watches of this test's namespace.
fn open_watches(stage: &Stage, resource: &str) -> Result<usize> {
    let events = of_stage(stage, resource)?;
    let watches = |stage: &str| events.iter().filter(|event| event.verb == "watch" && event.stage == stage).count();
    Ok(watches("ResponseStarted") - watches("ResponseComplete"))
}

fn count(stage: &Stage, verbs: &[&str]) -> Result<usize> {
    let events = of_stage(stage, "leases")?;
    let counts = |event: &&AuditEvent| event.stage == "ResponseComplete" && verbs.contains(&event.verb.as_str());
    Ok(events.iter().filter(counts).count())
}

fn of_stage(stage: &Stage, resource: &str) -> Result<Vec<AuditEvent>> {
    let mut events = stage.plane.audit_events()?;
    events.retain(|event| {
        event.object_ref.as_ref().is_some_and(|of| of.resource == resource && of.namespace == stage.namespace)
    });
    Ok(events)
}
