//! The label that leads to the leader. No kubelet runs here: the Pods are objects, and the replicas are processes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::assisted::{self, pod};
use super::evidence::{renews, replica_with, report_kill, world};
use super::revoked;
use super::support::{World, eventually};

const LABEL: &str = "role=leader";

/// The Pods with this label.
async fn labelled(world: &World, label: &str) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let list = pods.list(&ListParams::default().labels(label)).await.unwrap();
    list.items.iter().map(ResourceExt::name_any).collect()
}

/// Waits until exactly these Pods have the label.
async fn on_pods(world: &World, label: &str, expected: &[&str]) {
    eventually(&format!("{label} is on {expected:?}"), async || {
        let found = labelled(world, label).await;
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
}

/// A change by a person with kubectl.
async fn relabel(world: &World, pod: &str, labels: Value) {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let by_kubectl = PatchParams { field_manager: Some("kubectl-label".to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    pods.patch(pod, &by_kubectl, &patch).await.unwrap();
}

async fn annotate(world: &World, lease: &str, label: Option<&str>) {
    world.patch_lease(lease, json!({ "metadata": { "annotations": { "hustings.io/leader-label": label } } })).await;
}

/// An assisted Lease that this process holds for long.
async fn lease(world: &World, name: &str, holder: &str, label: &str) {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let annotations = json!({ "hustings.io/assist": "", "hustings.io/leader-label": label });
    let metadata = json!({ "name": name, "labels": { "hustings.io/enrolled": "true" }, "annotations": annotations });
    let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 3600 });
    let lease = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();
}

/// Which Pods have the label, after each change of a Pod from now on.
async fn history(world: &World) -> Arc<Mutex<Vec<BTreeSet<String>>>> {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let list = pods.list(&ListParams::default()).await.unwrap();
    let version = list.metadata.resource_version.unwrap();
    let has_label = |pod: &Pod| pod.labels().contains_key("role");
    let mut labelled: BTreeSet<_> = list.items.iter().filter(|pod| has_label(pod)).map(ResourceExt::name_any).collect();
    let history = Arc::new(Mutex::new(Vec::new()));
    let result = Arc::clone(&history);
    tokio::spawn(async move {
        let mut events = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        while let Some(Ok(event)) = events.next().await {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) if has_label(&pod) => {
                    labelled.insert(pod.name_any())
                }
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                    labelled.remove(&pod.name_any())
                }
                _ => continue,
            };
            history.lock().unwrap().push(labelled.clone());
        }
    });
    result
}

#[tokio::test(flavor = "multi_thread")]
async fn the_label_follows_an_elected_leader_and_no_other_pod_keeps_it() {
    let world = world("leader-label").await;
    let flags = ["--leader-labels", "--evidence-pods"];
    let controller = world.controller_with(&flags).await.ready().await;
    let (first, former) = replica_with(&world, "web-1", None, 300, "200s").await;
    first.says("leading", 0).await;
    let (second, _) = replica_with(&world, "web-2", None, 300, "200s").await;
    second.says("started", 0).await;
    let changes = history(&world).await;
    annotate(&world, "web", Some(LABEL)).await;
    on_pods(&world, LABEL, &["web-1"]).await;

    // A crash, and then a hand-over to a new Pod of the same name.
    renews(&world).await;
    drop(first);
    report_kill(&world, &former).await;
    second.says("leading", 0).await;
    on_pods(&world, LABEL, &["web-2"]).await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    pods.delete("web-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    let (third, _) = replica_with(&world, "web-1", None, 300, "200s").await;
    third.says("started", 0).await;
    world.standing("web-1").await;
    second.process.signal(Signal::TERM).unwrap();
    third.says("leading", 0).await;
    on_pods(&world, LABEL, &["web-1"]).await;
    let most = changes.lock().unwrap().iter().map(BTreeSet::len).max();
    assert_eq!(most, Some(1), "the label was on two Pods at once");

    // A person moves the label, with a controller and without one.
    relabel(&world, "web-2", json!({ "role": "leader" })).await;
    on_pods(&world, LABEL, &["web-1"]).await;
    relabel(&world, "web-1", json!({ "role": null })).await;
    on_pods(&world, LABEL, &["web-1"]).await;
    assert!(controller.metric(r#"hustings_requests_total{request="label"}"#).await >= 6.0);
    controller.process.kill().unwrap();
    relabel(&world, "web-2", json!({ "role": "leader" })).await;
    let changes = history(&world).await;
    let controller = world.controller_with(&flags).await;
    on_pods(&world, LABEL, &["web-1"]).await;
    let lost = changes.lock().unwrap().iter().find(|labelled| !labelled.contains("web-1")).cloned();
    assert_eq!(lost, None, "a controller that starts takes no label from the leader");

    annotate(&world, "web", Some("hustings.io/leader=yes")).await;
    on_pods(&world, LABEL, &[]).await;
    on_pods(&world, "hustings.io/leader=yes", &["web-1"]).await;
    third.process.signal(Signal::TERM).unwrap();
    on_pods(&world, "hustings.io/leader", &[]).await;
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_label_follows_the_holder_of_an_assisted_lease_whichever_container_it_runs_in() {
    let world = world("assisted-label").await;
    let controller = world.controller_with(&["--leader-labels"]).await.ready().await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let containers = [json!({ "name": "app", "image": "app" }), json!({ "name": "proxy", "image": "proxy" })];
    let two = json!({ "metadata": { "name": "web-1" }, "spec": { "containers": containers } });
    pods.create(&PostParams::default(), &serde_json::from_value(two).unwrap()).await.unwrap();
    pod(&world, "web-2").await;
    let first = assisted::replica(&world, "web-1", 1).await;
    first.says("leading", 0).await;
    let second = assisted::replica(&world, "web-2", 1).await;
    second.says("started", 0).await;
    assisted::assist(&world, "").await;
    annotate(&world, "web", Some(LABEL)).await;
    on_pods(&world, LABEL, &["web-1"]).await;

    first.process.signal(Signal::TERM).unwrap();
    second.says("leading", 0).await;
    on_pods(&world, LABEL, &["web-2"]).await;

    // The process goes on, as on a node that is cut off. The new Pod of its name is another one.
    pods.delete("web-2", &DeleteParams::default().grace_period(0)).await.unwrap();
    let (old, new) = (world.holder("web").await, pod(&world, "web-2").await);
    pod(&world, "web-3").await;
    lease(&world, "other", "web-3_1", "other=leader").await;
    on_pods(&world, "other=leader", &["web-3"]).await;
    assert_eq!((labelled(&world, LABEL).await, world.holder("web").await), (Vec::new(), old), "{new:?}");
    annotate(&world, "other", None).await;
    on_pods(&world, "other=leader", &[]).await;

    // The new Pod's own process takes over.
    second.process.signal(Signal::TERM).unwrap();
    let third = assisted::replica(&world, "web-2", 2).await;
    third.says("leading", 0).await;
    on_pods(&world, LABEL, &["web-2"]).await;
    drop(controller);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_that_must_not_be_touched_is_refused_with_the_remedy() {
    let world = world("refused-label").await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    for (name, labels) in
        [("a", json!({ "app": "web", "tier": "back" })), ("b", json!({ "app": "web" })), ("c", json!({}))]
    {
        let containers = [json!({ "name": "app", "image": "app" })];
        let pod = json!({ "metadata": { "name": name, "labels": labels }, "spec": { "containers": containers } });
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let controller = world.controller_with(&["--leader-labels", "--ui"]).await.ready().await;
    lease(&world, "good", "c_1", LABEL).await;
    on_pods(&world, LABEL, &["c"]).await;
    let refused = |label: &str, why: &str| format!("The label {label} is not kept: {why}.");
    let taken = format!("the Lease {}/good has it already. Use another label", world.namespace);
    let malformed = |label: &str, why: &str| {
        format!("The annotation hustings.io/leader-label has no effect, because {label:?} does not parse: {why}.")
    };
    let reserved =
        r#""pod-template-hash" belongs to Kubernetes or to Hustings: use another key, such as "hustings.io/leader""#;
    for (name, holder, label, note) in [
        (
            "original",
            "a_1",
            "app=web",
            refused("app=web", "Pod a was created with it: use a label that no template of a Pod has"),
        ),
        (
            "value",
            "a_1",
            "tier=front",
            refused("tier=front", "Pod a of the holder has the value \"back\" under this key: use another key"),
        ),
        ("taken", "b_1", LABEL, refused(LABEL, &taken)),
        ("no-value", "c_1", "x", malformed("x", r#""x" is not of the form KEY=VALUE"#)),
        ("reserved", "c_1", "pod-template-hash=x", malformed("pod-template-hash=x", reserved)),
    ] {
        lease(&world, name, holder, label).await;
        world.published("Warning", &note).await;
    }
    on_pods(&world, "app=web", &["a", "b"]).await;
    on_pods(&world, "tier=back", &["a"]).await;
    on_pods(&world, LABEL, &["c"]).await;

    // The second Lease may have the label once the first one no longer asks for it.
    annotate(&world, "good", None).await;
    on_pods(&world, LABEL, &["b"]).await;
    controller.ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_patch_pods_the_controller_is_ready_and_with_it_the_label_appears() {
    let world = world("unlabelled").await;
    let only = revoked::controller_with(&world, "only", &["--leader-labels"]).await;
    only.reports(&format!("grant get, list, watch, patch on pods in namespace {}", world.namespace)).await;
    let pods = |verbs: &[&str]| json!({ "apiGroups": [""], "resources": ["pods"], "verbs": verbs });
    let grant = async |verbs: &[&str]| {
        revoked::grant(&world, &world.namespace, ("only", "pods"), &[pods(verbs)]).await;
    };
    grant(&["get", "list", "watch"]).await;
    only.reports(&format!("grant patch on pods in namespace {}", world.namespace)).await;
    let (first, _) = replica_with(&world, "web-1", None, 300, "200s").await;
    first.says("leading", 0).await;
    annotate(&world, "web", Some(LABEL)).await;
    eventually("the event names the right", async || {
        let events = world.events().await;
        let names = |note: &str| {
            note.starts_with("The label role=leader is not kept: refused: ") && note.contains("cannot patch")
        };
        if events.iter().any(|(_, note)| names(note)) { Ok(()) } else { Err(events) }
    })
    .await;
    let (second, _) = replica_with(&world, "web-2", None, 300, "200s").await;
    second.says("started", 0).await;
    world.standing("web-2").await;
    first.process.signal(Signal::TERM).unwrap();
    second.says("leading", 0).await;
    assert_eq!(labelled(&world, LABEL).await, Vec::<String>::new());

    grant(&["get", "list", "watch", "patch"]).await;
    on_pods(&world, LABEL, &["web-2"]).await;
    only.ready().await.leads().await;
}
