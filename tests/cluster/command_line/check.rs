//! `hustings check` before the installation, after it, and with each problem that it must find.

use std::process::Output;

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::ControlPlane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::said;
use crate::replica::{controller, hustings, install_chart, until};

const SYSTEM: &str = "hustings-system";
const GUIDE: &str = include_str!("../../../docs/guides/check.md");

#[tokio::test]
async fn cluster_is_checked_before_and_after_the_installation() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let before = check(&plane, &[]);
    assert_eq!(before.status.code(), Some(1), "{}", said(&before));
    for line in [
        "ok       api-server  Kubernetes v1.",
        "fail     crd         the LeaseCandidate CRD is not installed in this cluster\n",
        "hint: install or upgrade the chart, or run `hustings crds | kubectl apply -f -`\n",
        "ok       rights      you may install Hustings\n",
        "fail     own-lease   no controller has run in this cluster\n",
    ] {
        assert!(said(&before).contains(line), "{line}\n{}", said(&before));
    }
    assert!(!said(&before).contains('\x1b'), "{}", said(&before));
    assert!(!said(&before).contains(" leases "), "without the CRD there are no elections: {}", said(&before));

    install_chart(&plane, &[]).await;
    let process = controller(&plane, "hustings-a", &[]).await;
    // No kubelet runs the Deployment's Pods here.
    let available = json!({"status": {"replicas": 2, "readyReplicas": 2, "availableReplicas": 2}});
    patch_status::<Deployment>(&plane, "hustings", available).await;
    until(
        "a controller leads",
        || process_log(&process),
        async || {
            let leases = Api::<Lease>::namespaced(plane.admin(), SYSTEM);
            leases.get_opt("hustings-controller").await.unwrap().and_then(|lease| lease.spec?.holder_identity)
        },
    )
    .await;
    let after = check(&plane, &[]);
    assert_eq!(after.status.code(), Some(0), "{}", said(&after));
    let own = env!("CARGO_PKG_VERSION");
    for line in [
        format!("the CRD of version {own} is served and has the schema of this binary ({own})\n"),
        format!("chart {own}, image {own}, CRD {own}, this command {own}\n"),
        "2 of 2 controllers of Deployment hustings in namespace hustings-system are available\n".to_owned(),
        "hustings-a leads: it has just written the Lease hustings-controller in namespace hustings-system\n".to_owned(),
        "the controllers have the permissions for elections\n".to_owned(),
    ] {
        assert!(said(&after).contains(&line), "{line}\n{}", said(&after));
    }
    let lines = String::from_utf8_lossy(&after.stdout).into_owned();
    assert!(lines.lines().all(|line| line.starts_with("ok ")), "{lines}");

    problems_of_the_installation(&plane).await;
    drop(process);
    // A controller that runs would write the status that the candidate deserves.
    create::<LeaseCandidate>(&plane, json!({"apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate",
        "metadata": {"name": "wrong"}, "spec": {"leaseName": "empty", "binaryVersion": "1.0", "emulationVersion": "1.0"}}))
    .await;
    patch_status::<LeaseCandidate>(&plane, "wrong", json!({"status": {"state": "Invalid", "message": "No."}})).await;
    let dead = check(&plane, &[]);
    assert_eq!(dead.status.code(), Some(1), "{}", said(&dead));
    for line in [
        "hustings-a has not renewed the Lease hustings-controller in namespace hustings-system for 15 s\n",
        "fail     candidates   invalid: hustings-system/wrong (No.)\n",
    ] {
        assert!(said(&dead).contains(line), "{line}\n{}", said(&dead));
    }
}

/// Each problem is found, and named with a hint.
async fn problems_of_the_installation(plane: &ControlPlane) {
    edit_deployment(plane, "hustings-9.9.9", &["--evidence-pods", "--native"]).await;
    create::<Lease>(
        plane,
        json!({"metadata": {"name": "empty", "labels": {"hustings.io/enrolled": "true"},
        "annotations": {"hustings.io/hold": "pause"}}, "spec": {"holderIdentity": ""}}),
    )
    .await;
    let findings = [
        ("versions", "warn", "they differ: chart 9.9.9, "),
        ("evidence", "fail", "the controllers lack permissions for evidence: get on pods in all namespaces"),
        ("native", "warn", "native.enabled is on, but the API server serves no "),
        ("leases", "warn", "without a holder on purpose: hustings-system/empty (hold)"),
    ];
    for finding in found(plane, &findings) {
        let row = format!("| `{}` |", finding["check"].as_str().unwrap());
        assert!(GUIDE.contains(&row), "the guide has no row {row}");
    }

    plane.create_service_account(SYSTEM, "nobody").await.unwrap();
    let nobody = plane.kubeconfig_for_service_account(SYSTEM, "nobody").await.unwrap();
    let output = hustings().arg("check").arg("--kubeconfig").arg(nobody).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    for line in ["ok       crd ", "unknown  deployment  cannot list Deployments: ", "unknown  leases "] {
        assert!(said(&output).contains(line), "{line}\n{}", said(&output));
    }
}

/// Gives the Deployment of the controllers another version of the chart, and more flags.
async fn edit_deployment(plane: &ControlPlane, chart: &str, flags: &[&str]) {
    let deployments = Api::<Deployment>::namespaced(plane.admin(), SYSTEM);
    let mut deployment = deployments.get("hustings").await.unwrap();
    deployment.labels_mut().insert("helm.sh/chart".to_owned(), chart.to_owned());
    let container = &mut deployment.spec.as_mut().unwrap().template.spec.as_mut().unwrap().containers[0];
    container.args.as_mut().unwrap().extend(flags.iter().map(ToString::to_string));
    deployments.replace("hustings", &PostParams::default(), &deployment).await.unwrap();
}

/// Checks the cluster, which must have these problems: the check, its result and the start of its message, each with a hint.
/// Returns all findings.
#[track_caller]
fn found(plane: &ControlPlane, expected: &[(&str, &str, &str)]) -> Vec<Value> {
    let output = check(plane, &["--output=json"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    for (check, result, message) in expected {
        let finding = findings.iter().find(|finding| finding["check"] == *check).unwrap();
        assert_eq!(finding["result"], *result, "{finding}");
        assert!(finding["message"].as_str().unwrap().starts_with(message), "{finding}");
        assert!(finding["hint"].is_string(), "{finding}");
    }
    findings
}

fn check(plane: &ControlPlane, arguments: &[&str]) -> Output {
    hustings().arg("check").args(arguments).arg("--kubeconfig").arg(plane.kubeconfig()).output().unwrap()
}

fn process_log(process: &hustings_controlplane::Process) -> String {
    std::fs::read_to_string(process.log()).unwrap_or_default()
}

async fn create<K>(plane: &ControlPlane, object: Value)
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object = serde_json::from_value::<K>(object).unwrap();
    Api::<K>::namespaced(plane.admin(), SYSTEM).create(&PostParams::default(), &object).await.unwrap();
}

async fn patch_status<K>(plane: &ControlPlane, name: &str, status: Value)
where
    K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()> + DeserializeOwned,
{
    let objects = Api::<K>::namespaced(plane.admin(), SYSTEM);
    objects.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
