//! `hustings rollout` against a real upgrade: real replicas and a real controller take the steps of the simulation, and the
//! same replicas lead in the same order.

use std::process::Output;

use hustings_controlplane::PATIENCE;
use serde_json::Value;

use super::said;
use crate::controller::support::{World, eventually};
use crate::replica::{Replica, assert_one_at_a_time, campaign, hustings};

const LEASE: &str = "web";

#[tokio::test(flavor = "multi_thread")]
async fn the_replicas_lead_in_the_simulated_order_if_the_leader_stops_first() {
    compare("rollout-leader-first", &["--order=leader-first"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replicas_lead_in_the_simulated_order_without_a_surge() {
    compare("rollout-no-surge", &["--max-surge=0", "--max-unavailable=1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replicas_lead_in_the_simulated_order_if_all_go_back_to_an_older_version() {
    compare("rollout-back", &["--to=1.34.0", "--order=leader-last"]).await;
}

/// Simulates the upgrade of a real group, carries out its steps, and compares who led.
async fn compare(namespace: &str, flags: &[&str]) {
    let world = World::new(namespace).await;
    let _controller = world.controller().await.ready().await;
    let mut replicas = Vec::new();
    for name in ["web-b", "web-c", "web-a"] {
        replicas.push(replica(&world, name, "1.35.0"));
        if replicas.len() == 1 {
            replicas[0].says("leading", 0).await;
        }
        world.standing(name).await;
    }
    let flags = if flags.iter().any(|flag| flag.starts_with("--to")) {
        flags.to_vec()
    } else {
        [flags, &["--to=1.36.0"]].concat()
    };
    let output = rollout(&world, &[&[LEASE, "--output=json"], &flags[..]].concat()).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let simulated: Value = serde_json::from_slice(&output.stdout).unwrap();
    let version = simulated["to"].as_str().unwrap();
    let predicted: Vec<_> =
        simulated["terms"].as_array().unwrap().iter().map(|term| term["holder"].as_str().unwrap()).collect();
    assert!(predicted.len() >= 2, "{simulated:#}");

    let mut terms = 1;
    for entry in simulated["timeline"].as_array().unwrap() {
        let name = entry["replica"].as_str().unwrap_or_default();
        match entry["event"].as_str().unwrap() {
            "ready" => {
                replicas.push(replica(&world, name, version));
                world.standing(name).await;
            }
            "asked-to-stop" => {
                let stopped = replicas.iter().find(|replica| replica.name == name).unwrap();
                stopped.process.stop().await.unwrap();
            }
            // The next step follows in the simulation after the next leader, too.
            "leads" => {
                terms += 1;
                eventually(&format!("{name} leads after {terms} terms in {PATIENCE:?}"), || async {
                    let found = replicas.iter().find(|replica| replica.name == name);
                    found.filter(|replica| replica.leads()).map(drop).ok_or("not yet")
                })
                .await;
            }
            _ => {}
        }
    }
    let all: Vec<_> = replicas.iter().collect();
    let led: Vec<_> = assert_one_at_a_time(&all, &[]).into_iter().map(|term| term.name).collect();
    assert_eq!(led, predicted, "{simulated:#}");
}

fn replica(world: &World, name: &str, version: &str) -> Replica {
    let flags = ["--binary-version", version, "--emulation-version", version];
    let command = campaign(&world.plane.kubeconfig(), &world.namespace, LEASE, name, &flags);
    Replica::start(&world.plane, &world.namespace, name, command)
}

async fn rollout(world: &World, arguments: &[&str]) -> Output {
    let mut command = hustings();
    command.arg("rollout").args(arguments).args(["--namespace", &world.namespace]);
    command.arg("--kubeconfig").arg(world.plane.kubeconfig());
    tokio::process::Command::from(command).output().await.unwrap()
}
