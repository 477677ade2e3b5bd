//! Today's Hustings together with an earlier revision: `cargo run --example skew`, or with `-- REVISION`.
//!
//! The first run builds the binary of that revision from the repository's history, which takes some minutes. Each scene runs
//! on a control plane of its own, with replicas of both revisions, and fails if two replicas lead at once, if a token does
//! not grow, or if the wrong replica leads. The table is on standard output. The exit code is 0 only if every scene works.

#![allow(clippy::unwrap_used, reason = "a step fails like a test")]

#[path = "../tests/kit/replica.rs"]
mod replica;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use futures::FutureExt as _;
use hustings_controlplane::{ControlPlane, Process};
use jiff::Timestamp;
use replica::{
    Replica, assert_one_at_a_time, campaign, candidate_account, controller_command, install_chart_at, lease, until,
};
use serde_json::Value;

/// The revision that runs together with today's, unless the command line names another. It is the oldest with the same
/// objects on the wire.
const FORMER: &str = "27e2cdd";

/// A revision of Hustings.
#[derive(Clone, Copy)]
enum Revision<'a> {
    Today,
    /// Its sources and its binary are in this folder.
    Former(&'a Path),
}
use Revision::{Former, Today};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(code) = replica::run_as_hustings() {
        return code;
    }
    let revision = arguments.get(1).map_or(FORMER, String::as_str);
    let folder = match build(revision) {
        Ok(folder) => folder,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let former = Former(&folder);
    println!("| scene, with {revision} | result |\n|---|---|");
    let mut all_work = true;
    let mut play = |scene: &str, run: std::pin::Pin<Box<dyn Future<Output = ()> + '_>>| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let works = runtime.block_on(AssertUnwindSafe(run).catch_unwind()).is_ok();
        all_work &= works;
        println!("| {scene} | {} |", if works { "works" } else { "fails" });
    };
    play("today's controller, replicas of both", Box::pin(coordinated(Today, former)));
    play("former controller, replicas of both", Box::pin(coordinated(former, former)));
    play("the controller is upgraded, then rolled back", Box::pin(upgrade(former)));
    play("the chart and the CRD are upgraded, then rolled back", Box::pin(upgrade_of_the_chart(former)));
    play("today's controller under the former CRD and roles", Box::pin(former_crd(former)));
    play("no controller, replicas of both", Box::pin(uncontrolled(former)));
    play("direct mode, replicas of both", Box::pin(direct(former)));
    if all_work { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Unpacks a revision in the target directory, builds its binary there, and returns the folder.
fn build(revision: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = |command: &mut Command| match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} failed: {status}")),
        Err(error) => Err(format!("cannot start {command:?}: {error}")),
    };
    let folder = root.join("target/revisions").join(revision);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let archive = folder.join("source.tar");
    let mut git = Command::new("git");
    git.current_dir(root).args(["archive", "--output"]).arg(&archive).arg(revision);
    run(&mut git).map_err(|error| format!("{error}\nhint: the clone needs the history: git fetch --unshallow"))?;
    run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&folder))?;
    eprintln!("building revision {revision}, which takes some minutes the first time");
    run(Command::new(env!("CARGO")).current_dir(&folder).args(["build", "--locked", "--bin", "hustings"]))?;
    Ok(folder)
}

impl Revision<'_> {
    /// The same command by this revision's binary.
    fn command(self, today: Command) -> Command {
        let Former(folder) = self else { return today };
        let mut former = Command::new(folder.join("target/debug/hustings"));
        former.args(today.get_args().filter(|argument| *argument != replica::AS_HUSTINGS));
        former.envs(today.get_envs().filter_map(|(name, value)| Some((name, value?))));
        former
    }

    /// Its chart.
    fn chart(self) -> PathBuf {
        let root = match self {
            Today => Path::new(env!("CARGO_MANIFEST_DIR")),
            Former(folder) => folder,
        };
        root.join("charts/hustings")
    }

    /// Its CRD, as its binary prints it.
    async fn crd(self) -> String {
        let mut today = replica::hustings();
        today.arg("crds");
        let output = tokio::process::Command::from(self.command(today)).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A control plane with a chart, on which replicas stand for the Lease `web`.
struct Stage {
    plane: ControlPlane,
    namespace: String,
    kubeconfig: PathBuf,
}

impl Stage {
    /// With today's chart.
    async fn set() -> Self {
        Self::set_with(Today, &[]).await
    }

    /// With the chart of a revision, installed with these flags.
    async fn set_with(revision: Revision<'_>, flags: &[&str]) -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        install_chart_at(&plane, &revision.chart(), flags).await;
        let namespace = plane.create_namespace("skew").await.unwrap();
        let kubeconfig = candidate_account(&plane, &namespace, "web").await;
        Self { plane, namespace, kubeconfig }
    }

    async fn controller(&self, revision: Revision<'_>, pod: &str) -> Process {
        let command = revision.command(controller_command(&self.plane, pod, &[]).await);
        self.plane.spawn(pod, command).unwrap()
    }

    fn replica(&self, revision: Revision<'_>, name: &str, flags: &[&str]) -> Replica {
        let today = campaign(&self.kubeconfig, &self.namespace, "web", name, flags);
        Replica::start(&self.plane, &self.namespace, name, revision.command(today))
    }

    /// Runs Helm on the release.
    async fn helm(&self, arguments: &[&str]) {
        succeed(self.plane.helm(arguments.iter().chain(&["--namespace=hustings-system"])).await.unwrap());
    }

    /// Runs kubectl, and returns its output.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        succeed(self.plane.kubectl(arguments).await.unwrap())
    }

    /// Installs the CRD of a revision as its users do.
    async fn apply_crd(&self, revision: Revision<'_>) {
        let file = self.plane.folder().join("crd.yaml");
        std::fs::write(&file, revision.crd().await).unwrap();
        self.kubectl(&["apply", "--server-side", "--filename", file.to_str().unwrap()]).await;
    }

    /// How many controllers the release asks for.
    async fn controllers(&self) -> String {
        let path = "--output=jsonpath={.spec.replicas}";
        self.kubectl(&["get", "deployment", "hustings", "--namespace=hustings-system", path]).await
    }

    /// Waits until the holder has renewed the Lease once more.
    async fn is_renewed(&self) {
        let renewal = async || lease(&self.plane, &self.namespace, "web").await["spec"]["renewTime"].clone();
        let before = renewal().await;
        let renewed = async || (renewal().await != before).then_some(());
        until("the holder renews the Lease", String::new, renewed).await;
    }

    async fn candidate(&self, name: &str) -> Value {
        let arguments = ["get", "leasecandidates.hustings.io", name, "--namespace", &self.namespace, "--output=json"];
        serde_json::from_str(&self.kubectl(&arguments).await).unwrap()
    }

    /// Waits until the status of a candidate has, or lacks, the end of its damping.
    async fn damping_is_shown(&self, name: &str, shown: bool) {
        let found = async || (self.candidate(name).await["status"]["dampedUntil"].is_string() == shown).then_some(());
        until(&format!("dampedUntil of {name} is shown: {shown}"), String::new, found).await;
    }

    /// Waits until an event with this reason is about this object.
    async fn reported(&self, name: &str, reason: &str) {
        let found = async || {
            let arguments = ["get", "events.events.k8s.io", "--namespace", &self.namespace, "--output=json"];
            let events: Value = serde_json::from_str(&self.kubectl(&arguments).await).unwrap();
            let is_it = |event: &Value| event["regarding"]["name"] == name && event["reason"] == reason;
            events["items"].as_array().unwrap().iter().any(is_it).then_some(())
        };
        until(&format!("the event {reason} is about {name}"), String::new, found).await;
    }
}

/// The output of a command that must succeed.
fn succeed(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A replica of today hands over to an older version of the former revision, and leads again after that one is killed.
/// Returns both, and when the older one was killed.
async fn crash_of_an_older_version(stage: &Stage, former: Revision<'_>) -> (Replica, Replica, Timestamp) {
    let newer = stage.replica(Today, "newer", &["--binary-version=2.0.0"]);
    newer.says("leading", 0).await;
    let older = stage.replica(former, "older", &["--binary-version=1.0.0"]);
    older.says("leading", 0).await;
    older.process.kill().unwrap();
    let killed = Timestamp::now();
    newer.says("leading", 1).await;
    (newer, older, killed)
}

/// Terms go from one revision to the other and back: to an older version that joins, after a crash, and after a stop.
async fn coordinated(controller: Revision<'_>, former: Revision<'_>) {
    let stage = Stage::set().await;
    let _controller = stage.controller(controller, "controller").await;
    let (newer, older, killed) = crash_of_an_older_version(&stage, former).await;
    let killed = [("older", killed)];
    let same = stage.replica(former, "same", &["--binary-version=2.0.0"]);
    same.says("observed", 0).await;
    newer.process.stop().await.unwrap();
    same.says("leading", 0).await;
    let last = stage.replica(Today, "last", &["--binary-version=2.0.0"]);
    last.says("observed", 0).await;
    same.process.stop().await.unwrap();
    last.says("leading", 0).await;
    assert_one_at_a_time(&[&newer, &older, &same, &last], &killed);
}

/// The replicas elect among themselves: the older version follows, whichever revision it runs.
async fn uncontrolled(former: Revision<'_>) {
    let stage = Stage::set().await;
    let first = stage.replica(Today, "first", &["--binary-version=2.0.0"]);
    first.says("leading", 0).await;
    let older = stage.replica(former, "older", &["--binary-version=1.0.0"]);
    let newer = stage.replica(Today, "newer", &["--binary-version=2.0.0"]);
    older.says("observed", 0).await;
    newer.says("observed", 0).await;
    first.process.stop().await.unwrap();
    older.says("leading", 0).await;
    older.process.kill().unwrap();
    let killed = [("older", Timestamp::now())];
    newer.says("leading", 0).await;
    assert_one_at_a_time(&[&first, &older, &newer], &killed);
}

/// The controllers' own Lease goes from the former controller to today's and back. Neither change costs the holder its
/// term.
async fn upgrade(former: Revision<'_>) {
    let stage = Stage::set().await;
    let before = stage.controller(former, "before").await;
    let holder = stage.replica(former, "holder", &["--binary-version=2.0.0"]);
    holder.says("leading", 0).await;
    let after = stage.controller(Today, "after").await;
    before.stop().await.unwrap();
    let better = stage.replica(Today, "better", &["--binary-version=1.5.0"]);
    better.says("leading", 0).await;
    let _rolled_back = stage.controller(former, "rolled-back").await;
    after.stop().await.unwrap();
    let best = stage.replica(Today, "best", &["--binary-version=1.0.0"]);
    best.says("leading", 0).await;
    let terms = assert_one_at_a_time(&[&holder, &better, &best], &[]);
    assert_eq!(terms.len(), 3, "a change of controllers cost a holder its Lease: {terms:?}");
}

/// Helm replaces the former chart and CRD by today's, and then restores them, while replicas lead. Neither step costs a
/// holder its term, replaces a candidate, or changes a value that the user has set.
async fn upgrade_of_the_chart(former: Revision<'_>) {
    let stage = Stage::set_with(former, &["--set=replicas=3"]).await;
    let before = stage.controller(former, "before").await;
    let holder = stage.replica(former, "holder", &["--binary-version=2.0.0"]);
    holder.says("leading", 0).await;
    let uid = stage.candidate("holder").await["metadata"]["uid"].clone();

    let chart = Today.chart();
    stage.helm(&["upgrade", "hustings", chart.to_str().unwrap(), "--reset-then-reuse-values"]).await;
    assert_eq!(stage.controllers().await, "3", "the upgrade keeps the user's values");
    let after = stage.controller(Today, "after").await;
    before.stop().await.unwrap();
    stage.is_renewed().await;
    let better = stage.replica(Today, "better", &["--binary-version=1.5.0"]);
    better.says("leading", 0).await;
    better.process.kill().unwrap();
    let killed = [("better", Timestamp::now())];
    holder.says("leading", 1).await;
    stage.damping_is_shown("better", true).await;

    stage.helm(&["rollback", "hustings"]).await;
    assert_eq!(stage.controllers().await, "3", "the rollback keeps the user's values");
    stage.damping_is_shown("better", has_damping_end(former).await).await;
    let _rolled_back = stage.controller(former, "rolled-back").await;
    after.stop().await.unwrap();
    stage.is_renewed().await;
    let best = stage.replica(Today, "best", &["--binary-version=1.0.0"]);
    best.says("leading", 0).await;
    assert_eq!(stage.candidate("holder").await["metadata"]["uid"], uid, "the candidate stays");
    let terms = assert_one_at_a_time(&[&holder, &better, &best], &killed);
    assert_eq!(terms.len(), 4, "an upgrade or a rollback cost a holder its Lease: {terms:?}");
}

/// Today's controller elects under the former CRD and roles. It reports a field that the CRD drops, and writes the field
/// once the CRD has it.
async fn former_crd(former: Revision<'_>) {
    let stage = Stage::set_with(former, &["--set=crds.install=false"]).await;
    stage.apply_crd(former).await;
    let _controller = stage.controller(Today, "controller").await;
    let (newer, older, killed) = crash_of_an_older_version(&stage, former).await;
    let killed = [("older", killed)];
    if !has_damping_end(former).await {
        stage.reported("older", "WriteHasNoEffect").await;
        let status = stage.candidate("older").await["status"].clone();
        assert!(status["dampingCount"] == 1 && status["dampedUntil"].is_null(), "only the new field is lost: {status}");
    }
    stage.apply_crd(Today).await;
    stage.damping_is_shown("older", true).await;
    stage.is_renewed().await;
    let terms = assert_one_at_a_time(&[&newer, &older], &killed);
    assert_eq!(terms.len(), 3, "the change of the CRD cost a holder its Lease: {terms:?}");
}

/// Whether the CRD of a revision has the end of a damping, which the oldest one lacks.
async fn has_damping_end(revision: Revision<'_>) -> bool {
    revision.crd().await.contains("dampedUntil")
}

async fn direct(former: Revision<'_>) {
    let stage = Stage::set().await;
    let first = stage.replica(former, "first", &["--direct"]);
    first.says("leading", 0).await;
    let second = stage.replica(Today, "second", &["--direct"]);
    second.says("observed", 0).await;
    first.process.stop().await.unwrap();
    second.says("leading", 0).await;
    let third = stage.replica(former, "third", &["--direct"]);
    third.says("observed", 0).await;
    second.process.kill().unwrap();
    let killed = [("second", Timestamp::now())];
    third.says("leading", 0).await;
    assert_one_at_a_time(&[&first, &second, &third], &killed);
}
