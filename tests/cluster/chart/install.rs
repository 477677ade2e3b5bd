//! The chart on a real API server: what it creates, which rights that has, and what an uninstall leaves.

use std::{collections::BTreeSet, path::Path};

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{ControlPlane, Tool, eventually};
use k8s_openapi::api::{
    apps::v1::Deployment,
    authorization::v1::SubjectAccessReview,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use serde_json::{Value, json};

use super::release::Release;
use super::{HELMS, repository, run_helm, succeed};
use crate::replica::hustings;

const CRD: &str = "customresourcedefinition.apiextensions.k8s.io/leasecandidates.hustings.io";

/// The resources whose rights are checked in each namespace.
const RESOURCES: [(&str, &str, &str); 8] = [
    ("coordination.k8s.io", "leases", ""),
    ("hustings.io", "leasecandidates", ""),
    ("hustings.io", "leasecandidates", "status"),
    ("events.k8s.io", "events", ""),
    ("", "events", ""),
    ("", "pods", ""),
    ("", "secrets", ""),
    ("", "configmaps", ""),
];
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

const ELECTING: [&str; 13] = [
    "create events.k8s.io/events",
    "create leases",
    "delete leasecandidates",
    "get leasecandidates",
    "get leases",
    "list leasecandidates",
    "list leases",
    "patch events.k8s.io/events",
    "patch leasecandidates",
    "patch leasecandidates/status",
    "patch leases",
    "watch leasecandidates",
    "watch leases",
];
const STANDING: [&str; 11] = [
    "create leasecandidates",
    "create leases",
    "delete leasecandidates",
    "get leasecandidates",
    "get leases",
    "list leasecandidates",
    "list leases",
    "patch leasecandidates",
    "patch leases",
    "watch leasecandidates",
    "watch leases",
];

/// One test for each version of Helm, each with a control plane of its own: at its end it deletes the CRD.
#[tokio::test]
async fn release_is_installed_upgraded_and_uninstalled_and_leaves_what_the_readme_lists() {
    release_lives(&ControlPlane::builder().start().await.unwrap(), Tool::Helm).await;
}

#[tokio::test]
async fn release_of_helm_3_is_installed_upgraded_and_uninstalled_and_leaves_the_same() {
    release_lives(&ControlPlane::builder().start().await.unwrap(), Tool::Helm3).await;
}

async fn release_lives(plane: &ControlPlane, helm: Tool) {
    let namespace = plane.create_namespace("hustings").await.unwrap();
    let shop = plane.create_namespace("shop").await.unwrap();
    let release = Release { helm, ..Release::new(plane, &namespace, "hustings") };
    // The namespace rejects pods that violate the restricted standard.
    release.kubectl(&["label", "namespace", &namespace, "pod-security.kubernetes.io/enforce=restricted"]).await;

    // An older chart with other values.
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{helm:?}"));
    let older = ["--version", "0.0.1", "--app-version", "0.0.1", "--destination", packages.to_str().unwrap()];
    succeed(&run_helm(helm, &[["package", "charts/hustings"].as_slice(), &older].concat()));
    let older = packages.join("hustings-0.0.1.tgz");
    let said = release.apply_chart(&older, &["replicas=1", "networkPolicy.enabled=true"]).await;
    assert!(said.contains("kubectl create rolebinding") && said.contains("kubectl get lcand"), "{said}");
    assert!(said.contains("in every namespace"), "{said}");
    assert!(said.contains("The image hustings:0.0.1 has no registry"), "{said}");
    release.kubectl(&["wait", "--for=condition=Established", CRD, "--timeout=60s"]).await;

    let deployments = Api::<Deployment>::namespaced(plane.admin(), &namespace);
    let deployment = deployments.get("hustings").await.unwrap();
    assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(1));
    assert_eq!(image(&deployment), "hustings:0.0.1");
    create_pod(plane, &namespace, &deployment).await;

    let controller = account(&namespace, "hustings");
    expect_rights(plane, &controller, &shop, None, &ELECTING).await;
    expect_rights(plane, &controller, &namespace, None, &ELECTING).await;

    // A component stands for election.
    plane.create_service_account(&shop, "web").await.unwrap();
    let web = account(&shop, "web");
    expect_rights(plane, &web, &shop, None, &[]).await;
    let account = format!("--serviceaccount={shop}:web");
    let role = "--clusterrole=hustings-candidate";
    release.kubectl(&["create", "rolebinding", "web", "--namespace", &shop, role, &account]).await;
    expect_rights(plane, &web, &shop, None, &STANDING).await;
    expect_rights(plane, &web, &namespace, None, &[]).await;
    let candidates = Api::<LeaseCandidate>::namespaced(plane.admin(), &shop);
    let candidate = json!({
        "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": {"name": "web-0"},
        "spec": {"leaseName": "web", "binaryVersion": "1.2.0", "emulationVersion": "1.1"},
    });
    let client = plane.client_for_service_account(&shop, "web").await.unwrap();
    let own = Api::<LeaseCandidate>::namespaced(client, &shop);
    own.create(&PostParams::default(), &serde_json::from_value(candidate).unwrap()).await.unwrap();
    let leases = Api::<Lease>::namespaced(plane.admin(), &shop);
    let lease = json!({"metadata": {"name": "web", "labels": {"hustings.io/enrolled": "true"}}});
    let lease = leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();

    // The rights of people.
    let listed = release.kubectl(&["get", "lcand", "--namespace", &shop]).await;
    let columns: Vec<_> = listed.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["NAME", "LEASENAME", "BINARYVERSION", "EMULATIONVERSION", "STATE", "AGE"]);

    expect_status_for_viewers(release, &shop).await;

    // The upgrade keeps the candidates, and removes the objects that the new values do not enable.
    let candidate = candidates.get("web-0").await.unwrap();
    release.apply(&[]).await;
    let deployment = deployments.get("hustings").await.unwrap();
    assert_eq!(deployment.spec.as_ref().unwrap().replicas, Some(2));
    assert_eq!(image(&deployment), format!("hustings:{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(candidates.get("web-0").await.unwrap().metadata.uid, candidate.metadata.uid);
    let objects = [
        "clusterrole.rbac.authorization.k8s.io/hustings-candidate",
        "clusterrole.rbac.authorization.k8s.io/hustings-controller",
        "clusterrole.rbac.authorization.k8s.io/hustings-edit",
        "clusterrole.rbac.authorization.k8s.io/hustings-operator",
        "clusterrole.rbac.authorization.k8s.io/hustings-view",
        "clusterrolebinding.rbac.authorization.k8s.io/hustings-controller",
        CRD,
        "deployment.apps/hustings",
        "poddisruptionbudget.policy/hustings",
        "service/hustings",
        "serviceaccount/hustings",
    ];
    assert_eq!(release.objects().await, objects);

    // The CRD, candidates and Leases stay, and so do the rights of components.
    release.uninstall().await;
    assert_eq!(release.objects().await, ["clusterrole.rbac.authorization.k8s.io/hustings-candidate", CRD]);
    assert_eq!(candidates.get("web-0").await.unwrap(), candidate);
    assert_eq!(leases.get("web").await.unwrap(), lease);
    expect_rights(plane, &controller, &shop, None, &[]).await;
    expect_rights(plane, &web, &shop, None, &STANDING).await;

    // The same release adopts both again. With `keep` false, its uninstall deletes them.
    release.apply(&["crds.keep=false", "clusterRoles.keep=false"]).await;
    assert_eq!(release.objects().await, objects);
    assert_eq!(candidates.get("web-0").await.unwrap(), candidate);
    release.uninstall().await;
    release.kubectl(&["wait", "--for=delete", CRD, "--timeout=60s"]).await;
    assert_eq!(release.objects().await, [""; 0]);
    expect_rights(plane, &web, &shop, None, &[]).await;
}

#[tokio::test]
async fn release_for_some_namespaces_has_no_rights_elsewhere() {
    // A Deployment of Hustings in a shared cluster would be found by the tests of other commands.
    let plane = ControlPlane::builder().start().await.unwrap();
    let namespace = plane.create_namespace("second").await.unwrap();
    let watched = plane.create_namespace("watched").await.unwrap();
    let other = plane.create_namespace("other").await.unwrap();
    let release = Release::new(&plane, &namespace, "second");
    let said = release
        .apply(&["crds.install=false", "clusterRoles.create=false", &format!(r#"watchNamespaces=["{watched}"]"#)])
        .await;
    assert!(said.contains(&format!("elects in {watched}.")), "{said}");
    let objects = [
        "deployment.apps/second-hustings",
        "poddisruptionbudget.policy/second-hustings",
        "role.rbac.authorization.k8s.io/hustings-controller-lease",
        "role.rbac.authorization.k8s.io/second-hustings-controller",
        "rolebinding.rbac.authorization.k8s.io/hustings-controller-lease",
        "rolebinding.rbac.authorization.k8s.io/second-hustings-controller",
        "service/second-hustings",
        "serviceaccount/second-hustings",
    ];
    assert_eq!(release.objects().await, objects);

    let account = account(&namespace, "second-hustings");
    expect_rights(&plane, &account, &watched, None, &ELECTING).await;
    expect_rights(&plane, &account, &other, None, &[]).await;
    expect_rights(&plane, &account, &namespace, None, &["create leases"]).await;
    let own = ["create leases", "get leases", "list leases", "patch leases", "watch leases"];
    expect_rights(&plane, &account, &namespace, Some("hustings-controller"), &own).await;

    // One release's controllers would stand by for ever.
    let third = Release { name: "third", ..release };
    let refused = third
        .try_apply(&["crds.install=false", "clusterRoles.create=false", &format!(r#"watchNamespaces=["{other}"]"#)])
        .await;
    assert!(!refused.status.success(), "{}", third.uninstall().await);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains(r#"Role "hustings-controller-lease" in namespace"#) && said.contains("second"), "{said}");

    release.uninstall().await;
    assert_eq!(release.objects().await, [""; 0]);
}

#[tokio::test]
async fn every_value_makes_objects_that_the_api_server_accepts() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let namespace = plane.create_namespace("everything").await.unwrap();
    let shop = plane.create_namespace("shop").await.unwrap();
    plane.create_service_account(&namespace, "elections").await.unwrap();
    let (chart, values) = (repository("charts/hustings"), repository("tests/testdata/chart/values-everything.yaml"));
    // The Prometheus operator is not installed.
    let set = format!(
        "watchNamespaces[0]={shop},assist.leases[0].lease={shop}/web,assist.leases[1].lease={shop}/db,assist.leases[1].podNamespace={shop},leaderElection.namespace={shop},podDisruptionBudget.enabled=true,livenessProbe.enabled=true,\
         readinessProbe.enabled=true,serviceMonitor.enabled=false,prometheusRule.enabled=false"
    );
    for helm in HELMS {
        let install = ["install", "hustings", chart.to_str().unwrap(), "--namespace", &namespace];
        let with = ["--values", values.to_str().unwrap(), "--set", &set];
        let said = succeed(&plane.run_tool(helm, install.iter().chain(&with)).await.unwrap());
        assert!(said.contains(&format!("elects in {shop}.")) && !said.contains("has no registry"), "{said}");

        let deployments = Api::<Deployment>::namespaced(plane.admin(), &namespace);
        create_pod(&plane, &namespace, &deployments.get("the-elections").await.unwrap()).await;
        let notes = Api::<ConfigMap>::namespaced(plane.admin(), &namespace).get("the-elections-notes").await.unwrap();
        assert_eq!(notes.data.unwrap()["namespaces"], shop);

        let release = Release { helm, ..Release::new(&plane, &namespace, "hustings") };
        release.uninstall().await;
        assert_eq!(release.objects().await, [""; 0]);
    }
}

/// Kubernetes' own role `view`, which contains the chart's by aggregation, is enough for `hustings status`.
async fn expect_status_for_viewers(release: Release<'_>, shop: &str) {
    let plane = release.plane;
    plane.create_service_account(shop, "viewer").await.unwrap();
    let account = format!("--serviceaccount={shop}:viewer");
    // No controller manager runs here to aggregate it.
    let role = "--clusterrole=hustings-view";
    release.kubectl(&["create", "rolebinding", "viewer", "--namespace", shop, role, &account]).await;
    let kubeconfig = plane.kubeconfig_for_service_account(shop, "viewer").await.unwrap();
    let shown = eventually(async || {
        let mut status = hustings();
        status.args(["status", "--namespace", shop, "--kubeconfig"]).arg(&kubeconfig);
        let output = status.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // The Lease has no holder.
        let is_shown = output.status.code() == Some(1) && said.contains("web");
        if is_shown { Ok(()) } else { Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr))) }
    });
    if let Err(said) = shown.await {
        panic!("a viewer sees no status: {said}");
    }
}

/// The API server admits the Deployment's Pod. The test does not create it, since nothing would run it.
async fn create_pod(plane: &ControlPlane, namespace: &str, deployment: &Deployment) {
    let template = deployment.spec.clone().unwrap().template;
    let metadata = ObjectMeta { name: Some("pod".to_owned()), ..template.metadata.unwrap_or_default() };
    let pod = Pod { metadata, spec: template.spec, ..Default::default() };
    let parameters = PostParams { dry_run: true, ..Default::default() };
    Api::<Pod>::namespaced(plane.admin(), namespace).create(&parameters, &pod).await.unwrap();
}

fn image(deployment: &Deployment) -> &str {
    deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

fn account(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}

/// Waits until `user` has exactly the rights `expected`, and fails otherwise: the authorizer reads from a cache.
async fn expect_rights(plane: &ControlPlane, user: &str, namespace: &str, name: Option<&str>, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|right| (*right).to_owned()).collect();
    let asked = eventually(async || {
        let found = rights(plane, user, namespace, name).await;
        if found == expected { Ok(()) } else { Err(found) }
    });
    if let Err(found) = asked.await {
        assert_eq!(found, expected, "{user} in {namespace}");
    }
}

/// All checked rights of `user` in `namespace`; with `name`, on an object of that name.
async fn rights(plane: &ControlPlane, user: &str, namespace: &str, name: Option<&str>) -> BTreeSet<String> {
    let reviews = Api::<SubjectAccessReview>::all(plane.admin());
    let mut rights = BTreeSet::new();
    for (group, resource, subresource) in RESOURCES {
        for verb in VERBS {
            let attributes = json!({
                "namespace": namespace, "verb": verb, "group": group, "resource": resource,
                "subresource": subresource, "name": name,
            });
            let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
            let answer = reviews.create(&PostParams::default(), &from(review)).await.unwrap();
            if answer.status.unwrap().allowed {
                rights.insert(match (group, subresource) {
                    ("events.k8s.io", _) => format!("{verb} events.k8s.io/events"),
                    (_, "") => format!("{verb} {resource}"),
                    _ => format!("{verb} {resource}/{subresource}"),
                });
            }
        }
    }
    rights
}

fn from(review: Value) -> SubjectAccessReview {
    serde_json::from_value(review).unwrap()
}
