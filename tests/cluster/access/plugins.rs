//! Credential programs of processes that run for long, and of those that are stopped.

use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::stage::Stage;
use crate::replica::{Replica, campaign, hustings, until};

const V1: &str = "client.authentication.k8s.io/v1";

/// A kubeconfig file whose program appends a line to `starts` and then does what `body` says. `$ANSWER` prints the
/// administrator's token, valid for 24 s.
fn with_program(stage: &Stage, body: &str) -> std::path::PathBuf {
    let answer = format!(
        "printf '{{\"apiVersion\":\"{V1}\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"{}\",\"expirationTimestamp\":\"%s\"}}}}' \
         \"$(date -u -d '+24 seconds' +%Y-%m-%dT%H:%M:%SZ)\"",
        stage.admin_token
    );
    let folder = stage.folder.path().display();
    let command = stage.script("program", &format!("cd {folder}; echo $$ >> starts\nanswer() {{ {answer}; }}\n{body}"));
    let mut config = stage.base();
    config["users"][0]["user"] =
        json!({ "exec": { "apiVersion": V1, "command": command, "interactiveMode": "IfAvailable" } });
    stage.write("kubeconfig", &config.to_string())
}

fn starts(stage: &Stage) -> Vec<i32> {
    let starts = fs::read_to_string(stage.path("starts")).unwrap_or_default();
    starts.lines().map(|line| line.parse().unwrap()).collect()
}

fn is_gone(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status")).map_or(true, |text| text.contains("State:\tZ"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_slower_than_a_request_costs_no_term_while_the_former_token_is_valid() {
    let stage = Stage::new("slow-program").await;
    // The first run is fast. Each later one takes 7 s, longer than a term without a renewal. The refresh begins 8 s before
    // the end of the token.
    let kubeconfig = with_program(&stage, "[ -e ran ] && sleep 7\ntouch ran\nanswer");
    let flags = ["--direct", "--lease-duration=8s", "--renew-deadline=6500ms", "--retry-period=300ms"];
    let command = campaign(&kubeconfig, &stage.namespace, "work", "a", &flags);
    let replica = Replica::start(&stage.plane, &stage.namespace, "a", command);
    replica.says("leading", 0).await;
    until("the program ran three times", || replica.log(), async || (starts(&stage).len() >= 3).then_some(())).await;
    assert!(replica.leads() && replica.terms().len() == 1, "{}", replica.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_runs_the_program_once() {
    let stage = Stage::new("once").await;
    let kubeconfig = with_program(&stage, "answer");
    let environment = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
    for (count, arguments) in
        [&["status"][..], &["explain", "work"], &["history", "work"], &["check"], &["pause", "work"]]
            .into_iter()
            .enumerate()
    {
        let arguments = [arguments, &["--namespace", &stage.namespace]].concat();
        let output = stage.run(&arguments, &environment).await;
        assert_eq!(starts(&stage).len(), count + 1, "{arguments:?}: {output:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_a_start_that_hangs_in_the_program() {
    let stage = Stage::new("hanging").await;
    let kubeconfig = with_program(&stage, "sleep 1000");
    let of_lease = ["--lease=work", "--identity=a", "--direct"];
    for (arguments, is_graceful) in [
        (&["campaign"][..], true),
        (&["run"], true),
        (&["sidecar", "--admin-address=127.0.0.1:0", "--listen=127.0.0.1:0"], true),
        (&["controller", "--admin-address=127.0.0.1:0"], true),
        (&["status"], false),
    ] {
        let before = starts(&stage).len();
        let mut command = hustings();
        command.args(arguments).args(["--namespace", &stage.namespace]).env("KUBECONFIG", &kubeconfig);
        if !matches!(arguments[0], "controller" | "status") {
            command.args(of_lease);
        }
        if arguments[0] == "run" {
            command.args(["--", "true"]);
        }
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("the program runs", String::new, async || (starts(&stage).len() > before).then_some(())).await;
        let began = Instant::now();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = child.wait().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(began.elapsed() < Duration::from_mins(1), "{arguments:?}");
        assert_eq!(status.success(), is_graceful, "{arguments:?}: {status} {said}");
        if matches!(arguments[0], "controller" | "sidecar") {
            assert!(said.lines().last().is_some_and(|line| line.contains("stopped")), "{arguments:?}: {said}");
        }
        let program = *starts(&stage).last().unwrap();
        until("the program is gone", String::new, async || is_gone(program).then_some(())).await;
    }
}

#[test]
fn a_program_of_a_wrapper_keeps_its_exit_status_and_never_reads_the_input_of_the_command() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stage = runtime.block_on(Stage::new("input"));
    // While its child has the output, the client waits and does not reap the program that has ended.
    let kubeconfig = with_program(&stage, "cat > read\nanswer\nsleep 2 &");
    let mut command: Command = hustings();
    command.args(["run", "--lease=work", "--identity=a", "--direct", "--namespace", &stage.namespace]);
    command.args(["--", "cat"]).env("KUBECONFIG", &kubeconfig).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"for the command\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "for the command\n");
    assert_eq!(fs::read_to_string(stage.path("read")).unwrap(), "");
}
