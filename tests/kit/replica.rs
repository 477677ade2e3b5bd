//! Replicas of a component as processes, and their reports: lines as `hustings campaign -o json` prints them.
//!
//! The terms come only from these lines, so the tests detect two leaders at once whatever the Lease shows. All
//! processes read the same clock, so their times are comparable.

#![allow(dead_code, reason = "each test binary needs some of it")]

use std::{
    fs, iter,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use hustings_controlplane::{ControlPlane, PATIENCE, Process, within};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, rbac::v1::RoleBinding};
use kube::{Api, api::PostParams};
use serde::Deserialize;
use serde_json::{Value, json};

/// A replica. Dropping this value kills it.
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) process: Process,
}

/// One line of a replica.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) time: Timestamp,
    pub(crate) event: String,
    pub(crate) identity: String,
    pub(crate) holder: Option<String>,
    pub(crate) term: Option<u32>,
    pub(crate) token: Option<u64>,
    pub(crate) message: String,
}

/// One term, according to the replica's own reports.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) name: String,
    /// `None` for a replica of client-go.
    pub(crate) token: Option<u64>,
    pub(crate) from: Timestamp,
    /// When it ended; `None` while it lasts.
    pub(crate) until: Option<Timestamp>,
}

/// When a replica was frozen.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    pub(crate) name: String,
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
}

impl Replica {
    /// Starts a command that prints such lines.
    pub(crate) fn start(plane: &ControlPlane, namespace: &str, name: &str, command: Command) -> Self {
        let process = plane.spawn(&format!("{namespace}-{name}"), command).unwrap();
        Self { name: name.to_owned(), process }
    }

    /// The lines so far, without other output.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let log = self.log();
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        json_lines(&log).map(read).collect()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.process.log()).unwrap()
    }

    /// Waits for its next line about `event` after the first `after` lines about it.
    pub(crate) async fn says(&self, event: &str, after: usize) -> Line {
        let found = || self.lines().into_iter().filter(|line| line.event == event).nth(after);
        until(&format!("{} says {event} for the time {}", self.name, after + 1), || self.log(), async || found()).await
    }

    /// Its terms so far. The last term of a killed process has no end.
    pub(crate) fn terms(&self) -> Vec<Term> {
        let mut terms: Vec<Term> = Vec::new();
        for line in self.lines() {
            match line.event.as_str() {
                "leading" => {
                    terms.push(Term { name: self.name.clone(), token: line.token, from: line.time, until: None });
                }
                "stopped" => terms.last_mut().unwrap().until = Some(line.time),
                _ => {}
            }
        }
        terms
    }

    /// Whether it leads, according to its own reports.
    pub(crate) fn leads(&self) -> bool {
        self.terms().last().is_some_and(|term| term.until.is_none())
    }
}

/// Fails if two of the replicas ever led at once, or if a token was not greater than the one before. Returns all terms
/// in order. `killed` contains the ends of processes that could not report them.
pub(crate) fn assert_one_at_a_time(replicas: &[&Replica], killed: &[(&str, Timestamp)]) -> Vec<Term> {
    assert_one_awake_at_a_time(replicas, killed, &[])
}

/// Like [`assert_one_at_a_time`], if some replicas were frozen for longer than their leases. If a replica's first
/// report after the freeze is the end of its term, the term counts only until the freeze. Otherwise the whole term
/// counts.
pub(crate) fn assert_one_awake_at_a_time(
    replicas: &[&Replica],
    killed: &[(&str, Timestamp)],
    frozen: &[Frozen],
) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    for replica in replicas {
        let lines = replica.lines();
        for mut term in replica.terms() {
            let killed = killed.iter().find(|(name, _)| *name == term.name).map(|(_, at)| *at);
            term.until = term.until.or(killed);
            let slept = frozen.iter().filter(|frozen| frozen.name == term.name).find(|frozen| {
                let first = lines.iter().find(|line| line.time >= frozen.until);
                first.is_some_and(|first| first.event == "stopped" && Some(first.time) == term.until)
            });
            if let Some(slept) = slept {
                term.until = Some(slept.from);
            }
            terms.push(term);
        }
    }
    terms.sort_by_key(|term| term.from);
    for pair in terms.windows(2) {
        assert!(pair[0].until.is_some_and(|until| until <= pair[1].from), "two led at once: {pair:?}");
        assert!(pair[0].token < pair[1].token, "a token that did not grow: {pair:?}");
    }
    terms
}

/// The lines of JSON in a log, without an incomplete last line.
pub(crate) fn json_lines(log: &str) -> impl DoubleEndedIterator<Item = &str> {
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().filter(|line| line.starts_with('{'))
}

/// The address in the last line with this `message` of a JSON log.
pub(crate) fn logged_address(log: &str, message: &str) -> Option<SocketAddr> {
    let mut lines = json_lines(log).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.rfind(|line| line["message"] == message)?["address"].as_str()?.parse().ok()
}

/// Applies a file of the repository with kubectl, as a reader would.
pub(crate) async fn apply(plane: &ControlPlane, file: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let applied = plane.kubectl(["apply", "--filename", file.to_str().unwrap()]).await.unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
}

/// Installs the chart, as its README says, and starts a controller under its ServiceAccount.
pub(crate) async fn install(plane: &ControlPlane) -> Process {
    install_chart(plane, &[]).await;
    controller(plane, "controller", &[]).await
}

/// Installs the chart with these flags, as its README says.
pub(crate) async fn install_chart(plane: &ControlPlane, flags: &[&str]) {
    install_chart_at(plane, &Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/hustings"), flags).await;
}

/// Like [`install_chart`], with the chart in the folder `chart`.
pub(crate) async fn install_chart_at(plane: &ControlPlane, chart: &Path, flags: &[&str]) {
    let arguments =
        ["install", "hustings", chart.to_str().unwrap(), "--namespace=hustings-system", "--create-namespace"];
    let output = plane.helm(arguments.iter().chain(flags)).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a controller under the ServiceAccount of the chart, in a pod of this name.
pub(crate) async fn controller(plane: &ControlPlane, pod: &str, flags: &[&str]) -> Process {
    plane.spawn(pod, controller_command(plane, pod, flags).await).unwrap()
}

/// The command of such a controller.
pub(crate) async fn controller_command(plane: &ControlPlane, pod: &str, flags: &[&str]) -> Command {
    let kubeconfig = plane.kubeconfig_for_service_account("hustings-system", "hustings").await.unwrap();
    let mut command = hustings();
    command.args(["controller", "--namespace=hustings-system", "--admin-address=127.0.0.1:0"]).args(flags);
    command.env("POD_NAME", pod).arg("--kubeconfig").arg(kubeconfig);
    command
}

/// With this first argument, an example behaves like the binary, which `cargo run --example` does not build.
pub(crate) const AS_HUSTINGS: &str = "--as-hustings";

/// Runs this process as the binary, if the first argument is [`AS_HUSTINGS`].
pub(crate) fn run_as_hustings() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    let is_binary = arguments.next().is_some_and(|first| first == AS_HUSTINGS);
    is_binary.then(|| hustings::app::run(iter::once(program).chain(arguments)))
}

/// The binary under test.
pub(crate) fn hustings() -> Command {
    if let Some(binary) = option_env!("CARGO_BIN_EXE_hustings") {
        return Command::new(binary);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(AS_HUSTINGS);
    command
}

/// `hustings campaign` for the Lease `lease` as `name`, with `flags`, under a kubeconfig file.
pub(crate) fn campaign(kubeconfig: &Path, namespace: &str, lease: &str, name: &str, flags: &[&str]) -> Command {
    let mut command = hustings();
    command
        .args(["campaign", "-o", "json", "--namespace", namespace, "--lease", lease, "--identity", name])
        .args(flags)
        .arg("--kubeconfig")
        .arg(kubeconfig);
    command
}

/// Lets a new ServiceAccount stand for Leases of the namespace, as the chart's README says, and returns the path of its
/// kubeconfig file.
pub(crate) async fn candidate_account(plane: &ControlPlane, namespace: &str, name: &str) -> PathBuf {
    plane.create_service_account(namespace, name).await.unwrap();
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hustings-candidate"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    });
    let bindings = Api::<RoleBinding>::namespaced(plane.admin(), namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    plane.kubeconfig_for_service_account(namespace, name).await.unwrap()
}

/// A Lease as JSON; null if there is none.
pub(crate) async fn lease(plane: &ControlPlane, namespace: &str, name: &str) -> Value {
    let leases = Api::<Lease>::namespaced(plane.admin(), namespace);
    serde_json::to_value(leases.get_opt(name).await.unwrap()).unwrap()
}

/// The token of a Lease.
pub(crate) fn token(lease: &Value) -> &str {
    lease["metadata"]["annotations"]["hustings.io/token"].as_str().unwrap_or_default()
}

/// Repeats a query until it has a result. Fails with `context` after too long a time.
pub(crate) async fn until<T>(what: &str, context: impl Fn() -> String, ask: impl AsyncFn() -> Option<T>) -> T {
    until_within(PATIENCE, what, context, ask).await
}

/// Like [`until`], with another limit.
pub(crate) async fn until_within<T>(
    limit: Duration,
    what: &str,
    context: impl Fn() -> String,
    ask: impl AsyncFn() -> Option<T>,
) -> T {
    let answer = within(limit, async || ask().await.ok_or(())).await;
    answer.unwrap_or_else(|()| panic!("not within {limit:?}: {what}\n{}", context()))
}
