//! What may happen next, and when time may pass.

use hustings_core::elector::{Action, Observation};
use hustings_core::model::Cause;

use super::Cluster;
use crate::edit::Edit;
use crate::process::Flight;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// True time passes.
    Tick,
    /// A process notices that its deadline has come.
    Wake(Who),
    /// The watches of a process show what is new.
    Show(Who),
    /// The server executes a request. An elector gets its answer at once; a controller gets all answers together.
    Execute(Who, usize),
    /// An answer that arrived while the elector was frozen is processed.
    Answer(usize, usize),
    /// A controller receives its answers.
    Receive(usize),
    /// The sender of a request no longer waits. The request may succeed much later, or never.
    Lose(Who, usize),
    /// Such a request succeeds.
    Land(usize),
    /// A process freezes.
    Sleep(Who),
    /// A frozen process runs again.
    Rise(Who),
    /// The watches of a process fall silent.
    Silence(Who),
    /// Silent watches work again.
    Resume(Who),
    /// A process dies, and another one starts in its place.
    Crash(Who),
    /// An elector dies, and no other starts in its place.
    Die(usize),
    /// An elector is asked to stop.
    Stop(usize),
    /// A person edits the Lease.
    Edit(Edit),
    /// A person deletes the Lease.
    Delete,
    /// A person deletes a candidate.
    DeleteCandidate(usize),
    /// The other controller leads from now on, and the former one does not know that yet.
    TakeOver,
    /// The former controller observes that it no longer leads.
    StandDown,
    /// The kubelet reports the end of the container of this replica.
    Report(usize),
    /// The kubelet reports that end although the replica is only frozen.
    Lie(usize),
}

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The elector with this index.
    Replica(usize),
    /// The controller with this index.
    Controller(usize),
}

const EDITS: [Edit; 9] = [
    Edit::Holder(None),
    Edit::Holder(Some("stranger")),
    Edit::Holder(Some("b")),
    Edit::Duration(1),
    Edit::NoSession,
    Edit::Preferred("b"),
    Edit::Preferred("stranger"),
    Edit::Label,
    Edit::LateRelease,
];

impl Cluster {
    pub(super) fn what_may_happen(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        self.steps_of_replicas(&mut steps);
        self.steps_of_controllers(&mut steps);
        if steps.is_empty() {
            steps.push(Step::Tick);
        }
        self.ends_of_faults(&mut steps);
        self.faults(&mut steps);
        steps
    }

    /// The steps of electors that must happen before the next tick.
    fn steps_of_replicas(&self, steps: &mut Vec<Step>) {
        for (index, replica) in self.replicas.iter().enumerate() {
            let who = Who::Replica(index);
            for (flight, is_sent) in replica.process.flights.iter().map(is_sent).enumerate() {
                if is_sent {
                    steps.push(Step::Execute(who, flight));
                } else if !replica.is_asleep {
                    steps.push(Step::Answer(index, flight));
                }
            }
            if replica.is_asleep {
                continue;
            }
            if replica.process.is_due(self.ticks) {
                steps.push(Step::Wake(who));
            }
            if !self.scenario.is_prompt && replica.is_shown_news(index, &self.store) {
                steps.push(Step::Show(who));
            }
        }
    }

    fn steps_of_controllers(&self, steps: &mut Vec<Step>) {
        for (index, controller) in self.controllers.iter().enumerate() {
            let who = Who::Controller(index);
            let sent = controller.sent().map(|errand| Step::Execute(who, errand));
            steps.extend(sent.take(if self.scenario.is_prompt { 1 } else { usize::MAX }));
            if controller.is_asleep {
                continue;
            }
            if controller.is_answered() {
                steps.push(Step::Receive(index));
            }
            if controller.is_due(self.ticks) {
                steps.push(Step::Wake(who));
            }
            if !self.scenario.is_prompt && controller.is_shown_news(&self.store) {
                steps.push(Step::Show(who));
            }
        }
    }

    fn ends_of_faults(&self, steps: &mut Vec<Step>) {
        steps.extend((0..self.strays.len()).map(Step::Land));
        for who in self.everybody() {
            let (is_asleep, is_silenced) = self.impaired(who);
            let is_dead = matches!(who, Who::Replica(who) if self.replicas[who].is_dead);
            steps.extend((is_asleep && !is_dead).then_some(Step::Rise(who)));
            steps.extend((is_silenced && !is_asleep).then_some(Step::Resume(who)));
        }
        steps.extend((0..self.replicas.len()).filter(|who| self.kubelet.has_unreported(*who)).map(Step::Report));
        if let [first, second] = &self.controllers[..]
            && first.leads()
            && second.leads()
        {
            steps.push(Step::StandDown);
        }
    }

    fn faults(&self, steps: &mut Vec<Step>) {
        let left = self.left;
        for who in self.everybody() {
            let (is_asleep, is_silenced) = self.impaired(who);
            let (crashes, sleeps) = match who {
                Who::Replica(_) => (left.crashes, left.sleeps),
                Who::Controller(_) => (left.controller_crashes, left.controller_sleeps),
            };
            if crashes > 0 {
                steps.push(Step::Crash(who));
            }
            if sleeps > 0 && !is_asleep {
                steps.push(Step::Sleep(who));
            }
            if left.silences > 0 && !is_silenced {
                steps.push(Step::Silence(who));
            }
            if left.losses > 0 {
                match who {
                    Who::Replica(index) => {
                        let flights = self.replicas[index].process.flights.iter().enumerate();
                        let requests = flights.filter(|(_, flight)| is_request(flight));
                        steps.extend(requests.map(|(flight, _)| Step::Lose(who, flight)));
                    }
                    Who::Controller(index) => {
                        steps.extend(self.controllers[index].sent().map(|errand| Step::Lose(who, errand)));
                    }
                }
            }
        }
        if left.deaths > 0 {
            steps.extend((0..self.replicas.len()).map(Step::Die));
        }
        if left.stops > 0 {
            steps.extend((0..self.replicas.len()).map(Step::Stop));
        }
        if let Some(lease) = self.store.lease().filter(|_| left.edits > 0) {
            steps.extend(EDITS.into_iter().filter(|edit| edit.applied_to(lease).is_some()).map(Step::Edit));
            let candidates = (0..self.store.seats).filter(|who| self.store.candidate(*who).is_some());
            steps.extend(candidates.map(Step::DeleteCandidate));
        }
        // The premise: every process that may act on the Lease has observed it held.
        if left.deletions > 0
            && self.store.lease().is_some()
            && self.controllers.iter().all(|controller| controller.has_seen_held())
        {
            steps.push(Step::Delete);
        }
        if left.lies > 0 {
            let is_frozen = |who: &usize| self.replicas[*who].is_asleep && !self.replicas[*who].is_dead;
            steps.extend((0..self.replicas.len()).filter(is_frozen).map(Step::Lie));
        }
        if left.take_overs > 0 {
            steps.push(Step::TakeOver);
        }
    }

    fn everybody(&self) -> impl Iterator<Item = Who> {
        let replicas = (0..self.replicas.len()).map(Who::Replica);
        replicas.chain((0..self.controllers.len()).map(Who::Controller))
    }

    /// Whether the process is frozen, and whether its watches are silent.
    fn impaired(&self, who: Who) -> (bool, bool) {
        match who {
            Who::Replica(who) => (self.replicas[who].is_asleep, self.replicas[who].is_silenced),
            Who::Controller(who) => (self.controllers[who].is_asleep, self.controllers[who].is_silenced),
        }
    }

    pub(super) fn happen(&mut self, step: Step) {
        match step {
            Step::Tick => return self.pass_tick(),
            Step::Wake(who) => return self.wake(who),
            Step::Show(who) => return self.show(who),
            Step::Execute(who, index) => return self.execute(who, index),
            Step::Answer(who, index) => {
                let Flight::Answered { observation, .. } = self.replica(who).process.flights.remove(index) else {
                    return;
                };
                return self.observe_replica(who, observation);
            }
            Step::Receive(who) => return self.receive_answers(who),
            Step::Lose(who, index) => {
                self.left.losses -= 1;
                self.lose(who, index);
            }
            Step::Land(index) => {
                let request = self.strays.remove(index);
                self.reply(None, request);
            }
            Step::Sleep(who) => {
                match who {
                    Who::Replica(_) => self.left.sleeps -= 1,
                    Who::Controller(_) => self.left.controller_sleeps -= 1,
                }
                *self.is_asleep(who) = true;
            }
            Step::Rise(who) => *self.is_asleep(who) = false,
            Step::Silence(who) => {
                self.left.silences -= 1;
                *self.is_silenced(who) = true;
            }
            Step::Resume(who) => *self.is_silenced(who) = false,
            Step::Crash(who) => {
                match who {
                    Who::Replica(_) => self.left.crashes -= 1,
                    Who::Controller(_) => self.left.controller_crashes -= 1,
                }
                self.crash(who);
            }
            Step::Die(who) => {
                self.left.deaths -= 1;
                self.end(who);
                self.strays.extend(self.replicas[who].requests());
                let replica = self.replica(who);
                (replica.is_asleep, replica.is_dead) = (true, true);
                replica.process.flights.clear();
            }
            Step::Stop(who) => {
                self.left.stops -= 1;
                self.observe_replica(who, Observation::Stop(Cause::Stopped));
            }
            Step::Edit(edit) => {
                self.left.edits -= 1;
                let edited = self.store.lease().and_then(|lease| edit.applied_to(lease));
                if let Some(edited) = edited {
                    self.store.put_lease(edited);
                }
            }
            Step::Delete => {
                self.left.deletions -= 1;
                // The premise: a process that starts now has observed nothing.
                self.left.controller_crashes = 0;
                self.store.delete_lease();
            }
            Step::DeleteCandidate(who) => {
                self.left.edits -= 1;
                self.store.delete_candidate(who);
            }
            Step::TakeOver => {
                self.left.take_overs -= 1;
                self.lead(1, true);
            }
            Step::StandDown => self.lead(0, false),
            Step::Report(who) => self.report(who),
            Step::Lie(who) => {
                self.left.lies -= 1;
                self.kubelet.end(who, self.ticks);
                self.report(who);
            }
        }
        // Something was wrong, so the bound on the time without a leader starts again.
        self.vacant = 0;
        let store = &self.store;
        self.strays.retain(|stray| store.may_land(stray));
    }

    /// The kubelet reports an end, and the controllers that are awake observe it.
    fn report(&mut self, who: usize) {
        self.kubelet.report(who);
        for who in 0..self.controllers.len() {
            if !self.controllers[who].is_asleep {
                self.inform(who, Vec::new());
            }
        }
    }

    fn is_asleep(&mut self, who: Who) -> &mut bool {
        match who {
            Who::Replica(who) => &mut self.replica(who).is_asleep,
            Who::Controller(who) => &mut self.controller(who).is_asleep,
        }
    }

    fn is_silenced(&mut self, who: Who) -> &mut bool {
        match who {
            Who::Replica(who) => &mut self.replica(who).is_silenced,
            Who::Controller(who) => &mut self.controller(who).is_silenced,
        }
    }
}

fn is_sent(flight: &Flight) -> bool {
    matches!(flight, Flight::Sent { .. })
}

fn is_request(flight: &Flight) -> bool {
    matches!(flight, Flight::Sent { action, .. } if !matches!(action, Action::StopWork | Action::AbortWork))
}
