//! The chart's role `hustings-operator` grants exactly what the commands use. The test lets each command occur, and compares
//! the API server's audit log with the role in both directions.
//!
//! It ignores the reviews by which a user asks about itself, which every authenticated user may create. It also ignores
//! the right to create `acts`, which only the chart's admission policies ask for, and the search for the Deployments of
//! controllers, which only improves warnings.

use std::collections::BTreeSet;

use hustings_controlplane::{AuditEvent, ControlPlane, NativeElection};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::coordination::v1beta1::LeaseCandidate;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{LEASE, act};
use crate::controller::support::eventually;
use crate::replica::{Replica, campaign, controller, install_chart, lease};

const ROLE: &str = "hustings-operator";

#[tokio::test(flavor = "multi_thread")]
async fn operators_use_all_their_rights_and_no_others() {
    let plane = ControlPlane::builder().audit(true).native_election(NativeElection::Served).start().await.unwrap();
    install_chart(&plane, &[]).await;
    let _controller = controller(&plane, "hustings-0", &["--settling=0s"]).await;
    let shop = plane.create_namespace("shop").await.unwrap();
    let pod = pod_on_node(&plane, &shop).await;
    let replica = |name: &str, pod: Option<&Pod>| {
        let versions = ["--binary-version", "1.32.0", "--emulation-version", "1.32.0"];
        let mut command = campaign(&plane.kubeconfig(), &shop, LEASE, name, &versions);
        if let Some(pod) = pod {
            command.envs([("POD_NAME", pod.name_any()), ("POD_UID", pod.uid().unwrap())]);
        }
        Replica::start(&plane, &shop, name, command)
    };
    let a = replica("a", Some(&pod));
    a.says("leading", 0).await;
    let b = replica("b", None);
    b.says("started", 0).await;
    eventually("b stands", || async {
        let candidates: Api<hustings_client::api::ReadCandidate> = Api::namespaced(plane.admin(), &shop);
        candidates.get_opt("b").await.unwrap().map(drop).ok_or("no candidate")
    })
    .await;

    native_candidate(&plane, &shop, "n").await;
    let leases: Api<Lease> = Api::namespaced(plane.admin(), &shop);
    let own = json!({ "metadata": { "name": "own" }, "spec": { "holderIdentity": "a_1", "leaseDurationSeconds": 15 } });
    leases.create(&PostParams::default(), &serde_json::from_value(own).unwrap()).await.unwrap();

    plane.create_service_account(&shop, "stranger").await.unwrap();
    let stranger = plane.kubeconfig_for_service_account(&shop, "stranger").await.unwrap();
    let refused = act(&stranger, &shop, &["pause", LEASE]).await;
    let hint = "hint: bind the chart's ClusterRole hustings-operator in namespace";
    assert!(refused.code() == 1 && refused.said().contains(hint), "{}", refused.said());
    let operator = operator(&plane, &shop).await;
    for arguments in [
        &["transfer", LEASE, "--to", "b", "--wait"][..],
        &["pause", LEASE, "--for", "1h"],
        &["resume", LEASE],
        &["pin", LEASE, "--to", "a", "--for", "1h", "--wait"],
        &["unpin", LEASE],
        &["exclude", "--node", "n1", "--for", "1h", "--reason", "drain", "--wait"],
        &["include", "a"],
        &["exclude", "n", "--for", "1h"],
        &["include", "n"],
        &["history", LEASE],
        &["assist", "own"],
        &["unassist", "own"],
    ] {
        let done = act(&operator, &shop, arguments).await;
        assert_eq!(done.code(), 0, "{arguments:?}: {}", done.said());
    }
    for (arguments, hint) in [
        (&["pause", "wbe"][..], "did you mean \"web\"?"),
        (&["exclude", "--node", "n2", "--for", "1h"], "did you mean \"n1\"?"),
    ] {
        let refused = act(&operator, &shop, arguments).await;
        assert!(refused.code() == 3 && refused.said().contains(hint), "{}", refused.said());
    }
    assert_eq!(lease(&plane, &shop, LEASE).await["spec"]["holderIdentity"], "b");

    let roles = Api::<ClusterRole>::all(plane.admin());
    let role = roles.get(ROLE).await.unwrap();
    let granted: BTreeSet<String> = role
        .rules
        .unwrap()
        .into_iter()
        .flat_map(|rule| {
            let (groups, resources) = (rule.api_groups.unwrap(), rule.resources.unwrap());
            assert_eq!((groups.len(), resources.len()), (1, 1), "{groups:?} {resources:?}");
            let kind = format!("{}.{}", resources[0], groups[0]);
            rule.verbs.into_iter().map(move |verb| format!("{verb} {kind}"))
        })
        .filter(|right| right != "create acts.hustings.io")
        .collect();
    assert_eq!(used(&plane, &shop), granted);
}

/// A Pod that runs on a node, as far as the API server knows.
async fn pod_on_node(plane: &ControlPlane, namespace: &str) -> Pod {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.admin(), namespace);
    // A Pod needs it, and no kube-controller-manager runs that would create it.
    let account = serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.admin(), namespace);
    let pod = json!({
        "metadata": { "name": "a" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "web", "image": "web" }] },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}

/// A candidate of Kubernetes' own API.
async fn native_candidate(plane: &ControlPlane, namespace: &str, name: &str) {
    let candidates: Api<LeaseCandidate> = Api::namespaced(plane.admin(), namespace);
    let spec = json!({ "leaseName": "native", "binaryVersion": "1.36.0", "emulationVersion": "1.36.0",
        "strategy": "OldestEmulationVersion" });
    let candidate = json!({ "metadata": { "name": name }, "spec": spec });
    candidates.create(&PostParams::default(), &serde_json::from_value(candidate).unwrap()).await.unwrap();
}

/// The kubeconfig file of an account that has the role in this namespace.
async fn operator(plane: &ControlPlane, namespace: &str) -> std::path::PathBuf {
    plane.create_service_account(namespace, "operator").await.unwrap();
    let binding = json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": namespace}],
    });
    let bindings = Api::<RoleBinding>::namespaced(plane.admin(), namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    // The API server reads the binding a moment after it was created. The administrator asks, so the test does not count
    // this request.
    let right =
        json!({ "namespace": namespace, "verb": "patch", "group": "coordination.k8s.io", "resource": "leases" });
    let spec = json!({ "user": format!("system:serviceaccount:{namespace}:operator"), "resourceAttributes": right });
    eventually("the role is in force", || async {
        let review: SubjectAccessReview = serde_json::from_value(json!({ "spec": spec })).unwrap();
        let review = Api::all(plane.admin()).create(&PostParams::default(), &review).await.unwrap();
        review.status.filter(|status| status.allowed).map(drop).ok_or("not yet")
    })
    .await;
    plane.kubeconfig_for_service_account(namespace, "operator").await.unwrap()
}

fn used(plane: &ControlPlane, namespace: &str) -> BTreeSet<String> {
    let user = format!("system:serviceaccount:{namespace}:operator");
    let is_own = |event: &AuditEvent| {
        let object = event.object_ref.as_ref().filter(|_| event.user.username == user);
        object.is_some_and(|object| object.resource != "deployments")
    };
    let events: Vec<_> = plane.audit_events().unwrap().into_iter().filter(is_own).collect();
    let refused = |event: &&AuditEvent| event.response_status.as_ref().is_some_and(|status| status.code == 403);
    assert_eq!(events.iter().filter(refused).count(), 0, "{events:#?}");
    let right = |event: AuditEvent| {
        let object = event.object_ref.unwrap_or_default();
        format!("{} {}.{}", event.verb, object.resource, object.api_group)
    };
    let is_review = |right: &String| right == "create selfsubjectreviews.authentication.k8s.io";
    events.into_iter().map(right).filter(|right| !is_review(right)).collect()
}
