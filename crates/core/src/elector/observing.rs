//! How observations change the state of an elector.

use std::time::Duration;

use super::attempts::{is_mine, is_of_term, is_reclaimable, names_session};
use super::lifecycle::{NewVersion, VersionOf};
use super::range::OwnRange;
use super::{AttemptId, Note, Outcome, Source};
use super::{Config, Elector};
use crate::model::{Cause, LeaseRecord, Moment, Observed};

/// How long the elector waits for the watch to show the winner of a race before it reads the Lease, unless the retry
/// period is shorter. It is several times the usual delay of a watch.
const WINNER_SHOWN: Duration = Duration::from_millis(250);

/// How long a holder that stops waits for a preferred holder: ten times as long as an idle controller needs to name
/// one.
const SUCCESSOR_FOUND: Duration = Duration::from_millis(500);

impl Elector {
    /// Ends everything that is due, except what needs an action.
    pub(super) fn pass_time(&mut self, now: Moment) {
        if self.requests().any(|request| request.until <= now) {
            self.failed(now);
        }
        if let Some(late) = self.writer.take_if(|request| request.until <= now) {
            self.note(Note::OutcomeUnknown);
            self.reader.need_if(late.is_creation());
        }
        self.reader.pass_time(now);
        // This must precede all planning: whether the candidate is gone determines how the term ends.
        if let Some(candidate) = &mut self.candidate {
            candidate.pass_time(now);
        }
        let news = self.fallback.pass_time(now, &self.config);
        self.note(news);
        let news = self.lifecycle.pass_time(now, &mut self.writer);
        self.note(news);
    }

    pub(super) fn observe_lease(&mut self, now: Moment, record: LeaseRecord, source: Source) {
        self.reader.restart_poll();
        if let Some(request) = self.reader.take(source) {
            let counts = self.lease.observe(record, Some(request.sent), now);
            self.reader.observe_answer(now, counts);
        } else {
            // The first event of a watch serves as a read, because each write is conditional on the version that it
            // shows.
            if self.lease.view().is_unknown() {
                self.reader.set_needed(false);
            }
            self.lease.observe(record, None, now);
        }
    }

    pub(super) fn observe_missing(&mut self, now: Moment, source: Source) {
        self.reader.restart_poll();
        match self.reader.take(source) {
            Some(request) => {
                let counts = self.lease.observe_missing(request.sent, now);
                self.reader.observe_answer(now, counts);
            }
            // A watch may lag behind, so a live read decides whether the Lease is missing.
            None if source == Source::Watch => {
                if self.lease.view().is_unknown() {
                    self.reader.allow_at(now);
                }
                self.reader.need_if(!self.lease.view().is_missing());
            }
            None => {}
        }
    }

    pub(super) fn observe_written(&mut self, now: Moment, attempt: AttemptId, outcome: Outcome<LeaseRecord>) {
        let Some(writing) = self.writer.take_if(|request| request.id == attempt) else {
            // The elector already gave the write up, with an unknown outcome. A late answer is a version like any
            // other.
            if let Outcome::Landed(record) = outcome {
                self.lease.observe(record, None, now);
            }
            return;
        };
        let sent = writing.request.sent;
        match outcome {
            Outcome::Landed(record) if writing.is_creation() => self.lease.observe_created(record, sent, now),
            Outcome::Landed(record) => {
                self.reader.restart_poll();
                if self.writer.observe_answer(writing.is_kept_in(&record)) {
                    self.note(Note::WriteReverted);
                }
                let counts = self.lease.observe(record, Some(sent), now);
                self.reader.need_if(!counts);
            }
            Outcome::Conflict => {
                self.note(Note::Conflict);
                self.preference.withdraw_request();
                self.writer.observe_conflict(writing.retry_at);
                // A pending read may return the version before the conflict.
                self.reader.drop_pending();
                let is_race = self.lifecycle.is_standby();
                let is_shown = self.lease.view().version() > writing.upon();
                self.reader.need_if(!(is_race && is_shown));
                let shown_within = WINNER_SHOWN.min(self.config.timing.retry_period());
                self.reader.allow_at(if is_race && !is_shown { now.after(shown_within) } else { now });
            }
            // The answer may come from a proxy, which may be wrong. A live read decides whether the term ends.
            Outcome::Missing | Outcome::Deleted => {
                self.reader.drop_pending();
                self.reader.set_needed(true);
                self.reader.allow_at(now);
            }
            Outcome::Refused => self.note(Note::Refused),
            Outcome::Unknown => {
                self.reader.need_if(writing.is_creation());
                self.note(Note::OutcomeUnknown);
            }
        }
    }

    /// A holder that stops announces that at once, if a controller elects for its Lease, and keeps leading for a while.
    /// The hand-over that follows takes two fewer writes than a new election, so the time without a leader is shorter.
    pub(super) fn observe_stop(&mut self, now: Moment, cause: Cause) {
        if !self.lifecycle.stop(cause) {
            return;
        }
        let Some(candidate) = &mut self.candidate else { return };
        candidate.delete(now.after(self.config.timing.request_timeout()));
        let is_elected = self.lease.was_elected() || candidate.was_pinged();
        if is_elected && !self.config.keeps_on_stop && self.lifecycle.leading().is_some() {
            self.lifecycle.await_successor(now.after(SUCCESSOR_FOUND));
            self.writer.allow_at(now);
        }
    }

    /// Updates the term when the version of the Lease has changed, or the Lease is missing.
    pub(super) fn settle(&mut self, now: Moment) {
        let retries_at_once = self.writer.retries_at_once();
        let ends_conflict = self.writer.end_conflict();
        let Config { identity, session, timing, .. } = &self.config;
        let Some(record) = self.lease.view().record() else {
            self.writer.forget_attempts();
            let news = self.lifecycle.observe_missing(now, &mut self.writer);
            self.note(news);
            return;
        };
        if ends_conflict && self.lifecycle.is_standby() {
            self.reader.set_needed(false);
        }
        let ordinal = self.lifecycle.ordinal();
        let is_emptied = self.lease.view().present().is_some_and(Observed::is_late_release);
        let of = match ordinal {
            Some(ordinal) if is_mine(record, identity, session, ordinal) => VersionOf::ThisTerm,
            Some(ordinal) if is_emptied && is_of_term(record, session, ordinal) => VersionOf::ThisTermEmptied,
            _ => VersionOf::Another,
        };
        let landed = self.writer.settle(record, identity, session);
        let landed = landed.as_ref().map(|landed| (landed, landed.request.sent.after(timing.renew_deadline())));
        let holder = record.holder.as_deref();
        let version = NewVersion { of, holder, landed, ends_conflict, retries_at_once };
        let news = self.lifecycle.observe_version(now, &version, &self.config, &mut self.writer);
        if let (Some((landed, _)), Some(_)) = (landed, self.lifecycle.leading()) {
            self.range = Some(OwnRange::extended(self.range, landed, timing.lease_duration()));
        }
        self.note(news);
        self.report_namesake();
    }

    fn report_namesake(&mut self) {
        let Config { identity, session: own_session, .. } = &self.config;
        let namesake = self.lease.view().record().filter(|record| {
            record.holder.as_ref() == Some(identity)
                && !record.is_open()
                && !names_session(record, identity, own_session)
        });
        let namesake = namesake.map(|record| {
            record.session.stamp().map_or_else(|| record.session.to_string(), |stamp| stamp.session.clone())
        });
        if let Some(session) = namesake.clone().filter(|_| namesake != self.namesake) {
            let reclaims =
                self.lease.view().record().is_some_and(|record| is_reclaimable(record, identity, own_session));
            self.note(if reclaims { Note::Reclaims { session } } else { Note::NamesakeHolds { session } });
        }
        self.namesake = namesake;
    }
}
