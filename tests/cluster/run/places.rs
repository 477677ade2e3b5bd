//! A wrapper on a terminal, and as the first process of a container.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use hustings_controlplane::{ControlPlane, shared};
use serde_json::Value;

use super::support::{
    DIRECT, Wrapper, children, command, holder, in_namespaces, lives, now, number, shell, signal, time, worker,
};
use crate::replica::{hustings, until};

#[tokio::test]
async fn on_a_terminal_ctrl_c_ends_both_and_the_command_gets_one_signal() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("terminal").await.unwrap();
    let one = on_a_terminal(&plane, &namespace, worker(&[]));
    one.says("begins", 0).await;
    one.signal("INT");
    assert_eq!(one.exit_code().await, Some(5), "{}", one.log());
    let received: Vec<_> = one.lines().into_iter().filter(|line| line["event"] == "received").collect();
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0]["signal"], "SIGINT");
    assert_eq!(holder(&plane, &namespace).await, "");
}

#[tokio::test]
async fn on_a_terminal_ctrl_z_stops_both_and_fg_continues_a_term_that_still_lasts() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("job").await.unwrap();
    let one = on_a_terminal(&plane, &namespace, worker(&[]));
    let pid = number(&one.says("begins", 0).await["pid"]);
    one.signal("TSTP");
    one.logs("[stopped]").await;
    let beats = one.lines().len();
    one.signal("CONT");
    let goes_on = async || (one.lines().len() > beats + 20).then_some(());
    until("it continues", || one.log(), goes_on).await;
    assert!(one.lines().iter().all(|line| line["pid"] == pid), "one term, and one command\n{}", one.log());

    // A wrapper that is stopped for longer than the lease loses it. The command is killed while it is stopped.
    one.signal("TSTP");
    let stopped_again = async || (one.log().matches("[stopped]").count() == 2).then_some(());
    until("it is stopped again", || one.log(), stopped_again).await;
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    let succeeds = two.says("begins", 0).await;
    assert!(!lives(pid), "{}", one.log());
    assert!(one.last_alive() < time(&succeeds), "{}\n{}", one.log(), two.log());
    one.signal("CONT");
    one.logs("the command ended").await;
    assert_eq!(holder(&plane, &namespace).await, "two", "{}\n{}", one.log(), two.log());
    two.process.stop().await.unwrap();
    assert_ne!(number(&one.says("begins", 1).await["pid"]), pid);
    one.signal("INT");
    assert_eq!(one.exit_code().await, Some(5), "{}", one.log());
}

#[tokio::test]
async fn on_a_terminal_orphans_are_reaped_and_leftover_processes_are_killed() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("left-behind").await.unwrap();
    let script = "for n in $(seq 60); do sh -c 'sleep 0.05 &'; sleep 0.1; done; echo $PPID; read line < /dev/tty; \
                  sleep 1000 & exit 0";
    let one = on_a_terminal(&plane, &namespace, shell(script));
    let wrapper = async || one.log().lines().find_map(|line| line.parse().ok());
    let wrapper = until("all children are orphans", || one.log(), wrapper).await;
    let zombies = children(wrapper).iter().filter(|(_, state, _)| *state == 'Z').count();
    assert!(zombies < 40, "{zombies} of 60 are not reaped");
    // Any line lets it continue.
    one.signal("CONT");
    one.logs("gave the Lease up").await;
    one.logs("the command ended and will be started again").await;
}

#[tokio::test]
async fn closed_terminal_stops_both_gracefully_although_the_log_has_no_reader() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("hang-up").await.unwrap();
    let received = plane.folder().join(&namespace);
    let script = format!(
        "trap 'echo HUP >> {0}' HUP; trap 'echo TERM >> {0}; exit' TERM; echo $PPID > {0}; echo [ready]; \
         while :; do sleep 0.1; done",
        received.display()
    );
    let one = on_a_terminal(&plane, &namespace, shell(&script));
    one.logs("[ready]").await;
    one.signal("HUP");
    let released = async || holder(&plane, &namespace).await.is_empty().then_some(());
    let received = || fs::read_to_string(&received).unwrap();
    until("it releases the Lease", received, released).await;
    let received = received();
    let (wrapper, signals) = received.split_once('\n').unwrap();
    assert_eq!(signals, "HUP\nTERM\n");
    let wrapper = wrapper.parse().unwrap();
    until("the wrapper ends", String::new, async || (!lives(wrapper)).then_some(())).await;
}

#[tokio::test]
async fn as_process_1_it_reaps_orphans_and_receives_signals() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("first").await.unwrap();
    let script = "trap 'exit 3' TERM; (sleep 0.1 & setsid sleep 0.1 &); sleep 60 & [ $PPID = 1 ] && echo first; wait";
    let wrapper = command(&plane.kubeconfig(), &namespace, "one", &DIRECT, shell(script));
    let Some(mut contained) = in_namespaces(&["--mount-proc"]) else { return };
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

#[test]
fn wrapper_that_lists_processes_of_another_namespace_ends_with_a_hint() {
    let Some(contained) = in_namespaces(&[]) else { return };
    let wrapper = ["run", "--lease=l", "--identity=a", "--leader-elect=false", "--", "echo", "started"];
    let mut bounded = Command::new("timeout");
    bounded.args(["--signal=KILL", "60"]).arg(contained.get_program()).args(contained.get_args());
    let output = bounded.arg(hustings().get_program()).args(wrapper).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hint: mount /proc for the process namespace"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn on_a_terminal_a_command_gets_the_stop_signal_at_once_and_after_an_int_later() {
    // Ctrl-C would have reached the command, too.
    for (name, is_delayed) in [("INT", true), ("TERM", false)] {
        let mut terminal = Command::new("timeout");
        terminal.args(["--signal=KILL", "60", "python3"]);
        terminal.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/run/terminal.py"));
        terminal.arg(hustings().get_program());
        terminal.args(["run", "--lease=l", "--identity=a", "--leader-elect=false", "--"]).args(worker(&[]));
        let mut terminal = terminal.stdout(Stdio::piped()).spawn().unwrap();
        let (mut sent, mut received, mut log) = (0.0, Vec::new(), Vec::new());
        for line in BufReader::new(terminal.stdout.take().unwrap()).lines().map_while(Result::ok) {
            // The wrapper's log is on the same terminal.
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            match event["event"].as_str() {
                Some("begins") => {
                    sent = now();
                    signal(parent(number(&event["pid"])), name);
                }
                Some("received") => received.push((event["signal"].clone(), time(&event) - sent)),
                _ => {}
            }
            log.push(line);
        }
        let [(received, after)] = &received[..] else { panic!("{name}: {log:?}") };
        assert_eq!(received, "SIGTERM", "{name}");
        assert_eq!(*after > 4.5, is_delayed, "{name}: {after} s: {log:?}");
        assert_eq!(terminal.wait().unwrap().code(), Some(5), "{log:?}");
    }
}

/// A wrapper on a terminal. Signals stand for the keys that a person presses there: see `terminal.py`.
fn on_a_terminal(plane: &ControlPlane, namespace: &str, wrapped: Vec<String>) -> Wrapper {
    let flags = [&DIRECT[..], &["--restart=always"]].concat();
    let run = command(&plane.kubeconfig(), namespace, "one", &flags, wrapped);
    let mut terminal = Command::new("python3");
    terminal.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/run/terminal.py"));
    terminal.arg(run.get_program()).args(run.get_args());
    Wrapper::spawn(plane, namespace, "one", terminal)
}

fn parent(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(')').unwrap();
    after_name.split_whitespace().nth(1).unwrap().parse().unwrap()
}
