//! Electors and controllers, each with its own clock, over one server and a network that delays and loses requests.

mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::elector::{AttemptId, CandidateConfig, Config, ElectorMode, FailOpen, Observation, Timing};
use hustings_core::model::{
    CandidateKey, CandidateRecord, Cause, LeaseRecord, Moment, Reply, Request, Strategy, WireTime,
};
use hustings_core::{election, elector};

use crate::bare::Bare;
use crate::checks::Checks;
use crate::controller::{Controller, PendingRequest};
use crate::native::Native;
use crate::news::{Entry, News, Who};
use crate::process::{Fate, Process, micros, true_micros_at, wall_at};
use crate::replica::Replica;
use crate::reverting::Reverting;
use crate::server::Server;

/// The name of the Lease in tests.
pub const LEASE: &str = "lease";

/// Something that happens at a certain time.
pub(crate) enum Happening {
    /// A process decides, because its deadline has come.
    Wake(Who),
    /// An elector observes.
    Observe(usize, elector::Observation),
    /// A controller reports an event.
    Report(usize, election::Event),
    /// A controller observes.
    Inform(usize, election::Observation),
    /// A watch shows a controller a Pod or a Node.
    Show(usize, Vec<election::Observation>),
    /// The client that reverts changes observes what has changed.
    Revert,
    /// A request of an elector reaches the server.
    Execute(usize, AttemptId, Request, Fate),
    /// A request of a controller reaches the server.
    Carry(usize, Box<PendingRequest>, Fate),
    /// A controller gets an answer.
    Answer(usize, Box<PendingRequest>, Reply),
    /// The process of an elector is killed.
    Kill(usize),
}

/// The turns of one round. The rounds of an instant follow each other until nothing is left to do: all processes act,
/// then the client that reverts changes, then the first controller decides, then the others.
const TURNS: u64 = 5;

/// The lab.
pub struct Lab {
    /// The true time.
    pub now_micros: i64,
    /// The server.
    pub server: Server,
    /// The electors.
    pub replicas: Vec<Replica>,
    /// The controllers.
    pub controllers: Vec<Controller>,
    /// The processes of client-go.
    pub natives: Vec<Native>,
    /// The bare processes.
    pub bare: Vec<Bare>,
    /// A client that reverts changes.
    pub reverting: Reverting,
    /// Draws the jitter of electors; the constant 0 in scripts.
    pub chance: Box<dyn FnMut() -> u32>,
    /// Draws the fate of each request, instead of the fate that is set for its process.
    pub fates: Option<Box<dyn FnMut() -> Fate>>,
    /// What has happened.
    pub news: Vec<Entry>,
    /// Whether the news contain requests.
    pub records_requests: bool,
    /// Checks of each event, for tests.
    pub checks: Option<Checks>,
    /// What will happen, by its time and turn.
    queue: BTreeMap<(i64, u64, u64), Happening>,
    /// The turn of the current event.
    turn: u64,
    sequence: u64,
}

impl Lab {
    /// A lab without processes and objects, for the elections of this Lease.
    pub fn new(lease_name: &str, wall: WireTime) -> Self {
        Self {
            now_micros: true_micros_at(wall),
            server: Server::new(lease_name),
            replicas: Vec::new(),
            controllers: Vec::new(),
            natives: Vec::new(),
            bare: Vec::new(),
            reverting: Reverting::default(),
            chance: Box::new(|| 0),
            fates: None,
            news: Vec::new(),
            records_requests: false,
            checks: None,
            queue: BTreeMap::new(),
            turn: 0,
            sequence: 0,
        }
    }

    /// A lab for tests: it records each request, and checks each event.
    pub fn checked() -> Self {
        Self { records_requests: true, checks: Some(Checks::default()), ..Self::new(LEASE, wall_at(0)) }
    }

    /// The true time, as a correct wall clock shows it.
    pub fn wall(&self) -> WireTime {
        wall_at(self.now_micros)
    }

    /// The current version of the Lease.
    pub fn lease(&self) -> Option<&LeaseRecord> {
        self.server.lease()
    }

    /// Starts an elector, and returns its number.
    pub fn add(&mut self, replica: Replica) -> usize {
        let index = self.replicas.len();
        self.replicas.push(replica);
        self.begin(index);
        index
    }

    /// Starts an elector in place of a crashed one. Answers and events on their way to the former one are lost.
    pub fn replace(&mut self, index: usize, replica: Replica) {
        self.queue.retain(|_, event| match event {
            Happening::Wake(Who::Replica(to)) | Happening::Observe(to, _) => *to != index,
            _ => true,
        });
        self.replicas[index] = replica;
        self.begin(index);
    }

    /// Starts a controller in place of another one. Answers and events on their way to the former one are lost.
    pub fn replace_controller(&mut self, index: usize, controller: Controller) {
        self.queue.retain(|_, event| match event {
            Happening::Wake(Who::Controller(to))
            | Happening::Report(to, _)
            | Happening::Inform(to, _)
            | Happening::Show(to, ..)
            | Happening::Carry(to, ..)
            | Happening::Answer(to, ..) => *to != index,
            _ => true,
        });
        self.controllers[index] = controller;
        self.relist(index);
        self.nudge(Who::Controller(index));
    }

    /// Makes the first decision of an elector, and lets its watches show the current state.
    fn begin(&mut self, index: usize) {
        self.nudge(Who::Replica(index));
        self.show_lease(Who::Replica(index));
        self.show_own_candidate(index);
    }

    /// Gives an elector an observation at this instant.
    pub fn observe(&mut self, index: usize, observation: Observation) {
        self.push(self.now_micros, Happening::Observe(index, observation));
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
        self.server.store.delete_lease(&self.server.lease_name);
        self.lease_changed();
    }

    /// Edits a candidate as a third party, if there is one of this name.
    pub fn edit_candidate(&mut self, candidate: impl Into<CandidateKey>, edit: impl FnOnce(&mut CandidateRecord)) {
        let candidate = candidate.into();
        self.server.store.edit_candidate(candidate.clone(), edit);
        self.candidate_changed(candidate);
    }

    /// Pings a candidate, like a controller whose wall clock is ahead by `ahead_micros`.
    pub fn ping(&mut self, name: &str, ahead_micros: i64) {
        let wall = wall_at(self.now_micros + ahead_micros);
        self.edit_candidate(name, |candidate| {
            candidate.ping_time = Some(wall.later_than(candidate.ping_time).later_than(candidate.renew_time));
        });
    }

    /// Deletes a candidate.
    pub fn delete_candidate(&mut self, candidate: impl Into<CandidateKey>) {
        let candidate = candidate.into();
        self.server.store.delete_candidate(candidate.clone());
        self.candidate_changed(candidate);
    }

    /// The number of the elector that leads.
    pub fn leader(&self) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.leading.is_some())
    }

    /// Asks an elector to stop, and kills its process after `grace`.
    pub fn stop(&mut self, index: usize, grace: Duration) {
        self.observe(index, Observation::Stop(Cause::Stopped));
        self.push(self.now_micros.saturating_add(micros(grace)), Happening::Kill(index));
    }

    /// Runs until `is_done`, or until `until_micros`. Returns false if that takes more than `most_events` events.
    pub fn run_until(&mut self, until_micros: i64, most_events: usize, mut is_done: impl FnMut(&Self) -> bool) -> bool {
        for _ in 0..most_events {
            if is_done(self) {
                return true;
            }
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until_micros) else {
                self.now_micros = self.now_micros.max(until_micros);
                self.turn = 0;
                return true;
            };
            let ((at, turn, _), event) = entry.remove_entry();
            (self.now_micros, self.turn) = (self.now_micros.max(at), turn);
            self.check_ranges();
            self.happen(event);
            self.check_ranges();
            self.check_leaders();
        }
        false
    }

    pub(crate) fn push(&mut self, at: i64, event: Happening) {
        self.sequence = self.sequence.saturating_add(1);
        let is_now = at == self.now_micros;
        let round = if is_now { self.turn } else { 0 };
        let next = |turn: u64| if is_now && turn <= round { turn + ((round - turn) / TURNS + 1) * TURNS } else { turn };
        let turn = match event {
            Happening::Wake(Who::Bare(_) | Who::Native(_)) => next(1),
            Happening::Revert => next(2),
            // Before it decides, a controller observes everything that has happened by then.
            Happening::Wake(Who::Controller(0)) => next(3),
            Happening::Wake(Who::Controller(_)) => next(4),
            // What follows at once belongs to the same turn.
            _ => round,
        };
        self.queue.insert((at, turn, self.sequence), event);
    }

    /// The process of this name. If several electors have the name, it is the newest one, because it has replaced the
    /// others.
    pub fn find(&self, name: &str) -> Option<Who> {
        let is_it = |process: &Process| process.name == name;
        let replica = self.replicas.iter().rposition(|replica| is_it(&replica.process)).map(Who::Replica);
        let bare = || self.bare.iter().position(|bare| is_it(&bare.process)).map(Who::Bare);
        let native = || self.natives.iter().position(|native| is_it(&native.process)).map(Who::Native);
        let controller = || self.controllers.iter().rposition(|of| is_it(&of.process)).map(Who::Controller);
        replica.or_else(bare).or_else(native).or_else(controller)
    }

    /// The candidate of this name. If there are two, it is that of `hustings.io`.
    pub fn candidate_of(&self, name: &str) -> CandidateKey {
        match self.find(name) {
            Some(Who::Native(_)) => CandidateKey::native(name),
            _ => CandidateKey::hustings(name),
        }
    }

    /// A process of the lab.
    pub fn process(&mut self, who: Who) -> &mut Process {
        match who {
            Who::Replica(index) => &mut self.replicas[index].process,
            Who::Controller(index) => &mut self.controllers[index].process,
            Who::Native(index) => &mut self.natives[index].process,
            Who::Bare(index) => &mut self.bare[index].process,
        }
    }

    /// The fate of the next request of this process.
    pub(crate) fn draw_fate(&mut self, who: Who) -> Fate {
        match &mut self.fates {
            Some(fates) => fates(),
            None => self.process(who).fate,
        }
    }

    fn happen(&mut self, event: Happening) {
        let who = match event {
            Happening::Execute(index, attempt, request, fate) => return self.execute(index, attempt, &request, fate),
            Happening::Carry(index, pending, fate) => return self.carry(index, pending, fate),
            Happening::Kill(index) => return self.end(index),
            Happening::Revert => return self.revert(),
            Happening::Wake(who) => who,
            Happening::Observe(index, _) => Who::Replica(index),
            Happening::Report(index, _)
            | Happening::Inform(index, _)
            | Happening::Show(index, ..)
            | Happening::Answer(index, ..) => Who::Controller(index),
        };
        let true_micros = self.now_micros;
        let process = self.process(who);
        if process.crashed {
            process.next_wake = None;
            return;
        }
        if true_micros < process.frozen_until {
            let at = process.frozen_until;
            return self.push(at, event);
        }
        let now = process.local(true_micros);
        let is_wake = matches!(event, Happening::Wake(_));
        match event {
            // A later decision has replaced this deadline.
            Happening::Wake(_) if process.next_wake.is_none_or(|at| at > true_micros) => return,
            Happening::Wake(_) => process.next_wake = None,
            Happening::Observe(index, observation) => self.replicas[index].elector.observe(now, observation),
            Happening::Report(_, report) => self.note(who, News::Report(report)),
            Happening::Inform(index, observation) => self.inform(index, observation),
            Happening::Show(index, observations) => {
                for observation in &observations {
                    self.inform(index, observation.clone());
                }
                self.note_request(who, || News::Shown(observations));
            }
            Happening::Answer(index, pending, reply) => self.answer(index, *pending, reply),
            Happening::Revert | Happening::Execute(..) | Happening::Carry(..) | Happening::Kill(_) => {}
        }
        match who {
            Who::Replica(index) => self.decide(index),
            Who::Controller(index) if is_wake => self.decide_election(index),
            Who::Controller(_) => self.nudge(who),
            Who::Native(index) => self.play_native(index),
            Who::Bare(index) => self.play_bare(index),
        }
    }

    /// Wakes the process at its deadline, and not at an earlier one.
    pub(crate) fn wake_at(&mut self, who: Who, deadline: Option<Moment>) {
        let now_micros = self.now_micros;
        let process = self.process(who);
        process.next_wake = deadline.map(|deadline| process.true_micros(deadline).max(now_micros));
        if let Some(at) = process.next_wake {
            self.push(at, Happening::Wake(who));
        }
    }

    /// Lets a process act now.
    pub fn nudge(&mut self, who: Who) {
        let now = Some(self.now_micros);
        if std::mem::replace(&mut self.process(who).next_wake, now) != now {
            self.push(self.now_micros, Happening::Wake(who));
        }
    }
}

/// A candidate of this version with this strategy.
pub fn candidate(version: &str, strategy: Strategy) -> CandidateConfig {
    CandidateConfig {
        binary_version: version.to_owned(),
        emulation_version: strategy.needs_emulation_version().then(|| version.to_owned()),
        strategy: Some(strategy),
        priority: None,
        pod: None,
        fallback: true,
    }
}

/// The mode of an elector with a candidate of version 1.0 and the default strategy.
pub fn coordinated() -> ElectorMode {
    ElectorMode::Coordinated(Box::new(candidate("1.0", Strategy::default())))
}

/// The configuration of an elector: one that stands for [`LEASE`] in this way, and is as usual in everything else.
pub fn config(name: &str, session: &str, mode: ElectorMode, timing: Timing) -> Config {
    Config {
        identity: name.to_owned(),
        lease_name: LEASE.to_owned(),
        session: session.to_owned(),
        mode,
        timing,
        fail_open: FailOpen::Off,
        keeps_on_stop: false,
    }
}
