//! Real kube-controller-managers and kube-schedulers, elected by Hustings: the oldest leads, another one follows a crash, and
//! whoever leads does its work. With the gate on, a live holder also hands over to a better candidate.

use std::time::Instant;

use hustings_client::api::ReadLease;
use hustings_controlplane::{ControlPlane, ElectedComponent, NativeElection, Process};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::controller::support::{Controller, eventually, install_crd};

const SYSTEM: &str = "kube-system";

/// The emulation versions of the replicas, which are all of one binary.
const OLDER: &str = "1.36";
const NEWER: &str = "1.37";

/// The replicas of one component.
struct Group<'plane> {
    plane: &'plane ControlPlane,
    component: ElectedComponent,
    older: Process,
    newer: Process,
}

#[tokio::test]
async fn oldest_component_leads_and_the_other_follows_its_crash_where_nothing_else_elects() {
    // Without the gate no component hands over, so both must stand in the first election.
    let (plane, _controller) = elected(NativeElection::Served, &["--native", "--settling=10s"]).await;
    let succession = async |component| {
        let group = Group::start(&plane, component).await;
        group.older.start_again().unwrap();
        group.is_led_by(&[&group.older, &group.newer], OLDER).await;
        group.older.kill().unwrap();
        group.is_led_by(&[&group.newer], NEWER).await;
        group
    };
    let _replicas =
        tokio::join!(succession(ElectedComponent::KubeControllerManager), succession(ElectedComponent::KubeScheduler));
    leaders_work(&plane).await;
}

#[tokio::test]
async fn component_hands_over_to_an_older_one_where_hustings_stands_in() {
    let (plane, controller) = elected(NativeElection::On, &["--native", "--native-stand-in"]).await;
    controller.reports("this controller elects native candidates").await;
    let succession = async |component| {
        let group = Group::start(&plane, component).await;
        group.older.kill().unwrap();
        group.is_led_by(&[&group.newer], NEWER).await;
        // client-go ends when it has handed over, and stands again.
        group.older.start().unwrap();
        group.is_led_by(&[&group.older, &group.newer], OLDER).await;
        group
    };
    let _replicas =
        tokio::join!(succession(ElectedComponent::KubeControllerManager), succession(ElectedComponent::KubeScheduler));
    leaders_work(&plane).await;
}

/// A control plane, and a controller that elects in it.
async fn elected(native_election: NativeElection, flags: &[&str]) -> (ControlPlane, Controller) {
    let plane = ControlPlane::builder().native_election(native_election).start().await.unwrap();
    install_crd(&plane.admin()).await;
    let flags = [&["--namespace=default"], flags].concat();
    let controller = Controller::start(&plane, &plane.kubeconfig(), &flags).await;
    (plane, controller)
}

impl<'plane> Group<'plane> {
    async fn start(plane: &'plane ControlPlane, component: ElectedComponent) -> Self {
        let start = async |version: &str| {
            let command =
                plane.elected_component(component, &[&format!("--emulated-version={version}")]).await.unwrap();
            plane.spawn(&format!("{}-{version}", component.lease()), command).unwrap()
        };
        Self { plane, component, older: start(OLDER).await, newer: start(NEWER).await }
    }

    /// Waits until a live replica of this version has held the Lease for three renewals. The replicas in `alive` start again
    /// whenever they have ended, as a kubelet lets them.
    async fn is_led_by(&self, alive: &[&Process], version: &str) {
        let lease = self.component.lease();
        let began = Instant::now();
        let leases = Api::<ReadLease>::namespaced(self.plane.admin(), SYSTEM);
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1beta1", "LeaseCandidate");
        let kind = ApiResource::from_gvk(&kind);
        let candidates = Api::<DynamicObject>::namespaced_with(self.plane.admin(), SYSTEM, &kind);
        let mut renewals = Vec::new();
        eventually(&format!("{lease}: {version} leads"), async || {
            for replica in alive {
                replica.start_again().unwrap();
            }
            let record = leases.get(lease).await.map_err(|error| error.to_string())?.record;
            let holder = record.holder.clone().filter(|holder| !holder.is_empty()).ok_or("no holder")?;
            let candidate = candidates.get(&holder).await.map_err(|error| error.to_string())?;
            if candidate.data["spec"]["emulationVersion"] != format!("{version}.0") {
                renewals.clear();
                return Err(format!("{holder} emulates {}", candidate.data["spec"]["emulationVersion"]));
            }
            // The holder that was killed renews no more.
            let renewal = (holder, record.renew_time);
            if !renewals.contains(&renewal) {
                renewals.push(renewal);
            }
            if renewals.len() > 3 { Ok(()) } else { Err(format!("{renewals:?}")) }
        })
        .await;
        println!("{lease}: {version} leads, {:.1?} after the change", began.elapsed());
    }
}

/// The leading kube-controller-manager creates a ServiceAccount, and the leading kube-scheduler places a Pod.
async fn leaders_work(plane: &ControlPlane) {
    let namespace = plane.create_namespace("served").await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(plane.admin(), &namespace);
    eventually("the namespace has a ServiceAccount", async || accounts.get("default").await).await;
    let nodes = Api::<Node>::all(plane.admin());
    nodes.create(&PostParams::default(), &from(json!({"metadata": {"name": "node"}}))).await.unwrap();
    let room = json!({"status": {"allocatable": {"pods": "1", "cpu": "1", "memory": "1Gi"}}});
    nodes.patch_status("node", &PatchParams::default(), &Patch::Merge(room)).await.unwrap();
    let pods = Api::<Pod>::namespaced(plane.admin(), &namespace);
    // No kubelet reports this node as ready.
    let pod = json!({"metadata": {"name": "pod"}, "spec": {
        "containers": [{"name": "c", "image": "none"}], "tolerations": [{"operator": "Exists"}]}});
    pods.create(&PostParams::default(), &from(pod)).await.unwrap();
    eventually("the Pod has a node", async || {
        let pod = pods.get("pod").await.map_err(|error| error.to_string())?;
        let node = pod.spec.and_then(|spec| spec.node_name);
        if node.as_deref() == Some("node") { Ok(()) } else { Err(format!("{:?}", pod.status)) }
    })
    .await;
}

fn from<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}
