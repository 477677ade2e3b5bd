//! `hustings status` for the candidates of Kubernetes' own components, on a server that serves them.

use std::process::{Command, Output};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::coordination::v1beta1::LeaseCandidate;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use super::said;
use crate::controller::support::World;
use crate::replica::{hustings, until};

#[tokio::test]
async fn status_explains_the_candidates_of_kubernetes_own_components_and_a_watch_shows_changes() {
    let world = World::with_native("status-native").await;
    create_election(&world).await;
    let all = status(&world, &[]);
    assert!(said(&all).contains("kube-controller-manager"), "a Lease without our label: {}", said(&all));

    let output = status(&world, &["kube-controller-manager"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let expected = format!(
        "\
Lease kube-controller-manager in namespace {}: held
  holder     m0
  term       3
  since      2026-01-02T03:04:05Z
  expires    within 15 s

 RANK  CANDIDATE                 BINARY  EMULATION  PRIORITY  STATE     REASON
 1     m1 (coordination.k8s.io)  1.36.0  1.35.0     -         Unproven  Better than the holder, if it is live.
 2     m0 (coordination.k8s.io)  1.36.0  1.36.0     -         Holder    Holds the Lease.
 3     m2 (coordination.k8s.io)  1.37.0  1.37.0     -         Unproven  The holder has an older emulation version.
",
        world.namespace
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    assert!(output.stderr.is_empty(), "{}", said(&output));

    let output = status(&world, &["--output=json"]);
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows[0]["candidates"][0]["apiGroup"], "coordination.k8s.io", "{rows}");

    watch_shows_a_change(&world).await;
}

async fn watch_shows_a_change(world: &World) {
    let watch = command(world, &["kube-controller-manager", "--watch", "--output=json"]);
    let process = world.plane.spawn("watch-native", watch).unwrap();
    let log = || std::fs::read_to_string(process.log()).unwrap();
    let best = || -> Vec<String> {
        let lines = log();
        let rows = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        rows.map(|rows| rows[0]["candidates"][0]["name"].to_string()).collect()
    };
    until("it shows the candidates", log, async || (best() == ["\"m1\""]).then_some(())).await;
    let candidates = Api::<LeaseCandidate>::namespaced(world.client.clone(), &world.namespace);
    candidates.delete("m1", &DeleteParams::default()).await.unwrap();
    until("it shows the deletion", log, async || (best() == ["\"m1\"", "\"m0\""]).then_some(())).await;
}

fn command(world: &World, arguments: &[&str]) -> Command {
    let mut command = hustings();
    command.args(["status", "--namespace", &world.namespace]).args(arguments);
    command.arg("--kubeconfig").arg(world.plane.kubeconfig());
    command
}

fn status(world: &World, arguments: &[&str]) -> Output {
    command(world, arguments).output().unwrap()
}

/// Two Leases as client-go writes them, and native candidates for them.
async fn create_election(world: &World) {
    let time = "2026-01-02T03:04:05.000000Z";
    let leases = Api::<Lease>::namespaced(world.client.clone(), &world.namespace);
    let candidates = Api::<LeaseCandidate>::namespaced(world.client.clone(), &world.namespace);
    for (lease, holder) in [("kube-controller-manager", "m0"), ("kube-scheduler", "s0")] {
        let lease = json!({
            "metadata": {"name": lease},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3, "acquireTime": time,
                "renewTime": "2026-01-02T03:05:05.000000Z",
            },
        });
        leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    }
    for (lease, name, binary, emulation) in [
        ("kube-controller-manager", "m0", "1.36.0", "1.36.0"),
        ("kube-controller-manager", "m1", "1.36.0", "1.35.0"),
        ("kube-controller-manager", "m2", "1.37.0", "1.37.0"),
        ("kube-scheduler", "s0", "1.36.0", "1.36.0"),
    ] {
        let candidate = json!({
            "metadata": {"name": name},
            "spec": {
                "leaseName": lease, "binaryVersion": binary, "emulationVersion": emulation,
                "strategy": "OldestEmulationVersion", "renewTime": time, "pingTime": time,
            },
        });
        candidates.create(&PostParams::default(), &serde_json::from_value(candidate).unwrap()).await.unwrap();
    }
}
