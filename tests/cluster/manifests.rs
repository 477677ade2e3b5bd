//! The API server accepts every file of `examples/manifests` unchanged, its pods meet the `restricted` standard, and every
//! object that it refers to exists.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Status;
use kube::{Api, Client};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::installed::installed;

#[tokio::test]
async fn every_manifest_is_accepted_and_its_pods_meet_the_restricted_standard() {
    let plane = installed().await;
    let client = plane.admin();
    restrict(&client, "default").await;
    for file in files() {
        let documents = documents(&file);
        for namespace in documents.iter().filter_map(|document| document["metadata"]["namespace"].as_str()) {
            restrict(&client, namespace).await;
        }
        apply(&plane, &file).await;
        for (template, namespace) in documents.iter().filter_map(template) {
            let pod = pod(template, &file);
            let error = create(&client, namespace, &pod).await.err().map(|status| status.message);
            assert_eq!(error, None, "{}", file.display());
            for container in containers(&pod["spec"]) {
                check_command_line(container, &file);
            }
            // The counter-check: the API server rejects a pod that violates the standard.
            let mut forbidden = pod;
            forbidden["metadata"]["name"] = json!("forbidden");
            forbidden["spec"]["containers"][0]["securityContext"] = json!({"allowPrivilegeEscalation": true});
            let message = create(&client, namespace, &forbidden).await.unwrap_err().message;
            assert!(message.contains("violates PodSecurity \"restricted:latest\""), "{}: {message}", file.display());
        }
        check_bindings(&client, &documents, &file).await;
    }
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.iter().any(|file| file.ends_with("sidecar.yaml")), "{files:?}");
    files
}

fn documents(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    let documents = serde_yaml::Deserializer::from_str(&text).map(|document| Value::deserialize(document).unwrap());
    documents.filter(|document| !document.is_null()).collect()
}

/// Restricts the namespace, which it creates if missing, to restricted pods; templates that violate this raise a warning.
async fn restrict(client: &Client, name: &str) {
    let namespace = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {
            "pod-security.kubernetes.io/enforce": "restricted",
            "pod-security.kubernetes.io/warn": "restricted",
        }},
    });
    let parameters = PatchParams::apply("restriction").force();
    Api::<Namespace>::all(client.clone()).patch(name, &parameters, &Patch::Apply(namespace)).await.unwrap();
}

/// Applies the file as a reader would. The server rejects unknown fields.
async fn apply(plane: &ControlPlane, file: &Path) {
    let arguments = ["apply", "--server-side", "--force-conflicts", "--validate=strict", "--filename"];
    let output =
        plane.kubectl(arguments.map(std::ffi::OsStr::new).into_iter().chain([file.as_os_str()])).await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !stderr.contains("Warning"), "{}: {stderr}", file.display());
}

/// The pod template in a document, and the namespace in which its pods are.
fn template(document: &Value) -> Option<(&Value, &str)> {
    let path = match document["kind"].as_str()? {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => "/spec/template",
        "CronJob" => "/spec/jobTemplate/spec/template",
        "Pod" => "",
        _ => return None,
    };
    Some((document.pointer(path).unwrap(), document["metadata"]["namespace"].as_str().unwrap_or("default")))
}

fn pod(template: &Value, file: &Path) -> Value {
    let mut pod = template.clone();
    let name = file.file_stem().unwrap().to_str().unwrap();
    pod["metadata"]["name"] = json!(format!("{name}-{:08x}", rand::random::<u32>()));
    pod
}

async fn create(client: &Client, namespace: &str, pod: &Value) -> Result<(), Box<Status>> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    match pods.create(&PostParams::default(), &serde_json::from_value(pod.clone()).unwrap()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status),
        Err(error) => panic!("{error}"),
    }
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().filter_map(|kind| spec[kind].as_array()).flatten()
}

/// Every command line of Hustings parses.
fn check_command_line(container: &Value, file: &Path) {
    let words = |key: &str| -> Vec<String> {
        container[key].as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut line = words("command");
    let image = container["image"].as_str().unwrap();
    if line.is_empty() && image.rsplit('/').next().is_some_and(|image| image.starts_with("hustings:")) {
        line.push("/hustings".to_owned());
    }
    line.extend(words("args"));
    if line.first().is_some_and(|program| program.ends_with("/hustings")) {
        // The kubelet replaces the variables.
        let replaced = |word: &String| word.replace("$(POD_NAMESPACE)", "default").replace("$(VERSION)", "1.0.0");
        let line = line.iter().map(|word| replaced(word).into());
        let error = hustings::cli::parse(line.clone()).err();
        assert!(error.is_none(), "{}: {:?}: {error:?}", file.display(), line.collect::<Vec<OsString>>());
    }
}

/// Each bound role exists, and so does each subject.
async fn check_bindings(client: &Client, documents: &[Value], file: &Path) {
    use k8s_openapi::api::core::v1::ServiceAccount;
    use k8s_openapi::api::rbac::v1::{ClusterRole, Role};

    for binding in documents.iter().filter(|document| document["kind"] == "RoleBinding") {
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or("default");
        let role = &binding["roleRef"];
        let name = role["name"].as_str().unwrap();
        let is_there = match role["kind"].as_str().unwrap() {
            "ClusterRole" => Api::<ClusterRole>::all(client.clone()).get_opt(name).await.unwrap().is_some(),
            _ => Api::<Role>::namespaced(client.clone(), namespace).get_opt(name).await.unwrap().is_some(),
        };
        assert!(is_there, "{}: {role}", file.display());
        for subject in binding["subjects"].as_array().unwrap() {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), subject["namespace"].as_str().unwrap());
            let account = accounts.get_opt(subject["name"].as_str().unwrap()).await.unwrap();
            assert!(account.is_some(), "{}: {subject}", file.display());
        }
    }
}
