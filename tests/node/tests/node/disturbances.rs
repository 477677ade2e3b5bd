//! Disturbances of the whole node. These tests run alone.

use std::time::Duration;

use hustings_controlplane::{NODE, PATIENCE, within};
use k8s_openapi::api::{
    core::v1::{Node as KubernetesNode, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::Api;
use serde_json::json;

use super::{
    objects::create,
    stage::{Group, Stage},
    workload::{Way, deploy, template},
};

/// How long kube-controller-manager may take to call a node silent: 25 s, and the rest for a busy machine.
const SILENT: Duration = Duration::from_mins(2);

/// A kubelet that is gone runs no pod less. So the holder goes on, whatever Kubernetes says of its node.
pub(crate) async fn silent_node_costs_no_holder_its_lease() {
    let group = Group::alone("silent-node").await;
    deploy(&group, 3, template(&group, Way::Library, "1.0.0")).await;
    let leader = group.leader().await;
    let node = &Stage::shared().node;
    node.kubelet().kill().unwrap();
    let nodes = Api::<KubernetesNode>::all(group.plane().admin());
    within(SILENT, async || {
        let node = nodes.get(NODE).await.map_err(|error| error.to_string())?;
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready =
            conditions.into_iter().find(|condition| condition.type_ == "Ready").map(|condition| condition.status);
        (ready.as_deref() == Some("Unknown")).then_some(()).ok_or_else(|| format!("the node is Ready: {ready:?}"))
    })
    .await
    .unwrap();
    node.start_kubelet().await.unwrap();
    assert!(group.leader().await.is_same(&leader), "the leader has changed");
    group.end().await;
}

pub(crate) async fn restarted_kubelet_and_containerd_cost_no_holder_its_lease() {
    let group = Group::alone("restarts").await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    let node = &Stage::shared().node;
    node.restart_kubelet().await.unwrap();
    assert!(group.leader().await.is_same(&leader), "the leader has changed");
    node.restart_containerd().await.unwrap();
    assert!(group.leader().await.is_same(&leader), "the leader has changed");
    // The containers are still under control: a pod that is deleted ends.
    group.delete(&leader.replica, &kube::api::DeleteParams::default()).await;
    group.leader_after(&leader, PATIENCE).await;
    group.end().await;
}

/// All replicas are on the one node. The budget lets the drain take one, and keeps the others until it is lifted.
pub(crate) async fn drain_moves_the_lease_and_respects_the_budget() {
    let group = Group::alone("drain").await;
    let budget = json!({
        "metadata": {"name": "worker"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "worker"}}},
    });
    create::<PodDisruptionBudget>(&group.api(), budget).await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    let plane = group.plane();
    let selector = format!("--pod-selector=app=worker,drain={}", group.name);
    group.label_pods("drain", &group.name).await;
    let drain = ["drain", NODE, &selector, "--ignore-daemonsets", "--timeout=10s"];
    let output = plane.kubectl(drain).await.unwrap();
    assert!(!output.status.success(), "the drain went past the budget");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("disruption budget"), "{error}");
    let left = group.pods().await.iter().filter(|pod| runs(pod)).count();
    assert_eq!(left, 2, "{error}");
    assert!(plane.kubectl(["uncordon", NODE]).await.unwrap().status.success());
    group.wait_for_candidates(3).await;
    let next = group.leader().await;
    let is_gone = !group.pods().await.iter().any(|pod| pod.metadata.name.as_ref() == Some(&leader.replica));
    assert_eq!(is_gone, next.replica != leader.replica, "the leader is followed if, and only if, it was evicted");
    group.end().await;
}

/// Whether all containers of a pod run, by its status.
fn runs(pod: &Pod) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut running = statuses.map(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    running.next().is_some_and(|first| first && running.all(|runs| runs))
}
