//! Objects that the API server accepts and no client should write.

use hustings_client::api::{ReadCandidate, names};
use hustings_controlplane::{ControlPlane, serve};
use hustings_core::model::CandidateState;
use kube::Api;
use serde_json::{Value, json};

use super::elections::{http_post, in_state};
use super::peer::Peer;
use super::support::{Controller, World, eventually, install_crd};

#[tokio::test]
async fn strange_objects_stop_no_election_of_their_own_lease_or_of_others() {
    let world = World::new("strange-objects").await;
    let far = "9999-12-31T23:59:59.999999Z";
    let old = "0001-01-01T00:00:00.000000Z";
    let long = "x".repeat(200_000);
    let leases = [
        json!({ "holderIdentity": "\u{202e}\u{0}\n💥", "leaseDurationSeconds": 1, "renewTime": far, "acquireTime": old }),
        json!({ "leaseTransitions": i32::MAX, "renewTime": old }),
        json!({ "holderIdentity": long, "leaseDurationSeconds": 1 }),
        json!({}),
    ];
    for (number, spec) in leases.iter().enumerate() {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": format!("work-{number}"),
                "labels": { names::ENROLLED_LABEL: "true" },
                "annotations": {
                    names::SESSION: "a/b/c/d/-1", names::TOKEN: "-5", names::KEY: "many", names::PREFERRED_HOLDER: "",
                    names::STRATEGY: "//", names::REASON: "r".repeat(1000),
                },
            },
            "spec": spec,
        });
        let url = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", world.namespace);
        world.client.request::<Value>(http_post(&url, &lease)).await.unwrap();
    }
    let strange = json!({
        "leaseName": "work-0", "binaryVersion": "v01.2", "emulationVersion": "1", "priority": i32::MAX,
        "pingTime": far, "renewTime": old,
    });
    world.stand("strange", strange).await;
    world
        .stand(
            "other",
            json!({ "leaseName": "work-1", "binaryVersion": "1.2.3-a.b.c+d", "emulationVersion": "1.2.3-a" }),
        )
        .await;

    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let peer = Peer::start(&world, "sane", "sane", "1.0.0").await;
    world.led_by("sane", &peer.name).await;
    let mut peers = Vec::new();
    for number in 0..leases.len() {
        peers.push(Peer::start(&world, &format!("work-{number}"), &format!("peer-{number}"), "1.0.0").await);
    }
    for (number, peer) in peers.iter().enumerate() {
        world.led_by(&format!("work-{number}"), &peer.name).await;
    }
}

#[tokio::test]
async fn a_third_partys_strategy_is_recorded_and_its_lease_stays_without_a_holder() {
    let world = World::new("strange-strategy").await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let spec = json!({ "leaseName": "work", "binaryVersion": "1.0.0", "strategy": "example.com/Mine" });
    world.stand("a", spec).await;
    let _life = Peer::live(&world, "work", "a");
    let record = eventually("the Lease is on hold", || async {
        let record = world.lease("work").await.ok_or("no lease".to_owned())?.record;
        if record.hold.is_some() { Ok(record) } else { Err(format!("{record:?}")) }
    })
    .await;
    assert_eq!(record.strategy.as_deref(), Some("example.com/Mine"));
    assert_eq!(record.holder, None);
}

#[tokio::test]
async fn objects_of_the_greatest_size_are_elected_like_others() {
    let world = World::new("strange-size").await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let finalizers: Vec<_> = (0..3000).map(|number| format!("example.com/{number:0>60}")).collect();
    world
        .create(json!({
            "metadata": {
                "name": "a".repeat(253),
                "annotations": { "example.com/a": "a".repeat(260_000) },
                "finalizers": finalizers,
            },
            "spec": { "leaseName": "w".repeat(253), "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
        }))
        .await;
    let name = "a".repeat(253);
    let _life = Peer::live(&world, &"w".repeat(253), &name);
    world.led_by(&"w".repeat(253), &name).await;
    in_state(&world, &name, CandidateState::Holder).await;
}

#[tokio::test]
async fn nothing_in_kube_node_lease_is_touched() {
    let plane = ControlPlane::builder().audit(true).start().await.unwrap();
    let client = plane.admin();
    install_crd(&client).await;
    let candidate = |namespace: &str| {
        json!({
            "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": { "name": "a", "namespace": namespace },
            "spec": { "leaseName": "work", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
        })
    };
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "work", "labels": { names::ENROLLED_LABEL: "true" } },
        "spec": { "holderIdentity": "" },
    });
    eventually("the namespace exists", || async {
        let url = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
        client.request::<Value>(http_post(url, &lease)).await.map_err(|error| error.to_string())
    })
    .await;
    for namespace in ["kube-node-lease", "default"] {
        let url = format!("/apis/hustings.io/v1alpha1/namespaces/{namespace}/leasecandidates");
        client.request::<Value>(http_post(&url, &candidate(namespace))).await.unwrap();
    }
    let controller = Controller::start(&plane, &plane.kubeconfig(), &["-n", "default"]).await.ready().await;
    controller.leads().await;
    eventually("the candidate elsewhere is pinged", || async {
        let candidates: Api<ReadCandidate> = Api::namespaced(client.clone(), "default");
        candidates.get("a").await.unwrap().record.ping_time.ok_or("not yet")
    })
    .await;
    let touched = |namespace: &str| -> Vec<String> {
        let events = plane.audit_events().unwrap().into_iter();
        let in_namespace = events.filter(|event| event.object_ref.as_ref().is_some_and(|o| o.namespace == namespace));
        in_namespace.filter(|event| event.verb == "patch").map(|event| event.request_uri).collect()
    };
    assert!(!touched("default").is_empty(), "the log shows what is touched");
    assert!(touched("kube-node-lease").is_empty(), "{:?}", touched("kube-node-lease"));
}

#[tokio::test]
async fn an_inadmissible_candidate_learns_why_and_the_others_are_elected() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let client = plane.admin();
    install_crd_without_rules(&client).await;
    let url = "/apis/hustings.io/v1alpha1/namespaces/default/leasecandidates";
    let bad = json!({
        "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": { "name": "bad" },
        "spec": { "leaseName": "work", "binaryVersion": "one", "strategy": 7, "priority": -1, "renewTime": {} },
    });
    client.request::<Value>(http_post(url, &bad)).await.unwrap();
    let world = World { client, namespace: "default".to_owned(), plane: &plane };
    let controller = Controller::start(&plane, &plane.kubeconfig(), &["-n", "default"]).await.ready().await;
    controller.leads().await;
    let peer = Peer::start(&world, "work", "good", "1.0.0").await;
    world.led_by("work", &peer.name).await;
    in_state(&world, "bad", CandidateState::Invalid).await;
    world.published("Warning", "binaryVersion \"one\" is not a semantic version: use one such as 1.31.0.").await;
}

/// The CRD without its validation rules.
async fn install_crd_without_rules(client: &kube::Client) {
    let mut crd = serde_json::to_value(hustings_client::api::crd()).unwrap();
    let spec = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec;
    crd["spec"]["versions"][0].as_object_mut().unwrap().remove("selectableFields");
    serve(client, &serde_json::from_value(crd).unwrap()).await.unwrap();
}
