//! Long-running commands whose output is a pipe that nobody reads any more.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hustings_controlplane::{PATIENCE, shared};
use rustix::io::ioctl_fionbio;

use crate::controller::support::World;
use crate::replica::{Replica, campaign, hustings, lease, until, until_within};
use crate::run::support::{command, lives, shell, signal};
use crate::sidecar::beside;

/// Without a controller, and so long that a Lease that changes its holder was given up, and has not expired.
const LONG: [&str; 4] = ["--direct", "--lease-duration=3m", "--renew-deadline=2m", "--retry-period=300ms"];

/// Without a controller, and so short that a Lease expires during the test.
const SHORT: [&str; 4] = ["--direct", "--lease-duration=6s", "--renew-deadline=4s", "--retry-period=300ms"];

/// A process, and the pipe of one of its outputs. Dropping this value kills it.
struct Unread {
    child: Child,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Unread {
    /// Starts a process whose standard error is the pipe.
    fn start(mut command: Command) -> Self {
        let (reader, writer) = io::pipe().unwrap();
        command.stderr(writer.try_clone().unwrap()).stdout(Stdio::null()).stdin(Stdio::null());
        Self { child: command.spawn().unwrap(), reader, writer }
    }

    /// Starts a process whose standard output is the pipe.
    fn start_printing(mut command: Command) -> Self {
        let (reader, writer) = io::pipe().unwrap();
        command.stdout(writer.try_clone().unwrap()).stderr(Stdio::null()).stdin(Stdio::null());
        Self { child: command.spawn().unwrap(), reader, writer }
    }

    /// Fills the pipe. From then on, a write to it blocks.
    fn fill(&mut self) {
        // The flag belongs to the pipe, which the process shares, so it is set only for the moment.
        ioctl_fionbio(&self.writer, true).unwrap();
        for block in [&[b'.'; 4096][..], b"."] {
            while self.writer.write(block).is_ok() {}
        }
        ioctl_fionbio(&self.writer, false).unwrap();
    }

    /// Waits until the process has ended, and returns its exit code and what it wrote since the pipe was full.
    async fn ends(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it does not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        (code, self.read())
    }

    fn read(&mut self) -> String {
        ioctl_fionbio(&self.reader, true).unwrap();
        let mut read = Vec::new();
        let _ = self.reader.read_to_end(&mut read);
        ioctl_fionbio(&self.reader, false).unwrap();
        String::from_utf8_lossy(&read).into_owned()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn wrapper_whose_log_nobody_reads_releases_the_lease_when_its_command_dies() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stalled-run").await.unwrap();
    let file = plane.folder().join(&namespace);
    let script = shell(&format!("echo $$ > {}; exec sleep 1000", file.display()));
    let mut one = Unread::start(command(&plane.kubeconfig(), &namespace, "one", &LONG, script));
    let pid = async || fs::read_to_string(&file).ok()?.trim().parse().ok();
    let pid: u32 = until("the command runs", String::new, pid).await;
    one.fill();
    let two =
        Replica::start(&plane, &namespace, "two", campaign(&plane.kubeconfig(), &namespace, "work", "two", &LONG));
    two.says("observed", 0).await;
    signal(pid, "KILL");
    two.says("leading", 0).await;
    let (code, _) = one.ends().await;
    assert_eq!(code, Some(137));
    assert!(!lives(pid));
}

#[tokio::test]
async fn sidecar_whose_log_nobody_reads_answers_and_stops() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stalled-sidecar").await.unwrap();
    let mut one = Unread::start(beside::command(&plane.kubeconfig(), &namespace, "one", &LONG));
    one.fill();
    let holder = async || {
        let holder = lease(&plane, &namespace, "work").await["spec"]["holderIdentity"].clone();
        Some(holder).filter(|holder| holder == "one").map(drop)
    };
    until("it leads", String::new, holder).await;
    signal(one.child.id(), "TERM");
    assert_eq!(one.ends().await.0, Some(0));
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn controller_whose_log_nobody_reads_elects() {
    let world = World::new("stalled-controller").await;
    let (plane, namespace) = (&world.plane, &world.namespace);
    let mut controller = hustings();
    controller.args(["controller", "--admin-address=127.0.0.1:0", "--watch-namespaces", namespace]);
    controller.args(["--namespace", namespace, "--kubeconfig"]).arg(plane.kubeconfig()).env("POD_NAME", "one");
    let mut controller = Unread::start(controller);
    let own = async || {
        let own = lease(plane, namespace, "hustings-controller").await;
        (own["spec"]["holderIdentity"] == "one").then_some(())
    };
    until("it leads", String::new, own).await;
    controller.fill();
    for name in ["a", "b"] {
        let flags = ["--binary-version=1.0.0", "--fallback=false"];
        let replica =
            Replica::start(plane, namespace, name, campaign(&plane.kubeconfig(), namespace, name, name, &flags));
        replica.says("leading", 0).await;
    }
    signal(controller.child.id(), "TERM");
    assert_eq!(controller.ends().await.0, Some(0));
}

#[tokio::test]
async fn campaign_whose_lines_nobody_reads_lets_the_lease_expire_and_says_so_when_they_are_read() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stalled-campaign").await.unwrap();
    let start = |name| campaign(&plane.kubeconfig(), &namespace, "work", name, &SHORT);
    let mut one = Unread::start_printing(start("one"));
    let leads = async || {
        let holder = lease(&plane, &namespace, "work").await["spec"]["holderIdentity"].clone();
        (holder == "one").then_some(())
    };
    until("it leads", String::new, leads).await;
    one.fill();
    let two = Replica::start(&plane, &namespace, "two", start("two"));
    until_within(Duration::from_mins(1), "the Lease expires", || two.log(), async || two.leads().then_some(())).await;
    // The lines go on as soon as there is room for them.
    let (mut lines, began) = (one.read(), Instant::now());
    let (before, after) = loop {
        if let Some((before, after)) = lines.split_once(r#""event":"stopped""#) {
            break (before, after);
        }
        assert!(began.elapsed() < PATIENCE, "{lines}");
        tokio::time::sleep(Duration::from_millis(20)).await;
        lines += &one.read();
    };
    let leading = r#""event":"leading""#;
    assert!(before.contains(leading) && !after.contains(leading), "{lines}");
    one.fill();
    signal(one.child.id(), "TERM");
    assert_eq!(one.ends().await.0, Some(1), "it cannot write the last line");
}

/// What a shell started is in its group, and nothing else knows it when the wrapper dies.
#[tokio::test]
async fn wrapper_that_dies_at_the_first_instruction_of_its_command_leaves_no_process_behind() {
    let rounds: u32 = std::env::var("HUSTINGS_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    let mark = std::process::id();
    for round in 0..rounds {
        let script = format!("kill -KILL $PPID; sleep 1000.{mark}{round:04}");
        let mut wrapper = hustings();
        wrapper.args(["run", "--lease=l", "--identity=a", "--leader-elect=false", "--", "sh", "-c", &script]);
        wrapper.stderr(Stdio::null()).stdin(Stdio::null()).status().unwrap();
    }
    let left = async || {
        let listed = Command::new("ps").args(["-eo", "args"]).output().unwrap().stdout;
        let left = String::from_utf8_lossy(&listed).matches(&format!("sleep 1000.{mark}")).count();
        (left == 0).then_some(())
    };
    until("no process is left", String::new, left).await;
}
