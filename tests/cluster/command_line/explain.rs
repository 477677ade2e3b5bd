//! `hustings explain` on a real API server: its prediction against what then happens, and input that it cannot explain.

use std::ops::Deref;
use std::process::Output;
use std::time::{Duration, Instant};

use hustings_controlplane::ControlPlane;
use serde_json::{Value, json};

use super::said;
use crate::controller::support::{World, eventually};
use crate::replica::{Replica, campaign, hustings};

const LEASE: &str = "web";

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
        has_status(&world, name).await;
    }

    let text = explain(&world, &[LEASE]).await;
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

    let output = explain(&world, &[LEASE, "--output=json"]).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn without_a_holder_the_exit_code_is_1_and_the_sentences_say_what_happens_next() {
    let world = World::new("explain-nobody").await;
    world.stand("web-0", json!({ "leaseName": LEASE, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" })).await;
    let output = explain(&world, &[LEASE]).await;
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Nobody leads: the Lease does not exist. It has 1 candidate."), "{}", said(&output));
    assert!(said(&output).contains("What happens next"), "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_in_direct_mode_is_explained_without_a_controller() {
    let world = World::new("explain-direct").await;
    let leader = replica(&world, "web-0", &["--direct"]);
    leader.says("leading", 0).await;
    let output = explain(&world, &[LEASE]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = said(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Its replicas elect among themselves (direct mode)"), "{text}");
    assert!(text.contains("so this command cannot name that one"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_cannot_be_explained_is_an_error_with_a_hint() {
    let world = World::new("explain-errors").await;
    let leader = replica(&world, "web-0", &["--direct"]);
    leader.says("leading", 0).await;
    for (arguments, message, hint) in [
        (&["wbe"][..], "Lease \"wbe\" does not exist", "did you mean \"web\"?"),
        (&["Web"], "is not a valid DNS subdomain", "use lower-case letters"),
        (&["web", "--watch-for=2h"], "is longer than", "use 3600s or less"),
        (&["web", "-o", "yaml"], "is not an output format", "use text or json"),
    ] {
        let output = explain(&world, arguments).await;
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(output.stdout.is_empty(), "{}", said(&output));
        assert!(said(&output).contains(message) && said(&output).contains(hint), "{}", said(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_read_the_election_only_gets_the_rest_as_unknown() {
    let world = World::new("explain-viewer").await;
    let leader = replica(&world, "web-0", &["--direct"]);
    leader.says("leading", 0).await;
    let namespace = format!("--namespace={}", world.namespace);
    let account = format!("--serviceaccount={}:viewer", world.namespace);
    for arguments in [
        ["role", "viewer", "--verb=list", "--resource=leases,leasecandidates.hustings.io"],
        ["rolebinding", "viewer", "--role=viewer", &account],
    ] {
        let output = world.plane.kubectl(["create", &namespace].iter().chain(&arguments)).await.unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    let mut accounts = Vec::new();
    for name in ["viewer", "nobody"] {
        world.plane.create_service_account(&world.namespace, name).await.unwrap();
        accounts.push(world.plane.kubeconfig_for_service_account(&world.namespace, name).await.unwrap());
    }
    let [viewer, nobody] = &accounts[..] else { unreachable!() };
    let output = run(viewer, &world.namespace, &[LEASE]).await;
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("so it lives"), "{}", said(&output));
    let output = run(nobody, &world.namespace, &[LEASE]).await;
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("hint: bind the ClusterRole hustings-view"), "{}", said(&output));
}

/// Waits until the controller has shown in the status that it knows this candidate.
async fn has_status(world: &World, name: &str) {
    eventually(&format!("{name} has a status"), || async {
        let candidate = world.candidate(name).await.ok_or("no candidate")?;
        candidate.record.status.state.map(drop).ok_or("no status")
    })
    .await;
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
