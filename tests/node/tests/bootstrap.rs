//! A control plane that starts from nothing: kube-controller-manager and kube-scheduler are native candidates, the gate is
//! off, and only the controller in a static pod elects them. Then all controllers are gone, and come back.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::fs;
use std::os::unix::fs::chown;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hustings_controlplane::{NODE, User, within};
use hustings_node::{Components, Images, Node, WORKER};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use serde_json::json;

const SYSTEM: &str = "kube-system";

/// The components and their Leases.
const COMPONENTS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// How long a step may take. The longest, from the start of a controller to an election, takes 20 s on an idle machine.
const LIMIT: Duration = Duration::from_mins(3);

/// Longer than the lease of a component.
const EXPIRED: Duration = Duration::from_secs(20);

/// Where the manifest expects the kubeconfig file, on the node and in the pod.
const KUBECONFIG_FOLDER: &str = "/etc/kubernetes/hustings";

/// The user of the image.
const IMAGE_USER: u32 = 65532;

#[tokio::test(flavor = "multi_thread")]
async fn static_pod_elects_the_components_that_would_place_it_and_again_after_all_controllers_were_gone() {
    if !Node::is_allowed() {
        return;
    }
    let images = Images::new(env!("CARGO_BIN_EXE_product"), env!("CARGO_BIN_EXE_worker"));
    let node = Node::start_with(images, Components::Elected).await.unwrap();
    eventually(async || stand(&node).await).await;
    for component in COMPONENTS {
        assert_eq!(holder(&node, component).await, None, "{component} leads without an election");
    }
    apply_roles(&node).await;
    let began = Instant::now();
    start_controller(&node);
    let holders = eventually(async || holders(&node).await).await;
    println!("both components lead {:.1?} after the manifest was there", began.elapsed());
    runs_pods(&node, "first").await;

    stop_controller(&node).await;
    for (component, holder) in COMPONENTS.into_iter().zip(&holders) {
        keeps(&node, component, holder).await;
    }
    runs_pods(&node, "second").await;
    for process in [node.controller_manager(), node.scheduler()] {
        process.kill().unwrap();
        process.start().unwrap();
    }
    for component in COMPONENTS {
        rests(&node, component).await;
    }

    let began = Instant::now();
    start_controller(&node);
    let next = eventually(async || {
        let next = self::holders(&node).await?;
        let others = next.iter().zip(&holders).all(|(next, former)| next != former);
        ensure!(others, "the dead holders are still named: {next:?}");
        Ok(next)
    });
    let next = next.await;
    println!("{next:?} lead {:.1?} after the manifest was back", began.elapsed());
    runs_pods(&node, "third").await;
}

/// Whether both components stand for election.
async fn stand(node: &Node) -> Result<()> {
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate");
    let kind = ApiResource::from_gvk(&kind);
    let candidates = Api::<DynamicObject>::namespaced_with(node.plane().admin(), SYSTEM, &kind);
    let candidates = candidates.list(&ListParams::default()).await?.items;
    for component in COMPONENTS {
        let stands = candidates.iter().any(|candidate| candidate.data["spec"]["leaseName"] == component);
        ensure!(stands, "{component} does not stand");
    }
    Ok(())
}

/// Creates the CRD, and the roles for the user of the static pod.
async fn apply_roles(node: &Node) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/static-pod/install.yaml");
    let output = node.plane().kubectl(["apply", "--filename", file]).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Copies the manifest, with another folder of the node for the kubeconfig file: the node shares the machine's `/etc`.
fn start_controller(node: &Node) {
    let folder = node.plane().folder().join("hustings");
    fs::create_dir_all(&folder).unwrap();
    let authority = node.plane().folder().join("ca.crt");
    fs::copy(&authority, folder.join("ca.crt")).unwrap();
    let kubeconfig = fs::read_to_string(node.plane().kubeconfig_of(User::StaticController).unwrap()).unwrap();
    let inside = format!("{KUBECONFIG_FOLDER}/ca.crt");
    fs::write(folder.join("kubeconfig"), kubeconfig.replace(authority.to_str().unwrap(), &inside)).unwrap();
    // The image does not run as root.
    for path in [folder.clone(), folder.join("kubeconfig"), folder.join("ca.crt")] {
        chown(path, Some(IMAGE_USER), Some(IMAGE_USER)).unwrap();
    }
    let manifest = include_str!("../../../deploy/static-pod/hustings-controller.yaml");
    let on_node = format!("path: {KUBECONFIG_FOLDER}\n");
    assert_eq!(manifest.matches(&on_node).count(), 1, "{manifest}");
    let manifest = manifest.replace(&on_node, &format!("path: {}\n", folder.display()));
    fs::write(node.manifests().join("hustings-controller.yaml"), manifest).unwrap();
}

/// Removes the manifest, and waits until the pod is gone.
async fn stop_controller(node: &Node) {
    fs::remove_file(node.manifests().join("hustings-controller.yaml")).unwrap();
    let pods = Api::<Pod>::namespaced(node.plane().admin(), SYSTEM);
    let name = format!("hustings-controller-{NODE}");
    eventually(async || {
        ensure!(pods.get_opt(&name).await?.is_none(), "the static pod is still there");
        Ok(())
    })
    .await;
}

async fn lease(node: &Node, name: &str) -> Result<LeaseSpec> {
    let leases = Api::<Lease>::namespaced(node.plane().admin(), SYSTEM);
    leases.get(name).await?.spec.context("the Lease has no spec")
}

async fn holder(node: &Node, name: &str) -> Option<String> {
    lease(node, name).await.ok()?.holder_identity.filter(|holder| !holder.is_empty())
}

async fn holders(node: &Node) -> Result<[String; 2]> {
    let [manager, scheduler] = COMPONENTS;
    let holders = [holder(node, manager).await, holder(node, scheduler).await];
    let [Some(manager), Some(scheduler)] = holders else { anyhow::bail!("the holders are {holders:?}") };
    Ok([manager, scheduler])
}

/// Waits until the holder has renewed for longer than its lease lasts.
async fn keeps(node: &Node, component: &str, holder: &str) {
    let first = lease(node, component).await.unwrap().renew_time.unwrap().0;
    eventually(async || {
        let spec = lease(node, component).await?;
        assert_eq!(spec.holder_identity.as_deref(), Some(holder), "{component}: the live holder stays");
        let renewed = spec.renew_time.context("not renewed")?.0.duration_since(first);
        ensure!(renewed.unsigned_abs() > EXPIRED, "{component}: renewed for {renewed}");
        Ok(())
    })
    .await;
}

/// Waits until the Lease has not changed for longer than it lasts: nobody elects, although a candidate stands.
async fn rests(node: &Node, component: &str) {
    let mut seen = (lease(node, component).await.unwrap(), Instant::now());
    eventually(async || {
        let now = lease(node, component).await?;
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        ensure!(seen.1.elapsed() > EXPIRED, "{component} changed {:?} ago", seen.1.elapsed());
        Ok(())
    })
    .await;
    stand(node).await.unwrap();
}

/// Creates a Deployment, and waits until its pod runs: both leaders do their work.
async fn runs_pods(node: &Node, name: &str) {
    let deployments = Api::<Deployment>::default_namespaced(node.plane().admin());
    let container = json!({"name": "c", "image": WORKER, "imagePullPolicy": "Never", "command": ["/worker", "pause"]});
    let labels = json!({"app": name});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}});
    let deployment = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    eventually(async || {
        let status = deployments.get(name).await?.status.unwrap_or_default();
        ensure!(status.available_replicas == Some(1), "Deployment {name}: {status:?}");
        Ok(())
    })
    .await;
}

async fn eventually<T>(attempt: impl AsyncFnMut() -> Result<T>) -> T {
    within(LIMIT, attempt).await.unwrap()
}
