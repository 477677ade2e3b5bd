//! `examples/functions.rs`: the functions of a term start together. All have stopped before another replica leads, both
//! after a stop and after one of them fails.

use std::process::Command;

use hustings_controlplane::{Process, shared};

use super::example::example;
use crate::replica::until;

#[tokio::test]
async fn functions_run_in_each_term_and_after_a_failure_another_replica_leads() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("functions").await.unwrap();
    let kubeconfig = plane.kubeconfig_in(&namespace).unwrap();
    let example = example("functions");
    let start = |name: &str, arguments: &[&str]| -> Process {
        let mut command = Command::new(&example);
        command.arg(name).args(arguments).env("KUBECONFIG", &kubeconfig).env("RUST_LOG", "info");
        plane.spawn(&format!("{namespace}-{name}"), command).unwrap()
    };
    let failing = start("failing", &["20"]);
    for line in ["failing leads", "reconciling, token ", "reporting, token ", "a function failed; the term continues"] {
        says(&failing, line).await;
    }
    let steady = start("steady", &[]);
    says(&steady, "failing leads").await;

    says(&failing, "a function failed; the term is given up").await;
    says(&steady, "reconciling, token ").await;
    assert!(!log(&failing).contains("term lost"), "it was given up, and not lost: {}", log(&failing));
    says(&failing, "steady leads").await;

    // It stands aside for 5 s, and may then lead again.
    assert!(steady.stop().await.unwrap().success());
    let text = log(&steady);
    let position = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line:?} is not in\n{text}"));
    assert!(position("reconciling no more") < position("released"), "{text}");
    let again = async || (log(&failing).matches("reconciling, token ").count() == 2).then_some(());
    until("it leads again", || log(&failing), again).await;
}

async fn says(process: &Process, line: &str) {
    until(&format!("{line:?}"), || log(process), async || log(process).contains(line).then_some(())).await;
}

fn log(process: &Process) -> String {
    std::fs::read_to_string(process.log()).unwrap()
}
