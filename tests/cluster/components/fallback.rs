//! No controller runs for a long time, and then one starts again. Elections continue with the rights that every
//! component has, and `hustings explain` predicts them.

use std::time::Duration;

use hustings_controlplane::ControlPlane;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::replica::{Replica, assert_one_at_a_time, campaign, candidate_account, hustings, install, lease};

const TIMES: [&str; 3] = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];

#[tokio::test(flavor = "multi_thread")]
async fn candidates_elect_among_themselves_only_while_there_is_no_controller() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let controller = install(&plane).await;
    let namespace = plane.create_namespace("fallback").await.unwrap();
    let kubeconfig = candidate_account(&plane, &namespace, "web").await;
    let start = |name: &str, version: &str, times: &[&str]| {
        let flags = [&["--binary-version", version], times].concat();
        Replica::start(&plane, &namespace, name, campaign(&kubeconfig, &namespace, "web", name, &flags))
    };
    let best = start("best", "1.1.0", &TIMES);
    best.says("leading", 0).await;
    // It holds the Lease until the controller runs again.
    let second = start("second", "1.2.0", &["--lease-duration=60s", "--renew-deadline=50s", "--retry-period=500ms"]);
    second.says("observed", 0).await;
    // The better of the two is not the first by name.
    let least = start("least", "1.3.0", &TIMES);
    least.says("observed", 0).await;

    controller.kill().unwrap();
    let prospect = prospect(&plane, &namespace).await;
    assert_eq!((&prospect["dead"], &prospect["successor"]), (&json!("best"), &json!("second")), "{prospect:#}");
    let predicted = Duration::from_secs_f64(prospect["afterSeconds"].as_f64().unwrap());
    assert!((Duration::from_secs(30)..Duration::from_secs(40)).contains(&predicted), "{predicted:?}");
    // The order of the candidates is a preference: on a busy machine the worse one may come first.
    least.process.pause().unwrap();
    best.process.kill().unwrap();
    let killed = Timestamp::now();
    let led = second.says("leading", 0).await.time;
    least.process.resume().unwrap();
    // The machine may be busy, so only an early successor is an error.
    let leaderless = Duration::try_from(led.duration_since(killed)).unwrap();
    assert!(leaderless > predicted.saturating_sub(Duration::from_secs(5)), "{leaderless:?} instead of {predicted:?}");
    let held = lease(&plane, &namespace, "web").await;
    assert_eq!(held["spec"]["holderIdentity"], "second");

    // The controller elects again, and asks the holder to hand over to the better candidate.
    controller.start().unwrap();
    best.process.start().unwrap();
    best.says("leading", 1).await;
    assert_eq!(second.says("stopped", 0).await.message, "handing over");

    // The kill ends the best candidate's first term; its second term lasts.
    let first = best.terms().remove(0);
    assert!(first.from < killed && first.token < second.terms()[0].token);
    let others = assert_one_at_a_time(&[&second, &least], &[]);
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(killed <= others[0].from && others[0].until.unwrap() <= best.terms()[1].from);
}

/// What `hustings explain` predicts for the death of the holder.
async fn prospect(plane: &ControlPlane, namespace: &str) -> Value {
    let mut command = hustings();
    command.args(["explain", "web", "--output=json", "--namespace", namespace, "--kubeconfig"]);
    let output = tokio::process::Command::from(command).arg(plane.kubeconfig()).output().await.unwrap();
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
    explanation["prospect"].clone()
}
