//! The ways in which Kubernetes ends a leader's pod or container.

use std::time::Duration;

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{PATIENCE, eventually, within};
use hustings_node::Interval;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, EvictParams, Patch, PatchParams},
};
use rustix::process::Signal;
use serde_json::json;

use super::{
    objects::create,
    stage::{Group, LEASE, Stage},
    workload::{PROGRAM, Way, deploy, run_once, template},
};

/// A hand-over takes milliseconds. The rest is for a busy machine.
const HAND_OVER: Duration = Duration::from_secs(30);
/// The lease is 15 s.
const CRASH: Duration = Duration::from_mins(1);
/// So long that its end cannot pass for evidence.
const LONG_LEASE: Duration = Duration::from_mins(1);

/// How the newest term of this replica ended, in the words of the Lease's history.
async fn ending(group: &Group, former: &Interval) -> String {
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    let history = &lease.annotations()["hustings.io/history"];
    let of_former = |line: &&str| line.split(' ').nth(1) == Some(&former.replica);
    // The line of a running term has no end.
    let ended = history.lines().filter(of_former).find_map(|line| Some(line.split_once(" to ")?.1.split_once(": ")?.1));
    ended.unwrap_or_else(|| panic!("no ended term of {} in\n{history}", former.replica)).to_owned()
}

/// The holder stopped its work and gave the Lease up, and nobody waited for an expiry.
async fn assert_handed_over(group: &Group, former: &Interval) {
    let ending = ending(group, former).await;
    assert!(["handed over (stopped)", "released (stopped)"].contains(&ending.as_str()), "{}: {ending}", group.name);
}

/// The end of the container was the evidence: the history and the reason of the next term say so.
async fn assert_proven_dead(group: &Group, former: &Interval) {
    assert_eq!(ending(group, former).await, "proven dead (container terminated)", "{}", group.name);
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    let reason = &lease.annotations()["hustings.io/reason"];
    assert!(reason.contains(" was elected after the container of the holder terminated: "), "{reason}");
}

/// Three pods with the library and a long lease, which nobody starts again. Returns their leader, once evidence counts.
async fn lasting_leader(group: &Group) -> Interval {
    let mut template = template(group, Way::Library, "1.0.0");
    let variables = template["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    variables.push(json!({"name": "LEASE_SECONDS", "value": LONG_LEASE.as_secs().to_string()}));
    run_once(group, 3, template).await;
    group.settled_leader().await
}

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
    // Without evidence the Lease would last a minute from its last renewal, which was at most some seconds before.
    assert!(leader.gap_to(&next) < LONG_LEASE / 2, "{:?}", leader.gap_to(&next));
    assert_proven_dead(&group, &leader).await;
    group.end().await;
}

/// While a replica of the old version lives, none of the new version leads.
pub(crate) async fn oldest_version_leads_throughout_a_rolling_update() {
    let group = Group::new("rolling").await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    let old: Vec<String> = group.pods().await.iter().map(kube::ResourceExt::name_any).collect();
    assert!(old.contains(&leader.replica));

    let patch = json!({"spec": {"template": {"metadata": {"labels": {"version": "1.1.0"}}}}});
    let deployments = group.api::<Deployment>();
    deployments.patch("worker", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    within(PATIENCE, async || {
        let deployment = deployments.get("worker").await.map_err(|error| error.to_string())?;
        let status = deployment.status.unwrap_or_default();
        let is_done = status.observed_generation == deployment.metadata.generation
            && status.updated_replicas == Some(3)
            && status.replicas == Some(3)
            && status.available_replicas == Some(3);
        is_done.then_some(()).ok_or_else(|| format!("{status:?}"))
    })
    .await
    .unwrap();
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
    let budget = json!({
        "metadata": {"name": "worker"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "worker"}}},
    });
    create::<PodDisruptionBudget>(&group.api(), budget).await;
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
    assert_proven_dead(&group, &leader).await;
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
