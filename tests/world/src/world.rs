//! One world: a Lease, those who want it, and a nemesis, all from one seed.
//!
//! Time is virtual: it passes when nobody has anything to do. What happens is written down in words, so that a seed
//! that shows a violation can be read. A seed makes nearly the same world again: tokio draws some orders at random, and
//! lets nobody seed that without a flag of its own.

mod edits;
mod nemesis;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use hustings_client::Leadership;
use hustings_client::api::ReadLease;
use kube::Api;
use kube::runtime::watcher::{self, Event, watcher};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::checker::Checker;
use crate::process::{ControllerProcess, LEASE, Machine, NAMESPACE, Process, Stands};
use crate::server::Server;

/// How many lines of the trace are kept: the last ones tell what went wrong.
const MOST_LINES: usize = 400;

const CONTROLLERS: usize = 2;

/// L2: how soon the best one leads, of those that may be damped, less the time in which somebody does.
const BEST_LEADS_WITHIN: Duration = Duration::from_mins(12);

/// L1: how soon after the last fault somebody leads.
const SOMEBODY_LEADS_WITHIN: Duration = Duration::from_secs(50);

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// From which everything follows.
    pub seed: u64,
    /// How long the nemesis is at work.
    pub lasts: Duration,
    /// How many processes want the Lease.
    pub processes: usize,
    /// How they stand.
    pub mode: Mode,
}

/// How the processes of a world stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Without candidates and controllers.
    Direct,
    /// Without them, each with a preference.
    Preferring,
    /// As candidates, and two controllers elect.
    Coordinated,
    /// As candidates where there never was a controller.
    Alone,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Preferring, Self::Coordinated, Self::Alone];
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often somebody else came to hold the Lease.
    pub changes_of_holder: u64,
    /// How many versions of the Lease were written.
    pub versions: u64,
    /// What went wrong.
    pub violations: Vec<String>,
    /// What happened at the end.
    pub trace: Vec<String>,
}

/// Simulates one world.
///
/// # Panics
/// If there is no runtime to be had.
pub fn simulate(setup: Setup) -> Report {
    let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O").block_on(World::new(setup).run())
}

/// How far a world has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Faults,
    SomebodyLeads,
    BestLeads,
    Over,
}

struct World {
    setup: Setup,
    rng: StdRng,
    began: Instant,
    server: Server,
    processes: Vec<Process>,
    controllers: Vec<ControllerProcess>,
    checker: Checker,
    /// Tells that a view has changed, so that everybody is asked.
    views: mpsc::UnboundedSender<()>,
    changed: Option<mpsc::UnboundedReceiver<()>>,
    started: u64,
    last_start: Instant,
    no_start_before: Instant,
    report: Report,
}

impl World {
    fn new(setup: Setup) -> Self {
        let (views, changed) = mpsc::unbounded_channel();
        Self {
            setup,
            rng: StdRng::seed_from_u64(setup.seed),
            began: Instant::now(),
            server: Server::default(),
            processes: Vec::new(),
            controllers: Vec::new(),
            checker: Checker::default(),
            views,
            changed: Some(changed),
            started: 0,
            last_start: Instant::now(),
            no_start_before: Instant::now(),
            report: Report::default(),
        }
    }

    async fn run(mut self) -> Report {
        if self.setup.mode == Mode::Coordinated {
            (0..CONTROLLERS).for_each(|index| self.start_controller(index));
        }
        for index in 0..self.setup.processes {
            self.start(index);
        }
        let leases = Api::<ReadLease>::namespaced(self.server.client(NAMESPACE), NAMESPACE);
        let only = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
        let mut versions = watcher(leases, only).boxed();
        let mut changed = self.changed.take().expect("it is taken once");
        let rests_at = Instant::now() + self.setup.lasts;
        let mut stage = Stage::Faults;
        let mut next = Instant::now() + Duration::from_secs(30);
        while stage != Stage::Over {
            tokio::select! {
                biased;
                Some(()) = changed.recv() => self.look(),
                Some(event) = versions.next() => self.see(event),
                () = tokio::time::sleep_until(next) => {
                    let pause;
                    (stage, pause) = self.go_on(stage, Instant::now() >= rests_at).await;
                    next = Instant::now() + pause;
                }
            }
        }
        let Self { mut report, checker, .. } = self;
        report.changes_of_holder = checker.changes_of_holder;
        report.violations = checker.violations;
        report
    }

    /// Does what is next, and says what comes after that, and when.
    async fn go_on(&mut self, stage: Stage, is_late: bool) -> (Stage, Duration) {
        match stage {
            Stage::Faults if !is_late => (stage, self.fault().await),
            Stage::Faults => {
                self.calm();
                (Stage::SomebodyLeads, SOMEBODY_LEADS_WITHIN)
            }
            Stage::SomebodyLeads => {
                if !self.processes.iter().any(Process::leads) {
                    self.violate("L1: nobody leads 50 s after the last fault".to_owned());
                }
                (Stage::BestLeads, BEST_LEADS_WITHIN)
            }
            Stage::BestLeads | Stage::Over => {
                let leader = self.processes.iter().find(|process| process.leads());
                let leads = leader.and_then(|process| process.stands.merit());
                // Without a controller nobody takes the Lease from a live holder for its version.
                let best = self.processes.iter().filter_map(|process| process.stands.merit()).min();
                if leads != best && self.setup.mode != Mode::Alone {
                    self.violate(format!("L2: {leads:?} leads although {best:?} stands"));
                }
                (Stage::Over, Duration::ZERO)
            }
        }
    }

    fn start_controller(&mut self, index: usize) {
        let machine = Machine::new(&self.server, self.began, &mut self.rng);
        let name = format!("c{index}");
        self.tell(&format!("controller {name} starts"));
        let controller = ControllerProcess::start(&name, machine);
        if index < self.controllers.len() {
            self.controllers[index] = controller;
        } else {
            self.controllers.push(controller);
        }
    }

    fn violate(&mut self, violation: String) {
        self.tell(&format!("VIOLATION {violation}"));
        self.checker.violations.push(violation);
    }

    /// Starts the process of this number, under its own name or a new one.
    fn start(&mut self, index: usize) {
        self.started += 1;
        let name = if self.rng.random_bool(0.7) { format!("p{index}") } else { format!("p{index}-{}", self.started) };
        let stands = match self.setup.mode {
            Mode::Direct => Stands::Direct,
            Mode::Preferring => Stands::Preferring(self.rng.random_range(0..3)),
            Mode::Coordinated | Mode::Alone => Stands::As(format!("1.{}.0", self.rng.random_range(30..33))),
        };
        let machine = Machine::new(&self.server, self.began, &mut self.rng);
        let process = Process::start(&name, &stands, machine);
        self.listen(&process.leadership);
        self.last_start = Instant::now();
        self.tell(&format!("{name} starts {stands:?}"));
        if index < self.processes.len() {
            self.processes[index] = process;
        } else {
            self.processes.push(process);
        }
    }

    fn listen(&self, leadership: &Leadership) {
        let (views, mut changes) = (self.views.clone(), Box::pin(leadership.changes()));
        tokio::spawn(async move { while changes.next().await.is_some() && views.send(()).is_ok() {} });
    }

    /// Asks everybody at this instant.
    fn look(&mut self) {
        let leaders: Vec<_> =
            self.processes.iter().filter(|process| process.leads()).map(|p| p.name.as_str()).collect();
        let before = self.checker.violations.len();
        self.checker.check_leaders(&leaders);
        if self.checker.violations.len() > before {
            self.tell("VIOLATION");
        }
    }

    fn see(&mut self, event: Result<Event<ReadLease>, watcher::Error>) {
        match event {
            Ok(Event::Apply(lease) | Event::InitApply(lease)) => {
                self.report.versions += 1;
                let record = &lease.record;
                let line = format!(
                    "Lease {}: {} under {}, {} s, preferred {}",
                    record.resource_version,
                    record.holder.as_deref().unwrap_or("nobody"),
                    record.session,
                    record.duration_seconds,
                    record.preferred_holder.as_deref().unwrap_or("nobody"),
                );
                let renews = self.checker.is_renewal(record);
                if !renews {
                    self.tell(&line);
                }
                let before = self.checker.violations.len();
                self.checker.see(lease);
                if self.checker.violations.len() > before {
                    self.tell(&format!("VIOLATION {}", self.checker.violations[before]));
                }
            }
            Ok(Event::Delete(_)) => {
                self.checker.lose();
                self.tell("Lease gone");
            }
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
    }

    fn tell(&mut self, line: &str) {
        let trace = &mut self.report.trace;
        if trace.len() == MOST_LINES {
            trace.remove(0);
        }
        trace.push(format!("{:10.3} {line}", self.began.elapsed().as_secs_f64()));
    }
}
