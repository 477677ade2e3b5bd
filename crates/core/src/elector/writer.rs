//! The elector's writes of the Lease: the pending write, the writes that may have succeeded, and when the next may
//! follow.

use super::attempts::{Attempt, AttemptedTerm, Attempts};
use super::plan::{Plan, PlannedRequest};
use super::unkept::UnkeptWrites;
use crate::model::{LeaseRecord, LeaseWrite, Moment, Request, WireTime};

/// After how many consecutive conflicts the elector still retries at once. After more, another client is at fault, and
/// the elector waits for the retry period.
const IMMEDIATE_RETRIES: u32 = 3;

/// The writes of one Lease by one elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Writer {
    /// The number of terms that this instance began or tried to begin.
    terms: u64,
    attempts: Attempts,
    /// There is at most one pending write.
    pending: Option<PendingWrite>,
    next_at: Moment,
    /// Consecutive conflicts.
    conflicts: u32,
    /// The last write met a conflict, and the version that caused it is not known yet.
    has_conflict: bool,
    /// Writes whose answer did not show them. They delay every write but a renewal, which has a deadline.
    reverted: UnkeptWrites,
}

/// A write without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingWrite {
    pub(super) request: PlannedRequest,
    /// `None` for a creation.
    write: Option<Box<LeaseWrite>>,
    /// When it may be repeated if conflicts delay the next write.
    pub(super) retry_at: Moment,
}

impl PendingWrite {
    pub(super) const fn is_creation(&self) -> bool {
        self.write.is_none()
    }

    /// The version on which the write is conditional.
    pub(super) fn upon(&self) -> Option<u64> {
        self.write.as_ref().map(|write| write.resource_version)
    }

    /// Whether the answer shows what was written.
    pub(super) fn is_kept_in(&self, answer: &LeaseRecord) -> bool {
        self.write.as_ref().is_none_or(|write| write.is_kept_in(answer))
    }
}

impl Writer {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            terms: 0,
            attempts: Attempts::default(),
            pending: None,
            next_at: now,
            conflicts: 0,
            has_conflict: false,
            reverted: UnkeptWrites::default(),
        }
    }

    /// The pending request.
    pub(super) fn request(&self) -> Option<&PlannedRequest> {
        self.pending.as_ref().map(|pending| &pending.request)
    }

    /// Takes the pending write if its request satisfies `predicate`.
    pub(super) fn take_if(&mut self, predicate: impl FnOnce(&PlannedRequest) -> bool) -> Option<PendingWrite> {
        self.pending.take_if(|pending| predicate(&pending.request))
    }

    /// Whether the version that caused the last conflict is not known yet.
    pub(super) const fn has_conflict(&self) -> bool {
        self.has_conflict
    }

    /// A write met a conflict. After too many in a row, the next write waits until `retry_at`. This holds even if a
    /// version that was observed before the answer has allowed an earlier write.
    pub(super) const fn observe_conflict(&mut self, retry_at: Moment) {
        self.conflicts = self.conflicts.saturating_add(1);
        self.has_conflict = true;
        if !self.retries_at_once() {
            self.next_at = retry_at;
        }
    }

    /// The version that caused the last conflict is known. Returns whether there was a conflict.
    pub(super) const fn end_conflict(&mut self) -> bool {
        std::mem::replace(&mut self.has_conflict, false)
    }

    /// Whether conflicts do not delay the next write.
    pub(super) const fn retries_at_once(&self) -> bool {
        self.conflicts <= IMMEDIATE_RETRIES
    }

    /// Records whether the answer to a write shows it. Returns whether a note should report that it does not.
    pub(super) fn observe_answer(&mut self, is_kept: bool) -> bool {
        self.reverted.observe_answer(is_kept);
        self.reverted.take_report()
    }

    /// Returns the attempt that `record` proves to have succeeded.
    pub(super) fn settle(&mut self, record: &LeaseRecord, identity: &str, session: &str) -> Option<Attempt> {
        let landed = self.attempts.settle(record, identity, session);
        if let Some(landed) = &landed {
            self.conflicts = 0;
            let shown = self.pending.take_if(|pending| pending.request.id == landed.request.id);
            // The answer is still under way, and will count as late. A version without parts of the write proves
            // nothing: another client may have changed it since.
            if shown.is_some_and(|pending| pending.is_kept_in(record)) {
                self.reverted.observe_answer(true);
            }
        }
        landed
    }

    /// The attempts so far can no longer begin or extend a term.
    pub(super) fn forget_attempts(&mut self) {
        self.attempts.clear();
    }

    /// The latest renew time of an attempt that may have succeeded.
    pub(super) fn latest_renew_time(&self) -> Option<WireTime> {
        self.attempts.latest_renew_time()
    }

    /// Allows the next write at `moment`.
    pub(super) const fn allow_at(&mut self, moment: Moment) {
        self.next_at = moment;
    }

    /// When the next write may be sent.
    pub(super) fn due(&self, is_renewal: bool, now: Moment) -> Moment {
        let not_before = if is_renewal { now } else { self.reverted.not_before(now) };
        self.next_at.max(not_before)
    }

    /// Counts a term that this instance tries to begin. Returns its TERM.
    pub(super) const fn next_term(&mut self) -> u64 {
        self.terms = self.terms.saturating_add(1);
        self.terms
    }

    /// Sends a write now, or a creation. With `term`, the write is an attempt to begin or extend that term.
    pub(super) fn send(
        &mut self,
        lease_name: &str,
        write: Option<LeaseWrite>,
        term: Option<AttemptedTerm>,
        plan: &mut Plan,
    ) {
        let request = plan.send(match &write {
            None => Request::create_lease(lease_name),
            Some(write) => Request::write_lease(lease_name, write.clone()),
        });
        if let (Some(write), Some(term)) = (&write, term) {
            self.attempts.push(Attempt { request, resource_version: write.resource_version, term });
        }
        if self.conflicts > IMMEDIATE_RETRIES {
            self.conflicts = 0;
        }
        let retry_at = plan.retry_at();
        self.pending = Some(PendingWrite { request, write: write.map(Box::new), retry_at });
        self.next_at = retry_at;
        self.reverted.observe_sent(plan);
    }
}
