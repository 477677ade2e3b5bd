//! Runs plans, one after the other or many at a time, and reports their results.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hustings_client::api::{LeaseCandidate, LeaseCandidateSpec, crd};
use hustings_controlplane::{ControlPlane, serve};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::OnceCell;

use crate::ledger::{Deed, Ledger};
use crate::outcome::Outcome;
use crate::point::{Fault, Plan, Point};
use crate::program::Programs;
use crate::scenario::Scenario;
use crate::stage::Stage;

/// How long a run waits for a planned fault after the script is over: longer than an election window.
const COMES: Duration = Duration::from_secs(6);

/// The longest stall in a conclusive run: retries do not bridge more.
const STALL: Duration = Duration::from_secs(2);

/// How often a plan is repeated after a run with a stall, and after how long.
const MOST_VOID: usize = 3;
const CALMS_DOWN: Duration = Duration::from_secs(10);

/// The writes of undisturbed runs of all scenarios: `(class, verb, kind, purpose)`. A write that is neither in this list
/// nor in the next is unexpected.
const LISTED: [[&str; 4]; 21] = [
    ["controller", "create", "Event", "report"],
    ["controller", "create", "Lease", "whole"],
    ["controller", "create", "OwnLease", "whole"],
    ["controller", "patch", "Lease", "grant"],
    ["controller", "patch", "Lease", "hold"],
    ["controller", "patch", "Lease", "prefer"],
    ["controller", "patch", "LeaseCandidate", "ping"],
    ["controller", "patch", "LeaseCandidate", "status"],
    ["controller", "patch", "OwnLease", "claim"],
    ["controller", "patch", "OwnLease", "renewal"],
    ["elector", "create", "Lease", "whole"],
    ["elector", "create", "LeaseCandidate", "whole"],
    ["elector", "delete", "LeaseCandidate", "whole"],
    ["elector", "patch", "Lease", "claim"],
    ["elector", "patch", "Lease", "hand-over"],
    ["elector", "patch", "Lease", "leave"],
    ["elector", "patch", "Lease", "prefer"],
    ["elector", "patch", "Lease", "release"],
    ["elector", "patch", "Lease", "renewal"],
    ["elector", "patch", "Lease", "take-up"],
    ["elector", "patch", "LeaseCandidate", "ack"],
];

/// Writes that occur only after a fault, and are right then.
const RECOVERY: [[&str; 4]; 3] = [
    // A repeated event raises the count of the published one.
    ["controller", "patch", "Event", "report"],
    // The preferred holder failed before the holder could hand over.
    ["controller", "patch", "Lease", "withdraw"],
    // A former life of the process, or a request whose answer was lost, created a candidate of its name.
    ["elector", "patch", "LeaseCandidate", "refresh"],
];

/// The place where plans run.
pub struct Ground {
    server: Client,
    programs: Programs,
    served: OnceCell<()>,
}

/// The result of an undisturbed run of a scenario.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// Which.
    pub scenario: Scenario,
    /// Its end.
    pub outcome: Outcome,
    /// The points where a fault can happen.
    pub points: Vec<Point>,
    /// What was done.
    pub deeds: BTreeSet<Deed>,
}

/// The result of one plan.
#[derive(Debug)]
pub struct Report {
    /// Of which scenario.
    pub scenario: Scenario,
    /// Which.
    pub plan: Plan,
    /// Whether the run reached the point of the fault.
    pub reached: bool,
    /// How many candidates the run replaced because they had not used a grant.
    pub replaced: usize,
    /// What was done.
    pub deeds: BTreeSet<Deed>,
    /// The failures that no stall excuses.
    pub violations: Vec<String>,
    /// All failures.
    pub failures: Vec<String>,
    /// The longest stall of the machine.
    pub stalled: Duration,
    /// What happened.
    pub story: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Ground {
    /// A control plane with the CRD. `command` is the `hustings` binary, or a program with an argument that makes it behave
    /// as that binary.
    pub async fn new(plane: Arc<ControlPlane>, command: Vec<OsString>) -> Result<Self> {
        let server = plane.admin();
        serve(&server, &crd()).await?;
        Ok(Self { server, programs: Programs { command, plane }, served: OnceCell::new() })
    }

    /// Plays a scenario twice without a fault.
    pub async fn undisturbed(&self, scenario: Scenario) -> Result<Sheet> {
        let (one, other) = futures::future::try_join(self.play(scenario), self.play(scenario)).await?;
        ensure!(
            one.outcome == other.outcome,
            "two undisturbed runs of {} differ:\n{}\n{}",
            scenario.as_str(),
            one.outcome.line(),
            other.outcome.line()
        );
        let mut sheet = one;
        for point in other.points {
            if !sheet.points.contains(&point) {
                sheet.points.push(point);
            }
        }
        sheet.deeds.extend(other.deeds);
        Ok(sheet)
    }

    async fn play(&self, scenario: Scenario) -> Result<Sheet> {
        let ledger = Arc::new(Ledger::new(None));
        let stage = self.stage(scenario, &ledger).await?;
        let outcome = async {
            scenario.set_up(&stage).await?;
            ledger.begin_counting();
            scenario.act(&stage).await?;
            Outcome::at_rest(&stage, scenario).await
        };
        let outcome = outcome.await;
        stage.close();
        let story = || format!("undisturbed {}:\n{}", scenario.as_str(), ledger.story().join("\n"));
        let outcome = outcome.with_context(story)?;
        ensure!(ledger.violations().is_empty(), "{:?} in {}", ledger.violations(), story());
        ensure!(unheard_of(&ledger.deeds()).next().is_none(), "unlisted writes in {}", story());
        Ok(Sheet { scenario, outcome, points: ledger.points(), deeds: ledger.deeds() })
    }

    /// Runs one plan until a run is conclusive, and returns how many were not.
    pub async fn conclude(&self, sheet: &Sheet, plan: Plan) -> (Report, usize) {
        for void in 0..MOST_VOID {
            let report = self.run(sheet, plan.clone()).await;
            if !report.is_void() {
                return (report, void);
            }
            tokio::time::sleep(CALMS_DOWN).await;
        }
        (self.run(sheet, plan).await, MOST_VOID)
    }

    async fn run(&self, sheet: &Sheet, plan: Plan) -> Report {
        let began = Instant::now();
        let ledger = Arc::new(Ledger::new(Some(plan.clone())));
        let played = async {
            let stage = self.stage(sheet.scenario, &ledger).await?;
            let outcome = Self::disturbed(&stage, sheet, plan.fault).await;
            stage.close();
            outcome
        };
        let outcome: Result<_> = played.await;
        let violations = ledger.violations();
        let mut failures = violations.clone();
        let replaced = match outcome {
            Ok(Ok(replaced)) => replaced,
            Ok(Err(difference)) => {
                failures.push(difference);
                0
            }
            Err(error) => {
                let is_answered = matches!(error.downcast_ref(), None | Some(kube::Error::Api(_)));
                if !is_answered {
                    ledger.note_stall(Duration::MAX);
                }
                failures.push(format!("{error:#}"));
                0
            }
        };
        let deeds = ledger.deeds();
        failures.extend(unheard_of(&deeds).map(|deed| format!("unheard of: {}", deed.join(" "))));
        Report {
            scenario: sheet.scenario,
            plan,
            reached: ledger.fired().is_some(),
            replaced,
            deeds,
            violations,
            failures,
            stalled: ledger.stalled(),
            story: ledger.story(),
            took: began.elapsed(),
        }
    }

    async fn disturbed(stage: &Stage, sheet: &Sheet, fault: Fault) -> Result<Result<usize, String>> {
        let scenario = sheet.scenario;
        scenario.set_up(stage).await.context("before the fault")?;
        stage.ledger().begin_counting();
        scenario.act(stage).await?;
        let over = Instant::now();
        while stage.ledger().fired().is_none() && over.elapsed() < COMES {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if let Some(fired) = stage.ledger().fired() {
            tokio::time::sleep_until((fired + fault.lasts()).into()).await;
        }
        sheet.outcome.reached(stage, scenario).await
    }

    async fn stage(&self, scenario: Scenario, ledger: &Arc<Ledger>) -> Result<Stage> {
        if scenario.has_candidates() {
            self.served.get_or_try_init(|| self.wait_until_served()).await?;
        }
        let namespace = self.programs.plane.create_namespace("plan").await?;
        let programs = scenario.is_of_programs().then(|| self.programs.clone());
        Ok(Stage::new(self.server.clone(), namespace, programs, Arc::clone(ledger)))
    }

    /// The server delays creations of a kind younger than 5 s by 2 s.
    async fn wait_until_served(&self) -> Result<()> {
        let namespace = self.programs.plane.create_namespace("served").await?;
        let candidates = Api::<LeaseCandidate>::namespaced(self.server.clone(), &namespace);
        let spec = LeaseCandidateSpec {
            lease_name: "l".to_owned(),
            binary_version: "1.0.0".to_owned(),
            emulation_version: Some("1.0.0".to_owned()),
            ..LeaseCandidateSpec::default()
        };
        let trial = LeaseCandidate::new("trial", spec);
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        for _ in 0..200 {
            let sent = Instant::now();
            if candidates.create(&dry_run, &trial).await.is_ok() && sent.elapsed() < Duration::from_secs(1) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("candidates are not served")
    }
}

/// The writes that are in neither list.
fn unheard_of(deeds: &BTreeSet<Deed>) -> impl Iterator<Item = [&str; 4]> {
    deeds.iter().map(words).filter(|deed| !LISTED.contains(deed) && !RECOVERY.contains(deed))
}

fn words((class, verb, kind, purpose): &Deed) -> [&str; 4] {
    [class, verb, kind, purpose]
}

/// The writes of the list that no undisturbed run made.
pub fn listed_in_vain(sheets: &[Sheet]) -> Vec<String> {
    let done = |listed: &[&str; 4]| sheets.iter().flat_map(|sheet| &sheet.deeds).any(|deed| words(deed) == *listed);
    LISTED.iter().filter(|listed| !done(listed)).map(|listed| listed.join(" ")).collect()
}

impl Sheet {
    /// Every fault at every point.
    pub fn plans(&self) -> Vec<Plan> {
        let faults = |point: &Point| point.faults().iter().map(|fault| (point.clone(), *fault)).collect::<Vec<_>>();
        self.points.iter().flat_map(faults).map(|(point, fault)| Plan { point, fault }).collect()
    }

    /// How many of its points are writes.
    pub fn writes(&self) -> usize {
        self.points.iter().filter(|point| point.faults() == Fault::OF_WRITES).count()
    }
}

impl Report {
    /// Whether the run is inconclusive: it did not end as it should, and the fault was elsewhere. The machine stalled
    /// for longer than a request may take, or the server did not answer the run's own watch.
    fn is_void(&self) -> bool {
        self.violations.is_empty() && !self.failures.is_empty() && self.stalled > STALL
    }

    /// The command that runs this plan alone.
    pub fn command(&self) -> String {
        format!(
            "cargo run -p hustings-plans --example plans -- --scenario {} --plan {}",
            self.scenario.as_str(),
            self.plan
        )
    }
}
