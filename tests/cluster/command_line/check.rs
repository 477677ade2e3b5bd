//! `hustings check` before the installation, after it, and once the controller is dead.

use std::process::Output;

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::said;
use crate::replica::{controller, hustings, install_chart, until};

const SYSTEM: &str = "hustings-system";

#[tokio::test]
async fn cluster_is_checked_before_and_after_the_installation() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let before = check(&plane);
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
    let deployments = Api::<Deployment>::namespaced(plane.admin(), SYSTEM);
    deployments.patch_status("hustings", &PatchParams::default(), &Patch::Merge(available)).await.unwrap();
    until(
        "a controller leads",
        || process_log(&process),
        async || {
            let leases = Api::<Lease>::namespaced(plane.admin(), SYSTEM);
            leases.get_opt("hustings-controller").await.unwrap().and_then(|lease| lease.spec?.holder_identity)
        },
    )
    .await;
    let after = check(&plane);
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

    // The transcript has the other problems.
    drop(process);
    let dead = check(&plane);
    assert_eq!(dead.status.code(), Some(1), "{}", said(&dead));
    let line = "hustings-a has not renewed the Lease hustings-controller in namespace hustings-system for 15 s\n";
    assert!(said(&dead).contains(line), "{}", said(&dead));
    plane.create_service_account(SYSTEM, "nobody").await.unwrap();
    let nobody = plane.kubeconfig_for_service_account(SYSTEM, "nobody").await.unwrap();
    let output = hustings().arg("check").arg("--kubeconfig").arg(nobody).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    for line in ["ok       crd ", "unknown  deployment  cannot list Deployments: ", "unknown  leases "] {
        assert!(said(&output).contains(line), "{line}\n{}", said(&output));
    }
}

fn check(plane: &ControlPlane) -> Output {
    hustings().arg("check").arg("--kubeconfig").arg(plane.kubeconfig()).output().unwrap()
}

fn process_log(process: &hustings_controlplane::Process) -> String {
    std::fs::read_to_string(process.log()).unwrap_or_default()
}
