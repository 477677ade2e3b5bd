//! `hustings explain` on a real API server: its prediction against what then happens, and input that it cannot explain.

use std::ops::Deref;
use std::process::Output;
use std::time::{Duration, Instant};

use hustings_controlplane::ControlPlane;
use serde_json::{Value, json};

use super::said;
use crate::controller::support::World;
use crate::replica::{Replica, campaign, hustings};

const LEASE: &str = "web";

/// The command watches until the next renewal, however late it is.
const UNTIL_RENEWED: &str = "--watch-for=1m";

#[tokio::test(flavor = "multi_thread")]
async fn the_predicted_successor_follows_a_holder_that_dies_and_not_later_than_predicted() {
    let world = World::new("explain").await;
    let _controller = world.controller_with(&["--settling=0s"]).await.ready().await;
    let first = replica(&world, "web-0", &["--binary-version=1.31.0", "--emulation-version=1.31.0"]);
    first.says("leading", 0).await;
    // The better of the two is not the first by name.
    let _worse = replica(&world, "web-1", &["--binary-version=1.33.0", "--emulation-version=1.33.0"]);
    let second = replica(&world, "web-2", &["--binary-version=1.32.0", "--emulation-version=1.32.0"]);
    for name in ["web-1", "web-2"] {
        world.standing(name).await;
    }

    let text = explain(&world, &[LEASE, UNTIL_RENEWED]).await;
    assert_eq!(text.status.code(), Some(0), "{}", said(&text));
    let text = String::from_utf8(text.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "web-0 has led since ",
        "It renewed the Lease while this command watched, so it lives.",
        "web-0 ranks 1st of 3, before web-2: it emulates 1.31.0, and web-2 emulates 1.32.0.",
        "2. web-2 1.32.0: Unproven The holder has an older emulation version. Whether it lives is unknown:",
        "If web-0 died now The Lease would expire 15 s after the last renewal.",
        "the controller would grant the Lease to web-2.",
        "by the Lease hustings-controller in namespace",
    ] {
        assert!(text.contains(sentence), "{sentence:?} is not in {text}");
    }
    assert!(!text.contains('\u{1b}'), "no terminal, no styles: {text:?}");

    let output = explain(&world, &[LEASE, UNTIL_RENEWED, "--output=json"]).await;
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
    let prospect = &explanation["prospect"];
    assert_eq!((&prospect["dead"], &prospect["successor"]), (&json!("web-0"), &json!("web-2")), "{explanation:#}");
    let predicted = Duration::from_secs_f64(prospect["afterSeconds"].as_f64().unwrap());
    assert!((Duration::from_secs(12)..Duration::from_secs(16)).contains(&predicted), "{predicted:?}");
    let died = Instant::now();
    drop(first);
    second.says("leading", 0).await;
    // The machine may be busy, so only an early successor is an error.
    assert!(died.elapsed() > predicted.saturating_sub(Duration::from_secs(4)), "{:?}", died.elapsed());
}

fn replica<Plane: Deref<Target = ControlPlane>>(world: &World<Plane>, name: &str, flags: &[&str]) -> Replica {
    let command = campaign(&world.plane.kubeconfig(), &world.namespace, LEASE, name, flags);
    Replica::start(&world.plane, &world.namespace, name, command)
}

async fn explain<Plane: Deref<Target = ControlPlane>>(world: &World<Plane>, arguments: &[&str]) -> Output {
    run(&world.plane.kubeconfig(), &world.namespace, arguments).await
}

async fn run(kubeconfig: &std::path::Path, namespace: &str, arguments: &[&str]) -> Output {
    let mut command = hustings();
    command.arg("explain").args(arguments).args(["--namespace", namespace]).arg("--kubeconfig").arg(kubeconfig);
    tokio::process::Command::from(command).output().await.unwrap()
}
