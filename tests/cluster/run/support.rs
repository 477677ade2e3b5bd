//! Wrappers as processes, and the reports of the commands that they wrap.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hustings_controlplane::{ControlPlane, PATIENCE, Process, by_env};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::replica::{hustings, json_lines, lease, until};

/// Without a controller, and with times that outlast a short stall of the machine. The validity ends four seconds
/// before the Lease.
pub(crate) const DIRECT: [&str; 4] =
    ["--direct", "--lease-duration=20s", "--renew-deadline=16s", "--retry-period=300ms"];

/// The renew deadline of `DIRECT`, in seconds.
pub(crate) const RENEW_DEADLINE_SECONDS: f64 = 16.0;

/// The lease duration of `DIRECT`.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(20);

/// A wrapper. Dropping this value kills it.
pub(crate) struct Wrapper {
    pub(crate) name: String,
    pub(crate) process: Process,
    /// Removes what a killed wrapper and guardian leave behind.
    _files: TempDir,
}

/// The command that reports its events.
pub(crate) fn worker(arguments: &[&str]) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster/run/worker.py");
    let mut command = vec!["python3".to_owned(), path.to_str().unwrap().to_owned()];
    command.extend(arguments.iter().map(ToString::to_string));
    command
}

/// A command for a shell.
pub(crate) fn shell(script: &str) -> Vec<String> {
    ["sh", "-c", script].map(str::to_owned).to_vec()
}

impl Wrapper {
    /// Starts `hustings run` for the Lease `work`, in direct mode.
    pub(crate) fn start(
        plane: &ControlPlane,
        namespace: &str,
        name: &str,
        flags: &[&str],
        wrapped: Vec<String>,
    ) -> Self {
        let flags = [&DIRECT, flags].concat();
        let command = command(&plane.kubeconfig(), namespace, name, &flags, wrapped);
        Self::spawn(plane, namespace, name, by_env("--default-signal=HUP", &command))
    }

    pub(crate) fn spawn(plane: &ControlPlane, namespace: &str, name: &str, mut command: Command) -> Self {
        let files = tempfile::tempdir_in("/dev/shm").unwrap();
        if command.get_envs().all(|(name, _)| name != "TMPDIR") {
            command.env("TMPDIR", files.path());
        }
        let process = plane.spawn(&format!("{namespace}-{name}"), command).unwrap();
        Self { name: name.to_owned(), process, _files: files }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }

    /// The lines of its command so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let log = self.log();
        let objects = json_lines(&log).filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // The lines of the wrapper's own log have no such time.
        objects.filter(|line| line["time"].is_f64()).collect()
    }

    /// Waits for the next line of its command about `event`, after the first `after` such lines.
    pub(crate) async fn says(&self, event: &str, after: usize) -> Value {
        let found = || self.lines().into_iter().filter(|line| line["event"] == event).nth(after);
        until(&format!("{}'s command {event}", self.name), || self.log(), async || found()).await
    }

    /// Waits for something in its log.
    pub(crate) async fn logs(&self, text: &str) {
        let found = async || self.log().contains(text).then_some(());
        until(&format!("{} logs {text:?}", self.name), || self.log(), found).await;
    }

    /// When its command was last alive.
    pub(crate) fn last_alive(&self) -> f64 {
        time(self.lines().last().unwrap())
    }

    /// Waits until it has ended, and returns its exit code.
    pub(crate) async fn exit_code(&self) -> Option<i32> {
        let ended = async || self.process.exit_status().unwrap();
        until(&format!("{} ends", self.name), || self.log(), ended).await.code()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.process.pid(), name);
    }
}

/// `hustings run` for the Lease `work`.
pub(crate) fn command(kubeconfig: &Path, namespace: &str, name: &str, flags: &[&str], wrapped: Vec<String>) -> Command {
    let mut command = hustings();
    command.args(["run", "--namespace", namespace, "--lease", "work", "--identity", name]).args(flags);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--").args(wrapped);
    command
}

/// The time of a line.
pub(crate) fn time(line: &Value) -> f64 {
    line["time"].as_f64().unwrap()
}

pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The number of a process in a line.
pub(crate) fn number(value: &Value) -> u32 {
    value.as_u64().unwrap().try_into().unwrap()
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, "--", &pid.to_string()]).status().unwrap();
    assert!(status.success(), "cannot send {name} to {pid}");
}

/// Whether a process lives. A zombie does not.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The children of a process: number, state and whole command line.
pub(crate) fn children(pid: u32) -> Vec<(u32, char, String)> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let child = |number: u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let mut rest = stat.rsplit_once(") ")?.1.split(' ');
        let state = rest.next()?.chars().next()?;
        let words = fs::read_to_string(format!("/proc/{number}/cmdline")).unwrap_or_default().replace('\0', " ");
        (rest.next()? == pid.to_string()).then_some((number, state, words))
    };
    numbers.filter_map(child).collect()
}

/// The guardian of a wrapper.
pub(crate) fn guardian(wrapper: &Wrapper) -> u32 {
    let began = Instant::now();
    loop {
        let children = children(wrapper.process.pid());
        if let Some((number, ..)) = children.iter().find(|(_, _, words)| words.contains(" guardian ")) {
            return *number;
        }
        // A process that has just begun shows no command line for a moment.
        assert!(began.elapsed() < PATIENCE, "{children:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command line that runs its arguments in new user and process namespaces; `None` if this machine does not support them.
pub(crate) fn in_namespaces(flags: &[&str]) -> Option<Command> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]).args(flags);
        command
    };
    if unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return Some(unshare());
    }
    eprintln!("not tested: this machine allows no process namespaces");
    None
}

/// The holder that the Lease `work` names; empty without one.
pub(crate) async fn holder(plane: &ControlPlane, namespace: &str) -> String {
    lease(plane, namespace, "work").await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Asks the holder of the Lease `work` to hand over, as the controller does.
pub(crate) async fn prefer(plane: &ControlPlane, namespace: &str, preferred: &str) {
    let leases = Api::<Lease>::namespaced(plane.admin(), namespace);
    let patch = json!({"metadata": {"annotations": {"hustings.io/preferred-holder": preferred}}});
    leases.patch("work", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}
