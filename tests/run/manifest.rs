//! `examples/manifests/run.yaml`: its pods are admitted where only restricted ones are, and its containers run as it says,
//! in an election by the controller.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};

use crate::replica::{hustings, install};
use crate::support::{Wrapper, time, worker};

const NAMESPACE: &str = "example";

#[tokio::test]
async fn pods_of_the_manifest_run_the_program_one_at_a_time_and_the_oldest_version_first() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let _controller = install(&plane).await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/manifests/run.yaml");
    let applied = plane.kubectl(["apply", "--filename", file.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let new = start(&plane, "new", "1.5.0").await;
    new.says("begins", 0).await;
    let old = start(&plane, "old", "1.4.0").await;
    let begins = old.says("begins", 0).await;
    assert_eq!(begins["environment"]["LEADER_LEASE"], "example/wrapped");
    assert_eq!(begins["environment"]["LEADER_IDENTITY"], "old");
    assert!(time(&new.says("ends", 0).await) <= time(&begins), "{}\n{}", new.log(), old.log());
    assert_eq!(old.process.stop().await.unwrap().code(), Some(5), "{}", old.log());
    assert!(old.last_alive() <= time(&new.says("begins", 1).await), "{}\n{}", new.log(), old.log());
    assert_eq!(new.process.stop().await.unwrap().code(), Some(5), "{}", new.log());
}

/// Creates a pod of the Deployment with this version, and runs its containers as a kubelet would, with a program that is
/// there.
async fn start(plane: &ControlPlane, name: &str, version: &str) -> Wrapper {
    let deployment = Api::<Deployment>::namespaced(plane.admin(), NAMESPACE).get("wrapped").await.unwrap();
    let template = deployment.spec.unwrap().template;
    let mut pod = Pod { metadata: template.metadata.unwrap(), spec: template.spec, ..Pod::default() };
    pod.metadata.name = Some(name.to_owned());
    pod.labels_mut().insert("app.kubernetes.io/version".to_owned(), version.to_owned());
    let pod = Api::<Pod>::namespaced(plane.admin(), NAMESPACE).create(&PostParams::default(), &pod).await.unwrap();
    let (uid, spec) = (pod.uid().unwrap(), pod.spec.unwrap());

    let volume = plane.folder().join(format!("{name}-volume"));
    std::fs::create_dir(&volume).unwrap();
    let in_volume = |text: &str| text.replace("/opt/hustings", volume.to_str().unwrap());
    let init = &spec.init_containers.unwrap()[0];
    assert!(init.command.is_none(), "the image's entrypoint is the binary");
    let installed = hustings().args(init.args.iter().flatten().map(|argument| in_volume(argument))).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let container = &spec.containers[0];
    let environment = environment(container, name, &uid, version);
    let expand = |argument: &String| {
        let argument = in_volume(argument);
        environment.iter().fold(argument, |text, (name, value)| text.replace(&format!("$({name})"), value))
    };
    let words: Vec<String> =
        [&container.command, &container.args].into_iter().flatten().flatten().map(expand).collect();
    let own = words.split(|word| word == "--").next().unwrap();
    let kubeconfig =
        plane.kubeconfig_for_service_account(NAMESPACE, spec.service_account_name.as_deref().unwrap()).await.unwrap();
    let mut command = Command::new(&own[0]);
    command.args(&own[1..]).arg("--kubeconfig").arg(kubeconfig).arg("--").args(worker(&[])).envs(environment);
    Wrapper::spawn(plane, NAMESPACE, name, command)
}

fn environment(container: &Container, name: &str, uid: &str, version: &str) -> BTreeMap<String, String> {
    let value = |path: &str| match path {
        "metadata.name" => name.to_owned(),
        "metadata.namespace" => NAMESPACE.to_owned(),
        "metadata.uid" => uid.to_owned(),
        "metadata.labels['app.kubernetes.io/version']" => version.to_owned(),
        path => panic!("{path} is not known here"),
    };
    let variables = container.env.iter().flatten();
    let variables = variables.map(|variable| {
        let source = variable.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
        let value = source.map_or_else(|| variable.value.clone().unwrap(), |source| value(&source.field_path));
        (variable.name.clone(), value)
    });
    variables.collect()
}
