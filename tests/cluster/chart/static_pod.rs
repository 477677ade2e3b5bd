//! `deploy/static-pod`: controllers that a kubelet runs without an API server, for control planes whose own components
//! they elect. `tests/node/tests/bootstrap.rs` starts a control plane with them.

use std::collections::BTreeMap;

use hustings::cli::controller_config;
use hustings::controller::NativeMode;
use serde_json::{Value, json};

use super::deploy::{Head, install_file};
use super::rendering::{documents, render_with};
use super::{HELMS, assert_committed, read};

const SYSTEM: &str = "kube-system";

const VALUES: &str = "deploy/static-pod/values.yaml";

/// What a kubelet with a manifest alone can give a Pod: no field may refer to an object of the API.
const FIELDS: [&str; 9] = [
    "containers",
    "dnsPolicy",
    "enableServiceLinks",
    "hostNetwork",
    "nodeSelector",
    "priorityClassName",
    "securityContext",
    "tolerations",
    "volumes",
];

#[test]
fn files_for_static_pods_are_what_the_chart_renders() {
    let rendered = HELMS.map(|helm| {
        let roles = ["--values", VALUES, "--set", "crds.keep=false,clusterRoles.keep=false"];
        let head = Head { what: VALUES, namespace: None };
        let roles = install_file(&head, &render_with(helm, SYSTEM, &roles));
        let pod = render_with(helm, SYSTEM, &["--values", VALUES, "--set", "deployment.enabled=true"]);
        (roles, manifest(&pod))
    });
    let (roles, pod) = &rendered[0];
    assert_committed("deploy/static-pod/install.yaml", roles);
    assert_committed("deploy/static-pod/hustings-controller.yaml", pod);
    assert_eq!(rendered[0], rendered[1], "Helm 3 and Helm 4 differ");
}

/// The manifest of the static pod that has the Pods of the rendered Deployment.
fn manifest(rendered: &str) -> String {
    let template = documents(rendered).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    let template = &template["spec"]["template"];
    let mut spec = template["spec"].as_object().unwrap().clone();
    // The kubelet reads no ServiceAccount, and nothing schedules a static pod.
    for field in ["serviceAccountName", "automountServiceAccountToken", "topologySpreadConstraints", "affinity"] {
        assert!(spec.remove(field).is_some(), "the Deployment has no {field}");
    }
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hustings-controller", "namespace": SYSTEM, "labels": template["metadata"]["labels"]},
        "spec": spec,
    });
    format!(
        "# Generated from charts/hustings with {VALUES}, by the tests with REWRITE=1.\n# Copy it to /etc/kubernetes/manifests \
         of each node of the control plane.\n{}",
        serde_yaml::to_string(&pod).unwrap()
    )
}

#[test]
fn static_pod_needs_no_object_of_the_api_and_has_flags_of_the_controller() {
    let pod: Value = serde_yaml::from_str(&read("deploy/static-pod/hustings-controller.yaml")).unwrap();
    let spec = pod["spec"].as_object().unwrap();
    let unknown: Vec<_> = spec.keys().filter(|field| !FIELDS.contains(&field.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(pod["spec"]["volumes"].as_array().unwrap().iter().all(|volume| volume["hostPath"].is_object()));
    let container = &pod["spec"]["containers"][0];
    for variable in container["env"].as_array().unwrap() {
        assert!(variable["valueFrom"]["fieldRef"].is_object(), "{variable}");
    }
    let folder = &container["volumeMounts"][0]["mountPath"];
    let kubeconfig: Value = serde_yaml::from_str(&read("deploy/static-pod/kubeconfig")).unwrap();
    let (cluster, user) = (&kubeconfig["clusters"][0]["cluster"], &kubeconfig["users"][0]["user"]);
    for file in [&cluster["certificate-authority"], &user["client-certificate"], &user["client-key"]] {
        assert!(file.as_str().unwrap().starts_with(folder.as_str().unwrap()), "{file} is not in the Pod");
    }
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments = arguments.map(|argument| argument.as_str().unwrap().replace("$(POD_NAMESPACE)", SYSTEM).into());
    let config = controller_config(arguments.collect(), &BTreeMap::new()).unwrap();
    assert_eq!(config.native, NativeMode::Elect);
    assert_eq!(config.admin_address.to_string(), "127.0.0.1:10262");
    assert_eq!(container["ports"][0]["containerPort"], 10262);
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["host"], "127.0.0.1", "{probe}");
    }
}
