//! `hustings history` on a real API server: what the processes of each term recorded, and input that has no history.

use std::process::Output;

use hustings_client::model::History;
use serde_json::{Value, json};

use super::said;
use crate::controller::support::{World, eventually};
use crate::replica::{Replica, campaign, hustings};

const LEASE: &str = "web";

const QUICK: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];

#[tokio::test(flavor = "multi_thread")]
async fn a_history_shows_who_held_the_lease_and_how_each_term_ended() {
    let world = World::new("history").await;
    let _controller = world.controller_with(&["--settling=0s"]).await.ready().await;
    let newer = replica(&world, "newer", &["--binary-version=1.32.0", "--emulation-version=1.32.0"]);
    newer.says("leading", 0).await;
    // A hand-over to a better candidate, a crash, a transfer, and a stop without a successor.
    let older = replica(&world, "older", &["--binary-version=1.31.0", "--emulation-version=1.31.0"]);
    older.says("leading", 0).await;
    older.process.kill().unwrap();
    newer.says("leading", 1).await;
    let equal = replica(&world, "equal", &["--binary-version=1.32.0", "--emulation-version=1.32.0"]);
    world.standing("equal").await;
    let transfer = run(&world, &["transfer", LEASE, "--to=equal", "--wait"]).await;
    assert!(transfer.status.success(), "{}", said(&transfer));
    newer.process.kill().unwrap();
    equal.process.stop().await.unwrap();

    let lease = world.lease(LEASE).await.unwrap();
    let text = lease.record.history.as_str();
    assert!(text.len() <= History::LONGEST && lease.record.history.malformed().count() == 0, "{text}");
    let history = json(&world).await;
    let shown: Vec<Value> = terms(&history)
        .iter()
        .map(|term| json!([term["number"], term["holder"], term["ending"], term["cause"], term["source"]]))
        .collect();
    let expected = [
        json!([4, "equal", "released", "stopped", "history"]),
        json!([3, "newer", "handed-over", "transfer", "history"]),
        json!([2, "older", "expired", null, "history"]),
        json!([1, "newer", "handed-over", "better-candidate", "history"]),
    ];
    assert_eq!(shown, expected, "{text}");
    assert_eq!(lease.record.transitions, 4);
    assert!(history["unheldSince"].is_string() && history["malformed"] == json!([]), "{history:#}");
    let gaps: Vec<f64> = terms(&history)[..3].iter().map(|term| term["gapSeconds"].as_f64().unwrap()).collect();
    assert!(gaps[0] < 8.0 && gaps[2] < 8.0, "a hand-over does not wait for the Lease to run out: {gaps:?}");
    assert!(gaps[1] > 8.0, "a Lease of 10 s runs out: {gaps:?}");

    let table = run(&world, &["history", LEASE]).await;
    assert_eq!(table.status.code(), Some(0), "{}", said(&table));
    for part in ["Lease web in namespace history", ": no holder for ", "handed over (transfer)", "GAP BEFORE"] {
        assert!(said(&table).contains(part), "{part:?} is not in {}", said(&table));
    }
    assert!(!said(&table).contains('\u{1b}'), "no terminal, no styles");

    // Without the annotation, events still show which replica led.
    world.patch_lease(LEASE, json!({ "metadata": { "annotations": { "hustings.io/history": "nonsense" } } })).await;
    eventually("events tell of every holder", || async {
        let history = json(&world).await;
        let known = terms(&history).iter().filter(|term| term["source"] == "event");
        let holders: Vec<&str> = known.filter_map(|term| term["holder"].as_str()).collect();
        if ["newer", "older", "equal"].iter().all(|name| holders.contains(name)) { Ok(()) } else { Err(history) }
    })
    .await;
    assert_eq!(json(&world).await["malformed"], json!(["nonsense"]));
}

fn replica(world: &World, name: &str, flags: &[&str]) -> Replica {
    let command = campaign(&world.plane.kubeconfig(), &world.namespace, LEASE, name, &[flags, &QUICK].concat());
    Replica::start(&world.plane, &world.namespace, name, command)
}

/// The history of the Lease, as a script reads it.
async fn json(world: &World) -> Value {
    let output = run(world, &["history", LEASE, "--output=json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn terms(history: &Value) -> &Vec<Value> {
    history["terms"].as_array().unwrap()
}

async fn run(world: &World, arguments: &[&str]) -> Output {
    let mut command = hustings();
    command.args(arguments).args(["--namespace", &world.namespace]).arg("--kubeconfig").arg(world.plane.kubeconfig());
    tokio::process::Command::from(command).output().await.unwrap()
}
