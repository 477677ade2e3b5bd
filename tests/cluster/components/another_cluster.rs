//! docs/guides/another-cluster.md: pods of two clusters stand for one Lease in a third. The garbage collector there does
//! not know the owners of their candidates.

use std::process::Command;

use hustings_controlplane::{ControlPlane, Process, Tool};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::replica::{Replica, assert_one_at_a_time, campaign, install, lease, until};

const GUIDE: &str = include_str!("../../../docs/guides/another-cluster.md");

/// The election cluster of the guide.
struct ElectionCluster {
    plane: ControlPlane,
    _controller: Process,
    _garbage_collector: Process,
}

#[tokio::test]
async fn candidates_of_pods_in_other_clusters_outlast_the_garbage_collector_and_their_leader_keeps_its_term() {
    let (election, east) = tokio::join!(ElectionCluster::start(), ControlPlane::builder().start());
    let east = east.unwrap();
    let uid = create_pod(&east, "web-0").await.uid().unwrap();
    let kubeconfig = election.plane.kubeconfig_for_service_account("shop", "web").await.unwrap();
    // The election cluster has a pod of the same name, which is another pod.
    create_pod(&election.plane, "web-0").await;
    let start = |identity: &str, pod_uid: Option<&str>| {
        let mut command = campaign(&kubeconfig, "shop", "web", identity, &["--binary-version=1.4.0"]);
        command.env("POD_NAME", "web-0").env("POD_NAMESPACE", "shop");
        if let Some(uid) = pod_uid {
            command.env("POD_UID", uid);
        }
        Replica::start(&election.plane, "shop", identity, command)
    };

    let leader = start("east.web-0", Some(&uid));
    let leading = leader.says("leading", 0).await;
    let unknown = "the API server does not know the pod by this UID";
    let warned = async || leader.log().contains(unknown).then_some(());
    until("the garbage collector has deleted the candidate", || leader.log(), warned).await;
    let without_uid = start("west.web-0", None);
    without_uid.says("started", 0).await;
    let candidates = election.outlasting(["east.web-0", "west.web-0"]).await;
    assert!(candidates.iter().all(|candidate| candidate.owner_references().is_empty()), "{candidates:?}");

    let held = lease(&election.plane, "shop", "web").await;
    assert_eq!(held["spec"]["holderIdentity"], "east.web-0");
    assert!(leader.leads(), "{}", leader.log());
    assert_eq!(leader.terms().len(), 1, "{}", leader.log());
    assert!(!without_uid.log().contains(unknown), "{}", without_uid.log());

    // The container restarts: its Lease is its own at once, and the new process learns again that the owner is unknown.
    leader.process.kill().unwrap();
    let killed = jiff::Timestamp::now();
    leader.process.start().unwrap();
    let again = leader.says("leading", 1).await;
    assert!(again.token > leading.token);
    let warned = async || (leader.log().matches(unknown).count() == 2).then_some(());
    until("the candidate is deleted once more", || leader.log(), warned).await;
    election.outlasting(["east.web-0", "west.web-0"]).await;
    assert!(leader.process.stop().await.unwrap().success());
    without_uid.says("leading", 0).await;
    assert_one_at_a_time(&[&leader, &without_uid], &[("east.web-0", killed)]);
}

impl ElectionCluster {
    /// Installs Hustings and applies the manifests of the guide.
    async fn start() -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        let controller = install(&plane).await;
        let manifest = plane.folder().join("election.yaml");
        std::fs::write(&manifest, block(GUIDE, "kind: ServiceAccount")).unwrap();
        kubectl(&plane, ["create", "namespace", "shop"]).await;
        kubectl(&plane, ["apply", "--validate=strict", "--filename", manifest.to_str().unwrap()]).await;
        let mut command = Command::new(plane.tool(Tool::KubeControllerManager).await.unwrap());
        command.arg("--kubeconfig").arg(plane.kubeconfig()).args([
            "--controllers=garbage-collector-controller",
            "--leader-elect=false",
            "--secure-port=0",
            "--profiling=false",
        ]);
        let garbage_collector = plane.spawn("kube-controller-manager", command).unwrap();
        Self { plane, _controller: controller, _garbage_collector: garbage_collector }
    }

    /// Waits until the garbage collector has deleted several candidates with unknown owners, each created after these
    /// candidates were read, and these are still the same. Returns them.
    async fn outlasting<const N: usize>(&self, names: [&str; N]) -> Vec<DynamicObject> {
        let candidates: Api<DynamicObject> = Api::namespaced_with(self.plane.admin(), "shop", &resource());
        let read = async || {
            let mut read = Vec::new();
            for name in names {
                read.push(candidates.get_opt(name).await.unwrap()?);
            }
            Some(read)
        };
        let first = until("they stand", String::new, &read).await;
        for number in 0..3 {
            let name = format!("probe-{number}-{}", first[0].uid().unwrap());
            let probe = json!({
                "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate",
                "metadata": { "name": name, "ownerReferences": [
                    { "apiVersion": "v1", "kind": "Pod", "name": "web-0", "uid": first[0].uid().unwrap() },
                ]},
                "spec": { "leaseName": "probe", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
            });
            candidates.create(&PostParams::default(), &serde_json::from_value(probe).unwrap()).await.unwrap();
            let gone = async || candidates.get_opt(&name).await.unwrap().is_none().then_some(());
            until("the garbage collector works", String::new, gone).await;
        }
        let last = read().await.expect("they still stand");
        let uids = |candidates: &[DynamicObject]| candidates.iter().map(ResourceExt::uid).collect::<Vec<_>>();
        assert_eq!(uids(&first), uids(&last));
        last
    }
}

#[test]
fn the_deployment_of_the_guide_starts_the_wrapper_with_flags_that_it_accepts() {
    let deployment = block(GUIDE, "kind: Deployment");
    let deployment = Value::deserialize(serde_yaml::Deserializer::from_str(deployment)).unwrap();
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let arguments = arguments.iter().map(|argument| argument.as_str().unwrap().replace("$(POD_NAME)", "web-0"));
    // The file is missing here, so a valid command line ends with exit code 1.
    let output = crate::replica::hustings().args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(2) && !stderr.contains("command line"), "{stderr}");
}

/// The first YAML block of the page that contains `what`.
fn block<'a>(page: &'a str, what: &str) -> &'a str {
    let mut blocks = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.find(|block| block.contains(what)).unwrap()
}

fn resource() -> kube::core::ApiResource {
    kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("hustings.io", "v1alpha1", "LeaseCandidate"))
}

async fn kubectl<const N: usize>(plane: &ControlPlane, arguments: [&str; N]) {
    let output = plane.kubectl(arguments).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a pod in the namespace `shop`, which it creates if missing.
async fn create_pod(plane: &ControlPlane, name: &str) -> Pod {
    let _exists = plane.kubectl(["create", "namespace", "shop"]).await.unwrap();
    let account = json!({ "metadata": { "name": "default" } });
    let accounts = Api::<ServiceAccount>::namespaced(plane.admin(), "shop");
    accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
    let pod = json!({
        "metadata": { "name": name },
        "spec": { "automountServiceAccountToken": false, "containers": [{ "name": "web", "image": "web" }] },
    });
    let pods = Api::<Pod>::namespaced(plane.admin(), "shop");
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}
