//! `examples/manifests/sidecar.yaml`: sidecars run with its arguments, environment and rights.

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};

use super::beside::{Sidecar, ask};
use crate::installed::installed;
use crate::kubelet::{environment, expand, pod_of};
use crate::replica::{apply, hustings, until};

const NAMESPACE: &str = "example";

#[tokio::test]
async fn service_of_the_manifest_selects_the_pod_that_leads_and_then_the_next_one() {
    let plane = installed().await;
    apply(&plane, "examples/manifests/sidecar.yaml").await;
    let services = Api::<Service>::namespaced(plane.admin(), NAMESPACE);
    let selector = services.get("program-leader").await.unwrap().spec.unwrap().selector.unwrap();
    let selector: Vec<_> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pods = Api::<Pod>::namespaced(plane.admin(), NAMESPACE);
    let selected = async || -> Vec<String> {
        let selected = pods.list(&ListParams::default().labels(&selector.join(","))).await.unwrap();
        selected.iter().map(kube::ResourceExt::name_any).collect()
    };

    let one = run(&plane, &pod(&plane, "program-1").await).await;
    one.leads().await;
    until("the Service selects it", || one.log(), async || (selected().await == ["program-1"]).then_some(())).await;
    let pod_two = pod(&plane, "program-2").await;
    let two = run(&plane, &pod_two).await;
    until(
        "it sees the holder",
        || two.log(),
        async || (two.get("/").await.body == r#"{"name":"program-1"}"#).then_some(()),
    )
    .await;
    for probe in ["/livez", "/readyz"] {
        assert_eq!(ask(two.admin, "GET", probe).await.code, 200);
    }
    assert!(one.process.stop().await.unwrap().success(), "{}", one.log());
    let former = two.leads().await;
    until("the Service selects it", || two.log(), async || (selected().await == ["program-2"]).then_some(())).await;

    // A sidecar that restarts in its pod takes its own Lease back, long before the Lease would have expired.
    let _three = run(&plane, &pod(&plane, "program-3").await).await;
    two.process.kill().unwrap();
    let two = run(&plane, &pod_two).await;
    let standing = two.leads().await;
    assert!(standing["token"].as_u64() > former["token"].as_u64());
}

/// A pod of the Deployment.
async fn pod(plane: &ControlPlane, name: &str) -> Pod {
    let pod = pod_of(plane, NAMESPACE, "program", name).await;
    Api::<Pod>::namespaced(plane.admin(), NAMESPACE).create(&PostParams::default(), &pod).await.unwrap()
}

/// Runs the sidecar of a pod as a kubelet would.
async fn run(plane: &ControlPlane, pod: &Pod) -> Sidecar {
    let name = &pod.name_any();
    let spec = pod.spec.as_ref().unwrap();
    let container = &spec.init_containers.as_ref().unwrap()[0];
    assert_eq!(container.restart_policy.as_deref(), Some("Always"));

    let environment = environment(container, pod);
    let arguments = container.args.iter().flatten().map(|argument| expand(argument, &environment));
    let kubeconfig =
        plane.kubeconfig_for_service_account(NAMESPACE, spec.service_account_name.as_deref().unwrap()).await.unwrap();
    let mut command = hustings();
    command
        .args(arguments)
        // All pods of this machine share its ports.
        .args(["--listen=127.0.0.1:0", "--admin-address=127.0.0.1:0"])
        // Longer than any wait in this test.
        .args(["--lease-duration=300s", "--kubeconfig"])
        .arg(kubeconfig)
        .envs(&environment);
    Sidecar::run(plane, NAMESPACE, name, command).await
}
