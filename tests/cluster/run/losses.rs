//! Involuntary ends: a wrapper that dies or freezes, and an API server that does not answer.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hustings_controlplane::{ControlPlane, shared};
use rustix::fs::{Mode, OFlags};

use super::support::{
    DIRECT, LEASE_DURATION, RENEW_DEADLINE_SECONDS, Wrapper, command, guardian, lives, now, number, shell, signal,
    time, worker,
};
use crate::replica::until;

#[tokio::test]
async fn when_the_wrapper_is_killed_every_process_of_the_command_dies() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("killed-wrapper").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["fork"]));
    let begins = one.says("begins", 0).await;
    // The second of them has left the group.
    let forked = [one.says("forked", 0).await, one.says("forked", 1).await].map(|line| number(&line["child"]));
    let folder = begins["environment"]["LEADER_VALID_UNTIL_FILE"].as_str().unwrap().to_owned();
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    one.process.kill().unwrap();
    let dead = async || (!lives(number(&begins["pid"])) && !forked.iter().any(|pid| lives(*pid))).then_some(());
    until("all are dead", || one.log(), dead).await;
    let begins = two.says("begins", 0).await;
    assert!(one.last_alive() < time(&begins), "{}\n{}", one.log(), two.log());
    assert!(!std::path::Path::new(&folder).parent().unwrap().exists(), "the guardian has cleared {folder} away");
}

#[tokio::test]
async fn when_the_guardian_is_gone_too_the_command_dies_with_the_wrapper() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("both-killed").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&[]));
    let command = number(&one.says("begins", 0).await["pid"]);
    // Before the next renewal restarts it.
    signal(guardian(&one), "KILL");
    one.process.kill().unwrap();
    let dead = async || (!lives(command)).then_some(());
    until("it is dead", || one.log(), dead).await;
}

#[tokio::test]
async fn guardian_that_is_gone_is_replaced_with_the_next_renewal() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("guardian").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["ignore"]));
    let command = number(&one.says("begins", 0).await["pid"]);
    let first = guardian(&one);
    signal(first, "KILL");
    one.logs("started a new one").await;
    assert_ne!(guardian(&one), first);
    assert!(lives(command));
    // The new guardian works, too.
    one.process.pause().unwrap();
    let dead = async || (!lives(command)).then_some(());
    until("it is dead", || one.log(), dead).await;
}

#[tokio::test]
async fn guardian_whose_log_nobody_reads_kills_the_command_of_a_frozen_wrapper() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("full-pipe").await.unwrap();
    let pipe = plane.folder().join(format!("{namespace}-stderr"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Open for both, so that no side waits for the other. If a program inherited it, the guardian would wait for ever.
    let pipe_end = rustix::fs::open(&pipe, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let wrapper = command(&plane.kubeconfig(), &namespace, "one", &DIRECT, worker(&["ignore"]));
    let mut redirected = Command::new("sh");
    redirected.args(["-c", r#"exec "$@" 2> "$STDERR""#, "sh"]).env("STDERR", &pipe);
    redirected.arg(wrapper.get_program()).args(wrapper.get_args());
    let one = Wrapper::spawn(&plane, &namespace, "one", redirected);
    let command = number(&one.says("begins", 0).await["pid"]);

    one.process.pause().unwrap();
    while rustix::io::write(&pipe_end, b"full ").is_ok() {}
    let dead = async || (!lives(command)).then_some(());
    until("it is dead", || one.log(), dead).await;
}

#[tokio::test]
async fn command_of_a_frozen_wrapper_is_dead_before_another_leads_and_the_resumed_wrapper_stands_again() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("frozen").await.unwrap();
    let one = Wrapper::start(&plane, &namespace, "one", &[], worker(&["ignore"]));
    let command = number(&one.says("begins", 0).await["pid"]);
    let two = Wrapper::start(&plane, &namespace, "two", &[], worker(&[]));
    two.logs("standing").await;
    one.process.pause().unwrap();
    let frozen = now();
    let begins = two.says("begins", 0).await;
    // A process that still lives has not written its last line.
    assert!(!lives(command), "{}\n{}", one.log(), two.log());
    assert!(one.last_alive() < time(&begins), "{}\n{}", one.log(), two.log());
    let went_on = one.last_alive() - frozen;
    assert!(went_on < LEASE_DURATION.as_secs_f64(), "{went_on} s");
    one.process.resume().unwrap();
    one.logs("the command ended").await;
    two.process.stop().await.unwrap();
    let again = one.says("begins", 1).await;
    assert!(two.last_alive() < time(&again), "{}\n{}", one.log(), two.log());
}

/// A wrapper whose term has begun, and that writes to this pipe without a reader before it starts the command.
async fn blocked_before_the_start(plane: &ControlPlane, namespace: &str) -> (Wrapper, PathBuf) {
    let one = Wrapper::start(plane, namespace, "one", &[], worker(&[]));
    one.says("begins", 0).await;
    let folder = plane.folder().join(namespace);
    fs::create_dir(&folder).unwrap();
    let mut late = command(&plane.kubeconfig(), namespace, "late", &DIRECT, worker(&[]));
    late.env("TMPDIR", &folder);
    let late = Wrapper::spawn(plane, namespace, "late", late);
    late.logs("standing").await;
    let pipe = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path().join("valid-until.new");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    one.process.stop().await.unwrap();
    late.logs("term began").await;
    (late, pipe)
}

/// Its elector renews for a while, so the term goes on when the wrapper counts it as lost.
#[tokio::test]
async fn wrapper_that_was_stuck_gives_its_term_up_and_stands_again() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stuck").await.unwrap();
    let (late, pipe) = blocked_before_the_start(&plane, &namespace).await;
    tokio::time::sleep(Duration::from_secs_f64(RENEW_DEADLINE_SECONDS + 1.0)).await;
    let mut reader = Command::new("cat").arg(&pipe).spawn().unwrap();
    late.says("begins", 0).await;
    reader.wait().unwrap();
    assert!(late.log().contains("the term ended before the command was started"), "{}", late.log());
}

#[tokio::test]
async fn wrapper_frozen_before_the_start_starts_no_command_after_its_term() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("late-start").await.unwrap();
    let (late, pipe) = blocked_before_the_start(&plane, &namespace).await;
    let three = Wrapper::start(&plane, &namespace, "three", &[], worker(&[]));
    three.logs("standing").await;
    late.process.pause().unwrap();
    let begins = three.says("begins", 0).await;

    late.process.resume().unwrap();
    let mut reader = Command::new("cat").arg(&pipe).spawn().unwrap();
    let goes_on = ["the term ended before the command was started", "started the command"];
    let went_on = async || goes_on.iter().any(|text| late.log().contains(text)).then_some(());
    until("it continues", || late.log(), went_on).await;
    reader.wait().unwrap();
    assert!(late.log().contains(goes_on[0]), "{} {}", time(&begins), late.log());
    assert!(lives(number(&begins["pid"])), "{}", three.log());
    three.process.stop().await.unwrap();
    // The wrapper stands again, and its next term is like any other.
    let begins = late.says("begins", 0).await;
    assert!(three.last_alive() < time(&begins), "{}\n{}", three.log(), late.log());
}

/// The guardian would kill the group 150 ms later, so the test freezes it.
#[tokio::test]
async fn when_renewals_fail_the_wrapper_kills_the_whole_group_before_another_can_lead() {
    let plane = shared().await.unwrap();
    let (link, kubeconfig) = plane.link().unwrap();
    let namespace = plane.create_namespace("outage").await.unwrap();
    // Two workers that ignore the stop signal. Both are in the shell's group, and the shell waits for one.
    let stubborn = worker(&["ignore"]).join(" ");
    // 15 s remain before another replica could hold the Lease.
    let times = ["--direct", "--lease-duration=20s", "--renew-deadline=4s", "--retry-period=300ms", "--lost-grace=1s"];
    let both = shell(&format!("{stubborn} & exec {stubborn}"));
    let one = Wrapper::spawn(&plane, &namespace, "one", command(&kubeconfig, &namespace, "one", &times, both));
    let begin = [one.says("begins", 0).await, one.says("begins", 1).await];
    let commands = begin.each_ref().map(|line| number(&line["pid"]));
    let guardian = Frozen::new(guardian(&one));
    until("the guardian is frozen", || one.log(), async || guardian.stands_still().then_some(())).await;
    let held = now();
    link.hold();
    one.logs("the command ended").await;
    let went_on = one.last_alive() - held;
    // The last renewal was sent at most a jittered retry period and a round trip before the hold.
    assert!((1.0..19.0).contains(&went_on), "{went_on} s\n{}", one.log());
    let dead = async || (!commands.iter().any(|pid| lives(*pid))).then_some(());
    until("both are dead", || one.log(), dead).await;
    assert!(guardian.stands_still(), "{}", one.log());
    assert!(one.log().contains("did not stop in time"), "{}", one.log());
    for index in 0..commands.len() {
        assert_eq!(one.says("received", index).await["signal"], "SIGTERM");
    }
    assert!(one.log().contains("the Lease is lost"), "{}", one.log());
    drop(guardian);
    link.release();
    one.says("begins", 2).await;

    // A command that stops on the signal is not killed: the long lease gives it time on a busy machine. With
    // --exit-on-loss the wrapper exits.
    one.process.kill().unwrap();
    let patient = ["--direct", "--lease-duration=60s", "--renew-deadline=4s", "--retry-period=300ms", "--exit-on-loss"];
    let two = command(&kubeconfig, &namespace, "two", &patient, worker(&[]));
    let two = Wrapper::spawn(&plane, &namespace, "two", two);
    two.says("begins", 0).await;
    link.hold();
    assert_eq!(two.exit_code().await, Some(79), "{}", two.log());
    two.says("ends", 0).await;
    assert!(!two.log().contains("did not stop in time"), "{}", two.log());
}

#[tokio::test]
async fn restarted_container_takes_its_lease_back_unless_a_process_of_the_command_still_lives() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("restarts").await.unwrap();
    let command_line = worker(&[]).join(" ");
    // It leaves the group and clears its environment, so that no search finds it. Its open files stay open.
    let leaves = format!("env -i setsid sh -c 'echo left $$; exec sleep 60' & exec {command_line}");
    for (name, wrapped, is_at_once) in [("clean", worker(&[]), true), ("leaves", shell(&leaves), false)] {
        let mut command = command(&plane.kubeconfig(), &namespace, name, &DIRECT, wrapped);
        let uid = format!("{namespace}-{name}-{}", std::process::id());
        command.envs([("POD_UID", uid.as_str()), ("POD_NAME", name), ("CONTAINER_NAME", "main")]);
        let one = Wrapper::spawn(&plane, &namespace, name, command);
        let begins = one.says("begins", 0).await;
        if !is_at_once {
            one.logs("left").await;
        }
        // The guardian has the container's lock as well, and outlives the command that it kills by some milliseconds.
        let guardian = guardian(&one);
        one.process.kill().unwrap();
        let dead = async || (!lives(number(&begins["pid"])) && !lives(guardian)).then_some(());
        until("the command and the guardian are dead", || one.log(), dead).await;
        let killed = now();
        one.process.start().unwrap();
        let waited = time(&one.says("begins", 1).await) - killed;
        assert_eq!(waited < LEASE_DURATION.as_secs_f64() - 1.5, is_at_once, "{name} {waited} s\n{}", one.log());
        assert_eq!(one.process.stop().await.unwrap().code(), Some(5), "{}", one.log());
        for line in one.log().lines() {
            if let Some(pid) = line.strip_prefix("left ").map(|pid| pid.parse().unwrap()).filter(|pid| lives(*pid)) {
                signal(pid, "KILL");
            }
        }
    }
}

/// A guardian that is frozen until this value is dropped, also when the test fails. It then kills the remaining processes.
struct Frozen(u32);

impl Frozen {
    fn new(guardian: u32) -> Self {
        signal(guardian, "STOP");
        Self(guardian)
    }

    fn stands_still(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal(self.0, "CONT");
    }
}
