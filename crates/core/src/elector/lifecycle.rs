//! The phases of an elector and of its work. Only this file changes them.
//!
//! | from | to | when |
//! |---|---|---|
//! | standby | leading | a version shows a take-up or claim of this elector that is still valid |
//! | standby | giving up | the same, but the process is about to end |
//! | leading | giving up | the term has to end, and its work has ended |
//! | leading | standby | the term has expired, belongs to another, or the work outlives its grace |
//! | giving up | standby | a version shows that the Lease is given up, or one lease duration has passed |
//!
//! | work from | to | when |
//! |---|---|---|
//! | ended | running | a term begins |
//! | running | stopping | the term has to end, or has ended |
//! | stopping | aborted | the grace is used up |
//! | any | ended | the caller reports that the work has ended |
//!
//! The rule that must hold: the work stops before `is_leader()` becomes false, and `is_leader()` is false before the
//! Lease is given up. Only a term that expires or is lost ends while its work still runs.

use super::Config;
use super::attempts::{Attempt, AttemptedTerm};
use super::cooldown::Cooldown;
use super::plan::Plan;
use super::timers::Timer;
use super::writer::Writer;
use super::{Action, Leading, Loss, Note};
use crate::model::{Cause, Moment};

/// The phase of an elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// It does not lead.
    Standby,
    /// It leads while the term is valid.
    Leading(HeldTerm),
    /// It no longer leads and its work has ended. It is giving the Lease up.
    GivingUp {
        /// TERM of its session stamp.
        ordinal: u64,
        /// Why; `None` if the holder was asked to hand over.
        cause: Option<Cause>,
        /// Until when it tries. By then the Lease has expired.
        until: Moment,
    },
}

/// A running term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HeldTerm {
    /// TERM of its session stamp.
    pub(super) ordinal: u64,
    pub(super) number: u32,
    pub(super) token: u64,
    valid_until: Moment,
    /// The term must end, so its work was asked to stop.
    is_ending: bool,
    /// When this elector last wrote its name back at once, after client-go had emptied the Lease.
    restored_at: Option<Moment>,
}

/// The state of the work of a term. Work outlives the term if it does not stop in time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WorkState {
    /// No work runs.
    Ended,
    /// Work may run.
    Running,
    /// The work was asked to stop.
    Stopping {
        /// When its grace is used up.
        abort_at: Moment,
    },
    /// The grace is used up, and the work may still run.
    Aborted,
}

/// The phase, the work of the last term, and the reasons to begin no other term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lifecycle {
    phase: Phase,
    work: WorkState,
    cooldown: Cooldown,
    /// The process is about to end.
    is_stopping: bool,
    /// Why the process is about to end.
    stop_cause: Cause,
    /// Until when a holder that stops waits for a preferred holder.
    successor_until: Option<Moment>,
}

/// The term that a version of the Lease belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VersionOf {
    /// The term that runs or is being given up.
    ThisTerm,
    /// The same, but client-go has emptied it by a late release.
    ThisTermEmptied,
    /// Another term, or none.
    Another,
}

/// A new version of the Lease, as far as the phase is concerned.
pub(super) struct NewVersion<'a> {
    pub(super) of: VersionOf,
    pub(super) holder: Option<&'a str>,
    /// The attempt that it shows, and until when that attempt makes a term valid.
    pub(super) landed: Option<(&'a Attempt, Moment)>,
    /// It ended a conflict.
    pub(super) ends_conflict: bool,
    /// Conflicts do not delay the next write.
    pub(super) retries_at_once: bool,
}

impl Lifecycle {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            phase: Phase::Standby,
            work: WorkState::Ended,
            cooldown: Cooldown::new(now),
            is_stopping: false,
            stop_cause: Cause::Stopped,
            successor_until: None,
        }
    }

    pub(super) const fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) const fn is_standby(&self) -> bool {
        matches!(self.phase, Phase::Standby)
    }

    /// The running term.
    pub(super) const fn term(&self) -> Option<&HeldTerm> {
        match &self.phase {
            Phase::Leading(term) => Some(term),
            Phase::Standby | Phase::GivingUp { .. } => None,
        }
    }

    pub(super) const fn leading(&self) -> Option<Leading> {
        match self.phase {
            Phase::Leading(HeldTerm { number, token, valid_until, .. }) => Some(Leading { number, token, valid_until }),
            Phase::Standby | Phase::GivingUp { .. } => None,
        }
    }

    /// TERM of the term that runs or is being given up.
    pub(super) const fn ordinal(&self) -> Option<u64> {
        match &self.phase {
            Phase::Standby => None,
            Phase::Leading(HeldTerm { ordinal, .. }) | Phase::GivingUp { ordinal, .. } => Some(*ordinal),
        }
    }

    pub(super) const fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Whether the holder announces that it is about to stop.
    pub(super) const fn is_leaving(&self) -> bool {
        self.successor_until.is_some()
    }

    /// Whether a term may begin, as far as this elector is concerned.
    pub(super) fn may_begin(&self, now: Moment) -> bool {
        self.is_standby() && !self.is_stopping && self.work == WorkState::Ended && now >= self.cooldown.until()
    }

    /// Whether the elector may renew its candidate.
    pub(super) fn may_stand(&self, now: Moment) -> bool {
        self.term().is_some() || (self.work == WorkState::Ended && now >= self.cooldown.until())
    }

    /// Whether a stopping elector has nothing left to do about its term.
    pub(super) const fn is_over(&self) -> bool {
        self.is_stopping && self.is_standby() && matches!(self.work, WorkState::Ended | WorkState::Aborted)
    }

    /// Ends a term that has expired, or an attempt to give up that took too long.
    pub(super) fn pass_time(&mut self, now: Moment, writer: &mut Writer) -> Option<Note> {
        match &self.phase {
            Phase::Leading(term) if now >= term.valid_until => Some(self.lose(now, Loss::NotRenewed, writer)),
            Phase::GivingUp { until, .. } if now >= *until => {
                self.phase = Phase::Standby;
                Some(Note::GiveUpAbandoned)
            }
            Phase::Leading(_) | Phase::GivingUp { .. } | Phase::Standby => None,
        }
    }

    /// The Lease is missing.
    pub(super) fn observe_missing(&mut self, now: Moment, writer: &mut Writer) -> Option<Note> {
        match self.phase {
            Phase::Leading(_) => Some(self.lose(now, Loss::LeaseMissing, writer)),
            Phase::GivingUp { .. } => Some(self.end_giving_up()),
            Phase::Standby => None,
        }
    }

    /// Records a new version of the Lease. Only this function begins and extends a term.
    pub(super) fn observe_version(
        &mut self,
        now: Moment,
        version: &NewVersion<'_>,
        config: &Config,
        writer: &mut Writer,
    ) -> Option<Note> {
        match (&mut self.phase, version.landed) {
            (Phase::Leading(_), _) if version.of == VersionOf::Another => {
                let holder = version.holder.map(str::to_owned);
                Some(self.lose(now, Loss::NotMine { holder }, writer))
            }
            (Phase::GivingUp { .. }, _) if version.of == VersionOf::Another => Some(self.end_giving_up()),
            (Phase::Leading(term), landed) => {
                if let Some((_, valid_until)) = landed {
                    term.valid_until = valid_until;
                }
                // A holder waits for its next renewal, unless a conflict delayed this one. If its name is gone, it
                // writes the name back at once, before a client-go replica claims the Lease. A client that removes the
                // name again and again gains at most one write per retry period.
                let may_restore = term.restored_at.is_none_or(|at| now >= at.after(config.timing.retry_period()));
                let restores = version.of == VersionOf::ThisTermEmptied && may_restore;
                if restores {
                    term.restored_at = Some(now);
                }
                if restores || version.ends_conflict && version.retries_at_once {
                    writer.allow_at(now);
                }
                restores.then_some(Note::Emptied)
            }
            (Phase::Standby, Some((_, valid_until))) if now >= valid_until => Some(Note::LandedTooLate),
            (Phase::Standby, Some((landed, _))) if self.is_stopping => {
                let until = now.after(config.timing.lease_duration());
                self.phase = Phase::GivingUp { ordinal: landed.term.ordinal, cause: Some(self.stop_cause), until };
                writer.allow_at(now);
                None
            }
            (Phase::Standby, Some((landed, valid_until))) => Some(self.begin(now, landed, valid_until)),
            // The new version may call for a write.
            (Phase::Standby | Phase::GivingUp { .. }, _) => {
                if version.retries_at_once {
                    writer.allow_at(now);
                }
                None
            }
        }
    }

    /// Begins a term.
    fn begin(&mut self, now: Moment, landed: &Attempt, valid_until: Moment) -> Note {
        let AttemptedTerm { ordinal, number, token, .. } = landed.term;
        self.phase =
            Phase::Leading(HeldTerm { ordinal, number, token, valid_until, is_ending: false, restored_at: None });
        self.work = WorkState::Running;
        self.cooldown.term_began(now);
        Note::Began { number, token }
    }

    fn lose(&mut self, now: Moment, loss: Loss, writer: &mut Writer) -> Note {
        self.phase = Phase::Standby;
        writer.forget_attempts();
        writer.allow_at(now);
        Note::Lost(loss)
    }

    fn end_giving_up(&mut self) -> Note {
        self.phase = Phase::Standby;
        Note::GaveUp
    }

    /// The running term is no longer wanted.
    pub(super) fn resign(&mut self, now: Moment) -> Option<Note> {
        let Phase::Leading(term) = &mut self.phase else { return None };
        term.is_ending = true;
        self.cooldown.resign(now).map(|cooldown| Note::Resigned { cooldown })
    }

    /// The process is about to end. Returns whether that is new.
    pub(super) const fn stop(&mut self, cause: Cause) -> bool {
        if self.is_stopping {
            return false;
        }
        self.is_stopping = true;
        self.stop_cause = cause;
        true
    }

    /// Why the running term ends; `None` if its holder was asked to hand over.
    fn cause_of_end(&self) -> Option<Cause> {
        if self.is_stopping {
            return Some(self.stop_cause);
        }
        self.cooldown.is_due().then_some(Cause::Resigned)
    }

    /// Makes a term that must end wait for a preferred holder.
    pub(super) const fn await_successor(&mut self, until: Moment) {
        self.successor_until = Some(until);
    }

    /// The work of the last term has ended, as [`Action::StopWork`] asked.
    pub(super) fn end_work(&mut self) {
        // Work may begin again as long as nothing asks it to stop.
        if self.work != WorkState::Running {
            self.work = WorkState::Ended;
        }
    }

    /// Plans the end of the term and of its work. `preferred` is the preferred holder, if the Lease names one. If
    /// `is_candidate_gone`, no controller can elect this elector's candidate any more.
    pub(super) fn plan(
        &mut self,
        now: Moment,
        preferred: Option<&str>,
        is_candidate_gone: bool,
        config: &Config,
        writer: &mut Writer,
        plan: &mut Plan,
    ) {
        if let Phase::Leading(term) = &mut self.phase
            && !term.is_ending
        {
            if let Some(preferred) = preferred {
                plan.note(Note::HandOverAsked { to: preferred.to_owned() });
            }
            term.is_ending = self.is_stopping || preferred.is_some();
        }
        let goes_on = matches!(&self.phase, Phase::Leading(term) if !term.is_ending);
        if self.work == WorkState::Running && !goes_on {
            plan.act(Action::StopWork);
            self.work = WorkState::Stopping { abort_at: now.after(config.timing.stop_grace()) };
        }
        if let WorkState::Stopping { abort_at } = self.work {
            plan.wake_at(Timer::StopGrace, abort_at);
            if now >= abort_at {
                plan.act(Action::AbortWork);
                plan.note(Note::WorkDidNotStop);
                self.work = WorkState::Aborted;
                // The old work may still run, so the elector lets the Lease expire.
                self.phase = Phase::Standby;
                writer.forget_attempts();
            }
        }
        // The term continues until there is a successor, or the wait for one is over.
        let waits = self.successor_until.is_some_and(|until| {
            plan.wake_at(Timer::Successor, until);
            now < until && preferred.is_none()
        });
        if let Phase::Leading(term) = &self.phase
            && term.is_ending
            && self.work == WorkState::Ended
            && !waits
            && self.may_give_up(preferred, is_candidate_gone)
        {
            if self.is_stopping && config.keeps_on_stop {
                plan.note(Note::LeftToRunOut);
                self.phase = Phase::Standby;
            } else {
                let until = now.after(config.timing.lease_duration());
                self.phase = Phase::GivingUp { ordinal: term.ordinal, cause: self.cause_of_end(), until };
            }
            writer.forget_attempts();
            writer.allow_at(now);
        }
        if let Phase::GivingUp { until, .. } = self.phase {
            plan.wake_at(Timer::GiveUp, until);
        }
        if self.term().is_none() {
            self.cooldown.term_over(now);
            plan.wake_at(Timer::Cooldown, self.cooldown.until());
        }
    }

    /// An elector that stops deletes its candidate before it releases the Lease, so that the controller does not elect
    /// that candidate again.
    pub(super) const fn may_give_up(&self, preferred: Option<&str>, is_candidate_gone: bool) -> bool {
        !self.is_stopping || preferred.is_some() || is_candidate_gone
    }
}
