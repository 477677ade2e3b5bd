//! One world: Leases, the processes that stand for them, the controllers, and a nemesis, all generated from one seed.
//!
//! Time is virtual: it passes when no task has anything to do. The same seed makes the same world again, whatever else
//! the machine does. The world keeps a readable trace, so that a person can find out how a violation came about.

mod administrator;
mod admission;
mod calm;
mod dissent;
mod edits;
mod fault;
mod field;
mod foreign;
mod nemesis;
mod panics;
mod paths;
mod reading;
mod rivals;
mod setup;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt;
use rand::RngExt;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::checker::Checker;
use crate::machine::{Machine, Site};
use crate::process::{CONTROLLERS_NAMESPACE, ControllerProcess, Process};
use crate::server::Server;
use crate::server::cache::Cache;
use crate::trouble::Tally;
use crate::webhook::Webhook;

use calm::Stage;
pub use dissent::THIRD_PARTY_GRANT;
pub use fault::faults;
use field::Field;
pub use paths::PATHS;
pub use setup::{Kubelets, Mode, Report, Setup};

/// How many lines of the trace are kept: the last ones show what went wrong.
const MOST_LINES: usize = 4_000;

const CONTROLLERS: usize = 2;

/// How long the controllers wait for further candidates.
const SETTLING: Duration = Duration::from_secs(1);

/// How many instances the API server has.
const INSTANCES: usize = 2;

/// How many worlds this process has begun.
static WORLDS: AtomicU64 = AtomicU64::new(0);

/// How soon the candidate of a deleted pod is collected.
const COLLECTED_WITHIN: Duration = Duration::from_mins(1);

/// The purposes for which random numbers are drawn.
mod purpose {
    pub(super) const FAULT: u64 = 0;
    pub(super) const PROCESS: u64 = 1;
    pub(super) const CONTROLLER: u64 = 2;
    pub(super) const CALM: u64 = 3;
    pub(super) const QUIET: u64 = 4;
    pub(super) const TIMING: u64 = 5;
    pub(super) const KUBELET: u64 = 6;
}

/// Simulates one world, up to the first violation.
///
/// # Panics
/// Panics if no runtime can be built.
pub fn simulate(setup: Setup) -> Report {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    panics::listen();
    // The world begins inside the runtime, where time is paused.
    let world = async { World::new(setup).run().await };
    let mut report = runtime.expect("a runtime without I/O").block_on(world);
    report.violations.extend(panics::take().into_iter().map(|panic| format!("S6: {panic}")));
    report
}

/// An event that is due at a certain time.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Act {
    /// A process is replaced by the next one in its place, under its own name or a new one.
    Replace { field: usize, index: usize, is_new: bool },
    /// The pod of this name is gone for good, and its candidate is deleted.
    Collect { field: usize, pod: String },
    /// An administrator ends all acts on the Lease and its candidates.
    EndActs { field: usize },
    /// Every write is admitted unchanged.
    Admit,
    /// The foreign elector acts.
    Foreign { field: usize },
    /// A live candidate that wants another strategy leaves, gracefully or not.
    Leave { field: usize, name: String, dies: bool },
    /// The third party with its own strategy acts.
    Theirs { field: usize },
    /// The second installation ends.
    EndSecond,
    /// The operator that reverts a field reverts it in this object.
    Revert { field: usize, name: String },
    /// That operator ends.
    EndReverting { field: usize },
}

struct World {
    setup: Setup,
    site: Site,
    /// The prefix of the UIDs of its pods. It differs between worlds: the locks of containers are real, and several
    /// worlds run side by side.
    pods: String,
    fields: Vec<Field>,
    controllers: Vec<ControllerProcess>,
    /// The controller of a second installation.
    second: Option<ControllerProcess>,
    /// Checks the controllers' own Lease.
    own: Checker,
    /// Reports that the state of a process of this Lease has changed. Every process is then checked.
    happenings: mpsc::UnboundedSender<usize>,
    happened: Option<mpsc::UnboundedReceiver<usize>>,
    acts: Vec<(Instant, Act)>,
    controllers_started: u64,
    /// The revision up to which all changes have been checked.
    revision: u64,
    digest: DefaultHasher,
    lines: VecDeque<(Option<usize>, String)>,
    /// An invariant was broken.
    is_wrong: bool,
    /// The number of the Lease that the violation concerns, if any.
    wrong_with: Option<usize>,
    report: Report,
}

impl World {
    fn new(setup: Setup) -> Self {
        let (happenings, happened) = mpsc::unbounded_channel();
        Self {
            site: Site {
                server: Server::default(),
                instances: (0..INSTANCES).map(|_| Cache::default()).collect(),
                began: Instant::now(),
                tally: Tally::default(),
                webhook: Webhook::default(),
            },
            pods: format!("{:x}-{:x}", std::process::id(), WORLDS.fetch_add(1, Ordering::Relaxed)),
            fields: setup.leases.iter().map(|number| Field::new(*number, &setup)).collect(),
            controllers: Vec::new(),
            second: None,
            own: Checker::default(),
            happenings,
            happened: Some(happened),
            acts: Vec::new(),
            controllers_started: 0,
            revision: 0,
            digest: DefaultHasher::new(),
            lines: VecDeque::new(),
            is_wrong: false,
            wrong_with: None,
            report: Report::default(),
            setup,
        }
    }

    async fn run(mut self) -> Report {
        if self.setup.mode == Mode::Coordinated {
            (0..CONTROLLERS).for_each(|index| self.start_controller(index));
        }
        for field in 0..self.fields.len() {
            (0..self.setup.processes).for_each(|index| self.start(field, index, false));
        }
        if self.setup.kubelets == Kubelets::Lying {
            self.site.server.kubelet().lie(&self.site.server);
        }
        let mut happened = self.happened.take().expect("it is taken once");
        let bell = self.site.server.bell();
        let rests_at = self.site.began + self.setup.lasts;
        let mut stage = Stage::Faults;
        let mut next = Instant::now() + Duration::from_secs(30);
        while stage != Stage::Over && !self.is_wrong {
            let mut rung = pin!(bell.notified());
            rung.as_mut().enable();
            self.read();
            self.acts.sort_by_key(|(at, _)| *at);
            let due = self.acts.first().map_or(next, |(at, _)| next.min(*at));
            tokio::select! {
                biased;
                Some(field) = happened.recv() => self.look(field),
                () = rung => {}
                () = tokio::time::sleep_until(due) => {
                    if due < next {
                        self.act().await;
                    } else {
                        let pause;
                        (stage, pause) = match stage {
                            Stage::Faults if Instant::now() < rests_at => (stage, self.fault().await),
                            _ => self.go_on(stage),
                        };
                        next = Instant::now() + pause;
                    }
                }
            }
        }
        self.finish()
    }

    fn finish(self) -> Report {
        let Self { mut report, site, fields, mut digest, lines, wrong_with, .. } = self;
        report.changes_of_holder = fields.iter().map(|field| field.checker.changes_of_holder).sum();
        report.judged_grants = fields.iter().map(|field| field.grants.judged).sum();
        report.lasted = site.began.elapsed();
        report.disturbances = site.tally.counts();
        report.paths.extend(site.server.refusals());
        report.lease_time = report.lasted * u32::try_from(fields.len()).unwrap_or(u32::MAX);
        report.changes_of_holder.hash(&mut digest);
        report.digest = digest.finish();
        let concerns = |place: &Option<usize>| wrong_with.is_none() || place.is_none() || *place == wrong_with;
        report.trace = lines.into_iter().filter(|(place, _)| concerns(place)).map(|(_, line)| line).collect();
        report
    }

    fn start_controller(&mut self, index: usize) {
        let name = format!("c{index}");
        self.controllers_started += 1;
        let mut rng = self.setup.rng([purpose::CONTROLLER, index as u64, self.controllers_started]);
        let machine = Machine::new(&self.site, &name, &mut rng);
        self.trace(None, &format!("controller {name} starts"));
        let watches_pods = self.setup.kubelets != Kubelets::Unwatched;
        let controller = ControllerProcess::start(&name, CONTROLLERS_NAMESPACE, (SETTLING, watches_pods), machine);
        if index < self.controllers.len() {
            self.controllers[index] = controller;
        } else {
            self.controllers.push(controller);
        }
    }

    /// Starts the process of this number, under its own name or a new one.
    fn start(&mut self, field: usize, index: usize, is_new: bool) {
        let place = (self.fields[field].number << 8 | index) as u64;
        let mut rng = self.setup.rng([purpose::PROCESS, place, self.fields[field].started()]);
        let (name, stands, habits) = self.fields[field].next(index, is_new, &mut rng, (&self.setup, &self.pods));
        if let Some(former) = self.fields[field].processes.get(index)
            && former.name != name
            && former.habits.pod_uid.is_some()
        {
            let (pod, lasts) = (former.name.clone(), rng.random_range(Duration::ZERO..COLLECTED_WITHIN));
            self.acts.push((Instant::now() + lasts, Act::Collect { field, pod }));
        }
        let machine = Machine::new(&self.site, &name, &mut rng);
        if let Some(uid) = &habits.pod_uid {
            let mut rng = self.setup.rng([purpose::KUBELET, place, self.fields[field].started()]);
            let server = &self.site.server;
            server.kubelet().start(server, (&name, uid), (&machine.link, &machine.clock), &mut rng);
        }
        let (lease, timing) = (&self.fields[field].lease, self.fields[field].timing);
        let process = Process::start(&name, (lease, timing), &stands, habits, machine);
        self.listen_to(field, &process);
        self.trace(Some(field), &format!("{name} starts {stands:?}"));
        self.fields[field].enter(index, process);
    }

    /// Makes the world check every process whenever the state of this one changes.
    fn listen_to(&self, field: usize, process: &Process) {
        let link = process.machine.link.clone();
        let (happenings, mut changes) = (self.happenings.clone(), Box::pin(process.leadership.changes()));
        tokio::spawn(async move {
            loop {
                let goes_on = tokio::select! {
                    biased;
                    () = link.died() => false,
                    change = changes.next() => change.is_some(),
                };
                if happenings.send(field).is_err() || !goes_on {
                    return;
                }
            }
        });
    }

    /// Carries out the act that is due first.
    async fn act(&mut self) {
        if self.acts.is_empty() {
            return;
        }
        match self.acts.remove(0).1 {
            Act::Replace { field, index, is_new } => self.replace(field, index, is_new),
            Act::Collect { field, pod } => self.collect(field, &pod).await,
            Act::EndActs { field } => self.end_acts(field).await,
            Act::Admit => self.admit(),
            Act::Foreign { field } => self.go_foreign(field).await,
            Act::Leave { field, name, dies } => self.leave(field, &name, dies),
            Act::Theirs { field } => self.go_theirs(field).await,
            Act::EndSecond => self.end_second(),
            Act::Revert { field, name } => self.revert_field(field, &name).await,
            Act::EndReverting { field } => self.end_reverting(field),
        }
    }

    fn replace(&mut self, field: usize, index: usize, is_new: bool) {
        let process = &mut self.fields[field].processes[index];
        let line = format!("{} is replaced", process.name);
        tokio::spawn(process.stop());
        self.trace(Some(field), &line);
        if Instant::now() >= self.fields[field].no_start_before {
            self.start(field, index, is_new);
        }
    }

    /// Checks every process of this Lease at this instant.
    fn look(&mut self, field: usize) {
        for name in self.fields[field].remove_dead() {
            self.trace(Some(field), &format!("{name} has died midway"));
        }
        self.fields[field].look();
        let failed = self.fields[field].everybody().find(|process| process.has_failed());
        if let Some(failed) = failed.map(|process| process.name.clone()) {
            self.violate(Some(field), format!("S6: {failed} has ended on its own"));
        }
        self.report_violations(field);
    }

    /// Reports what the checker of a Lease has found.
    fn report_violations(&mut self, field: usize) {
        let found = std::mem::take(&mut self.fields[field].checker.violations);
        let found = found.into_iter().chain(std::mem::take(&mut self.fields[field].grants.violations));
        found.collect::<Vec<_>>().into_iter().for_each(|violation| self.violate(Some(field), violation));
    }

    fn violate(&mut self, place: Option<usize>, violation: String) {
        self.trace(place, &format!("VIOLATION {violation}"));
        if !std::mem::replace(&mut self.is_wrong, true) {
            self.wrong_with = place;
        }
        self.report.violations.push(violation);
    }

    fn trace(&mut self, place: Option<usize>, line: &str) {
        self.trace_at(Instant::now(), place, line);
    }

    fn trace_at(&mut self, at: Instant, place: Option<usize>, line: &str) {
        let line = format!("{:10.3} {line}", (at - self.site.began).as_secs_f64());
        line.hash(&mut self.digest);
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back((place, line));
    }

    fn count(&mut self, fault: &'static str) {
        *self.report.faults.entry(fault).or_default() += 1;
    }
}
