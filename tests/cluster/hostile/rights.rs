//! What a component's ServiceAccount can do with the chart's role under RBAC, by itself and through the controller.
//! `docs/security.md` documents the same.

use std::collections::BTreeSet;

use hustings_client::api::names;
use hustings_controlplane::{AuditEvent, ControlPlane};
use kube::Client;
use serde_json::{Value, json};

use super::load::send;
use super::rivals::Liars;
use crate::installed::installed;
use crate::replica::{Replica, campaign, candidate_account, lease, until};

const CONTROLLER: &str = "system:serviceaccount:hustings-system:hustings";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
const CANDIDATES: &str = "/apis/hustings.io/v1alpha1/namespaces";

#[tokio::test]
async fn a_component_makes_the_controller_touch_no_lease_but_that_of_its_election() {
    let plane = installed().await;
    let shop = plane.create_namespace("shop").await.unwrap();
    let other = plane.create_namespace("other").await.unwrap();
    candidate_account(&plane, &shop, "web").await;
    let web = plane.client_for_service_account(&shop, "web").await.unwrap();
    let admin = plane.admin();

    // Leases of other components, which their holders keep for longer than this test lasts.
    let held = |labels: Value| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "labels": labels },
            "spec": { "holderIdentity": "stranger", "leaseDurationSeconds": 600 },
        })
    };
    let enrolled = json!({ names::ENROLLED_LABEL: names::ENROLLED });
    for (namespace, name, labels) in [
        (shop.as_str(), "foreign", json!({})),
        (&shop, "foreign-enrolled", enrolled.clone()),
        (&other, "work", enrolled.clone()),
    ] {
        let mut lease = held(labels);
        lease["metadata"]["name"] = json!(name);
        send(&admin, "POST", &format!("{LEASES}/{namespace}/leases"), &lease).await.unwrap();
    }

    // Requests that RBAC rejects.
    let stand = |name: &str| {
        json!({
            "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate", "metadata": { "name": name },
            "spec": { "leaseName": "work", "binaryVersion": "0.0.1", "emulationVersion": "0.0.1" },
        })
    };
    for namespace in [other.as_str(), "kube-node-lease", "kube-system", "hustings-system"] {
        refused(&web, "POST", &format!("{CANDIDATES}/{namespace}/leasecandidates"), &stand("x")).await;
        refused(&web, "POST", &format!("{LEASES}/{namespace}/leases"), &held(json!({}))).await;
        refused(&web, "GET", &format!("{LEASES}/{namespace}/leases"), &Value::Null).await;
    }
    refused(&web, "PATCH", &format!("{LEASES}/hustings-system/leases/hustings-controller"), &json!({})).await;
    refused(&web, "DELETE", &format!("{LEASES}/{shop}/leases/foreign"), &json!({})).await;

    // It can stand for every Lease of its namespace, with any rank, and answer pings.
    let for_leases = ["work", "foreign", "foreign-enrolled"].map(str::to_owned);
    let _liars = Liars::stand(web.clone(), &shop, &for_leases).await;
    let status = format!("{CANDIDATES}/{shop}/leasecandidates/liar.work/status");
    refused(&web, "PATCH", &status, &json!({ "status": { "state": "Holder" } })).await;
    refused(&web, "PUT", &format!("{CANDIDATES}/{shop}/leasecandidates/liar.work"), &stand("liar.work")).await;
    refused(&web, "DELETE", &format!("{CANDIDATES}/{shop}/leasecandidates"), &json!({})).await;

    // Other tests of this control plane have namespaces of their own.
    let namespaces = [&*shop, &other, "kube-node-lease", "kube-system", "hustings-system"];
    let (asked, written) = (|| asked(&plane, &namespaces), || written(&plane, &namespaces));
    let log = || format!("{:?}", written());
    let granted = async || (lease(&plane, &shop, "work").await["spec"]["holderIdentity"] == "liar.work").then_some(());
    until("its own election is held", log, granted).await;
    // The controller has decided about it, and left it alone, again and again.
    let looks = |event: &&AuditEvent| {
        let object = event.object_ref.clone().unwrap_or_default();
        (event.verb.as_str(), object.resource.as_str(), object.name.as_str()) == ("get", "leases", "foreign")
    };
    let looked = async || (asked().iter().filter(looks).count() >= 3).then_some(());
    until("the controller has read the foreign Lease thrice", log, looked).await;

    let leases: BTreeSet<_> = written().into_iter().filter(|(resource, ..)| resource == "leases").collect();
    let own = ("leases".to_owned(), "hustings-system".to_owned(), "hustings-controller".to_owned());
    let work = ("leases".to_owned(), shop.clone(), "work".to_owned());
    // The audit log has no name for a creation.
    let is_allowed =
        |lease: &_| *lease == own || *lease == work || [&shop, "hustings-system"].map(nameless).contains(lease);
    assert!(leases.contains(&own) && leases.contains(&work), "{leases:?}");
    assert!(leases.iter().all(is_allowed), "{leases:?}");
    for name in ["foreign", "foreign-enrolled"] {
        assert_eq!(lease(&plane, &shop, name).await["spec"]["holderIdentity"], "stranger");
    }
    let is_candidate = |(resource, ..): &(String, _, _)| resource.starts_with("leasecandidates");
    let candidates: Vec<_> = written().into_iter().filter(is_candidate).collect();
    let is_own = |(_, namespace, name): &(_, String, String)| *namespace == shop && name.starts_with("liar.");
    assert!(!candidates.is_empty() && candidates.iter().all(is_own), "{candidates:?}");
}

#[tokio::test]
async fn a_role_that_names_its_lease_is_enough_to_stand_and_reaches_no_other() {
    let plane = installed().await;
    let shop = plane.create_namespace("shop").await.unwrap();
    let kubeconfig = {
        plane.create_service_account(&shop, "web").await.unwrap();
        plane.kubeconfig_for_service_account(&shop, "web").await.unwrap()
    };
    let manual = include_str!("../../../docs/security.md");
    let role = manual.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let path = plane.folder().join("role.yaml");
    std::fs::write(&path, role).unwrap();
    let applied = plane.kubectl(["apply", "--namespace", &shop, "--filename", path.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let versions = ["--binary-version", "1.0.0"];
    let replica = Replica::start(&plane, &shop, "web-0", campaign(&kubeconfig, &shop, "web", "web-0", &versions));
    replica.says("leading", 0).await;

    let web = plane.client_for_service_account(&shop, "web").await.unwrap();
    let foreign = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": "foreign" },
        "spec": { "holderIdentity": "stranger", "leaseDurationSeconds": 600 },
    });
    send(&plane.admin(), "POST", &format!("{LEASES}/{shop}/leases"), &foreign).await.unwrap();
    refused(
        &web,
        "PATCH",
        &format!("{LEASES}/{shop}/leases/foreign"),
        &json!({ "spec": { "holderIdentity": "web-0" } }),
    )
    .await;
    refused(&web, "GET", &format!("{LEASES}/{shop}/leases/foreign"), &Value::Null).await;
    replica.process.stop().await.unwrap();
}

async fn refused(client: &Client, method: &str, path: &str, body: &Value) {
    let answer = send(client, method, path, body).await;
    assert_eq!(answer.as_ref().map_err(|status| status.code), Err(403), "{method} {path}: {answer:?}");
}

fn nameless(namespace: &str) -> (String, String, String) {
    ("leases".to_owned(), namespace.to_owned(), String::new())
}

/// The controller's writes: resource, namespace and name.
fn written(plane: &ControlPlane, namespaces: &[&str]) -> BTreeSet<(String, String, String)> {
    let events =
        asked(plane, namespaces).into_iter().filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()));
    events.filter_map(|event| event.object_ref).map(|object| (object.resource, object.namespace, object.name)).collect()
}

/// The controller's requests about objects in these namespaces, or in none.
fn asked(plane: &ControlPlane, namespaces: &[&str]) -> Vec<AuditEvent> {
    let mut events = plane.audit_events().unwrap();
    events.retain(|event| {
        let namespace = event.object_ref.as_ref().map_or("", |object| &object.namespace);
        event.user.username == CONTROLLER && (namespace.is_empty() || namespaces.contains(&namespace))
    });
    events
}
