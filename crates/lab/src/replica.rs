//! One elector of the lab: its work, and its requests under way.

use std::time::Duration;

use hustings_core::elector::{Action, Config, Decision, Draw, Elector, Leading, Note, Observation, Range};
use hustings_core::model::{LeaseRecord, Moment, Nomination, Outcome, Pod, Purpose, Reply, Strategy};

use crate::lab::{Event, Lab, Who, micros, seconds};
use crate::process::{Fate, Process};
use crate::words::{describe_action, describe_note, describe_reply};

/// What the work of an elector does when it is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStops {
    /// It ends after this time.
    After(Duration),
    /// It continues.
    Never,
}

/// An elector with its clocks, its network and its work.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
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
    /// `spec.binaryVersion` of its candidate, and what it emulates.
    pub version: String,
    /// Whether its pod owns its candidate.
    pub has_owner: bool,
    /// A planted bug: validity counts from the answer.
    pub counts_from_answer: bool,
    wrongly_valid_until: Moment,
}

impl Replica {
    /// An elector that starts now.
    pub fn new(name: &str, config: Config, now_micros: i64) -> Self {
        let process = Process::new(name);
        Self {
            elector: Elector::new(config, process.local(now_micros)),
            process,
            may_not_ask: false,
            gets_404: false,
            work_stops: WorkStops::After(Duration::ZERO),
            leading: None,
            range: None,
            version: "1.0".to_owned(),
            has_owner: false,
            counts_from_answer: false,
            wrongly_valid_until: Moment::default(),
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
        if self.process.crashed {
            return false;
        }
        if self.counts_from_answer {
            return now < self.wrongly_valid_until;
        }
        self.leading.is_some_and(|leading| now < leading.valid_until)
    }

    pub(crate) fn nomination(&self) -> Nomination {
        let Config { identity, lease_name, session, strategy, timing, .. } = self.elector.config();
        // A third party's strategy needs no emulation version.
        let emulates = *strategy == Strategy::OldestEmulationVersion;
        let pod = Pod { name: identity.clone(), uid: format!("pod-of-{identity}") };
        Nomination {
            name: identity.clone(),
            lease_name: lease_name.clone(),
            binary_version: self.version.clone(),
            emulation_version: emulates.then(|| self.version.clone()),
            strategy: Some(strategy.as_str().to_owned()),
            priority: None,
            lease_duration_seconds: timing.lease_duration_seconds(),
            session: session.clone(),
            pod: self.has_owner.then_some(pod),
        }
    }
}

impl Lab {
    pub(crate) fn decide(&mut self, index: usize) {
        let draw = Draw((self.chance)());
        let replica = &mut self.replicas[index];
        let now = replica.process.local(self.now_micros);
        let decision = replica.elector.decide(now, draw);
        let again = replica.elector.decide(now, draw);
        assert_eq!(again.actions, [], "a decision is not repeated");
        assert_eq!(again.leading, decision.leading);
        assert!(decision.deadline.is_none_or(|deadline| deadline > now.moment), "a deadline lies ahead");
        let Decision { actions, leading, range, deadline, notes, finished, .. } = decision;
        replica.range = range;
        let before = std::mem::replace(&mut replica.leading, leading);
        if leading.map(|leading| leading.valid_until) != before.map(|leading| leading.valid_until) {
            replica.wrongly_valid_until = match (leading, before) {
                (Some(_), _) => now.moment.after(replica.elector.config().timing.renew_deadline()),
                (None, Some(before)) if now.moment >= before.valid_until => replica.wrongly_valid_until,
                (None, _) => now.moment,
            };
        }
        let label = replica.process.label.clone();
        self.wake_at(Who::Replica(index), deadline);
        for note in notes {
            if let Note::Began { token, .. } = note {
                self.tokens.push(token);
            } else {
                self.note(&format!("{label}: {}", describe_note(&note)));
            }
        }
        match (before, leading) {
            (None, Some(Leading { number, token, valid_until })) => {
                let until = seconds(valid_until.as_micros());
                self.note(&format!("{label} LEADS term {number} token {token} until {until}"));
            }
            (Some(_), None) => self.note(&format!("{label} leads no more")),
            (None, None) | (Some(_), Some(_)) => {}
        }
        for action in actions {
            self.act(index, action);
        }
        if finished {
            self.note(&format!("{label} has finished"));
            self.replicas[index].process.crashed = true;
        }
    }

    /// Wakes the process at its deadline, and not at an earlier one.
    pub(crate) fn wake_at(&mut self, who: Who, deadline: Option<Moment>) {
        let now_micros = self.now_micros;
        let process = self.process(who);
        process.next_wake = deadline.map(|deadline| process.true_micros(deadline).max(now_micros));
        if let Some(at) = process.next_wake {
            self.push(at, Event::Wake(who));
        }
    }

    fn act(&mut self, index: usize, action: Action) {
        let label = self.replicas[index].process.label.clone();
        match action {
            Action::StopWork => {
                self.note(&format!("{label} asks its work to stop"));
                if let WorkStops::After(delay) = self.replicas[index].work_stops {
                    self.push(self.now_micros + micros(delay), Event::Observe(index, Observation::WorkStopped));
                }
            }
            Action::AbortWork => self.note(&format!("{label} drops its work")),
            request => {
                let fate = self.draw_fate(Who::Replica(index));
                if fate != Fate::AT_ONCE {
                    self.note(&format!("{label} sends {}", describe_action(&request)));
                }
                self.push(self.now_micros + micros(fate.there), Event::Execute(index, request, fate));
            }
        }
    }

    /// A request of an elector reaches the server, or is lost on its way.
    pub(crate) fn execute(&mut self, index: usize, action: &Action, fate: Fate) {
        let replica = &self.replicas[index];
        let Some(request) = action.request(replica.elector.config(), Some(&replica.nomination()), None) else { return };
        let label = &replica.process.label;
        let what = format!("{label} {}", describe_action(action));
        if !fate.executed {
            let lost = format!("{label}'s {} is lost", describe_action(action));
            self.note(&lost);
            return self.reply(index, action, Reply::Unknown, fate);
        }
        if replica.gets_404 && is_write_of_existing(action) {
            self.note(&format!("{what}: a proxy answers 404"));
            return self.reply(index, action, Reply::Missing, fate);
        }
        let is_refused = replica.may_not_ask
            && matches!(action, Action::WriteLease { write, .. } if write.purpose == Purpose::Prefer);
        let wall = self.wall();
        let reply = if is_refused { Reply::Refused } else { self.server.execute(&request, wall) };
        let lost = if fate.answer_lost { ", and the answer is lost" } else { "" };
        if self.shows_routine || fate.answer_lost || !is_routine(action, &reply) {
            self.note(&format!("{what}: {}{lost}", describe_reply(action, &reply)));
        }
        self.reply(index, action, if fate.answer_lost { Reply::Unknown } else { reply.clone() }, fate);
        self.show_effect(&request, &reply);
    }

    fn reply(&mut self, index: usize, action: &Action, reply: Reply, fate: Fate) {
        if let Some(observation) = action.observation(reply) {
            self.push(self.now_micros + micros(fate.back), Event::Observe(index, observation));
        }
    }
}

/// Whether a proxy that does not know the object may answer 404.
const fn is_write_of_existing(action: &Action) -> bool {
    matches!(action, Action::WriteLease { .. } | Action::RenewCandidate { .. } | Action::DeleteCandidate { .. })
}

/// Whether this action happens every few seconds in any script.
fn is_routine(action: &Action, reply: &Reply) -> bool {
    let is_renewal = matches!(action, Action::WriteLease { write, .. } if write.purpose == Purpose::Renew);
    let is_renewed = is_renewal && matches!(reply.clone().lease(), Outcome::Landed(LeaseRecord { leaving: false, .. }));
    is_renewed || matches!(action, Action::ReadLease(_) | Action::ReadCandidate(_))
}
