//! A candidate of a replica's name that stands for another Lease, which a candidate cannot change (C10 of
//! docs/protocol.md). It keeps the replica from standing only while a process answers for it.

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::installed::installed;
use crate::replica::{Replica, campaign, candidate_account, lease, until};

const VERSION: [&str; 1] = ["--binary-version=1.0.0"];

#[tokio::test]
async fn a_silent_candidate_of_another_lease_is_replaced_and_its_replica_leads() {
    let plane = installed().await;
    let namespace = plane.create_namespace("namesake").await.unwrap();
    let kubeconfig = candidate_account(&plane, &namespace, "web").await;
    let candidates = candidates(plane.admin(), &namespace);
    let start = |name: &str, lease: &str| {
        let process = format!("{name}-for-{lease}");
        Replica::start(&plane, &namespace, &process, campaign(&kubeconfig, &namespace, lease, name, &VERSION))
    };
    // A client that may only create candidates squats the name of a replica that does not run yet.
    let foreign = json!({
        "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": {"name": "squatted"},
        "spec": {"leaseName": "other", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0"},
    });
    candidates.create(&PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    // A replica is killed, and restarted for another Lease.
    let former = start("moved", "former");
    former.says("leading", 0).await;
    former.process.kill().unwrap();

    let [squatted, moved] = [start("squatted", "web"), start("moved", "new")];
    for (replica, name, lease_name) in [(&squatted, "squatted", "web"), (&moved, "moved", "new")] {
        replica.says("leading", 0).await;
        assert_eq!(lease(&plane, &namespace, lease_name).await["spec"]["holderIdentity"], name);
        assert_eq!(candidates.get(name).await.unwrap().data["spec"]["leaseName"], lease_name);
        assert!(replica.log().contains("no process has answered for it"), "{}", replica.log());
    }
}

#[tokio::test]
async fn a_live_process_of_the_same_name_keeps_its_candidate_and_its_term() {
    let plane = installed().await;
    let namespace = plane.create_namespace("namesake-lives").await.unwrap();
    let kubeconfig = candidate_account(&plane, &namespace, "web").await;
    let candidates = candidates(plane.admin(), &namespace);
    let start = |lease: &str| {
        Replica::start(&plane, &namespace, lease, campaign(&kubeconfig, &namespace, lease, "twice", &VERSION))
    };
    let first = start("first");
    first.says("leading", 0).await;
    let uid = candidates.get("twice").await.unwrap().uid();
    let second = start("second");

    let refused = async || second.log().contains("its process lives or it has an owner").then_some(());
    until("it reports that the other process lives", || second.log(), refused).await;
    let candidate = candidates.get("twice").await.unwrap();
    assert!(candidate.data["spec"]["pingTime"].is_string(), "the second process has asked: {candidate:?}");
    assert_eq!((candidate.uid(), &candidate.data["spec"]["leaseName"]), (uid, &json!("first")));
    assert!(first.leads() && first.terms().len() == 1, "{}", first.log());
    assert!(second.terms().is_empty(), "{}", second.log());
}

fn candidates(client: kube::Client, namespace: &str) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("hustings.io", "v1alpha1", "LeaseCandidate"));
    Api::namespaced_with(client, namespace, &kind)
}
