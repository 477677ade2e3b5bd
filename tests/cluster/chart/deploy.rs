//! `deploy`: the chart for users of kubectl and kustomize, without the marks of a Helm release.

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::{HELMS, assert_committed, repository, run_helm, succeed};
use crate::replica::{controller, until};

const SYSTEM: &str = "hustings-system";

/// The first lines of a file.
pub(super) struct Head {
    /// The values from which the file is rendered.
    pub(super) what: &'static str,
    /// The namespace that the file creates.
    pub(super) namespace: Option<&'static str>,
}

#[test]
fn install_file_is_what_the_chart_renders() {
    let values = ["--namespace", SYSTEM, "--set", "crds.keep=false,clusterRoles.keep=false"];
    let arguments = [&["template", "hustings", "charts/hustings"][..], &values].concat();
    let head = Head { what: "its default values", namespace: Some(SYSTEM) };
    let rendered = HELMS.map(|helm| install_file(&head, &succeed(&run_helm(helm, &arguments))));
    assert_committed("deploy/install.yaml", &rendered[0]);
    assert_eq!(rendered[0], rendered[1], "Helm 3 and Helm 4 differ");
}

/// The file for what Helm rendered. Nobody manages these objects by Helm.
pub(super) fn install_file(Head { what, namespace }: &Head, rendered: &str) -> String {
    let namespace = namespace.map(|name| format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n"));
    let head = format!(
        "# Generated from charts/hustings with {what}, by the tests with REWRITE=1.\n# To install: kubectl apply -f \
         install.yaml\n{}",
        namespace.unwrap_or_default()
    );
    let marks = ["helm.sh/", "app.kubernetes.io/managed-by", "# Source: "];
    let lines = rendered.lines().filter(|line| !line.is_empty() && !marks.iter().any(|mark| line.contains(mark)));
    lines.fold(head, |file, line| file + line + "\n")
}

#[tokio::test]
async fn kubectl_installs_the_kustomize_base_and_a_controller_elects_with_its_rights() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let folder = repository("deploy");
    let kubectl = async |words: &[&str]| {
        let words = [words, &["-k", folder.to_str().unwrap()]].concat();
        succeed(&plane.kubectl(words).await.unwrap())
    };
    let applied = kubectl(&["apply"]).await;
    assert!(
        applied.contains("customresourcedefinition.apiextensions.k8s.io/leasecandidates.hustings.io created"),
        "{applied}"
    );
    kubectl(&["apply"]).await;

    let deployment = Api::<Deployment>::namespaced(plane.admin(), SYSTEM).get("hustings").await.unwrap();
    assert_eq!(deployment.metadata.generation, Some(1), "the second time changes nothing");
    let pod = deployment.spec.unwrap().template.spec.unwrap();
    let image = format!("hustings:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(pod.containers[0].image.as_deref(), Some(image.as_str()));

    let process = controller(&plane, "a", &[]).await;
    let log = || std::fs::read_to_string(process.log()).unwrap();
    let leases = Api::<Lease>::namespaced(plane.admin(), SYSTEM);
    until("it leads", log, async || {
        let lease = leases.get_opt("hustings-controller").await.unwrap()?;
        lease.spec?.holder_identity.filter(|holder| holder == "a")
    })
    .await;
    until("it has its permissions", log, async || log().contains("has all permissions").then_some(())).await;
    assert!(!log().contains("not allowed"), "{}", log());
    drop(process);
    // No controller of Kubernetes finishes the deletion of the namespace here.
    let deleted = kubectl(&["delete", "--wait=false"]).await;
    assert!(deleted.contains("namespace \"hustings-system\" deleted"), "{deleted}");
}
