//! Electors and controllers, each with its own clock, over one server and a network that delays and loses requests.

mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::elector::{Action, Config, Durations, ElectorMode, FailOpen, Observation, Range, Timing};
use hustings_core::model::{CandidateRecord, LeaseRecord, Reply, Strategy, WireTime};
use hustings_core::{election, elector};

use crate::controller::{Controller, PendingRequest};
use crate::native::Native;
use crate::process::{Fate, Process, WALL_START_MICROS};
use crate::replica::Replica;
use crate::server::Server;

/// The name of the one Lease.
pub const LEASE: &str = "lease";

/// Something that happens at a certain time.
pub(crate) enum Event {
    /// A process decides, because its deadline has come.
    Wake(Who),
    /// An elector observes.
    Observe(usize, elector::Observation),
    /// A controller observes.
    Inform(usize, election::Observation),
    /// A request of an elector reaches the server.
    Execute(usize, Action, Fate),
    /// A request of a controller reaches the server.
    Carry(usize, Box<PendingRequest>, Fate),
    /// A controller gets an answer.
    Answer(usize, Box<PendingRequest>, Reply),
}

/// A process of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Replica(usize),
    Controller(usize),
    Native(usize),
}

/// The lab.
pub struct Lab {
    /// The true time since the start.
    pub now_micros: i64,
    /// The server.
    pub server: Server,
    /// The electors.
    pub replicas: Vec<Replica>,
    /// The controllers.
    pub controllers: Vec<Controller>,
    /// The processes of client-go.
    pub natives: Vec<Native>,
    /// The events, one line each, with the true time in seconds.
    pub transcript: Vec<String>,
    /// Whether the transcript contains the routine of electors: renewals and reads.
    pub shows_routine: bool,
    /// Draws the jitter of electors; the constant 0 in scripts.
    pub chance: Box<dyn FnMut() -> u32>,
    /// Draws the fate of each request, instead of the fate that is set for its process.
    pub fates: Option<Box<dyn FnMut() -> Fate>>,
    /// The token of each term, in the order in which the terms began.
    pub tokens: Vec<u64>,
    /// The latest wall-clock instant that each elector could own so far, by its session and the start of its range.
    pub owned: BTreeMap<(String, WireTime), WireTime>,
    /// The violations of S1: electors that led at the same instant.
    pub violations: Vec<String>,
    queue: BTreeMap<(i64, u64), Event>,
    sequence: u64,
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// A lab without processes and objects.
    pub fn new() -> Self {
        Self {
            now_micros: 0,
            server: Server::default(),
            replicas: Vec::new(),
            controllers: Vec::new(),
            natives: Vec::new(),
            transcript: Vec::new(),
            shows_routine: true,
            chance: Box::new(|| 0),
            fates: None,
            tokens: Vec::new(),
            owned: BTreeMap::new(),
            violations: Vec::new(),
            queue: BTreeMap::new(),
            sequence: 0,
        }
    }

    /// The true time, as a correct wall clock shows it.
    pub fn wall(&self) -> WireTime {
        wall_at(self.now_micros)
    }

    /// The current version of the Lease.
    pub fn lease(&self) -> Option<&LeaseRecord> {
        self.server.lease()
    }

    /// Starts an elector.
    pub fn add(&mut self, replica: Replica) {
        self.replicas.push(replica);
        self.begin(self.replicas.len() - 1);
    }

    /// Starts an elector in place of a crashed one. Answers and events on their way to the former one are lost.
    pub fn replace(&mut self, index: usize, replica: Replica) {
        self.queue.retain(|_, event| match event {
            Event::Wake(Who::Replica(to)) | Event::Observe(to, _) => *to != index,
            _ => true,
        });
        self.replicas[index] = replica;
        self.begin(index);
    }

    /// Makes the first decision of an elector, and lets its watches show the current state.
    fn begin(&mut self, index: usize) {
        let nomination = self.replicas[index].nomination();
        self.replicas[index].elector.declare(&nomination);
        self.push(self.now_micros, Event::Wake(Who::Replica(index)));
        self.show_lease(Who::Replica(index));
        self.show_own_candidate(index);
    }

    /// Gives an elector an observation at this instant.
    pub fn observe(&mut self, index: usize, observation: Observation) {
        self.push(self.now_micros, Event::Observe(index, observation));
    }

    /// Edits the Lease as a third party, which creates it if it is missing.
    pub fn edit_lease(&mut self, edit: impl FnOnce(&mut LeaseRecord)) {
        self.server.edit_lease(edit);
        self.lease_changed();
    }

    /// Grants the Lease as a controller does, whatever its state is.
    pub fn grant(&mut self, electee: &str) {
        self.server.grant(electee, self.wall());
        self.lease_changed();
    }

    /// Deletes the Lease.
    pub fn delete_lease(&mut self) {
        self.server.store.delete_lease(LEASE);
        self.lease_changed();
    }

    /// Edits a candidate as a third party, if there is one of this name.
    pub fn edit_candidate(&mut self, name: &str, edit: impl FnOnce(&mut CandidateRecord)) {
        self.server.store.edit_candidate(name, edit);
        self.candidate_changed(name);
    }

    /// Pings a candidate, like a controller whose wall clock is ahead by `ahead_micros`.
    pub fn ping(&mut self, name: &str, ahead_micros: i64) {
        let wall = wall_at(self.now_micros + ahead_micros);
        self.edit_candidate(name, |candidate| {
            candidate.ping_time = Some(wall.later_than(candidate.ping_time).later_than(candidate.renew_time));
        });
    }

    /// Deletes a candidate.
    pub fn delete_candidate(&mut self, name: &str) {
        self.server.store.delete_candidate(name);
        self.candidate_changed(name);
    }

    /// Runs all events until `until_micros`.
    ///
    /// # Panics
    /// Panics after `most_events` events, since a process then never stops acting.
    pub fn run_until(&mut self, until_micros: i64, most_events: usize) {
        for _ in 0..most_events {
            let Some((&(at, _), _)) = self.queue.first_key_value() else { break };
            if at > until_micros {
                break;
            }
            let ((at, _), event) = self.queue.pop_first().unwrap();
            self.now_micros = self.now_micros.max(at);
            self.note_ranges();
            self.happen(event);
            self.note_ranges();
            let leading = self.replicas.iter().filter(|replica| replica.reads_leading(self.now_micros));
            let natives = self.natives.iter().filter(|native| native.reads_leading(self.now_micros));
            let leading: Vec<&str> = leading
                .map(|replica| replica.process.label.as_str())
                .chain(natives.map(|native| native.process.label.as_str()))
                .collect();
            if leading.len() > 1 {
                self.violations.push(format!("{} {}", seconds(self.now_micros), leading.join(" and ")));
            }
        }
        let is_drained = self.queue.first_key_value().is_none_or(|(&(at, _), _)| at > until_micros);
        let last = &self.transcript[self.transcript.len().saturating_sub(30)..];
        assert!(is_drained, "more than {most_events} events: a process does not rest: {last:#?}");
        self.now_micros = self.now_micros.max(until_micros);
    }

    /// Wall-clock instants that two processes could own, at any time so far.
    pub fn overlaps(&self) -> Vec<String> {
        let ranges: Vec<_> = self.owned.iter().map(|((session, start), until)| (session, start, until)).collect();
        let pairs =
            ranges.iter().enumerate().flat_map(|(index, one)| ranges[index + 1..].iter().map(move |two| (one, two)));
        let overlapping = pairs.filter(|(one, two)| one.0 != two.0 && one.1 < two.2 && two.1 < one.2);
        overlapping.map(|pair| format!("{pair:?}")).collect()
    }

    /// Records which instants each process would own if it were asked now about all instants that its clock has shown.
    fn note_ranges(&mut self) {
        for replica in &self.replicas {
            if replica.process.crashed || self.now_micros < replica.process.frozen_until {
                continue;
            }
            let Some(Range { start, end, .. }) = replica.range else { continue };
            let until = end.min(replica.process.local(self.now_micros).wall);
            if until > start {
                let owned = self.owned.entry((replica.elector.config().session.clone(), start)).or_insert(until);
                *owned = until.max(*owned);
            }
        }
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.transcript.push(format!("{} {text}", seconds(self.now_micros)));
    }

    pub(crate) fn push(&mut self, at: i64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    pub(crate) fn process(&mut self, who: Who) -> &mut Process {
        match who {
            Who::Replica(index) => &mut self.replicas[index].process,
            Who::Controller(index) => &mut self.controllers[index].process,
            Who::Native(index) => &mut self.natives[index].process,
        }
    }

    /// The fate of the next request of this process.
    pub(crate) fn draw_fate(&mut self, who: Who) -> Fate {
        match &mut self.fates {
            Some(fates) => fates(),
            None => self.process(who).fate,
        }
    }

    fn happen(&mut self, event: Event) {
        let who = match event {
            Event::Execute(index, action, fate) => return self.execute(index, &action, fate),
            Event::Carry(index, pending, fate) => return self.carry(index, pending, fate),
            Event::Wake(who) => who,
            Event::Observe(index, _) => Who::Replica(index),
            Event::Inform(index, _) | Event::Answer(index, ..) => Who::Controller(index),
        };
        let true_micros = self.now_micros;
        let process = self.process(who);
        if process.crashed {
            return;
        }
        if true_micros < process.frozen_until {
            let at = process.frozen_until;
            return self.push(at, event);
        }
        let now = process.local(true_micros);
        match event {
            Event::Wake(_) => {
                if process.next_wake.is_some_and(|at| at > true_micros) {
                    return; // A later decision has replaced this deadline.
                }
            }
            Event::Observe(index, observation) => self.replicas[index].elector.observe(now, observation),
            Event::Inform(index, observation) => self.inform(index, observation),
            Event::Answer(index, pending, reply) => self.answer(index, *pending, reply),
            Event::Execute(..) | Event::Carry(..) => unreachable!("handled above"),
        }
        match who {
            Who::Replica(index) => self.decide(index),
            Who::Controller(index) => self.decide_election(index),
            Who::Native(index) => self.play_native(index),
        }
    }
}

/// The time that a correct wall clock shows at this true time.
pub const fn wall_at(true_micros: i64) -> WireTime {
    WireTime::from_micros(WALL_START_MICROS + true_micros)
}

/// The configuration of an elector.
///
/// # Panics
/// Panics if the durations are invalid.
pub fn config(name: &str, session: &str, mode: ElectorMode, durations: Durations) -> Config {
    Config {
        identity: name.to_owned(),
        lease_name: LEASE.to_owned(),
        session: session.to_owned(),
        mode,
        strategy: Strategy::OldestEmulationVersion,
        fallback: true,
        timing: Timing::new(durations).unwrap(),
        fail_open: FailOpen::Off,
        keeps_on_stop: false,
    }
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap()
}

pub(crate) fn seconds(micros: i64) -> String {
    format!("{}.{:03}", micros / 1_000_000, micros % 1_000_000 / 1000)
}
