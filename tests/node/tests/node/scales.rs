//! Workloads and controllers that are scaled to zero, and up again.

use std::time::Duration;

use anyhow::{Result, ensure};
use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{PATIENCE, within};
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Pod};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{
    stage::{Group, LEASE, RELEASE},
    workload::{LONG_LEASE, Way, deploy, renewed_twice, start, template},
};

/// From the start of pods to a leader, if the Lease is free. Shorter than the long lease, which the holder of a Lease that was
/// not released would cost.
const FREE: Duration = Duration::from_secs(90);

/// Each replica stops by itself: it releases the Lease and deletes its candidate.
pub(crate) async fn workload_scaled_to_zero_releases_its_lease_and_leads_at_once_when_scaled_up() {
    for way in [Way::Wrapped, Way::Library] {
        let group = Group::new(&format!("scaled-{}", if way == Way::Wrapped { "wrapped" } else { "library" })).await;
        let mut template = template(&group, way, "1.0.0");
        let variables = template["spec"]["containers"][0]["env"].as_array_mut().unwrap();
        let seconds = LONG_LEASE.as_secs();
        variables.push(json!({"name": "LEASE_SECONDS", "value": seconds.to_string()}));
        variables.push(json!({"name": "HUSTINGS_LEASE_DURATION", "value": format!("{seconds}s")}));
        deploy(&group, 3, template).await;
        let leader = group.leader().await;
        scale(&group.api(), "worker", 0).await;
        gone(&group).await;
        let released = group.api::<Lease>().get(LEASE).await.unwrap().spec.unwrap();
        // It may be handed over to a replica that has just stopped, which costs the few seconds of a grant.
        let lasts = u64::try_from(released.lease_duration_seconds.unwrap_or_default()).unwrap();
        assert!(lasts < seconds, "{way:?}: {:?} keeps the Lease for {lasts} s", released.holder_identity);

        scale(&group.api(), "worker", 3).await;
        group.leader_after(&leader, FREE).await;
        group.end().await;
    }
}

/// No replica has time to stop: Kubernetes collects the candidates with their Pods, and the Lease expires.
pub(crate) async fn workload_killed_by_scaling_to_zero_leaves_no_candidates_and_leads_again() {
    let group = Group::new("scaled-killed").await;
    let mut template = template(&group, Way::Library, "1.0.0");
    template["spec"]["terminationGracePeriodSeconds"] = json!(0);
    deploy(&group, 3, template).await;
    let leader = group.leader().await;
    scale(&group.api(), "worker", 0).await;
    gone(&group).await;
    scale(&group.api(), "worker", 3).await;
    group.leader_after(&leader, FREE).await;
    group.end().await;
}

/// The holder keeps its Lease without a controller. With one it hands over to an older version again.
pub(crate) async fn controllers_scaled_to_zero_cost_no_holder_its_lease_and_elect_again_when_scaled_up() {
    let group = Group::alone("scaled-controllers").await;
    deploy(&group, 2, template(&group, Way::Library, "1.1.0")).await;
    let leader = group.leader().await;
    let deployments = Api::<Deployment>::namespaced(group.plane().admin(), RELEASE);
    scale(&deployments, "hustings", 0).await;
    let pods = Api::<Pod>::namespaced(group.plane().admin(), RELEASE);
    eventually(async || {
        let left = pods.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} controllers are left");
        Ok(())
    })
    .await;
    let own = Api::<Lease>::namespaced(group.plane().admin(), RELEASE);
    let own = async || -> Result<String> {
        Ok(own.get("hustings-controller").await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
    };
    assert_eq!(own().await.unwrap(), "", "the controllers' own Lease is released");
    start(&group, "older", template(&group, Way::Library, "1.0.0")).await;
    group.wait_for_candidates(3).await;
    renewed_twice(&group).await;
    assert!(group.leader().await.is_same(&leader), "a live holder stays while no controller runs");

    scale(&deployments, "hustings", 2).await;
    let next = group.leader_after(&leader, PATIENCE).await;
    assert_eq!(next.replica, "older", "the controllers elect the oldest version again");
    eventually(async || {
        ensure!(!own().await?.is_empty(), "no controller leads");
        let available = deployments.get("hustings").await?.status.and_then(|status| status.available_replicas);
        ensure!(available == Some(2), "{available:?} controllers are available");
        Ok(())
    })
    .await;
    group.end().await;
}

pub(crate) async fn scale(deployments: &Api<Deployment>, name: &str, replicas: i32) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until the group has neither pods nor candidates.
pub(crate) async fn gone(group: &Group) {
    eventually(async || {
        let pods = group.api::<Pod>().list(&ListParams::default()).await?.items.len();
        let candidates = group.api::<LeaseCandidate>().list(&ListParams::default()).await?.items.len();
        ensure!(pods + candidates == 0, "{pods} pods and {candidates} candidates are left");
        Ok(())
    })
    .await;
}

async fn eventually(attempt: impl AsyncFnMut() -> Result<()>) {
    within(PATIENCE, attempt).await.unwrap();
}
