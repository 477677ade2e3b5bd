//! Simulates a group in virtual time: real electors and a real election over the core's reference store.
//!
//! The network is perfect and takes [`LATENCY`] in each direction; a watch event takes as long. All processes have the
//! same clock. This rule must hold: only the two cores decide who leads, so the same replica would lead in a real
//! cluster.

pub(crate) mod cluster;
pub(crate) mod crash;
pub(crate) mod group;
mod watches;

use std::collections::BTreeMap;
use std::time::Duration;

use hustings_core::election::{self, Election};
use hustings_core::elector::{self, Draw, Elector, Leading};
use hustings_core::model::{
    CandidateKey, CandidatePatch, CandidateRecord, Cause, LeaseRecord, Moment, Nomination, Now, Observed, Outcome,
    ReferenceStore, Reply, Request, WireTime,
};

/// The most replicas that a command simulates. To simulate that many takes about a second.
pub(crate) const MOST_REPLICAS: usize = 100;

/// How long a request takes to the server, an answer back, and a watch event to its process.
const LATENCY: Duration = Duration::from_millis(5);

/// The most events that a simulation processes. A rollout of 100 replicas over an hour takes a tenth of them.
const MOST_EVENTS: usize = 20_000_000;

/// The jitter of every elector: half of the longest possible.
const DRAW: Draw = Draw(u32::MAX / 2);

/// A replica to start.
#[derive(Clone, Debug)]
pub(crate) struct NewReplica {
    pub(crate) config: elector::Config,
    pub(crate) nomination: Nomination,
    /// How long its work takes to stop.
    pub(crate) shutdown: Duration,
    /// Its candidate, if one exists already.
    pub(crate) candidate: Option<CandidateRecord>,
}

/// A replica of the group.
pub(crate) struct Replica {
    elector: Elector,
    nomination: Nomination,
    shutdown: Duration,
    /// Its term; `None` also once the process has ended.
    leading: Option<Leading>,
    wake_at: Option<Moment>,
    /// Whether the process has ended.
    is_gone: bool,
}

/// A change that the simulation reports to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// This replica begins to lead.
    Leads { replica: usize },
    /// This replica stops leading.
    Follows { replica: usize },
    /// The process of this replica has ended.
    Ended { replica: usize },
    /// The controller reports an event.
    Report(election::Event),
}

/// An entry of the queue. A `usize` is the number of a replica.
enum SimulationEvent {
    /// The deadline of the replica's elector has come.
    Wake(usize),
    /// An observation reaches the replica.
    Observe(usize, elector::Observation),
    /// A request of the replica reaches the server.
    Execute(usize, elector::Action),
    Kill(usize),
    /// The deadline of the controller's election has come.
    Decide,
    /// An observation reaches the controller.
    Inform(election::Observation),
    /// A request of the controller reaches the server.
    Carry(ControllerRequest),
    /// The answer to a request reaches the controller.
    Answer(ControllerRequest, Box<Reply>),
}

/// A request that the controller has sent.
struct ControllerRequest {
    request: Request,
    at: Moment,
    report: Option<election::Event>,
    /// Whether the next decision waits for its answer.
    is_awaited: bool,
}

struct SimulatedController {
    election: Election,
    awaited: usize,
    decides_at: Option<Moment>,
}

/// A group of replicas, its store, and its controller, if it has one.
pub(crate) struct Simulation {
    lease: String,
    now: Now,
    store: ReferenceStore,
    replicas: Vec<Replica>,
    controller: Option<SimulatedController>,
    queue: BTreeMap<(Moment, u64), SimulationEvent>,
    sequence: u64,
    news: Vec<(Moment, News)>,
}

impl Simulation {
    /// Creates a group without replicas at the wall-clock time `wall`. Without a `controller`, the replicas elect
    /// themselves.
    pub(crate) fn new(lease: &str, controller: Option<election::Config>, wall: WireTime) -> Self {
        let controller = controller.map(|config| SimulatedController {
            election: Election::new(config, "default", lease),
            awaited: 0,
            decides_at: None,
        });
        let mut simulation = Self {
            lease: lease.to_owned(),
            now: Now { moment: Moment::from_micros(0), wall },
            store: ReferenceStore::new(),
            replicas: Vec::new(),
            controller,
            queue: BTreeMap::new(),
            sequence: 0,
            news: Vec::new(),
        };
        simulation.push(
            Duration::ZERO,
            SimulationEvent::Inform(election::Observation::LeaseMissing { source: election::Source::Watch }),
        );
        simulation
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.now.moment.since(Moment::from_micros(0))
    }

    /// The number of the replica that leads.
    pub(crate) fn leader(&self) -> Option<usize> {
        self.replicas.iter().position(|replica| replica.leading.is_some())
    }

    /// The name of a replica.
    pub(crate) fn name(&self, replica: usize) -> &str {
        &self.replicas[replica].nomination.name
    }

    /// Whether the process of a replica has ended.
    pub(crate) fn is_gone(&self, replica: usize) -> bool {
        self.replicas[replica].is_gone
    }

    /// Returns the news since the last call, each with its time since the start.
    pub(crate) fn take_news(&mut self) -> Vec<(Duration, News)> {
        let start = Moment::from_micros(0);
        std::mem::take(&mut self.news).into_iter().map(|(at, news)| (at.since(start), news)).collect()
    }

    /// Starts a replica. Returns its number.
    pub(crate) fn start(&mut self, replica: NewReplica) -> usize {
        let NewReplica { config, nomination, shutdown, candidate } = replica;
        let index = self.replicas.len();
        if let Some(candidate) = candidate {
            let key = self.store.put_candidate(candidate).key();
            self.show_candidate(&key);
        }
        let elector = Elector::new(config, self.now);
        self.replicas.push(Replica { elector, nomination, shutdown, leading: None, wake_at: None, is_gone: false });
        self.push(Duration::ZERO, SimulationEvent::Wake(index));
        self.show_lease_to(index);
        self.show_candidate(&CandidateKey::hustings(&self.replicas[index].nomination.name.clone()));
        index
    }

    /// Asks a replica to stop, and kills it after `grace`.
    pub(crate) fn stop(&mut self, replica: usize, grace: Duration) {
        self.push(Duration::ZERO, SimulationEvent::Observe(replica, elector::Observation::Stop(Cause::Stopped)));
        self.push(grace, SimulationEvent::Kill(replica));
    }

    /// Edits the Lease as an administrator does.
    pub(crate) fn edit_lease(&mut self, edit: impl FnOnce(&mut LeaseRecord)) {
        let name = self.lease.clone();
        if self.store.edit_lease(&name, edit).is_some() {
            self.show_lease();
        }
    }

    /// Runs until `is_done`, for at most `limit`. Returns whether it is done.
    pub(crate) fn run_until(&mut self, limit: Duration, is_done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now.moment.after(limit);
        for _ in 0..MOST_EVENTS {
            if is_done(self) {
                return true;
            }
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) else { break };
            let ((at, _), event) = entry.remove_entry();
            self.pass_to(at);
            self.happen(event);
        }
        self.pass_to(end);
        is_done(self)
    }

    fn pass_to(&mut self, moment: Moment) {
        let passed = moment.since(self.now.moment);
        self.now = Now { moment: self.now.moment.after(passed), wall: self.now.wall.after(passed) };
    }

    fn push(&mut self, after: Duration, event: SimulationEvent) {
        self.sequence = self.sequence.saturating_add(1);
        self.queue.insert((self.now.moment.after(after), self.sequence), event);
    }

    fn note(&mut self, news: News) {
        self.news.push((self.now.moment, news));
    }

    fn happen(&mut self, event: SimulationEvent) {
        match event {
            SimulationEvent::Wake(index) => {
                if self.replicas[index].wake_at.is_none_or(|at| at <= self.now.moment) {
                    self.decide(index);
                }
            }
            SimulationEvent::Observe(index, observation) => {
                if !self.replicas[index].is_gone {
                    self.replicas[index].elector.observe(self.now, observation);
                    self.decide(index);
                }
            }
            SimulationEvent::Execute(index, action) => self.execute(index, &action),
            SimulationEvent::Kill(index) => self.end(index),
            SimulationEvent::Decide => {
                let is_due =
                    |controller: &SimulatedController| controller.decides_at.is_none_or(|at| at <= self.now.moment);
                if self.controller.as_ref().is_some_and(is_due) {
                    self.decide_election();
                }
            }
            SimulationEvent::Inform(observation) => self.inform(observation),
            SimulationEvent::Carry(sent) => self.carry(sent),
            SimulationEvent::Answer(sent, reply) => self.answer(sent, *reply),
        }
    }

    fn decide(&mut self, index: usize) {
        let now = self.now;
        let replica = &mut self.replicas[index];
        if replica.is_gone {
            return;
        }
        let elector::Decision { actions, leading, deadline, finished, .. } = replica.elector.decide(now, DRAW);
        let before = std::mem::replace(&mut replica.leading, leading);
        replica.wake_at = deadline;
        if let Some(deadline) = deadline {
            self.push(deadline.since(now.moment), SimulationEvent::Wake(index));
        }
        match (before, leading) {
            (None, Some(_)) => self.note(News::Leads { replica: index }),
            (Some(_), None) => self.note(News::Follows { replica: index }),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for action in actions {
            match action {
                elector::Action::StopWork => {
                    let shutdown = self.replicas[index].shutdown;
                    self.push(shutdown, SimulationEvent::Observe(index, elector::Observation::WorkStopped));
                }
                elector::Action::AbortWork => {}
                request => self.push(LATENCY, SimulationEvent::Execute(index, request)),
            }
        }
        if finished {
            self.end(index);
        }
    }

    /// Ends the process of a replica.
    pub(crate) fn end(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if std::mem::replace(&mut replica.is_gone, true) {
            return;
        }
        if replica.leading.take().is_some() {
            self.note(News::Follows { replica: index });
        }
        self.note(News::Ended { replica: index });
    }

    fn execute(&mut self, index: usize, action: &elector::Action) {
        let replica = &self.replicas[index];
        let Some(request) = action.request(replica.elector.config(), Some(&replica.nomination), None) else { return };
        let reply = self.store.execute(&request, self.now.wall);
        if let Some(observation) = action.observation(reply.clone()) {
            self.push(LATENCY, SimulationEvent::Observe(index, observation));
        }
        self.show_effect(&request, &reply);
    }

    fn inform(&mut self, observation: election::Observation) {
        if let Some(controller) = &mut self.controller {
            controller.election.observe(self.now, observation);
            self.decide_election();
        }
    }

    /// Makes the next decision of the controller, if all requests of the last one are answered.
    fn decide_election(&mut self) {
        let Some(controller) = self.controller.as_mut().filter(|controller| controller.awaited == 0) else { return };
        let now = self.now;
        let decision = controller.election.decide(now);
        let current = controller.election.lease().map(Observed::record).cloned();
        controller.decides_at = Some(decision.deadline);
        self.push(decision.deadline.since(now.moment), SimulationEvent::Decide);
        for action in decision.actions {
            let request = action.request(&self.lease, current.as_ref(), [now.wall; 3]);
            match (request, action) {
                (None, election::Action::Event(report)) => self.note(News::Report(report)),
                (None, _) => {}
                (Some(request), action) => {
                    let report = if let election::Action::WriteLease { event, .. } = action { event } else { None };
                    let is_status =
                        matches!(request, Request::PatchCandidate { patch: CandidatePatch::Status { .. }, .. });
                    self.send(ControllerRequest { request, at: now.moment, report, is_awaited: !is_status });
                }
            }
        }
    }

    fn send(&mut self, sent: ControllerRequest) {
        if let Some(controller) = &mut self.controller {
            controller.awaited = controller.awaited.saturating_add(usize::from(sent.is_awaited));
        }
        self.push(LATENCY, SimulationEvent::Carry(sent));
    }

    fn carry(&mut self, sent: ControllerRequest) {
        let reply = self.store.execute(&sent.request, self.now.wall);
        self.show_effect(&sent.request, &reply);
        self.push(LATENCY, SimulationEvent::Answer(sent, Box::new(reply)));
    }

    fn answer(&mut self, sent: ControllerRequest, reply: Reply) {
        let ControllerRequest { request, at, report, is_awaited } = sent;
        if let Some(report) = report.filter(|_| matches!(reply, Outcome::Landed(_))) {
            self.note(News::Report(report));
        }
        let observation = election::Observation::of_reply(&request, reply, at);
        let Some(controller) = &mut self.controller else { return };
        controller.awaited = controller.awaited.saturating_sub(usize::from(is_awaited));
        match observation {
            Ok(observation) => self.inform(observation),
            Err(request) => self.send(ControllerRequest { request, at: self.now.moment, report: None, is_awaited }),
        }
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::Object;

    use super::*;

    #[test]
    fn only_the_event_of_a_write_that_has_succeeded_is_reported() {
        let landed = Outcome::Landed(Object::Lease(LeaseRecord::default()));
        for (reply, is_reported) in [(landed, true), (Outcome::Conflict, false), (Outcome::Refused, false)] {
            let mut simulation = Simulation::new("l", Some(election::Config::default()), WireTime::from_micros(0));
            let event = election::Event::NoLiveCandidate { silent: 1, inadmissible: 0, excluded: 0 };
            let (request, at) = (Request::create_lease("l"), simulation.now.moment);
            simulation.answer(ControllerRequest { request, at, report: Some(event.clone()), is_awaited: false }, reply);
            let reported = simulation.take_news().into_iter().any(|(_, news)| news == News::Report(event.clone()));
            assert_eq!(reported, is_reported);
        }
    }
}
