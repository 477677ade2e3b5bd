//! `hustings campaign`: its lines, and how it ends.

use std::process::Stdio;

use hustings_controlplane::{by_env, shared};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::replica::{Replica, assert_one_at_a_time, campaign, lease, token, until};

/// A replica in direct mode needs only a Lease.
const DIRECT: [&str; 4] = ["--direct", "--lease-duration=60s", "--renew-deadline=50s", "--retry-period=300ms"];

#[tokio::test]
async fn each_change_is_a_complete_json_line_and_stopped_precedes_the_release() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("lines").await.unwrap();
    let start = |name: &str| {
        Replica::start(&plane, &namespace, name, campaign(&plane.kubeconfig(), &namespace, "work", name, &DIRECT))
    };
    let one = start("one");
    let leading = one.says("leading", 0).await;
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!((leading.identity.as_str(), leading.holder.as_deref()), ("one", Some("one")));
    assert_eq!(leading.term.map(u64::from), held["spec"]["leaseTransitions"].as_u64());
    assert_eq!(leading.token.unwrap().to_string(), token(&held));
    let two = start("two");
    assert_eq!(two.says("observed", 0).await.holder.as_deref(), Some("one"));

    assert_eq!(one.process.stop().await.unwrap().code(), Some(0), "{}", one.log());
    let events = |replica: &Replica| -> Vec<String> {
        let lines = replica.lines().into_iter().filter(|line| line.event != "observed");
        lines.map(|line| line.event).collect()
    };
    assert_eq!(events(&one), ["started", "leading", "stopped", "exiting"]);
    assert_eq!(one.says("stopped", 0).await.message, "stopping");
    two.says("leading", 0).await;
    let terms = assert_one_at_a_time(&[&one, &two], &[]);
    assert_eq!(terms.iter().map(|term| term.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);

    // Scripts rely on the fields, their order, and the form of the time.
    let log = one.log();
    let first = log.lines().find(|line| line.starts_with('{')).unwrap();
    let time = serde_json::from_str::<Value>(first).unwrap()["time"].as_str().unwrap().to_owned();
    assert_eq!((time.len(), &time[19..20], &time[26..]), ("2026-01-01T00:00:00.000000Z".len(), ".", "Z"), "{time}");
    assert_eq!(
        first,
        format!(
            r#"{{"time":"{time}","event":"started","identity":"one","holder":null,"term":null,"token":null,"message":""}}"#
        )
    );
}

#[tokio::test]
async fn a_key_file_that_changes_moves_the_lease_and_a_bad_one_does_not() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("key-file").await.unwrap();
    let folder = plane.folder().join(&namespace);
    std::fs::create_dir(&folder).unwrap();
    let start = |name: &str, key: &str| {
        let path = folder.join(name);
        std::fs::write(&path, key).unwrap();
        let flags = [&DIRECT[..], &["--key-file", path.to_str().unwrap()]].concat();
        let command = campaign(&plane.kubeconfig(), &namespace, "work", name, &flags);
        (path, Replica::start(&plane, &namespace, name, command))
    };
    let (first_key, first) = start("first", "5\n");
    first.says("leading", 0).await;
    let (second_key, second) = start("second", "");
    second.says("observed", 0).await;
    std::fs::write(&second_key, "7\n").unwrap();
    second.says("leading", 0).await;
    // A bad file leaves the last key in force.
    std::fs::write(&second_key, "high").unwrap();
    let text = "contains \\\"high\\\", which is not a whole number";
    until(text, || second.log(), async || second.log().contains(text).then_some(())).await;
    std::fs::write(&first_key, "6").unwrap();
    let taken = async || first.log().contains("the key has changed").then_some(());
    until("the first has a new key", || first.log(), taken).await;
    assert!(second.leads(), "{}", second.log());
    std::fs::write(&first_key, "8").unwrap();
    first.says("leading", 1).await;
    assert_one_at_a_time(&[&first, &second], &[]);
}

#[tokio::test]
async fn holder_whose_log_has_no_reader_continues_and_stops_gracefully() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("unlogged").await.unwrap();
    let mut command = Command::from(campaign(&plane.kubeconfig(), &namespace, "work", "one", &DIRECT));
    let mut one = command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    drop(one.stderr.take());
    let mut lines = BufReader::new(one.stdout.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().expect("it leads").contains("leading") {}
    kill_process(Pid::from_raw(one.id().unwrap().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let mut last = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        last = line;
    }
    assert!(last.contains("exiting"), "{last}");
    assert!(one.wait().await.unwrap().success());
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn closed_terminal_stops_it_gracefully_except_under_nohup() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("hang-up").await.unwrap();
    // As a terminal starts it, also if these tests themselves run under `nohup`; then as `nohup` starts it.
    let start = |name: &str, signal: &str| {
        let campaign = campaign(&plane.kubeconfig(), &namespace, "work", name, &DIRECT);
        Replica::start(&plane, &namespace, name, by_env(signal, &campaign))
    };
    let one = start("one", "--default-signal=HUP");
    one.says("leading", 0).await;
    one.process.signal(Signal::HUP).unwrap();
    one.says("exiting", 0).await;
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "", "{}", one.log());

    let two = start("two", "--ignore-signal=HUP");
    two.says("leading", 0).await;
    let renewed = async || lease(&plane, &namespace, "work").await["spec"]["renewTime"].clone();
    let before = renewed().await;
    two.process.signal(Signal::HUP).unwrap();
    until("it renews", || two.log(), async || (renewed().await != before).then_some(())).await;
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "two", "{}", two.log());
}

#[tokio::test]
async fn missing_namespace_is_reported_once() {
    let plane = shared().await.unwrap();
    let flags = [&DIRECT[..], &["--log-level=hustings_client=debug"]].concat();
    let one = Replica::start(&plane, "nowhere", "one", campaign(&plane.kubeconfig(), "nowhere", "work", "one", &flags));
    let tried = async || (one.log().matches("verb=\"create\"").count() > 2).then_some(());
    until("it tries again and again", || one.log(), tried).await;
    let reports = one.log().matches("cannot create: there is no such namespace").count();
    assert_eq!(reports, 1, "{}", one.log());
    assert!(one.process.stop().await.unwrap().success(), "{}", one.log());
}

#[tokio::test]
async fn second_process_of_one_identity_waits_and_reports_why() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("doubles").await.unwrap();
    let start = |process: &str| {
        Replica::start(&plane, &namespace, process, campaign(&plane.kubeconfig(), &namespace, "work", "one", &DIRECT))
    };
    let first = start("first");
    first.says("leading", 0).await;
    let second = start("second");
    let reason = "another process holds the Lease under this identity";
    until("it reports why", || second.log(), async || second.log().contains(reason).then_some(())).await;
    // While it stops, it may observe that the second process holds the Lease.
    assert_eq!(first.log().matches(reason).count(), 0, "{}", first.log());
    assert!(first.process.stop().await.unwrap().success(), "{}", first.log());
    second.says("leading", 0).await;
    assert_one_at_a_time(&[&first, &second], &[]);
}
