//! One elector of the lab: its work, and its requests under way.

use std::time::Duration;

use hustings_core::elector::{Action, AttemptId, Config, Decision, Draw, Elector, Leading, Observation, Range};
use hustings_core::model::{Purpose, Reply, Request};

use crate::lab::{Happening, Lab};
use crate::news::{News, Who};
use crate::process::{Fate, Process, micros};

/// What the work of an elector does when it is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStops {
    /// It ends after this time.
    After(Duration),
    /// It continues.
    Never,
}

/// An elector with its clocks, its network and its work.
pub struct Replica {
    /// Its clocks, network and watches.
    pub process: Process,
    /// The elector.
    pub elector: Elector,
    /// The server rejects its requests to hand over.
    pub may_not_ask: bool,
    /// A proxy answers 404 to its writes of objects that exist.
    pub gets_404: bool,
    /// What its work does when it is asked to stop.
    pub work_stops: WorkStops,
    /// The running term, as published.
    pub leading: Option<Leading>,
    /// The range of the last term, as published.
    pub range: Option<Range>,
}

impl Replica {
    /// An elector that starts at this true time.
    pub fn new(config: Config, now_micros: i64) -> Self {
        let process = Process::new(&config.identity);
        Self {
            elector: Elector::new(config, process.local(now_micros)),
            process,
            may_not_ask: false,
            gets_404: false,
            work_stops: WorkStops::After(Duration::ZERO),
            leading: None,
            range: None,
        }
    }

    /// The same elector with other clocks.
    #[must_use]
    pub fn with_clock(mut self, offset_micros: i64, drift_per_million: i64, wall_offset_micros: i64, now: i64) -> Self {
        self.process.set_clock(offset_micros, drift_per_million, wall_offset_micros);
        self.elector = Elector::new(self.elector.config().clone(), self.process.local(now));
        self
    }

    /// What `is_leader()` returns.
    pub fn reads_leading(&self, true_micros: i64) -> bool {
        let now = self.process.local(true_micros).moment;
        !self.process.crashed && self.leading.is_some_and(|leading| now < leading.valid_until)
    }
}

impl Lab {
    pub(crate) fn decide(&mut self, index: usize) {
        let draw = Draw((self.chance)());
        let who = Who::Replica(index);
        let replica = &mut self.replicas[index];
        let now = replica.process.local(self.now_micros);
        let decision = replica.elector.decide(now, draw);
        self.check_decision(index, now, draw, &decision);
        let Decision { actions, leading, range, deadline, notes, finished, .. } = decision;
        let replica = &mut self.replicas[index];
        replica.range = range;
        let before = std::mem::replace(&mut replica.leading, leading);
        self.wake_at(who, deadline);
        for note in notes {
            self.note(who, News::Note(note));
        }
        match (before, leading) {
            (None, Some(leading)) => self.note(who, News::Leads(leading)),
            (Some(_), None) => self.note(who, News::Follows),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for action in actions {
            self.act(index, action);
        }
        if finished {
            self.end(index);
        }
    }

    /// Ends the process of an elector.
    pub fn end(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if std::mem::replace(&mut replica.process.crashed, true) {
            return;
        }
        if replica.leading.take().is_some() {
            self.note(Who::Replica(index), News::Follows);
        }
        self.note(Who::Replica(index), News::Ended);
    }

    fn act(&mut self, index: usize, action: Action) {
        let who = Who::Replica(index);
        match action {
            Action::StopWork => {
                self.note(who, News::StopsWork);
                if let WorkStops::After(delay) = self.replicas[index].work_stops {
                    self.push(self.now_micros + micros(delay), Happening::Observe(index, Observation::WorkStopped));
                }
            }
            Action::AbortWork => self.note(who, News::DropsWork),
            Action::Send { attempt, request } => {
                let fate = self.draw_fate(who);
                if fate != Fate::AT_ONCE {
                    self.note_request(who, || News::Sent(request.clone()));
                }
                self.push(self.now_micros + micros(fate.there), Happening::Execute(index, attempt, request, fate));
            }
        }
    }

    /// A request of an elector reaches the server, or is lost on its way.
    pub(crate) fn execute(&mut self, index: usize, attempt: AttemptId, request: &Request, fate: Fate) {
        let who = Who::Replica(index);
        let replica = &self.replicas[index];
        if !fate.executed {
            self.note_request(who, || News::Lost(request.clone()));
            return self.reply(index, attempt, request, Reply::Unknown, fate);
        }
        if replica.gets_404 && is_write_of_existing(request) {
            self.note_request(who, || News::Forged404(request.clone()));
            return self.reply(index, attempt, request, Reply::Missing, fate);
        }
        let is_refused = replica.may_not_ask
            && matches!(request, Request::WriteLease { write, .. } if write.purpose == Purpose::Prefer);
        let wall = self.wall();
        let reply = if is_refused {
            Reply::Refused
        } else {
            self.check_write(request);
            self.server.execute(request, wall)
        };
        self.note_request(who, || News::answered(request, &reply, fate));
        let answer = if fate.answer_lost { Reply::Unknown } else { reply.clone() };
        self.reply(index, attempt, request, answer, fate);
        self.show_effect(request, &reply);
    }

    fn reply(&mut self, index: usize, attempt: AttemptId, request: &Request, reply: Reply, fate: Fate) {
        let observation = Observation::of_reply(attempt, request, reply);
        self.push(self.now_micros + micros(fate.back), Happening::Observe(index, observation));
    }
}

/// Whether a proxy that does not know the object may answer 404.
const fn is_write_of_existing(request: &Request) -> bool {
    matches!(request, Request::WriteLease { .. } | Request::PatchCandidate { .. } | Request::DeleteCandidate { .. })
}
