//! The ways in which Kubernetes ends a leader's pod or container.

use std::time::Duration;

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{eventually, within};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams};
use rustix::process::Signal;

use super::{
    endings::{assert_container_terminated, assert_handed_over},
    stage::{Group, Stage},
    workload::{LONG_LEASE, PROGRAM, Way, allow_one_disruption, deploy, lasting_leader, template, update},
};

/// A hand-over takes milliseconds. The rest is for a busy machine.
const HAND_OVER: Duration = Duration::from_secs(30);
/// The lease is 15 s.
const CRASH: Duration = Duration::from_mins(1);

/// The Pod is gone before its process has ended, so that nothing proves the end. The candidate goes with the Pod.
pub(crate) async fn force_deleted_leader_is_followed() {
    let group = Group::new("force-delete").await;
    deploy(&group, 3, template(&group, Way::Library, "1.0.0")).await;
    let leader = group.leader().await;
    group.delete(&leader.replica, &DeleteParams::default().grace_period(0)).await;
    let next = group.leader_after(&leader, CRASH).await;
    assert_ne!(next.replica, leader.replica);
    let candidates = group.api::<LeaseCandidate>();
    eventually(async || match candidates.get_opt(&leader.replica).await {
        Ok(None) => Ok(()),
        other => Err(other),
    })
    .await
    .expect("the candidate is collected with its pod");
    group.end().await;
}

/// The kubelet reports the end of the container, and the controller does not wait for the rest of the lease.
pub(crate) async fn killed_leader_is_proven_dead_long_before_its_lease_ends() {
    let group = Group::new("evidence").await;
    let leader = lasting_leader(&group).await;
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    let next = group.leader_after(&leader, LONG_LEASE).await;
    assert_ne!(next.replica, leader.replica);
    // Without evidence the Lease would last three minutes from its last renewal, which was at most some seconds before.
    assert!(leader.gap_to(&next) < LONG_LEASE / 2, "{:?}", leader.gap_to(&next));
    assert_container_terminated(&group, &leader).await;
    group.end().await;
}

/// While a replica of the old version lives, none of the new version leads.
pub(crate) async fn oldest_version_leads_throughout_a_rolling_update() {
    let group = Group::new("rolling").await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    let old: Vec<String> = group.pods().await.iter().map(kube::ResourceExt::name_any).collect();
    assert!(old.contains(&leader.replica));

    update(&group, "1.1.0").await;
    within(HAND_OVER, async || {
        let latest = Stage::shared().node.reports().leading(&group.name);
        latest.filter(|latest| !old.contains(&latest.replica)).ok_or("an old replica leads")
    })
    .await
    .unwrap();

    let versions: Vec<bool> = Stage::shared()
        .node
        .reports()
        .intervals(&group.name)
        .iter()
        .map(|interval| old.contains(&interval.replica))
        .collect();
    assert!(versions.is_sorted_by(|before, after| before >= after), "an old version led after a new one: {versions:?}");
    group.end().await;
}

/// The budget allows one eviction at a time.
pub(crate) async fn evicted_leader_hands_over() {
    let group = Group::new("eviction").await;
    allow_one_disruption(&group).await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    let pods = group.api::<Pod>();
    // Until its controller has counted the pods, the budget allows nothing.
    eventually(async || pods.evict(&leader.replica, &EvictParams::default()).await).await.unwrap();
    let next = group.leader_after(&leader, HAND_OVER).await;
    assert_ne!(next.replica, leader.replica);
    assert_handed_over(&group, &leader).await;
    group.end().await;
}

/// The kubelet stops the container with SIGTERM.
pub(crate) async fn leader_that_fails_its_liveness_probe_hands_over() {
    let group = Group::new("liveness").await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    group.exec(&leader.replica, PROGRAM, &["/worker", "order", "sicken"]).await;
    let next = group.leader_after(&leader, CRASH).await;
    assert_ne!(next.replica, leader.replica);
    assert_handed_over(&group, &leader).await;
    group.end().await;
}

/// The kernel kills the process that has the library.
pub(crate) async fn leader_that_runs_out_of_memory_is_followed() {
    let group = Group::new("memory").await;
    let leader = lasting_leader(&group).await;
    group.exec(&leader.replica, PROGRAM, &["/worker", "order", "devour"]).await;
    let next = group.leader_after(&leader, LONG_LEASE).await;
    assert_ne!(next.replica, leader.replica);
    assert_container_terminated(&group, &leader).await;
    let pods = group.api::<Pod>();
    eventually(async || {
        let pod = pods.get(&leader.replica).await.map_err(|error| error.to_string())?;
        let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
        let ends = statuses.iter().filter_map(|status| status.state.as_ref()?.terminated.as_ref());
        let reasons: Vec<_> = ends.filter_map(|end| end.reason.clone()).collect();
        (reasons == ["OOMKilled"]).then_some(()).ok_or_else(|| format!("the container ended by {reasons:?}"))
    })
    .await
    .unwrap();
    group.end().await;
}
