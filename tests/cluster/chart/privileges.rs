//! The chart grants the controllers exactly the rights that they use. The test lets every kind of request occur, and
//! compares the API server's audit log with the roles in both directions.
//!
//! It ignores the reviews by which a user asks for its own rights (SelfSubjectAccessReview), which every authenticated
//! user may create.

use std::collections::BTreeSet;

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{AuditEvent, ControlPlane, NativeElection};
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use serde_json::json;

use super::{pod::Pod, release::Release};
use crate::replica::{Replica, campaign, candidate_account, lease, until};

const LEASE: &str = "web";
const TIMES: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];
/// Values with which controllers succeed each other quickly.
const OWN_TIMES: &str = r#"leaderElection={"leaseDuration":"10s","renewDeadline":"8s","retryPeriod":"500ms"}"#;
/// Stands for every namespace.
const EVERYWHERE: &str = "*";

#[tokio::test]
async fn controllers_use_all_their_rights_in_the_cluster_and_no_others() {
    let plane = ControlPlane::builder().audit(true).start().await.unwrap();
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let release = install(&plane, &namespace, &[]).await;
    let shop = plane.create_namespace("shop").await.unwrap();
    live(release, &shop).await;

    let used = used(release);
    let list = (String::new(), "list coordination.k8s.io/leases".to_owned());
    assert!(used.contains(&list), "{used:#?}");
    assert_eq!(everywhere(used), granted_everywhere(&plane, &["hustings-controller"]).await);
}

#[tokio::test]
async fn controllers_use_all_rights_on_pods_nodes_and_native_candidates_and_no_others() {
    let plane = ControlPlane::builder().audit(true).native_election(NativeElection::Served).start().await.unwrap();
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let set = ["native.enabled=true", "evidence.pods=true", "evidence.nodes=true", "leaderLabel.enabled=true"];
    let release = install(&plane, &namespace, &set).await;
    let shop = plane.create_namespace("shop").await.unwrap();
    let controller = Pod::start(release, "hustings-0").await;
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate");
    let native = Api::<DynamicObject>::namespaced_with(plane.admin(), &shop, &ApiResource::from_gvk(&kind));
    let ghost = json!({
        "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate", "metadata": {"name": "ghost"},
        "spec": {
            "leaseName": "native", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0",
            "strategy": "OldestEmulationVersion", "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    native.create(&PostParams::default(), &serde_json::from_value(ghost).unwrap()).await.unwrap();

    candidate_account(&plane, &shop, "web").await;
    let kubeconfig = plane.kubeconfig_for_pod(&shop, "web", "web-0").await.unwrap();
    let pods = Api::<KubernetesPod>::namespaced(plane.admin(), &shop);
    let uid = pods.get("web-0").await.unwrap().metadata.uid.unwrap();
    let flags = [&["--binary-version=1.31.0"][..], &TIMES].concat();
    let mut command = campaign(&kubeconfig, &shop, LEASE, "web-0", &flags);
    command.envs([("POD_NAME", "web-0"), ("POD_UID", &uid)]);
    let leader = Replica::start(&plane, &shop, "web-0", command);
    leader.says("leading", 0).await;
    let annotation = "hustings.io/leader-label=role=leader";
    release.kubectl(&["annotate", "lease", LEASE, "--namespace", &shop, annotation]).await;

    let (log, label) = (|| controller.log(), ListParams::default().labels("role=leader"));
    until("the Pod has the label", log, async || pods.list(&label).await.unwrap().items.pop()).await;
    until("the ghost is gone", log, async || native.get_opt("ghost").await.unwrap().is_none().then_some(())).await;
    let resources = ["pods", "nodes", "coordination.k8s.io/leasecandidates"];
    let of_these = |mut rights: BTreeSet<(String, String)>| {
        rights.retain(|(_, right)| right.split_once(' ').is_some_and(|(_, resource)| resources.contains(&resource)));
        rights
    };
    let granted = granted_everywhere(&plane, &["hustings-controller", "hustings-controller-nodes"]).await;
    assert_eq!(of_these(everywhere(used(release))), of_these(granted));
}

#[tokio::test]
async fn controllers_of_some_namespaces_use_all_rights_that_they_have_there_and_no_others() {
    let plane = ControlPlane::builder().audit(true).start().await.unwrap();
    let shop = plane.create_namespace("shop").await.unwrap();
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let release = install(&plane, &namespace, &[&format!(r#"watchNamespaces=["{shop}"]"#)]).await;
    live(release, &shop).await;

    let mut rights = BTreeSet::new();
    let label = ListParams::default().labels("app.kubernetes.io/instance=hustings");
    for role in Api::<Role>::all(plane.admin()).list(&label).await.unwrap() {
        rights.append(&mut granted(&role.metadata.namespace.unwrap(), &role.rules.unwrap()));
    }
    assert_eq!(used(release), rights);
}

async fn install<'a>(plane: &'a ControlPlane, namespace: &'a str, set: &[&str]) -> Release<'a> {
    let release = Release::new(plane, namespace, "hustings");
    release.apply(&[&[OWN_TIMES, r#"candidateValidity="5s""#], set].concat()).await;
    release
}

/// Elections, hand-overs, crashes of holders and of controllers, and a candidate without a process.
async fn live(release: Release<'_>, shop: &str) {
    let plane = release.plane;
    let mut pods = Vec::new();
    for name in ["hustings-0", "hustings-1"] {
        pods.push(Pod::start(release, name).await);
    }
    let kubeconfig = candidate_account(plane, shop, "web").await;
    let start = |name: &str, version: &str| {
        let versions = ["--binary-version", version, "--emulation-version", version];
        let flags = [versions.as_slice(), &TIMES].concat();
        Replica::start(plane, shop, name, campaign(&kubeconfig, shop, LEASE, name, &flags))
    };
    let [a, b, c] = [start("a", "1.31.0"), start("b", "1.32.0"), start("c", "1.33.0")];
    a.says("leading", 0).await;
    let ghost = json!({
        "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": {"name": "ghost"},
        "spec": {"leaseName": LEASE, "binaryVersion": "1.0", "emulationVersion": "1.0"},
    });
    let candidates = Api::<LeaseCandidate>::namespaced(plane.admin(), shop);
    candidates.create(&PostParams::default(), &serde_json::from_value(ghost).unwrap()).await.unwrap();

    // A stop, a return after which the controller asks the holder to hand over, and a crash.
    a.process.stop().await.unwrap();
    b.says("leading", 0).await;
    a.process.start().unwrap();
    a.says("leading", 1).await;
    a.process.kill().unwrap();
    b.says("leading", 1).await;

    // The other controller takes over, and elects.
    let leading = lease(plane, release.namespace, "hustings-controller").await["spec"]["holderIdentity"].clone();
    let leading = pods.iter().position(|pod| leading == pod.name.as_str()).unwrap();
    pods.swap_remove(leading).process.kill().unwrap();
    b.process.kill().unwrap();
    c.says("leading", 0).await;

    let log = || pods[0].log();
    until("the ghost is gone", log, async || candidates.get_opt("ghost").await.unwrap().is_none().then_some(())).await;
    let repeated =
        |event: &AuditEvent| (event.verb.as_str(), resource(event).as_str()) == ("patch", "events.k8s.io/events");
    until("an event is published a second time", log, async || asked(release).iter().any(repeated).then_some(())).await;
    assert!(pods[0].process.stop().await.unwrap().success());
}

/// The namespace and right of every request of the release's controllers; the namespace is empty for requests in all
/// namespaces.
fn used(release: Release<'_>) -> BTreeSet<(String, String)> {
    let events = asked(release);
    let refused: Vec<_> = events.iter().filter(|event| code(event) == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let right = |verb: &str, event: &AuditEvent| {
        (event.object_ref.clone().unwrap_or_default().namespace, format!("{verb} {}", resource(event)))
    };
    let mut rights: BTreeSet<_> = events.iter().map(|event| right(&event.verb, event)).collect();
    // If a server has streaming lists turned off, this watch begins with a list.
    let streamed = events.iter().filter(|event| event.request_uri.contains("sendInitialEvents=true"));
    rights.extend(streamed.map(|event| right("list", event)));
    rights
}

/// The same rights, used in any namespace.
fn everywhere(used: BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    used.into_iter().map(|(_, right)| (EVERYWHERE.to_owned(), right)).collect()
}

fn asked(release: Release<'_>) -> Vec<AuditEvent> {
    let user = format!("system:serviceaccount:{}:{}", release.namespace, release.name);
    let mut events = release.plane.audit_events().unwrap();
    events.retain(|event| event.user.username == user && !resource(event).ends_with("/selfsubjectaccessreviews"));
    events
}

fn code(event: &AuditEvent) -> u16 {
    event.response_status.as_ref().map_or(0, |status| status.code)
}

fn resource(event: &AuditEvent) -> String {
    let object = event.object_ref.clone().unwrap_or_default();
    let resource = qualified(&object.api_group, &object.resource);
    if object.subresource.is_empty() { resource } else { format!("{resource}/{}", object.subresource) }
}

fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}

/// The rights that these ClusterRoles grant.
async fn granted_everywhere(plane: &ControlPlane, roles: &[&str]) -> BTreeSet<(String, String)> {
    let mut rights = BTreeSet::new();
    for name in roles {
        let role = Api::<ClusterRole>::all(plane.admin()).get(name).await.unwrap();
        rights.append(&mut granted(EVERYWHERE, &role.rules.unwrap()));
    }
    rights
}

/// The rights that rules grant in a namespace, in the same form.
fn granted(namespace: &str, rules: &[PolicyRule]) -> BTreeSet<(String, String)> {
    let mut rights = BTreeSet::new();
    for rule in rules {
        let [group] = rule.api_groups.as_deref().unwrap() else { panic!("{rule:?}") };
        for resource in rule.resources.as_deref().unwrap() {
            for verb in &rule.verbs {
                rights.insert((namespace.to_owned(), format!("{verb} {}", qualified(group, resource))));
            }
        }
    }
    rights
}
