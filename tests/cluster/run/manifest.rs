//! `examples/manifests/run.yaml`: the API server admits its pods under the restricted standard, and its containers run as
//! written, in an election by the controller.

use std::process::Command;

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt as _};

use super::support::{Wrapper, time, worker};
use crate::installed::installed;
use crate::kubelet::{environment, expand, pod_of};
use crate::replica::{apply, hustings};

const NAMESPACE: &str = "example";

#[tokio::test]
async fn pods_of_the_manifest_run_the_program_one_at_a_time_and_the_oldest_version_first() {
    let plane = installed().await;
    apply(&plane, "examples/manifests/run.yaml").await;

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

/// Creates a pod of the Deployment with this version, and runs its containers as a kubelet would, with a program that
/// exists.
async fn start(plane: &ControlPlane, name: &str, version: &str) -> Wrapper {
    let mut pod = pod_of(plane, NAMESPACE, "wrapped", name).await;
    pod.labels_mut().insert("app.kubernetes.io/version".to_owned(), version.to_owned());
    let pod = Api::<Pod>::namespaced(plane.admin(), NAMESPACE).create(&PostParams::default(), &pod).await.unwrap();
    let spec = pod.spec.as_ref().unwrap();

    let volume = plane.folder().join(format!("{name}-volume"));
    std::fs::create_dir(&volume).unwrap();
    let in_volume = |text: &str| text.replace("/opt/hustings", volume.to_str().unwrap());
    let init = &spec.init_containers.as_ref().unwrap()[0];
    assert!(init.command.is_none(), "the image's entrypoint is the binary");
    let installed = hustings().args(init.args.iter().flatten().map(|argument| in_volume(argument))).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));

    let container = &spec.containers[0];
    let environment = environment(container, &pod);
    // All pods of this machine share its ports.
    let own_port = |argument: String| argument.replace("--admin-address=:4041", "--admin-address=127.0.0.1:0");
    let expand = |argument: &String| own_port(expand(&in_volume(argument), &environment));
    let words: Vec<String> =
        [&container.command, &container.args].into_iter().flatten().flatten().map(expand).collect();
    let own = words.split(|word| word == "--").next().unwrap();
    let kubeconfig =
        plane.kubeconfig_for_service_account(NAMESPACE, spec.service_account_name.as_deref().unwrap()).await.unwrap();
    let mut command = Command::new(&own[0]);
    command.args(&own[1..]).arg("--kubeconfig").arg(kubeconfig).arg("--").args(worker(&[])).envs(environment);
    Wrapper::spawn(plane, NAMESPACE, name, command)
}
