//! Disturbances of the whole node. These tests run alone.

use std::{process::Output, time::Duration};

use hustings_controlplane::{NODE, PATIENCE, eventually, within};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node as KubernetesNode, policy::v1::PodDisruptionBudget};
use kube::{Api, ResourceExt};
use rustix::process::Signal;
use serde_json::json;

use super::{
    endings::{assert_handed_over, assert_out_of_service},
    stage::{Group, LEASE, Stage},
    workload::{LONG_LEASE, PROGRAM, Way, allow_one_disruption, deploy, lasting_leader, runs, template},
};

/// How long kube-controller-manager may take to call a node silent: 25 s, and the rest for a busy machine.
const SILENT: Duration = Duration::from_mins(2);

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A kubelet that is gone runs no pod less. So the holder goes on, whatever Kubernetes says of its node. Once the holder is
/// silent, too, only the word of an administrator ends its term before its lease does.
pub(crate) async fn silent_node_costs_no_holder_its_lease_until_it_is_out_of_service() {
    let group = Group::alone("silent-node").await;
    let leader = lasting_leader(&group).await;
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
    let still = group.leader().await;
    assert!(still.is_same(&leader), "the leader has changed");

    group.signal(&leader.replica, PROGRAM, Signal::STOP).await;
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    assert_eq!(
        lease.spec.unwrap().holder_identity,
        Some(leader.replica.clone()),
        "a node without the taint is evidence"
    );
    // All pods are on this node: the effect NoExecute would end the controllers and the candidates, too.
    let taint = format!("{OUT_OF_SERVICE}=nodeshutdown:NoSchedule");
    taint_node(&group, &taint).await;
    let next = group.leader_after(&leader, LONG_LEASE).await;
    assert!(still.gap_to(&next) < LONG_LEASE / 2, "{:?}", still.gap_to(&next));
    assert_out_of_service(&group, &leader).await;

    // What the administrator said becomes true, and the machine returns.
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    taint_node(&group, &format!("{taint}-")).await;
    node.start_kubelet().await.unwrap();
    assert!(group.leader().await.is_same(&next), "the leader has changed");
    group.end().await;
}

async fn taint_node(group: &Group, taint: &str) {
    let output = group.plane().kubectl(["taint", "node", NODE, taint]).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
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
    allow_one_disruption(&group).await;
    deploy(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    let output = drain(&group, "10s").await;
    assert!(!output.status.success(), "the drain went past the budget");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("disruption budget"), "{error}");
    let left = group.pods().await.iter().filter(|pod| runs(pod)).count();
    assert_eq!(left, 2, "{error}");
    uncordon(&group).await;
    group.wait_for_candidates(3).await;
    let next = group.leader().await;
    let is_gone = !group.pods().await.iter().any(|pod| pod.metadata.name.as_ref() == Some(&leader.replica));
    assert_eq!(is_gone, next.replica != leader.replica, "the leader is followed if, and only if, it was evicted");
    group.end().await;
}

/// A replica that is evicted has a successor at once, as where there are other nodes: it tolerates the node that is drained.
pub(crate) async fn drain_ends_and_each_leader_hands_over() {
    let group = Group::alone("drained").await;
    allow_one_disruption(&group).await;
    let mut template = template(&group, Way::Wrapped, "1.0.0");
    template["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    deploy(&group, 3, template).await;
    let leader = group.leader().await;
    let former: Vec<String> = group.pods().await.iter().map(ResourceExt::name_any).collect();
    assert!(former.contains(&leader.replica));
    let output = drain(&group, "110s").await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    uncordon(&group).await;
    let next = group.leader().await;
    assert!(!former.contains(&next.replica), "{next:?} is evicted");
    let intervals = Stage::shared().node.reports().intervals(&group.name);
    for interval in intervals.iter().filter(|interval| !interval.is_same(&next)) {
        assert_handed_over(&group, interval).await;
    }
    group.end().await;
}

/// Drains the node of the pods of this group, as an administrator does, once the budget allows an eviction.
async fn drain(group: &Group, timeout: &str) -> Output {
    let budgets = group.api::<PodDisruptionBudget>();
    eventually(async || {
        let allowed = budgets.get("worker").await.unwrap().status.map(|status| status.disruptions_allowed);
        (allowed == Some(1)).then_some(()).ok_or(allowed)
    })
    .await
    .unwrap();
    group.label_pods("drain", &group.name).await;
    let selector = format!("--pod-selector=app=worker,drain={}", group.name);
    let timeout = format!("--timeout={timeout}");
    group.plane().kubectl(["drain", NODE, &selector, "--ignore-daemonsets", &timeout]).await.unwrap()
}

async fn uncordon(group: &Group) {
    assert!(group.plane().kubectl(["uncordon", NODE]).await.unwrap().status.success());
}
