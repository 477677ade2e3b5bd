//! The status of one candidate: the versions that this controller wrote, and those that others wrote.
//!
//! A status carries information from one controller to the next. While this controller does not decide, it adopts all of
//! it. While it decides, another controller may decide, too. The two would undo each other's statuses without end, since
//! some values depend on the writer: times by its clock, and what only it has observed. So this controller adopts what
//! does not contradict its own observations. Where a contradiction remains, it writes its status again after a pause that
//! doubles.

use std::time::Duration;

use super::{Member, Response};
use crate::election::backoff::Backoff;
use crate::election::damping::Damping;
use crate::election::fingerprint::Fingerprint;
use crate::election::ineffective::{Part, RevertedWrites};
use crate::election::{CandidateVerdict, Config, Write};
use crate::model::{CandidateRecord, CandidateState, Condition, Moment, Now, RecordedStatus};

/// The longest pause after a status could not be written.
const LONGEST_STATUS_PAUSE: Duration = Duration::from_mins(1);

/// How many statuses are remembered: the one in flight, the one that waits, and those that they replace.
const MOST_REMEMBERED: usize = 4;

/// The writes of a candidate's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::election) struct MemberStatuses {
    pub(super) backoff: Backoff,
    /// The newest statuses that this controller wrote, or found before it decided. Their times are left out.
    known: Vec<Fingerprint>,
    /// When this controller last decided about the candidate.
    decided_at: Option<Moment>,
    /// Another controller has written a status that this one contradicts, unless it comes to the same verdict.
    is_overwritten: bool,
    /// These statuses. The first one is replaced at once, since a person may have edited the status.
    contested: RevertedWrites,
    /// When the newest status was decided.
    sent_at: Option<Moment>,
    /// The verdict that the newest status shows, or that was sent last.
    pub(in crate::election) shown: Option<CandidateVerdict>,
    /// The status that has not lasted long enough to be written, and since when it has been correct.
    pub(in crate::election) unpublished: Option<(RecordedStatus, Moment)>,
}

impl MemberStatuses {
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
        self.statuses.sent_at = Some(now);
        self.statuses.remember(status);
    }

    /// The write of its status failed.
    pub(in crate::election) fn fail_status(&mut self, now: Moment, config: &Config) {
        // Elections do not need it, and a missing permission concerns all candidates.
        self.statuses.backoff.fail_up_to(LONGEST_STATUS_PAUSE, now, config);
        self.statuses.shown = None;
    }

    /// The answer to a status write that was sent at `sent`. Only the answer to the newest write counts.
    pub(super) fn observe_status_written(
        &mut self,
        record: &CandidateRecord,
        sent: Moment,
        now: Moment,
        config: &Config,
    ) {
        if self.statuses.sent_at.is_none_or(|newest| newest > sent) {
            return;
        }
        if self.statuses.known.last() == Some(&fingerprint(&record.status)) {
            // The watch may already show that another client has reverted it. Another controller has a pause of its own.
            let is_contested = !self.statuses.contested.is_empty();
            let parts = if is_contested { Vec::new() } else { vec![status_part(&record.status)] };
            self.ineffective.note_parts(Write::Status, parts, None, now, config);
        } else if self.statuses.shown.take().is_some() {
            self.ineffective.note(Write::Status, Some("status"), now, config);
        }
    }

    /// A version shows another status than the one before. Returns whether another controller wrote it while this one
    /// decides.
    pub(super) fn observe_status(&mut self, now: Now, config: &Config) -> bool {
        let decides = self.statuses.decided_at.is_some_and(|at| now.moment < at.after(config.decides_for()));
        let status = &self.record.status;
        let shown = self.statuses.shown.as_ref().map(CandidateVerdict::status);
        if decides && shown.as_ref() == Some(status) {
            return false;
        }
        self.statuses.shown = None;
        if !decides {
            self.statuses.remember(status);
            let count = self.losses.damping.count;
            self.adopt_status(now, config);
            if self.losses.damping.count > count {
                self.losses.reported_at = Some(now.moment);
            }
            return false;
        }
        let is_known = self.statuses.known.contains(&fingerprint(status));
        let shows_verdict = shown.as_ref().is_some_and(|shown| fingerprint(shown) == fingerprint(status));
        if is_known && !shows_verdict {
            // An earlier status of our own, or one that another client has restored. That client may be the controller
            // that contests: both then know both statuses.
            self.statuses.is_overwritten = !self.statuses.contested.is_empty();
            return false;
        }
        self.statuses.is_overwritten = true;
        self.merge_status(now, config);
        true
    }

    /// Adopts what another controller recorded. None of it proves life in an election.
    pub(super) fn adopt_status(&mut self, now: Now, config: &Config) {
        let status = &self.record.status;
        self.response = recorded_response(status);
        self.answered_early = status.responsive.reason == Condition::ANSWERED_BEFORE_PING;
        if self.losses.damping.count != status.damping_count || self.losses.adopted_end != status.damped_until {
            self.losses.damping = Damping::recorded(status.damping_count, status.damped_until, now, config);
            self.losses.adopted_end = status.damped_until;
        }
        self.losses.forfeited = status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
    }

    /// Adopts what another controller recorded and this one has not observed otherwise.
    fn merge_status(&mut self, now: Now, config: &Config) {
        let status = &self.record.status;
        let recorded = recorded_response(status);
        // Both know the ping, so both will know an answer.
        let is_unanswered = self.record.ping_time > self.record.renew_time && self.ping.is_idle();
        match (self.response, recorded) {
            (Response::Unknown, _) => {
                self.response = recorded;
                self.answered_early = status.responsive.reason == Condition::ANSWERED_BEFORE_PING;
            }
            (Response::Missed { .. }, Response::Missed { .. }) => self.response = recorded,
            (Response::Answered, Response::Missed { .. }) if is_unanswered => self.response = recorded,
            _ => {}
        }
        // Both count the losses that they observe, one at a time. Any other count is an edit.
        if Some(status.damping_count) == self.losses.damping.count.checked_add(1) {
            self.losses.damping = Damping::observed(status.damping_count, status.damped_until, now, config);
            self.losses.forfeited = status.leading.reason == Condition::GRANT_NOT_TAKEN_UP;
            self.losses.reported_at = Some(now.moment);
        } else if status.damping_count == self.losses.damping.count {
            self.losses.damping.adopt_end(status.damped_until);
        }
        self.losses.adopted_end = status.damped_until;
    }
}

/// Whether the candidate answered its last ping, according to its status.
const fn recorded_response(status: &RecordedStatus) -> Response {
    match status.state {
        Some(CandidateState::Holder | CandidateState::Preferred | CandidateState::Standby) => Response::Answered,
        Some(CandidateState::Unresponsive) => Response::Missed { since: status.unresponsive_since },
        _ => Response::Unknown,
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
