//! `hustings status` in a large cluster: pages instead of one list, and watches instead of a list every second.

use futures::StreamExt as _;
use hustings_controlplane::{AuditEvent, ControlPlane};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::said;
use crate::controller::support::{AT_A_TIME, World};
use crate::replica::{hustings, until};

/// More than one page.
const LEASES: usize = 510;

#[tokio::test(flavor = "multi_thread")]
async fn many_leases_are_listed_in_pages_and_a_watch_lists_them_no_more() {
    let World { plane, client, namespace } = World::new("status-many").await;
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    let create = async |index: usize| {
        let lease = json!({
            "metadata": { "name": format!("lease-{index:04}"), "labels": { "hustings.io/enrolled": "true" } },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 3600 },
        });
        leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    };
    futures::stream::iter(0..LEASES).for_each_concurrent(AT_A_TIME, create).await;
    let status = |arguments: &[&str]| {
        let mut command = hustings();
        command.args(["status", "--namespace", &namespace]).args(arguments).arg("--kubeconfig").arg(plane.kubeconfig());
        command
    };
    let names = |rows: &Value| -> Vec<String> {
        rows.as_array().unwrap().iter().map(|row| row["lease"].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<_> = (0..LEASES).map(|index| format!("lease-{index:04}")).collect();

    let output = status(&["--output=json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(names(&serde_json::from_slice(&output.stdout).unwrap()), expected);
    let table = String::from_utf8(status(&[]).output().unwrap().stdout).unwrap();
    let headers = table.lines().filter(|line| line.contains("NAMESPACE")).count();
    assert_eq!((table.lines().count(), headers), (LEASES + 1, 1), "{table}");
    let output = status(&["--output=name"]).output().unwrap();
    let first = String::from_utf8(output.stdout).unwrap().lines().next().unwrap().to_owned();
    assert_eq!(first, "lease.coordination.k8s.io/lease-0000");
    let lists = requests(&plane, &namespace, "list");
    assert_eq!(lists.len(), 6, "two pages for each of three commands: {lists:?}");
    assert!(lists.iter().all(|list| list.contains("limit=500")), "{lists:?}");

    let process = plane.spawn("watch", status(&["--watch", "--output=json"])).unwrap();
    let log = || std::fs::read_to_string(process.log()).unwrap();
    let shown =
        || -> Vec<Value> { log().lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect() };
    until("it watches", log, async || (!requests(&plane, &namespace, "watch").is_empty()).then_some(())).await;
    let before = requests(&plane, &namespace, "list").len();
    for holder in ["b", "c", "d"] {
        let patch = Patch::Merge(json!({ "spec": { "holderIdentity": holder } }));
        leases.patch("lease-0007", &PatchParams::default(), &patch).await.unwrap();
        until("it shows the change", log, async || {
            shown().last().is_some_and(|rows| rows[7]["holder"] == holder).then_some(())
        })
        .await;
    }
    assert_eq!(names(shown().last().unwrap()), expected);
    assert_eq!(shown().len(), 4, "the first state, and each change");
    assert_eq!(requests(&plane, &namespace, "list").len(), before, "a change costs no list");
}

/// The requests for Leases of this verb that the command has sent.
fn requests(plane: &ControlPlane, namespace: &str, verb: &str) -> Vec<String> {
    let is_of_leases = |event: &AuditEvent| {
        event.object_ref.as_ref().is_some_and(|object| object.resource == "leases" && object.namespace == namespace)
    };
    let is_own = |event: &AuditEvent| event.user_agent.starts_with("hustings-status/") && event.verb == verb;
    let events = plane.audit_events().unwrap().into_iter().filter(is_own).filter(is_of_leases);
    events.map(|event| event.request_uri).collect()
}
