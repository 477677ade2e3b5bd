//! A holder that the status of its Pod, or a taint of its node, proves dead. No kubelet runs here: the tests write what
//! one would write.

use std::process::Command;

use hustings_client::model::WireTime;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::support::{World, binary, eventually};
use crate::replica::Replica;

/// So long that no test waits for its end.
const LEASE_SECONDS: u32 = 300;

/// A namespace in which Pods can be created.
pub(super) async fn world(prefix: &str) -> World {
    let world = World::new(prefix).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), &world.namespace);
    // A Pod needs it, and no kube-controller-manager runs that would create it.
    let account = serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    world
}

/// A Pod on a node, or on none, and a replica that runs as its container `web`. Its Lease outlasts every test.
async fn replica(world: &World, name: &str, node: Option<&str>) -> (Replica, Pod) {
    replica_with(world, name, node, LEASE_SECONDS, "200s").await
}

/// The same with another lease.
pub(super) async fn replica_with(
    world: &World,
    name: &str,
    node: Option<&str>,
    lease_seconds: u32,
    renew_deadline: &str,
) -> (Replica, Pod) {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let pod = json!({
        "metadata": { "name": name },
        "spec": { "nodeName": node, "containers": [{ "name": "web", "image": "web" }] },
    });
    let pod = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let mut command = Command::new(binary());
    command.args(["campaign", "--lease", "web", "--binary-version", "1.0.0", "-o", "json", "--identity", name]);
    command.args(["--lease-duration", &format!("{lease_seconds}s"), "--renew-deadline", renew_deadline]);
    command.args(["--retry-period", "500ms"]);
    command.arg("--kubeconfig").arg(world.plane.kubeconfig()).args(["--namespace", &world.namespace]);
    command.envs([("POD_NAME", name), ("POD_UID", &pod.uid().unwrap()), ("CONTAINER_NAME", "web")]);
    (Replica::start(&world.plane, &world.namespace, name, command), pod)
}

/// Writes that the container of a Pod was killed just now.
pub(super) async fn report_kill(world: &World, pod: &Pod) {
    let finished_at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    report(world, &pod.name_any(), json!({ "terminated": { "exitCode": 137, "finishedAt": finished_at } })).await;
}

/// Writes the status that a kubelet writes.
async fn report(world: &World, pod: &str, state: Value) {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let container = json!({
        "name": "web", "image": "web", "imageID": "", "ready": false, "restartCount": 1, "state": state,
    });
    let status = json!({ "status": { "containerStatuses": [container] } });
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_container_terminated_costs_no_rest_of_the_lease() {
    let world = world("evidence").await;
    let controller = world.controller_with(&["--evidence-pods", "--log-level=info,hustings=debug"]).await.ready().await;
    let (first, pod) = replica(&world, "web-1", None).await;
    first.says("leading", 0).await;
    let (second, _) = replica(&world, "web-2", None).await;
    second.says("started", 0).await;
    renews(&world).await;
    let explanation = explain(&world).await;
    let doubt = "the Pod of the holder proves nothing now: the container has not terminated. Once the kubelet reports";
    assert!(explanation.contains(doubt), "{explanation}");

    drop(first);
    assert_eq!(world.holder("web").await.as_deref(), Some("web-1"), "silence alone proves nothing");
    let doubt = controller.logged("the Pod of the holder does not prove it dead").await;
    assert_eq!(doubt["doubt"], "the container has not terminated", "{doubt}");

    report_kill(&world, &pod).await;
    second.says("leading", 0).await;
    let note =
        "web-2 was elected after the container of the holder terminated: no other candidate is known to be live.";
    world.published("Normal", note).await;
    let counted = controller.metric(r#"hustings_evidence_silence_seconds_count{cause="container-terminated"}"#).await;
    assert!(counted > 0.5, "{counted}");
    // The time without a leader. The record of the new term begins only when the former lease would have ended.
    let history = history(&world).await;
    let gap = history["terms"][0]["gapSeconds"].as_f64().unwrap_or_else(|| panic!("{history}"));
    assert!(gap > 0.0 && gap < f64::from(LEASE_SECONDS), "{history}");
    assert_eq!(history["terms"][1]["ending"], "proven-dead", "{history}");
    assert_eq!(history["terms"][1]["cause"], "container-terminated", "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pods_with_the_labels_of_the_selector_are_watched_and_count() {
    let world = world("evidence-deleted").await;
    let selector = "--evidence-pod-selector=part=leader";
    let controller = world.controller_with(&["--evidence-pods", selector]).await.ready().await;
    let (first, pod) = replica(&world, "web-1", None).await;
    first.says("leading", 0).await;
    let (second, _) = replica(&world, "web-2", None).await;
    second.says("started", 0).await;
    renews(&world).await;
    let watched = || controller.metric(r#"hustings_watched_objects{resource="pods"}"#);
    assert!(watched().await < 0.5, "no Pod has the label");
    drop(first);
    report_kill(&world, &pod).await;
    assert_eq!(world.holder("web").await.as_deref(), Some("web-1"), "the watch does not show this Pod");

    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let label = Patch::Merge(json!({ "metadata": { "labels": { "part": "leader" } } }));
    pods.patch("web-1", &PatchParams::default(), &label).await.unwrap();
    pods.delete("web-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    second.says("leading", 0).await;
    let history = history(&world).await;
    assert_eq!(history["terms"][1]["cause"], "container-terminated", "{history}");
    eventually("no Pod is watched", || async { if watched().await < 0.5 { Ok(()) } else { Err("one is") } }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_node_is_out_of_service_costs_no_rest_of_the_lease() {
    let world = world("evidence-node").await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let name = world.namespace.as_str();
    let node = json!({ "metadata": { "name": name } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    set_ready(&nodes, name, "True").await;
    let _controller = world.controller_with(&["--evidence-pods", "--evidence-nodes"]).await.ready().await;
    let (first, _) = replica(&world, "web-1", Some(name)).await;
    first.says("leading", 0).await;
    let (second, _) = replica(&world, "web-2", None).await;
    second.says("started", 0).await;
    renews(&world).await;

    drop(first);
    // The kubelet may still run what the taint says is off.
    let taint = json!({ "key": "node.kubernetes.io/out-of-service", "value": "off", "effect": "NoExecute" });
    let taints = Patch::Merge(json!({ "spec": { "taints": [taint] } }));
    nodes.patch(name, &PatchParams::default(), &taints).await.unwrap();
    assert_eq!(world.holder("web").await.as_deref(), Some("web-1"), "a taint on a ready node proves nothing");

    set_ready(&nodes, name, "Unknown").await;
    second.says("leading", 0).await;
    let reason = "web-2 was elected after the node of the holder was declared out of service: no other candidate is known to \
                be live.";
    world.published("Normal", reason).await;
    nodes.delete(name, &DeleteParams::default()).await.unwrap();
}

async fn set_ready(nodes: &Api<Node>, name: &str, ready: &str) {
    let status = Patch::Merge(json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } }));
    nodes.patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

/// Waits until the holder has renewed, so that no earlier holder can rely on the Lease. The renewal is in a later second
/// than the acquisition: a kubelet truncates times, so an end in the same second could be from before the term.
pub(super) async fn renews(world: &World) {
    eventually("the holder renews", || async {
        let record = world.lease("web").await.ok_or("no lease")?.record;
        let second = |time: Option<WireTime>| time.map(|time| time.as_micros() / 1_000_000);
        if second(record.renew_time) > second(record.acquire_time) { Ok(()) } else { Err("not yet") }
    })
    .await;
}

/// What `hustings explain` prints, in one line.
async fn explain(world: &World) -> String {
    printed(world, &["explain", "web"]).await.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What `hustings history` prints for a script.
async fn history(world: &World) -> Value {
    serde_json::from_str(&printed(world, &["history", "web", "-o", "json"]).await).unwrap()
}

/// What `hustings` prints.
async fn printed(world: &World, arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).args(["--namespace", &world.namespace]).arg("--kubeconfig").arg(world.plane.kubeconfig());
    let output = tokio::process::Command::from(command).output().await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}
