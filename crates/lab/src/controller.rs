//! One controller of the lab: its election, and its requests under way.
//!
//! It decides again only when every request of its last decision has an outcome, except status writes.

use std::collections::BTreeSet;

use hustings_core::election::{Action, Decision, Election, Event as Report, Observation, Source};
use hustings_core::model::{CandidateKey, CandidateRecord, Moment, Reply, Request};

use crate::lab::{Happening, Lab};
use crate::news::{News, Who};
use crate::process::{Fate, Process, micros};

/// A controller with its clocks and its network.
pub struct Controller {
    /// Its clocks, network and watches.
    pub process: Process,
    /// Its election.
    pub election: Election,
    /// Its last decision, without the actions.
    pub decision: Option<Decision>,
    /// How often it has decided.
    pub decisions: usize,
    /// Whether it decides. A standby only observes.
    pub leads: bool,
    /// Whether its watch has shown the Lease.
    pub(crate) shows_lease: bool,
    /// How many requests the next decision waits for.
    awaited: usize,
    /// The candidates that its watch has shown.
    shown: BTreeSet<CandidateKey>,
}

/// A request of a controller.
#[derive(Clone, Debug)]
pub(crate) struct PendingRequest {
    request: Request,
    sent: Moment,
    /// The event to publish once the request has succeeded.
    report: Option<Report>,
    /// Whether the next decision waits for it.
    is_awaited: bool,
}

impl Controller {
    /// A controller with this election.
    pub fn new(name: &str, election: Election, leads: bool) -> Self {
        Self {
            process: Process::new(name),
            election,
            decision: None,
            decisions: 0,
            leads,
            shows_lease: false,
            awaited: 0,
            shown: BTreeSet::new(),
        }
    }
}

impl Lab {
    /// Starts a controller, which lists everything first.
    pub fn add_controller(&mut self, controller: Controller) {
        self.controllers.push(controller);
        let index = self.controllers.len() - 1;
        self.relist(index);
        self.nudge(Who::Controller(index));
    }

    /// Makes one controller decide, and the others stand by.
    pub fn take_over(&mut self, name: &str) {
        for index in 0..self.controllers.len() {
            let controller = &mut self.controllers[index];
            controller.leads = controller.process.name == name;
            self.nudge(Who::Controller(index));
        }
    }

    /// The watches of a controller show every object that exists, and which ones are gone.
    pub fn relist(&mut self, index: usize) {
        self.controllers[index].shows_lease = true;
        self.show_lease(Who::Controller(index));
        let mut candidates: BTreeSet<CandidateKey> = self.controllers[index].shown.clone();
        candidates.extend(self.server.store.candidates().map(CandidateRecord::key));
        for candidate in candidates {
            self.show_candidate(index, &candidate);
        }
    }

    pub(crate) fn show_candidate(&mut self, index: usize, candidate: &CandidateKey) {
        let Some(delay) = self.controllers[index].process.watch_delay else { return };
        let source = Source::Watch;
        let observation = match self.server.store.candidate(candidate) {
            Some(record) => Observation::Candidate { record: record.clone(), source },
            None => Observation::CandidateMissing { candidate: candidate.clone(), source },
        };
        self.push(self.now_micros + micros(delay), Happening::Inform(index, observation));
    }

    pub(crate) fn inform(&mut self, index: usize, observation: Observation) {
        let controller = &mut self.controllers[index];
        match &observation {
            // The watch of the dispatcher assigns candidates to their Leases.
            Observation::Candidate { record, .. } => _ = controller.shown.insert(record.key()),
            Observation::CandidateMissing { candidate, .. } => _ = controller.shown.remove(candidate),
            Observation::Lease { .. }
            | Observation::LeaseMissing { .. }
            | Observation::Pod { .. }
            | Observation::Node { .. }
            | Observation::Failed { .. } => {}
        }
        if matches!(&observation, Observation::Candidate { record, .. } if record.lease_name != self.server.lease_name)
        {
            return;
        }
        // A controller that learns of a candidate already knows its Pod.
        let home = match &observation {
            Observation::Candidate { record, .. } => self.home(record.pod_name()),
            _ => Vec::new(),
        };
        let controller = &mut self.controllers[index];
        let assisted = |election: &Election| election.assisted_pod().map(|(_, name)| name);
        let former = assisted(&controller.election);
        for observation in [observation].into_iter().chain(home) {
            controller.election.observe(controller.process.local(self.now_micros), observation);
        }
        // The same holds for the Pod of a new holder of an assisted Lease.
        let watches = controller.election.uses_evidence();
        if let Some(name) = assisted(&controller.election).filter(|name| watches && Some(name) != former.as_ref()) {
            let home = self.home(&name);
            if !home.is_empty() {
                self.push(self.now_micros, Happening::Show(index, home));
            }
        }
    }

    /// The next decision, if it may be made now.
    pub(crate) fn decide_election(&mut self, index: usize) {
        let controller = &mut self.controllers[index];
        if !controller.leads || controller.awaited > 0 {
            return;
        }
        let now = controller.process.local(self.now_micros);
        let mut decision = controller.election.decide(now);
        let actions = std::mem::take(&mut decision.actions);
        let deadline = decision.deadline;
        controller.decision = Some(decision);
        controller.decisions += 1;
        self.wake_at(Who::Controller(index), Some(deadline));
        for action in actions {
            let (request, report, is_awaited) = match action {
                Action::Send { request, event } => (request, event, true),
                Action::PatchStatus { candidate, uid, status } => {
                    (Request::patch_status(candidate, &*uid, status, [now.wall; 3]), None, false)
                }
                Action::Event(report) => {
                    self.push(self.now_micros, Happening::Report(index, report));
                    continue;
                }
            };
            self.send(index, PendingRequest { request, sent: now.moment, report, is_awaited });
        }
    }

    fn send(&mut self, index: usize, pending: PendingRequest) {
        self.controllers[index].awaited += usize::from(pending.is_awaited);
        let fate = self.draw_fate(Who::Controller(index));
        if fate != Fate::AT_ONCE {
            self.note_request(Who::Controller(index), || News::Sent(pending.request.clone()));
        }
        self.push(self.now_micros + micros(fate.there), Happening::Carry(index, Box::new(pending), fate));
    }

    /// A request of a controller reaches the server, or is lost on its way.
    pub(crate) fn carry(&mut self, index: usize, pending: Box<PendingRequest>, fate: Fate) {
        let who = Who::Controller(index);
        let at = self.now_micros + micros(fate.back);
        if !fate.executed {
            self.note_request(who, || News::Lost(pending.request.clone()));
            return self.push(at, Happening::Answer(index, pending, Reply::Unknown));
        }
        let wall = self.wall();
        self.check_write(&pending.request);
        let reply = self.server.execute_for_controller(&pending.request, wall);
        self.note_request(who, || {
            let (request, report) = (pending.request.clone(), pending.report.clone());
            News::Answered { request, reply: Box::new(reply.clone()), report, is_lost: fate.answer_lost }
        });
        self.show_effect(&pending.request, &reply);
        let is_reverted = matches!((&pending.request, &reply), (Request::CreateLease { .. }, Reply::Landed(_)))
            && self.server.faults.reverted.contains("create");
        self.push(at, Happening::Answer(index, pending, if fate.answer_lost { Reply::Unknown } else { reply }));
        if is_reverted {
            self.delete_lease();
        }
    }

    /// A controller gets an answer.
    pub(crate) fn answer(&mut self, index: usize, pending: PendingRequest, reply: Reply) {
        let PendingRequest { request, sent, report, is_awaited } = pending;
        let is_success = matches!(reply, Reply::Landed(_));
        let observation = Observation::of_reply(&request, reply, sent);
        if let Some(report) = report.filter(|_| is_success) {
            self.note(Who::Controller(index), News::Report(report));
        }
        let controller = &mut self.controllers[index];
        controller.awaited -= usize::from(is_awaited);
        let now = controller.process.local(self.now_micros);
        match observation {
            Ok(observation) => drop(controller.election.observe(now, observation)),
            Err(request) => self.send(index, PendingRequest { request, sent: now.moment, report: None, is_awaited }),
        }
    }
}
