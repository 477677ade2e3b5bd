//! `hustings survey` on a real API server before anything is installed, as an administrator and as a user who first has to
//! ask for the rights.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use hustings_client::api::MicroTime;
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_controlplane::{ControlPlane, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::said;
use crate::replica::hustings;

/// How often client-go renews.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread")]
async fn a_survey_before_the_installation_finds_the_locks_and_names_the_missing_rights() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let shop = plane.create_namespace("shop").await.unwrap();
    plane.create_service_account(&shop, "default").await.unwrap();
    let mirror = json!({ "kubernetes.io/config.mirror": "hash" });
    pod(&plane, "kube-system", "kube-controller-manager-cp-0", &mirror, &json!({ "hostNetwork": true })).await;
    pod(&plane, &shop, "orders-0", &json!({}), &json!({})).await;
    let beside = json!({ "initContainers": [{ "name": "mesh", "image": "i", "restartPolicy": "Always" }] });
    pod(&plane, &shop, "stock-0", &json!({}), &beside).await;
    lease(&plane, "kube-system", "kube-controller-manager", "cp-0_5e7c1a90-3f5d").await;
    lease(&plane, &shop, "orders.example.io", "orders-0_0c1d").await;
    lease(&plane, &shop, "stock", "stock-0_0c1d").await;

    let admin = plane.kubeconfig();
    let all = survey(&admin, &["--output=json"]);
    assert_eq!(all.status.code(), Some(0), "{}", said(&all));
    let rows: Value = serde_json::from_slice(&all.stdout).unwrap();
    let of = |row: &Value| json!([row["lease"], row["state"], row["pod"], row["container"], row["options"]]);
    let rows: Vec<Value> = rows.as_array().unwrap().iter().map(of).collect();
    let expected = [
        json!([
            "kube-controller-manager",
            "ready",
            "kube-controller-manager-cp-0",
            "main",
            "pod-prefix=kube-controller-manager"
        ]),
        json!(["orders.example.io", "ready", "orders-0", "main", null]),
        json!(["stock", "ambiguous", "stock-0", null, null]),
    ];
    assert_eq!(rows, expected, "the identity of the API server is no lock");
    let table = survey(&admin, &[]);
    let summary = "3 locks; a crash costs about 17 s in 3; with assistance about 3 s in 2\n1 is ambiguous\n";
    assert!(said(&table).contains(summary) && !said(&table).contains('\x1b'), "{}", said(&table));
    let values = survey(&admin, &["--output=values", "--namespace=kube-system"]);
    let values: Value = serde_yaml::from_slice(&values.stdout).unwrap();
    let of_manager =
        json!([{ "lease": "kube-system/kube-controller-manager", "podPrefix": "kube-controller-manager" }]);
    assert_eq!(values, json!({ "assist": { "leases": of_manager } }));

    plane.create_service_account(&shop, "nobody").await.unwrap();
    let nobody = plane.kubeconfig_for_service_account(&shop, "nobody").await.unwrap();
    let user = format!("system:serviceaccount:{shop}:nobody");
    let in_shop = ["--namespace", &*shop];
    let refused = survey(&nobody, &in_shop);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains(&format!("error: you may not list Leases in namespace {shop}\n")),
        "{}",
        said(&refused)
    );
    grant(&plane, &refused, &user).await;
    let allowed = survey_with(&nobody, &in_shop, "2 locks; ").await;
    assert_eq!(allowed.status.code(), Some(0), "{}", said(&allowed));

    let refused = survey(&nobody, &[]);
    let hint = format!("hint: you may list those of namespace {shop}: use --namespace {shop}; or ask for the right");
    assert!(refused.status.code() == Some(2) && said(&refused).contains(&hint), "{}", said(&refused));
    let leases = ["create", "clusterrole", "leases", "--verb=list", "--resource=leases.coordination.k8s.io"];
    assert!(plane.kubectl(leases).await.unwrap().status.success());
    let binding = ["create", "clusterrolebinding", "leases", "--clusterrole=leases", "--user", &user];
    assert!(plane.kubectl(binding).await.unwrap().status.success());
    let unread = survey_with(&nobody, &[], "you may not list Pods in namespace kube-system, so no holder").await;
    assert_eq!(unread.status.code(), Some(2), "{}", said(&unread));
    grant(&plane, &unread, &user).await;
    let allowed = survey_with(&nobody, &[], summary).await;
    assert_eq!((allowed.status.code(), said(&allowed)), (Some(0), said(&table)));
}

/// Runs a survey until it prints this text, since a right takes a moment to reach the API server.
async fn survey_with(kubeconfig: &Path, arguments: &[&str], text: &str) -> Output {
    let printed = async || {
        let output = survey(kubeconfig, arguments);
        if said(&output).contains(text) { Ok(output) } else { Err(said(&output)) }
    };
    eventually(printed).await.unwrap_or_else(|other| panic!("{text}\n{other}"))
}

/// Runs the commands that a message proposes, for this user.
async fn grant(plane: &ControlPlane, output: &Output, user: &str) {
    let said = said(output);
    let commands: Vec<_> = said.split('`').filter(|text| text.starts_with("kubectl create ")).collect();
    assert_eq!(commands.len(), 2, "{said}");
    for command in commands {
        let words = command.split(' ').skip(1).map(|word| word.replace("--user=NAME", &format!("--user={user}")));
        let granted = plane.kubectl(words).await.unwrap();
        assert!(granted.status.success(), "{command}: {}", super::said(&granted));
    }
}

fn survey(kubeconfig: &Path, arguments: &[&str]) -> Output {
    hustings().arg("survey").args(arguments).arg("--kubeconfig").arg(kubeconfig).output().unwrap()
}

/// Creates a Lease as client-go writes it, and renews it until the test ends.
async fn lease(plane: &ControlPlane, namespace: &str, name: &str, holder: &str) {
    let renewed = || json!({ "renewTime": MicroTime(SystemClock.wall()) });
    let mut spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 2 });
    json_patch::merge(&mut spec, &renewed());
    let lease = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
    let leases = Api::<Lease>::namespaced(plane.admin(), namespace);
    leases.create(&PostParams::default(), &lease).await.unwrap();
    let name = name.to_owned();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(RETRY_PERIOD).await;
            let renewal = Patch::Merge(json!({ "spec": renewed() }));
            // The server ends with the test.
            let _ = leases.patch(&name, &PatchParams::default(), &renewal).await;
        }
    });
}

/// Creates a Pod with the container `main`.
async fn pod(plane: &ControlPlane, namespace: &str, name: &str, annotations: &Value, more: &Value) {
    let mut spec = json!({ "nodeName": "cp-0", "containers": [{ "name": "main", "image": "i" }] });
    json_patch::merge(&mut spec, more);
    let pod = json!({ "metadata": { "name": name, "annotations": annotations }, "spec": spec });
    let pod = serde_json::from_value(pod).unwrap();
    Api::<Pod>::namespaced(plane.admin(), namespace).create(&PostParams::default(), &pod).await.unwrap();
}
