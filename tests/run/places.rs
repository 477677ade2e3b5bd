//! Where a wrapper may find itself: on a terminal, and as the first process of a container.

use std::path::Path;
use std::process::Command;

use hustings_controlplane::shared;

use crate::replica::until;
use crate::support::{DIRECT, Wrapper, children, command, holder, shell, signal, worker};

#[tokio::test]
async fn on_a_terminal_ctrl_c_ends_both_and_the_command_is_not_told_twice() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("terminal").await.unwrap();
    let wrapper =
        command(&plane.kubeconfig(), &namespace, "one", &[&DIRECT[..], &["--restart=always"]].concat(), worker(&[]));
    let one = Wrapper::spawn(&plane, &namespace, "one", on_a_terminal(&wrapper));
    assert_eq!(one.exit_code().await, Some(5), "{}", one.log());
    let heard: Vec<_> = one.lines().into_iter().filter(|line| line["event"] == "heard").collect();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["signal"], "SIGINT");
    assert_eq!(holder(&plane, &namespace).await, "");
}

#[tokio::test]
async fn as_the_first_process_it_reaps_what_others_leave_and_hears_signals() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("first").await.unwrap();
    let script = "[ $PPID = 1 ] && echo first; (sleep 0.1 & setsid sleep 0.1 &); sleep 60 & trap 'exit 3' TERM; wait";
    let wrapper = command(&plane.kubeconfig(), &namespace, "one", &DIRECT, shell(script));
    let mut contained = Command::new("unshare");
    contained.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    if !contained.arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("not tested: this machine lets nobody have a process namespace");
        return;
    }
    let mut contained = Command::new("unshare");
    contained.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    contained.arg(wrapper.get_program()).args(wrapper.get_args());
    let one = Wrapper::spawn(&plane, &namespace, "one", contained);
    until("it is the first", || one.log(), async || one.log().lines().any(|line| line == "first").then_some(())).await;
    let first = children(one.process.pid())[0].0;
    let only = async || (children(first).len() == 2).then_some(());
    until("the command and the guardian are left", || format!("{:?}", children(first)), only).await;
    signal(first, "TERM");
    assert_eq!(one.exit_code().await, Some(3), "{}", one.log());
    assert_eq!(holder(&plane, &namespace).await, "");
}

fn on_a_terminal(command: &Command) -> Command {
    let mut python = Command::new("python3");
    python.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/terminal.py"));
    python.arg(command.get_program()).args(command.get_args());
    python
}
