//! The elector's live reads of the Lease: the pending read, whether another one is needed, and when it may follow.

use super::plan::{Plan, PlannedRequest};
use super::timers::Timer;
use super::{AttemptId, Source};
use crate::model::{Moment, Request};

/// The live reads of one Lease by one elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    pending: Option<PlannedRequest>,
    /// The last observed version is known to be outdated.
    is_needed: bool,
    next_at: Moment,
    /// When to read if nothing is observed before. `None` from an observation until the next decision.
    poll_at: Option<Moment>,
}

impl Reader {
    /// The first event of a watch serves as a read, so the first read waits for it until `next_at`.
    pub(super) const fn new(next_at: Moment) -> Self {
        Self { pending: None, is_needed: true, next_at, poll_at: None }
    }

    /// The pending request.
    pub(super) const fn request(&self) -> Option<&PlannedRequest> {
        self.pending.as_ref()
    }

    /// Whether the last observed version is known to be outdated.
    pub(super) const fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// Something was observed, so the wait for a poll starts over.
    pub(super) const fn restart_poll(&mut self) {
        self.poll_at = None;
    }

    /// Takes the pending read if `source` is its answer.
    pub(super) fn take(&mut self, source: Source) -> Option<PlannedRequest> {
        self.pending.take_if(|pending| source == Source::Read(pending.id))
    }

    /// The pending read failed.
    pub(super) fn observe_failure(&mut self, attempt: AttemptId) {
        self.pending.take_if(|pending| pending.id == attempt);
    }

    /// Gives up a read that was not answered in time.
    pub(super) fn pass_time(&mut self, now: Moment) {
        self.pending.take_if(|pending| pending.until <= now);
    }

    /// Records the answer to a read. If the answer does not `count`, another read follows after the retry period.
    pub(super) const fn observe_answer(&mut self, now: Moment, counts: bool) {
        self.is_needed = !counts;
        if counts {
            self.next_at = now;
        }
    }

    /// Sets whether a read is needed, regardless of whether one was needed before.
    pub(super) const fn set_needed(&mut self, is_needed: bool) {
        self.is_needed = is_needed;
    }

    /// Requires a read if `is_needed`. A read that was needed before stays needed.
    pub(super) const fn need_if(&mut self, is_needed: bool) {
        self.is_needed |= is_needed;
    }

    /// The next read may follow at `moment`.
    pub(super) const fn allow_at(&mut self, moment: Moment) {
        self.next_at = moment;
    }

    /// Drops the pending read, because its answer may be older than what is known now.
    pub(super) const fn drop_pending(&mut self) {
        self.pending = None;
    }

    /// Requires a read if nothing was observed for a long time. Returns whether that is so now.
    pub(super) fn poll(&mut self, now: Moment, plan: &Plan) -> bool {
        let poll_at = *self.poll_at.get_or_insert_with(|| plan.poll_at());
        let is_due = now >= poll_at;
        if is_due {
            self.poll_at = Some(plan.poll_at());
            self.is_needed = true;
        }
        is_due
    }

    /// Plans the read that is needed. A pending write delays the read, because the answer to the write shows more.
    pub(super) fn plan(&mut self, lease_name: &str, is_writing: bool, plan: &mut Plan) {
        if let Some(pending) = &self.pending {
            plan.await_answer(pending);
        } else if is_writing {
            // The wait for the answer has its own timer.
        } else if self.is_needed {
            if plan.may_request(Timer::Read, self.next_at) {
                self.pending = Some(plan.send(Request::read_lease(lease_name)));
                self.next_at = plan.retry_at();
            }
        } else if let Some(poll_at) = self.poll_at {
            plan.wake_at(Timer::Poll, poll_at);
        }
    }
}
