//! The world of the direct models: one Lease, a server that enforces the conditions of writes, and processes. Their
//! events may happen in any order and after any time.
//!
//! A [`Step`] is one event, such as a deadline, a version that a watch shows, the execution of a request, an answer or
//! its loss, or a tick of the true time. No event is urgent unless the scenario makes it so. So the explored orders
//! include every pause, suspension and delay, and a process that never acts again is a dead one.

mod server;
mod steps;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hustings_core::elector::{Action, Observation, Source};
use hustings_core::model::{Cause, LeaseRecord, LeaseWrite, ObjectName, ReferenceStore, Request, SessionMark};

pub use steps::Step;

use crate::canonical::{CanonicalHasher, FIRST_VERSION, Times};
use crate::exploration::{Bounds, State, Verdict};
use crate::process::{Clock, Flight, LEASE, Process, Seat};
use crate::scenario::Scenario;

/// The unit of true time.
const TICK_MICROS: i64 = 1_000_000;

/// One state of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    scenario: Arc<Scenario>,
    /// True time.
    ticks: i64,
    store: ReferenceStore,
    /// The version that a late watch may show.
    previous: Option<LeaseRecord>,
    processes: Vec<Arc<Process>>,
    /// Writes of dead processes that may still succeed.
    orphans: Vec<LeaseWrite>,
    left: Left,
    lives: u8,
    highest_token: u64,
    verdict: Verdict,
    /// How many ticks have passed without a leader; 0 if that is not checked.
    vacant: i64,
}

/// How many more times each rare event may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Left {
    /// A process dies, and another one starts in its place.
    pub crashes: u8,
    /// A person edits the Lease.
    pub edits: u8,
    /// A person deletes the Lease.
    pub deletions: u8,
    /// A process is asked to stop.
    pub stops: u8,
}

impl State for World {
    type Scenario = Scenario;
    type Step = Step;

    fn begin(scenario: &Arc<Scenario>) -> Self {
        let mut world = Self {
            scenario: Arc::clone(scenario),
            ticks: 0,
            store: ReferenceStore::counting_apart([(ObjectName::Lease(LEASE.to_owned()), FIRST_VERSION)]),
            previous: None,
            processes: Vec::new(),
            orphans: Vec::new(),
            left: scenario.left,
            lives: 0,
            highest_token: 0,
            verdict: Verdict::default(),
            vacant: 0,
        };
        if !scenario.starts_missing {
            let session = SessionMark::Open;
            world.put(LeaseRecord { duration_seconds: 1, session, ..LeaseRecord::as_created() });
            world.previous = None;
        }
        for seat in &scenario.seats {
            let process = world.start(seat);
            world.processes.push(Arc::new(process));
        }
        world
    }

    fn bounds(scenario: &Scenario) -> Bounds {
        let Scenario { vacant_at_most_ticks, horizon_ticks, .. } = *scenario;
        Bounds { vacant_at_most_ticks, horizon_ticks, second_leads: true, evidence_counts: false }
    }

    fn steps(&self) -> Vec<Step> {
        self.what_may_happen()
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Tick => {
                self.ticks += 1;
                let (ticks, timeout) = (self.ticks, self.scenario.durations.request_timeout);
                for process in &mut self.processes {
                    if !process.flights.is_empty() {
                        Arc::make_mut(process).drop_late_flights(ticks, timeout);
                    }
                }
                if let Some(bound) = self.scenario.vacant_at_most_ticks {
                    let is_vacant = self.leading().next().is_none();
                    self.vacant = if is_vacant { (self.vacant + 1).min(bound + 1) } else { 0 };
                }
            }
            Step::Wake(who) => {
                let ticks = self.ticks;
                self.process(who).decide(ticks);
            }
            Step::Show(who) => {
                let observation = match self.lease().cloned() {
                    Some(record) => Observation::Lease { record, source: Source::Watch },
                    None => Observation::LeaseMissing { source: Source::Watch },
                };
                self.observe(who, observation);
            }
            Step::ShowOld(who) => {
                if let Some(record) = self.previous.clone() {
                    self.observe(who, Observation::Lease { record, source: Source::Watch });
                }
            }
            Step::Execute(who, index) => {
                let Flight::Sent { action, at } = self.process(who).flights.remove(index) else { return };
                let is_read = matches!(action, Action::Send { request: Request::ReadLease { .. }, .. });
                match self.execute(who, &action) {
                    None => {}
                    Some(Observation::WorkStopped) => self.observe(who, Observation::WorkStopped),
                    Some(observation) if is_read && !self.scenario.slow_reads => self.observe(who, observation),
                    Some(observation) => {
                        self.process(who).flights.insert(index, Flight::Answered { observation, at });
                    }
                }
            }
            Step::Answer(who, index) => {
                let Flight::Answered { observation, .. } = self.process(who).flights.remove(index) else { return };
                self.observe(who, observation);
            }
            Step::Lose(who, index) => {
                self.process(who).flights.remove(index);
            }
            Step::Orphan => {
                let write = self.orphans.remove(0);
                self.write(usize::MAX, write, false);
            }
            Step::Crash(who) => self.crash(who),
            Step::Stop(who) => {
                self.left.stops -= 1;
                self.observe(who, Observation::Stop(Cause::Stopped));
            }
            Step::Edit(edit) => {
                self.left.edits -= 1;
                if let Some(edited) = self.edited(edit) {
                    self.put(edited);
                }
            }
            Step::Delete => {
                self.left.deletions -= 1;
                // The premise: a process that starts now has observed nothing.
                self.left.crashes = 0;
                self.store.delete_lease(LEASE);
                self.previous = None;
            }
        }
    }

    fn ticks(&self) -> i64 {
        self.ticks
    }

    fn leading(&self) -> impl Iterator<Item = usize> {
        let reads = |(index, process): (usize, &Arc<Process>)| process.reads_leading(self.ticks).map(|_| index);
        self.processes.iter().enumerate().filter_map(reads)
    }

    fn vacant_ticks(&self) -> i64 {
        self.vacant
    }

    fn is_freed_by_evidence(&self) -> bool {
        false
    }

    fn verdict(&self) -> Verdict {
        Verdict { do_two_lead: self.leading().count() > 1, ..self.verdict }
    }
}

impl World {
    fn lease(&self) -> Option<&LeaseRecord> {
        self.store.lease(LEASE)
    }

    fn start(&mut self, seat: &Seat) -> Process {
        self.lives += 1;
        let session = match seat.place {
            Some(place) => format!("pod-{place}.web.1.{}", self.lives),
            None => format!("s{}", self.lives),
        };
        Process::start(seat, session, self.scenario.durations, TICK_MICROS, self.ticks)
    }

    fn process(&mut self, who: usize) -> &mut Process {
        Arc::make_mut(&mut self.processes[who])
    }

    fn observe(&mut self, who: usize, observation: Observation) {
        let ticks = self.ticks;
        let former = self.processes[who].reads_leading(ticks).map(|leading| leading.token);
        self.process(who).observe(ticks, observation);
        let token = self.processes[who].reads_leading(ticks).map_or(0, |leading| leading.token);
        if token != 0 && former != Some(token) {
            self.verdict.has_token_fallen |= token <= self.highest_token;
            self.highest_token = token;
        }
    }

    fn crash(&mut self, who: usize) {
        self.left.crashes -= 1;
        let seat = self.scenario.seats[who].clone();
        let successor = self.start(&seat);
        let flights = std::mem::take(&mut self.process(who).flights);
        self.orphans.extend(flights.into_iter().filter_map(|flight| match flight {
            Flight::Sent { action: Action::Send { request: Request::WriteLease { write, .. }, .. }, .. } => {
                Some(*write)
            }
            _ => None,
        }));
        self.processes[who] = Arc::new(successor);
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let wall = Clock { fast_ppm: 0, tick_micros: TICK_MICROS }.at(self.ticks).wall;
        let mut canonical =
            CanonicalHasher::new(Times::Equal, wall.as_micros(), TICK_MICROS, self.scenario.memory_micros);
        let server = canonical.of("", 0, 1);
        (&self.store, &self.previous, &self.orphans).hash(server);
        (self.left, self.lives, self.highest_token, self.verdict, u32::try_from(self.vacant).unwrap_or(u32::MAX))
            .hash(server);
        for process in &self.processes {
            process.hash_into(&mut canonical, self.ticks, self.scenario.longest_delay_ticks.is_some());
        }
        canonical.pass_to(hasher);
    }
}
