//! Wrappers as processes, and what the command that they wrap says of itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hustings_controlplane::{ControlPlane, Process, by_env};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::replica::{hustings, json_lines, lease, until};

/// Without a controller, and times that a machine which stands still for a moment does not use up. Between the end of the
/// validity and that of the Lease lie two seconds.
pub(crate) const DIRECT: [&str; 4] =
    ["--direct", "--lease-duration=10s", "--renew-deadline=8s", "--retry-period=300ms"];

/// What `DIRECT` says.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(10);

/// A wrapper, which is killed when this goes.
pub(crate) struct Wrapper {
    pub(crate) name: String,
    pub(crate) process: Process,
}

/// The command that tells what it sees.
pub(crate) fn worker(arguments: &[&str]) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/worker.py");
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

    /// Whatever it leaves behind goes with the control plane.
    pub(crate) fn spawn(plane: &ControlPlane, namespace: &str, name: &str, mut command: Command) -> Self {
        if command.get_envs().all(|(name, _)| name != "TMPDIR") {
            command.env("TMPDIR", plane.folder());
        }
        Self { name: name.to_owned(), process: plane.spawn(&format!("{namespace}-{name}"), command).unwrap() }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }

    /// The lines of its command up to now.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let log = self.log();
        let objects = json_lines(&log).filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // Those of the wrapper's own log have no such time.
        objects.filter(|line| line["time"].is_f64()).collect()
    }

    /// Waits for its command's line about `event` after the first `after` of them.
    pub(crate) async fn says(&self, event: &str, after: usize) -> Value {
        let found = || self.lines().into_iter().filter(|line| line["event"] == event).nth(after);
        until(&format!("{}'s command {event}", self.name), || self.log(), async || found()).await
    }

    /// Waits for something in its log.
    pub(crate) async fn logs(&self, text: &str) {
        let found = async || self.log().contains(text).then_some(());
        until(&format!("{} logs {text:?}", self.name), || self.log(), found).await;
    }

    /// When its command has last been seen alive.
    pub(crate) fn last_alive(&self) -> f64 {
        time(self.lines().last().unwrap())
    }

    /// Waits until it has ended, and says how.
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

/// Whether a process lives; one that waits to be reaped does not.
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
    let children = children(wrapper.process.pid());
    children.iter().find(|(_, _, words)| words.contains(" guardian ")).unwrap_or_else(|| panic!("{children:?}")).0
}

/// A command line that runs what is appended in user and process namespaces of its own; `None` where this machine has none.
pub(crate) fn in_namespaces(flags: &[&str]) -> Option<Command> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]).args(flags);
        command
    };
    if unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return Some(unshare());
    }
    eprintln!("not tested: this machine lets nobody have a process namespace");
    None
}

/// The holder that the Lease `work` names; empty for nobody.
pub(crate) async fn holder(plane: &ControlPlane, namespace: &str) -> String {
    lease(plane, namespace, "work").await["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Asks the holder of the Lease `work` to hand over, as the controller does.
pub(crate) async fn prefer(plane: &ControlPlane, namespace: &str, preferred: &str) {
    let leases = Api::<Lease>::namespaced(plane.admin(), namespace);
    let patch = json!({"metadata": {"annotations": {"hustings.io/preferred-holder": preferred}}});
    leases.patch("work", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}
