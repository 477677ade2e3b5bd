//! The status of one candidate: the versions that this controller wrote, and those that others wrote.
//!
//! A status carries information from one controller to the next. While this controller does not decide, it adopts all of
//! it. While it decides, another controller may decide, too. The two would undo each other's statuses without end, since
//! some values depend on the writer: times by its clock, and what only it has observed. So this controller adopts what
//! does not contradict its own observations. Where a contradiction remains, it writes its status again after a pause that
//! doubles.

use super::Member;
use crate::election::backoff::Backoff;
use crate::election::damping::Damping;
use crate::election::fingerprint::Fingerprint;
use crate::election::ineffective::{Part, RevertedWrites};
use crate::election::{Config, Write};
use crate::model::{CandidateRecord, CandidateState, Condition, Moment, Now, RecordedStatus};

/// How many statuses are remembered: the one in flight, the one that waits, and those that they replace.
const MOST_REMEMBERED: usize = 4;

/// The writes of a candidate's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::election) struct Statuses {
    pub(super) backoff: Backoff,
    /// The newest statuses that this controller wrote, or found before it decided. Their times are left out.
    known: Vec<Fingerprint>,
    /// When this controller last decided about the candidate.
    decided_at: Option<Moment>,
    /// Another controller has written a status that this one contradicts, unless it comes to the same verdict.
    is_overwritten: bool,
    /// These statuses. The first one is replaced at once, since a person may have edited the status.
    contested: RevertedWrites,
}

impl Statuses {
    pub(super) fn remember(&mut self, status: &RecordedStatus) {
        let fingerprint = fingerprint(status);
        self.known.retain(|known| *known != fingerprint);
        if self.known.len() >= MOST_REMEMBERED {
            self.known.remove(0);
        }
        self.known.push(fingerprint);
    }
}

impl Member {
    /// Records that this controller decides.
    pub(in crate::election) fn observe_decision(&mut self, now: Moment, config: &Config) {
        self.statuses.decided_at = Some(now);
        self.statuses.contested.forget_settled(now, config);
    }

    /// Records the status that follows from the decision. It has a pause if another controller contradicts it.
    pub(in crate::election) fn observe_verdict(&mut self, status: &RecordedStatus, now: Moment, config: &Config) {
        if std::mem::take(&mut self.statuses.is_overwritten) && *status != self.record.status {
            self.statuses.contested.note_revert(Write::Status, contested_part(), now, config);
        }
    }

    /// Until when this write of its status must wait; `None` if it need not wait.
    pub(in crate::election) fn status_rests_until(&self, status: &RecordedStatus, now: Moment) -> Option<Moment> {
        let ineffective = self.ineffective.until(Write::Status, &[status_part(status)], now);
        let contested = self.statuses.contested.until(Write::Status, &[contested_part()], now);
        self.statuses.backoff.until(now).max(contested).max(ineffective)
    }

    /// Records that this status is written.
    pub(in crate::election) fn observe_status_sent(&mut self, status: &RecordedStatus, now: Moment) {
        self.status_sent_at = Some(now);
        self.statuses.remember(status);
    }

    /// The write of its status failed.
    pub(in crate::election) fn fail_status(&mut self, now: Moment, config: &Config) {
        self.statuses.backoff.fail(now, config);
        self.shown = None;
    }

    /// The answer to a status write that was sent at `sent`. Only the answer to the newest write counts.
    pub(super) fn observe_status_written(
        &mut self,
        record: &CandidateRecord,
        sent: Moment,
        now: Moment,
        config: &Config,
    ) {
        if self.status_sent_at.is_none_or(|newest| newest > sent) {
            return;
        }
        if self.statuses.known.last() == Some(&fingerprint(&record.status)) {
            // The watch may already show that another client has reverted it. Another controller has a pause of its own.
            let is_contested = !self.statuses.contested.is_empty();
            let parts = if is_contested { Vec::new() } else { vec![status_part(&record.status)] };
            self.ineffective.note_parts(Write::Status, parts, None, now, config);
        } else if self.shown.take().is_some() {
            self.ineffective.note(Write::Status, Some("status"), now, config);
        }
    }

    /// A version shows another status than the one before. Returns whether another controller wrote it while this one
    /// decides.
    pub(super) fn observe_status(&mut self, now: Now, config: &Config) -> bool {
        let decides = self.statuses.decided_at.is_some_and(|at| now.moment < at.after(config.decides_for()));
        let status = &self.record.status;
        let shown = self.shown.as_ref().map(super::CandidateVerdict::status);
        if decides && shown.as_ref() == Some(status) {
            return false;
        }
        self.shown = None;
        if !decides {
            self.statuses.remember(status);
            let count = self.damping.count;
            self.adopt_status(now, config);
            if self.damping.count > count {
                self.loss_reported_at = Some(now.moment);
            }
            return false;
        }
        let is_known = self.statuses.known.contains(&fingerprint(status));
        let shows_verdict = shown.as_ref().is_some_and(|shown| fingerprint(shown) == fingerprint(status));
        if is_known && !shows_verdict {
            // An earlier status of our own, or one that another client has restored.
            return false;
        }
        self.statuses.is_overwritten = true;
        self.merge_status(now, config);
        true
    }

    /// Adopts what another controller recorded. None of it proves life in an election.
    pub(super) fn adopt_status(&mut self, now: Now, config: &Config) {
        let status = &self.record.status;
        self.responsive = recorded_response(status);
        self.unresponsive_since = status.unresponsive_since.filter(|_| self.responsive == Some(false));
        self.answered_early = status.responsive.reason == Condition::ANSWERED_BEFORE_PING;
        if self.damping.count != status.damping_count || self.adopted_end != status.damped_until {
            self.damping = Damping::recorded(status.damping_count, status.damped_until, now, config);
            self.adopted_end = status.damped_until;
        }
        self.forfeited = status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
    }

    /// Adopts what another controller recorded and this one has not observed otherwise.
    fn merge_status(&mut self, now: Now, config: &Config) {
        let status = &self.record.status;
        let recorded = recorded_response(status);
        // Both know the ping, so both will know an answer.
        let is_unanswered = self.record.ping_time > self.record.renew_time && self.ping.is_none();
        match (self.responsive, recorded) {
            (None, _) => {
                self.responsive = recorded;
                self.answered_early = status.responsive.reason == Condition::ANSWERED_BEFORE_PING;
            }
            (Some(true), Some(false)) if is_unanswered => self.responsive = recorded,
            _ => {}
        }
        if self.responsive == Some(false) && recorded == Some(false) {
            self.unresponsive_since = status.unresponsive_since;
        }
        // Both count the losses that they observe, one at a time. Any other count is an edit.
        if Some(status.damping_count) == self.damping.count.checked_add(1) {
            self.damping = Damping::observed(status.damping_count, status.damped_until, now, config);
            self.forfeited = status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
            self.loss_reported_at = Some(now.moment);
        } else if status.damping_count == self.damping.count {
            self.damping.adopt_end(status.damped_until);
        }
        self.adopted_end = status.damped_until;
    }
}

/// Whether the candidate answered its last ping, according to its status.
const fn recorded_response(status: &RecordedStatus) -> Option<bool> {
    match status.state {
        Some(CandidateState::Holder | CandidateState::Preferred | CandidateState::Standby) => Some(true),
        Some(CandidateState::Unresponsive) => Some(false),
        _ => None,
    }
}

/// A status without its times, which depend on the clock of the controller that wrote it.
fn fingerprint(status: &RecordedStatus) -> Fingerprint {
    Fingerprint::of(&RecordedStatus { unresponsive_since: None, damped_until: None, ..status.clone() })
}

fn contested_part() -> Part {
    Part::new("status of another controller", &())
}

fn status_part(status: &RecordedStatus) -> Part {
    Part::new("status", status)
}
