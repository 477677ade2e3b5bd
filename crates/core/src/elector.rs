//! When one process may lead.
//!
//! An [`Elector`] takes observations ([`Elector::observe`]) and returns decisions ([`Elector::decide`]). It has no
//! clock and sends nothing. The rule that must hold: at no instant do two electors lead. A holder's validity lasts for
//! the renew deadline, counted from the *sending* of a write that is known to have succeeded. Every other elector waits
//! for the longer lease duration, counted from its *observation* of that write or of a later one.
//!
//! A term begins and is extended in one place only, `Elector::settle`. The condition: the newest version of the Lease
//! belongs to this elector and shows exactly the renew time of one of its attempts. It does not matter whether the
//! answer of a write, the watch or a read reveals that version.

mod candidate;
mod config;
mod fallback;
mod lease_view;
mod messages;
mod observing;
mod pause;
mod plan;
mod planning;
mod preference;
mod range;
mod rest;
mod term;
mod unkept;
mod writes;

pub use config::{Config, Draw, FailOpen, InvalidTiming, LONGEST_LEASE_SECONDS, Mode, Timing, TimingWarning};
pub use messages::{Action, AttemptId, Decision, Leading, Loss, Note, Observation, Outcome, Source, Withheld};
pub use range::Range;
pub use rest::Rest;

use candidate::Candidate;
use fallback::Fallback;
use lease_view::LeaseView;
use pause::{Pause, Sign};
use plan::{Plan, Request};
use preference::Preference;
use range::OwnRange;
use term::{Attempts, Phase, Term, Work};
use unkept::Unkept;

use crate::model::{LeaseWrite, Moment, Now, Observed, WireTime};

/// The most notes that wait for the next decision.
const MOST_NOTES: usize = 32;

/// One elector instance: a state machine that can be cloned, compared and hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Elector {
    config: Config,
    lease: LeaseView,
    /// `None` in direct mode.
    candidate: Option<Candidate>,
    preference: Preference,
    fallback: Fallback,
    phase: Phase,
    work: Work,
    /// The number of terms that this instance began or tried to begin.
    terms: u64,
    attempts: Attempts,
    /// The range of the last term.
    range: Option<OwnRange>,
    rest: Rest,
    /// The pending write of the Lease. There is at most one.
    writing: Option<Writing>,
    next_write_at: Moment,
    /// Consecutive conflicts.
    conflicts: u32,
    /// Writes of the Lease whose answer did not show them. They delay every write but a renewal, which has a deadline.
    unkept: Unkept,
    /// The last write met a conflict, and the version that caused it is not known yet.
    has_conflict: bool,
    reading: Option<Request>,
    /// The last observed version is known to be outdated.
    must_read: bool,
    next_read_at: Moment,
    pause: Pause,
    /// When to read the Lease if nothing is observed before. `None` from an observation until the next decision.
    poll_at: Option<Moment>,
    /// When the Lease took the state for which the candidate was renewed without a ping.
    unasked_for: Option<Moment>,
    /// The session of another holder with this elector's name, once a note has reported it.
    namesake: Option<String>,
    is_stopping: bool,
    /// Until when a holder that stops waits for a preferred holder.
    successor_until: Option<Moment>,
    last_attempt: u64,
    notes: Vec<Note>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Writing {
    request: Request,
    /// `None` for a creation.
    write: Option<Box<LeaseWrite>>,
}

impl Writing {
    const fn is_creation(&self) -> bool {
        self.write.is_none()
    }

    /// The version on which the write is conditional.
    fn upon(&self) -> Option<u64> {
        self.write.as_ref().map(|write| write.resource_version)
    }
}

impl Elector {
    /// An elector that knows nothing yet. The caller must [validate](Timing::validate) the timing.
    pub fn new(config: Config, now: Now) -> Self {
        let candidate = match config.mode {
            Mode::Coordinated => Some(Candidate::new(config.lease_name.clone(), now.moment)),
            Mode::Direct => None,
        };
        // The first event of a watch is as good as a read, so wait for it.
        let next_read_at = now.moment.after(config.timing.retry_period);
        Self {
            config,
            lease: LeaseView::new(now.moment),
            candidate,
            preference: Preference::default(),
            fallback: Fallback::default(),
            phase: Phase::Standby,
            work: Work::Ended,
            terms: 0,
            attempts: Attempts::default(),
            range: None,
            rest: Rest::new(now.moment),
            writing: None,
            next_write_at: now.moment,
            conflicts: 0,
            unkept: Unkept::default(),
            has_conflict: false,
            reading: None,
            must_read: true,
            next_read_at,
            pause: Pause::default(),
            poll_at: None,
            unasked_for: None,
            namesake: None,
            is_stopping: false,
            successor_until: None,
            last_attempt: 0,
            notes: Vec::new(),
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
        let known = self.lease.version();
        let controller_seen_at = self.lease.controller_seen_at();
        let pinged_at = self.pinged_at();
        match observation {
            Observation::Lease { record, source } => self.observe_lease(now.moment, record, source),
            Observation::LeaseMissing { source } => self.observe_missing(now.moment, source),
            Observation::LeaseWritten { attempt, outcome } => self.observe_written(now.moment, attempt, outcome),
            Observation::ReadFailed(attempt) => {
                self.reading.take_if(|reading| reading.id == attempt);
                if let Some(candidate) = &mut self.candidate {
                    candidate.observe_read_failed(attempt);
                }
                let news = self.fallback.observe_failure(attempt, &self.config);
                self.notes.extend(news);
            }
            Observation::Candidates { attempt, records } => {
                let news = self.fallback.observe_list(now.moment, attempt, records.as_deref(), &self.config);
                self.notes.extend(news);
                if let Some(candidate) = &mut self.candidate
                    && self.fallback.asks_in_vain()
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
            Observation::WorkStopped => self.work = Work::Ended,
            Observation::Resign => self.resign(now.moment),
            Observation::Stop => self.observe_stop(now.moment),
        }
        let is_pinged = pinged_at.is_some_and(|former| self.pinged_at().is_some_and(|ping| ping > former));
        if is_pinged || self.lease.controller_seen_at() != controller_seen_at {
            self.fallback.see_controller(now.moment);
        }
        if self.lease.version() != known {
            self.settle(now.moment);
        }
        // The version that caused the conflict is known now: the watch has shown it, or a read has.
        if self.has_conflict && !self.must_read {
            self.has_conflict = false;
            if self.conflicts <= observing::IMMEDIATE_RETRIES {
                self.next_write_at = now.moment;
            }
        }
    }

    /// Decides what to do now. A second call at the same time returns no actions.
    pub fn decide(&mut self, now: Now, draw: Draw) -> Decision {
        self.pass_time(now.moment);
        if self.lease.is_missing() {
            self.close_range(now.wall);
        }
        let notes = std::mem::take(&mut self.notes);
        let timing = self.config.timing;
        let mut plan = Plan::new(timing, now.moment, draw, self.last_attempt, notes);
        if self.phase == Phase::Standby && !self.is_stopping {
            plan.asks_from = self.pause.until(&timing, now.moment, draw);
        }
        if !self.is_finished(now.moment) {
            self.plan_all(now, &mut plan);
        }
        self.last_attempt = plan.last_attempt;
        let leading = self.leading();
        if let Some(leading) = leading {
            plan.wake_at(leading.valid_until);
        }
        let Plan { actions, notes, deadline, .. } = plan;
        let (range, finished) = (self.told_range(), self.is_finished(now.moment));
        Decision { actions, leading, range, deadline, notes, finished }
    }

    /// The configuration of this elector.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The newest observed version of the Lease; `None` if the Lease is missing or was never observed.
    pub const fn lease(&self) -> Option<&Observed> {
        self.lease.observed()
    }

    /// The other Lease for which the candidate with this elector's name stands. This elector then has no candidate,
    /// because a candidate cannot change its Lease.
    pub fn candidate_stands_for(&self) -> Option<&str> {
        self.candidate.as_ref()?.stands_elsewhere()
    }

    const fn leading(&self) -> Option<Leading> {
        match self.phase {
            Phase::Leading(Term { number, token, valid_until, .. }) => Some(Leading { number, token, valid_until }),
            Phase::Standby | Phase::GivingUp { .. } => None,
        }
    }

    fn pinged_at(&self) -> Option<WireTime> {
        self.candidate.as_ref().and_then(Candidate::pinged_at)
    }

    fn is_candidate_gone(&self, now: Moment) -> bool {
        self.candidate.as_ref().is_none_or(|candidate| candidate.is_deleted(now))
    }

    fn is_finished(&self, now: Moment) -> bool {
        self.is_stopping
            && self.phase == Phase::Standby
            && self.writing.is_none()
            && matches!(self.work, Work::Ended | Work::Aborted)
            && self.is_candidate_gone(now)
    }

    /// The pending requests.
    fn requests(&self) -> impl Iterator<Item = &Request> {
        let of_candidate = self.candidate.as_ref().and_then(Candidate::request);
        let writing = self.writing.as_ref().map(|writing| &writing.request);
        [writing, self.reading.as_ref(), of_candidate, self.fallback.request()].into_iter().flatten()
    }

    /// Counts a failed request. Failures during a term do not count: they say nothing about the time after it.
    fn failed(&mut self, now: Moment) {
        if self.phase == Phase::Standby {
            self.pause.fail(now);
        }
    }

    fn note(&mut self, note: Note) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(note);
        }
    }
}
