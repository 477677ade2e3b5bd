//! The conclusions from observations. A term begins, is extended, or ends by itself only here.

use std::time::Duration;

use super::messages::{AttemptId, Loss, Note, Outcome, Source};
use super::plan::Request;
use super::range::OwnRange;
use super::term::{Attempt, Phase, Term, Work, is_mine, is_reclaimable, names_session};
use super::{Config, Elector};
use crate::model::{LeaseRecord, Moment};

/// How many consecutive conflicts are each followed by an immediate retry. After more, another client is at fault, and
/// the retry period applies.
pub(super) const IMMEDIATE_RETRIES: u32 = 3;

/// How long the watch has to show which elector won a race before the elector reads the Lease, unless the retry period
/// is shorter. It is several times the usual delay of a watch.
const WINNER_SHOWN: Duration = Duration::from_millis(250);

/// How long a holder that stops waits for a preferred holder: ten times what an idle controller takes to name one.
const SUCCESSOR_FOUND: Duration = Duration::from_millis(500);

impl Elector {
    /// Ends everything that is due, except what needs an action.
    pub(super) fn pass_time(&mut self, now: Moment) {
        if self.requests().any(|request| request.until <= now) {
            self.failed(now);
        }
        if let Some(writing) = self.writing.take_if(|writing| writing.request.until <= now) {
            self.note(Note::OutcomeUnknown);
            self.must_read |= writing.is_creation();
        }
        self.reading.take_if(|reading| reading.until <= now);
        // This comes before any planning: whether the candidate is gone decides how the term ends.
        if let Some(candidate) = &mut self.candidate {
            candidate.pass_time(now);
        }
        let news = self.fallback.pass_time(now, &self.config);
        self.notes.extend(news);
        match &self.phase {
            Phase::Leading(term) if now >= term.valid_until => self.lose(now, Loss::NotRenewed),
            Phase::GivingUp { until, .. } if now >= *until => {
                self.note(Note::GiveUpAbandoned);
                self.phase = Phase::Standby;
            }
            Phase::Leading(_) | Phase::GivingUp { .. } | Phase::Standby => {}
        }
    }

    pub(super) fn observe_lease(&mut self, now: Moment, record: LeaseRecord, source: Source) {
        self.poll_at = None;
        if let Some(request) = self.take_reading(source) {
            let counts = self.lease.see_live(record, request.sent, now);
            self.read_is_answered(now, counts);
        } else {
            // The first event of a watch is as good as a read, because each write is conditional on the version that it
            // shows.
            self.must_read &= !self.lease.is_unknown();
            self.lease.see(record, now);
        }
    }

    pub(super) fn observe_missing(&mut self, now: Moment, source: Source) {
        self.poll_at = None;
        match self.take_reading(source) {
            Some(request) => {
                let counts = self.lease.find_missing(request.sent, now);
                self.read_is_answered(now, counts);
            }
            // A watch may lag behind, so a live read decides whether the Lease is missing.
            None if source == Source::Watch => {
                if self.lease.is_unknown() {
                    self.next_read_at = now;
                }
                self.must_read |= !self.lease.is_missing();
            }
            None => {}
        }
    }

    pub(super) fn observe_written(&mut self, now: Moment, attempt: AttemptId, outcome: Outcome<LeaseRecord>) {
        let Some(writing) = self.writing.take_if(|writing| writing.request.id == attempt) else {
            // The write was treated as one of unknown outcome. A late answer is a version like any other.
            if let Outcome::Landed(record) = outcome {
                self.lease.see(record, now);
            }
            return;
        };
        let sent = writing.request.sent;
        match outcome {
            Outcome::Landed(record) if writing.is_creation() => self.lease.see_created(record, sent, now),
            Outcome::Landed(record) => {
                self.poll_at = None;
                self.unkept.answered(writing.write.is_none_or(|write| write.is_kept_in(&record)));
                if self.unkept.is_news() {
                    self.note(Note::NotKept);
                }
                self.must_read |= !self.lease.see_live(record, sent, now);
            }
            Outcome::Conflict => {
                self.note(Note::Conflict);
                self.preference.asked_in_vain();
                self.conflicts = self.conflicts.saturating_add(1);
                self.has_conflict = true;
                // A pending read may return the version before the conflict.
                self.reading = None;
                let is_race = self.phase == Phase::Standby;
                let is_shown = self.lease.version() > writing.upon();
                self.must_read |= !(is_race && is_shown);
                let shown_within = WINNER_SHOWN.min(self.config.timing.retry_period);
                self.next_read_at = if is_race && !is_shown { now.after(shown_within) } else { now };
            }
            // A proxy on the way may be wrong about this. A live read decides whether the term ends.
            Outcome::Missing | Outcome::Deleted => {
                self.reading = None;
                self.must_read = true;
                self.next_read_at = now;
            }
            Outcome::Refused => self.note(Note::Refused),
            Outcome::Unknown => {
                self.must_read |= writing.is_creation();
                self.note(Note::OutcomeUnknown);
            }
        }
    }

    pub(super) fn resign(&mut self, now: Moment) {
        let Phase::Leading(term) = &mut self.phase else { return };
        term.is_ending = true;
        if let Some(rest) = self.rest.resign(now) {
            self.note(Note::Resigned { rest });
        }
    }

    /// A holder that stops announces that at once, if a controller elects for its Lease, and leads on for a while.
    /// While no elector leads, a hand-over takes two writes fewer than a new election.
    pub(super) fn observe_stop(&mut self, now: Moment) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        let Some(candidate) = &mut self.candidate else { return };
        candidate.delete(now.after(self.config.timing.request_timeout));
        let is_elected = self.lease.was_elected() || candidate.was_pinged();
        if is_elected && !self.config.keeps_on_stop && matches!(self.phase, Phase::Leading(_)) {
            self.successor_until = Some(now.after(SUCCESSOR_FOUND));
            self.next_write_at = now;
        }
    }

    /// Draws conclusions when the version of the Lease has changed, or the Lease is missing.
    pub(super) fn settle(&mut self, now: Moment) {
        let retries_at_once = self.conflicts <= IMMEDIATE_RETRIES;
        let was_conflict = std::mem::take(&mut self.has_conflict);
        let Config { identity, session, timing, .. } = &self.config;
        let Some(record) = self.lease.record() else {
            if self.lease.is_missing() {
                self.attempts.clear();
                match self.phase {
                    Phase::Leading(_) => self.lose(now, Loss::LeaseMissing),
                    Phase::GivingUp { .. } => self.end_giving_up(),
                    Phase::Standby => {}
                }
            }
            return;
        };
        if was_conflict && self.phase == Phase::Standby {
            self.must_read = false;
        }
        let running = match &self.phase {
            Phase::Standby => None,
            Phase::Leading(Term { ordinal, .. }) | Phase::GivingUp { ordinal, .. } => Some(*ordinal),
        };
        let is_mine = running.is_some_and(|ordinal| is_mine(record, identity, session, ordinal));
        let holder = record.holder.clone();
        let landed = self.attempts.settle(record, identity, session);
        let landed = landed.map(|landed| (landed.request.sent.after(timing.renew_deadline), landed));
        let give_up_until = now.after(timing.lease_duration());
        if let Some((_, landed)) = &landed {
            self.conflicts = 0;
            self.writing.take_if(|writing| writing.request.id == landed.request.id);
        }
        match (&mut self.phase, landed) {
            (Phase::Leading(_), _) if !is_mine => self.lose(now, Loss::NotMine { holder }),
            (Phase::GivingUp { .. }, _) if !is_mine => self.end_giving_up(),
            (Phase::Leading(term), landed) => {
                if let Some((valid_until, landed)) = landed {
                    self.range = Some(OwnRange::extended(self.range, &landed, timing.lease_duration()));
                    term.valid_until = term.valid_until.max(valid_until);
                }
                // A holder waits for its next renewal, unless a conflict delayed this one.
                if was_conflict && retries_at_once {
                    self.next_write_at = now;
                }
            }
            (Phase::Standby, Some((valid_until, _))) if now >= valid_until => self.note(Note::LandedTooLate),
            (Phase::Standby, Some((_, landed))) if self.is_stopping => {
                self.next_write_at = now;
                self.phase = Phase::GivingUp { ordinal: landed.ordinal, until: give_up_until };
            }
            (Phase::Standby, Some((valid_until, landed))) => self.begin(now, &landed, valid_until),
            // The new version may call for a write.
            (Phase::Standby | Phase::GivingUp { .. }, _) if retries_at_once => self.next_write_at = now,
            (Phase::Standby | Phase::GivingUp { .. }, _) => {}
        }
        self.tell_of_namesake();
    }

    /// Begins a term. No other code does.
    fn begin(&mut self, now: Moment, landed: &Attempt, valid_until: Moment) {
        let (number, token) = (landed.number, landed.token);
        self.range = Some(OwnRange::extended(self.range, landed, self.config.timing.lease_duration()));
        self.phase = Phase::Leading(Term { ordinal: landed.ordinal, number, token, valid_until, is_ending: false });
        self.work = Work::Running;
        self.rest.term_began(now);
        self.note(Note::Began { number, token });
    }

    fn lose(&mut self, now: Moment, loss: Loss) {
        self.phase = Phase::Standby;
        self.attempts.clear();
        self.next_write_at = now;
        self.note(Note::Lost(loss));
    }

    fn end_giving_up(&mut self) {
        self.phase = Phase::Standby;
        self.note(Note::GaveUp);
    }

    fn tell_of_namesake(&mut self) {
        let Config { identity, session: own_session, .. } = &self.config;
        let namesake = self.lease.record().filter(|record| {
            record.holder.as_ref() == Some(identity)
                && !record.is_open()
                && !names_session(record, identity, own_session)
        });
        let namesake = namesake.map(|record| {
            record.session.stamp().map_or_else(|| record.session.to_string(), |stamp| stamp.session.clone())
        });
        if let Some(session) = namesake.clone().filter(|_| namesake != self.namesake) {
            let reclaims = self.lease.record().is_some_and(|record| is_reclaimable(record, identity, own_session));
            self.note(if reclaims { Note::Reclaims { session } } else { Note::NamesakeHolds { session } });
        }
        self.namesake = namesake;
    }

    /// An overtaken answer does not settle the question. The next read follows after the retry period.
    fn read_is_answered(&mut self, now: Moment, counts: bool) {
        self.must_read = !counts;
        if counts {
            self.next_read_at = now;
        }
    }

    fn take_reading(&mut self, source: Source) -> Option<Request> {
        self.reading.take_if(|reading| source == Source::Read(reading.id))
    }
}
