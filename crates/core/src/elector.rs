//! When one process may lead.
//!
//! An [`Elector`] takes observations ([`Elector::observe`]) and returns decisions ([`Elector::decide`]). It has no
//! clock and sends nothing. The rule that must hold: at no instant do two electors lead. A holder's validity lasts for
//! the renew deadline, counted from the *sending* of a write that is known to have succeeded. Every other elector waits
//! for the longer lease duration, counted from its *observation* of that write or of a later one.
//!
//! Only `Elector::settle` begins or extends a term. The condition: the newest version of the Lease belongs to this
//! elector and shows exactly the renew time of one of its attempts. The version may come from the answer to a write,
//! from the watch or from a read.

mod attempts;
mod candidate;
mod claim;
mod config;
mod cooldown;
mod deciding;
mod decision;
mod failure_pause;
mod lifecycle;
mod note;
mod observation;
mod observing;
mod plan;
mod range;
mod reader;
mod requests;
mod sentences;
mod timers;
mod tracked_lease;
mod unkept;
mod writer;
mod writes;

pub use claim::CONTROLLER_WAIT;
pub use config::{
    CandidateConfig, Config, Draw, Durations, ElectorMode, FailOpen, InvalidTiming, LONGEST_LEASE_SECONDS, Timing,
    TimingWarning,
};
pub use cooldown::Cooldown;
pub use decision::{Action, Decision, Leading, Range};
pub use note::{EditedField, Loss, Note, Withheld};
pub use observation::{AttemptId, Observation, Outcome, Source};
pub use sentences::NoteSeverity;
pub use timers::Timer;

use candidate::Candidate;
use claim::{Fallback, Preference};
use failure_pause::{FailurePause, Sign};
use lifecycle::Lifecycle;
use plan::{Plan, PlannedRequest, Sending};
use range::OwnRange;
use reader::Reader;
use tracked_lease::TrackedLease;
use writer::Writer;

use crate::model::{Moment, Now, Observed, WireTime};

/// How many notes may wait for the next decision. Further notes are dropped.
const MOST_NOTES: usize = 32;

/// One elector instance: a state machine that can be cloned, compared and hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Elector {
    config: Config,
    lease: TrackedLease,
    /// `None` in direct mode.
    candidate: Option<Candidate>,
    fallback: Fallback,
    preference: Preference,
    lifecycle: Lifecycle,
    writer: Writer,
    reader: Reader,
    /// The range of the last term.
    range: Option<OwnRange>,
    pause: FailurePause,
    /// The session of another holder with this elector's name, once a note has reported it.
    namesake: Option<String>,
    last_attempt: u64,
    notes: Vec<Note>,
}

impl Elector {
    /// An elector that knows nothing yet.
    pub fn new(config: Config, now: Now) -> Self {
        let candidate = config.nomination().map(|nomination| Candidate::new(nomination, now.moment));
        Self {
            lease: TrackedLease::default(),
            candidate,
            fallback: Fallback::default(),
            preference: Preference::default(),
            lifecycle: Lifecycle::new(now.moment),
            writer: Writer::new(now.moment),
            reader: Reader::new(now.moment.after(config.timing.retry_period())),
            range: None,
            pause: FailurePause::default(),
            namesake: None,
            last_attempt: 0,
            notes: Vec::new(),
            config,
        }
    }

    /// Records an observation. The caller must call [`Elector::decide`] afterwards.
    pub fn observe(&mut self, now: Now, observation: Observation) {
        // First end a term that has expired, so that no observation can revive it.
        self.pass_time(now.moment);
        match Sign::of(&observation) {
            Sign::Answers => self.pause.end(),
            Sign::Fails(attempt) if self.requests().any(|request| request.id == attempt) => self.failed(now.moment),
            Sign::Fails(_) | Sign::None => {}
        }
        let known = self.lease.view().version();
        let controller_seen_at = self.lease.controller_seen_at();
        let pinged_at = self.pinged_at();
        match observation {
            Observation::Lease { record, source } => self.observe_lease(now.moment, record, source),
            Observation::LeaseMissing { source } => self.observe_missing(now.moment, source),
            Observation::LeaseWritten { attempt, outcome } => self.observe_written(now.moment, attempt, outcome),
            Observation::ReadFailed(attempt) => {
                self.reader.observe_failure(attempt);
                if let Some(candidate) = &mut self.candidate {
                    candidate.observe_read_failed(attempt);
                }
                let news = self.fallback.observe_failure(attempt, &self.config);
                self.note(news);
            }
            Observation::Candidates { attempt, mut records } => {
                if let Some(records) = &mut records {
                    records.retain(|record| record.lease_name == self.config.lease_name);
                }
                let free_from = self.lease.view().free_from_with(records.iter().flatten());
                let lease = self.lease.view().record();
                let news = self.fallback.observe_list(now, attempt, records.as_deref(), lease, free_from, &self.config);
                self.note(news);
                if let Some(candidate) = &mut self.candidate
                    && self.fallback.must_list_again()
                {
                    candidate.renew_unasked();
                }
            }
            Observation::Candidate { record, source } => {
                if let Some(candidate) = &mut self.candidate {
                    candidate.observe(now, record, source);
                }
            }
            Observation::CandidateMissing { source } => {
                if let Some(candidate) = &mut self.candidate {
                    candidate.observe_missing(now, source);
                }
            }
            Observation::CandidateWritten { attempt, outcome } => {
                if let Some(candidate) = &mut self.candidate {
                    candidate.observe_written(now, attempt, outcome);
                }
            }
            Observation::Key(key) => self.preference.key = key,
            Observation::WorkStopped => self.lifecycle.end_work(),
            Observation::Resign => {
                let news = self.lifecycle.resign(now.moment);
                self.note(news);
            }
            Observation::Stop(cause) => self.observe_stop(now.moment, cause),
        }
        let is_pinged = pinged_at.is_some_and(|former| self.pinged_at().is_some_and(|ping| ping > former));
        if is_pinged || self.lease.controller_seen_at() != controller_seen_at {
            self.fallback.observe_controller(now.moment);
        }
        if self.lease.view().version() != known {
            self.settle(now.moment);
        }
        // The watch or a read has shown the version that caused the conflict.
        if !self.reader.is_needed() && self.writer.end_conflict() && self.writer.retries_at_once() {
            self.writer.allow_at(now.moment);
        }
    }

    /// Decides what to do now. A second call at the same time returns no actions.
    pub fn decide(&mut self, now: Now, draw: Draw) -> Decision {
        self.pass_time(now.moment);
        if self.lease.view().is_missing() {
            self.close_range(now.wall);
        }
        let notes = std::mem::take(&mut self.notes);
        let timing = self.config.timing;
        let is_stopping = self.lifecycle.is_stopping();
        let requests_from = if is_stopping { now.moment } else { self.pause.until(&timing, now.moment, draw) };
        let sending = Sending { notes, last_attempt: self.last_attempt, requests_from, timing, draw };
        let mut plan = Plan::new(now, sending);
        if !self.is_finished(now.moment) {
            self.plan_all(now, &mut plan);
        }
        self.last_attempt = plan.context.last_attempt;
        let leading = self.lifecycle.leading();
        if let Some(leading) = leading {
            plan.wake_at(Timer::Validity, leading.valid_until);
        }
        let Plan { actions, next, context: Sending { notes, .. }, .. } = plan;
        let (deadline, timer) = next.unzip();
        let (range, finished) = (self.current_range(), self.is_finished(now.moment));
        Decision { actions, leading, range, deadline, timer, notes, finished }
    }

    /// The configuration of this elector.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The newest observed version of the Lease; `None` if the Lease is missing or was never observed.
    pub const fn lease(&self) -> Option<&Observed> {
        self.lease.view().present()
    }

    /// The other Lease for which the candidate with this elector's name stands; `None` if it stands for this Lease, or
    /// was not observed. A candidate cannot change its Lease, so this elector then has no candidate.
    pub fn candidate_stands_for(&self) -> Option<&str> {
        self.candidate.as_ref()?.stands_elsewhere()
    }

    fn pinged_at(&self) -> Option<WireTime> {
        self.candidate.as_ref().and_then(Candidate::pinged_at)
    }

    fn is_candidate_gone(&self, now: Moment) -> bool {
        self.candidate.as_ref().is_none_or(|candidate| candidate.is_deleted(now))
    }

    fn is_finished(&self, now: Moment) -> bool {
        self.lifecycle.is_over() && self.writer.request().is_none() && self.is_candidate_gone(now)
    }

    /// The pending requests.
    fn requests(&self) -> impl Iterator<Item = &PlannedRequest> {
        let of_candidate = self.candidate.as_ref().and_then(Candidate::request);
        let requests = [self.writer.request(), self.reader.request(), of_candidate, self.fallback.request()];
        requests.into_iter().flatten()
    }

    /// Counts a failed request. Failures during a term do not count: they say nothing about the time after it.
    fn failed(&mut self, now: Moment) {
        if self.lifecycle.is_standby() {
            self.pause.fail(now);
        }
    }

    fn note(&mut self, news: impl Into<Option<Note>>) {
        if self.notes.len() < MOST_NOTES {
            self.notes.extend(news.into());
        }
    }
}
