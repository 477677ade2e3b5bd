//! When a Lease expires, by the clock of the process that watches it.
//!
//! A watcher trusts no timestamp of another process. It notes when it observes that the record *changes*. The record
//! has expired once the longest time has passed for which any process may rely on it. Each side measures with its own
//! clock: the holder from the sending of its write, the watcher from its later observation of that write. So the
//! holder's validity always ends first.
//!
//! A process may rely on a record for longer than the record declares, because a third party may have edited it. These
//! rules determine which durations count:
//!
//! - Each version declares its duration. Unless it is open, it declares at least the SECONDS of its session, or 15 s
//!   without a readable session, and never more than an hour. The greatest duration declared since the record was last
//!   free or open counts.
//! - A renewal under the same session and term resets that maximum. Its holder relies only on the SECONDS of its
//!   session, so the next renewal clears a wrong duration.
//! - client-go keeps annotations, so a session may outlive its term. If another holder claims the Lease under the same
//!   session, the former holder can no longer renew. It relies on the Lease for at most one wait after the claim. From
//!   then on the record counts as one without a session. A claim is another holder with more `leaseTransitions`. An
//!   edit of the holder alone is not a claim: it may be undone before the true holder notices.
//! - A watcher that first observes a Lease after such a claim cannot know that the session belongs to the former
//!   holder. To be safe, it counts the SECONDS until the next claim.
//! - client-go releases without checking who holds the Lease. A replica that lost the Lease while it was cut off may so
//!   empty it during the term of its successor. Such a *late release* gives nothing up: while the session of a term
//!   stands on it, the record counts as held until it expires. Only `open` ends a term of `hustings.io` early.
//! - A release by client-go speaks for its writer alone. So it ends no wait for an earlier holder: one whose session
//!   was claimed away or removed, or one that held a Lease of this name before it was deleted.
//! - A held Lease may be deleted and created again. A watcher that first observes the new Lease can learn about the old
//!   one only from the candidates. While a candidate's status says that it holds the Lease, an empty record without the
//!   session annotation counts as held. It counts for at least as long as a missing Lease would.
//! - A holder that is proven dead relies on nothing. The proof counts only while no other process can rely on the
//!   record. Therefore, the record must have been free, open or expired before this session, or this session must have
//!   renewed it. Otherwise a client that edits the holder's name could end the wait for the true holder.

use std::sync::Arc;
use std::time::Duration;

use super::expiry::{UNDECLARED_DURATION_SECONDS, declared, reliance};
use super::{LeaseRecord, Moment};

/// The newest version of a Lease that this process observed, when its record last changed, and how long it may last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    /// Shared, so that a store of the caller can hold the same copy.
    record: Arc<LeaseRecord>,
    changed_at: Moment,
    /// The greatest duration that counts for the record.
    greatest_seconds: u32,
    /// The holder and the transitions of the first observed record with this session.
    session_began: (Option<String>, u32),
    /// Until when a holder before the record's own may rely on the Lease.
    relied_on_until: Option<Moment>,
    /// After `relied_on_until`, no process but the record's holder relies on the Lease.
    is_sole: bool,
    /// When the holder of this record was proven dead.
    proven_dead_at: Option<Moment>,
}

impl Observed {
    /// The first observation of a Lease, at `at`. It does not prove how old the record is, so expiry counts from now.
    pub fn first(record: impl Into<Arc<LeaseRecord>>, at: Moment) -> Self {
        let record = record.into();
        Self {
            changed_at: at,
            greatest_seconds: record.declared_seconds(),
            session_began: (record.holder.clone(), record.transitions),
            relied_on_until: None,
            is_sole: false,
            proven_dead_at: None,
            record,
        }
    }

    /// Keeps the record unexpired until `until`, because the holder of an earlier Lease of this name may rely on that
    /// Lease. Does nothing if the record is open: its writer has already waited for the earlier holder.
    pub(super) fn extend_until(&mut self, until: Moment) {
        let writer_has_waited = self.record.is_open();
        self.relied_on_until = self.relied_on_until.max(Some(until)).filter(|_| !writer_has_waited);
    }

    /// Records a version from a watch or a list, received at `at`. It counts only if it is newer. Returns whether it
    /// counts.
    pub fn observe(&mut self, record: impl Into<Arc<LeaseRecord>>, at: Moment) -> bool {
        let record = record.into();
        let is_newer = record.resource_version > self.record.resource_version;
        if is_newer {
            self.replace(record, at);
        }
        is_newer
    }

    /// Records a version that counts. [`LeaseView`](super::LeaseView) decides which versions do.
    pub(super) fn replace(&mut self, record: Arc<LeaseRecord>, at: Moment) {
        if !record.is_same_record(&self.record) {
            self.count(&record, at);
            self.changed_at = at;
            self.proven_dead_at = None;
        }
        self.record = record;
    }

    /// Restarts the record's expiry at `at`. The watch had lost the Lease, so the record may have changed unobserved.
    pub(super) fn restart(&mut self, at: Moment) {
        self.changed_at = at;
        self.is_sole = false;
        self.proven_dead_at = None;
    }

    /// The holder of this record is proven dead at `at`. Returns whether the proof ends the wait for it.
    pub(super) fn observe_death(&mut self, at: Moment) -> bool {
        if self.is_sole {
            self.proven_dead_at.get_or_insert(at);
        }
        self.is_sole
    }

    /// The newest version.
    pub fn record(&self) -> &LeaseRecord {
        &self.record
    }

    /// The newest version, to be shared.
    pub(crate) const fn shared(&self) -> &Arc<LeaseRecord> {
        &self.record
    }

    /// When this process last observed a change of the record.
    pub const fn changed_at(&self) -> Moment {
        self.changed_at
    }

    /// How long after its last change the record expires.
    pub fn lasts(&self) -> Duration {
        self.expires_at().since(self.changed_at)
    }

    /// When the record expires.
    pub fn expires_at(&self) -> Moment {
        let lapses_at = self.changed_at.after(reliance(self.greatest_seconds));
        let own = self.proven_dead_at.map_or(lapses_at, |at| at.min(lapses_at));
        self.relied_on_until.map_or(own, |until| until.max(own))
    }

    /// The greatest duration that counts for the record, in seconds.
    pub const fn greatest_seconds(&self) -> u32 {
        self.greatest_seconds
    }

    /// Until when a holder before the record's own may rely on the Lease, if that counts.
    pub(super) const fn relied_on_until(&self) -> Option<Moment> {
        self.relied_on_until
    }

    /// Whether the record has expired at `at`.
    pub fn is_expired(&self, at: Moment) -> bool {
        at >= self.expires_at()
    }

    /// When the Lease becomes free unless it changes: at once if it is given up, otherwise when it expires.
    pub fn free_from(&self) -> Moment {
        if !self.is_released() {
            return self.expires_at();
        }
        self.relied_on_until.map_or(self.changed_at, |until| until.max(self.changed_at))
    }

    /// Whether the Lease is free at `at`: given up, or expired.
    pub fn is_free(&self, at: Moment) -> bool {
        at >= self.free_from()
    }

    /// Whether the Lease is given up at `at`, and not only expired.
    pub fn is_given_up(&self, at: Moment) -> bool {
        self.is_released() && self.is_free(at)
    }

    /// Whether client-go has emptied the Lease while the term of its session may still run. The record then counts as
    /// held.
    pub fn is_late_release(&self) -> bool {
        self.record.has_release_form() && self.record.session.stamp().is_some() && !self.is_released()
    }

    /// Whether the holder of the newest version has given it up.
    fn is_released(&self) -> bool {
        let by_former = || self.record.has_release_form() && self.is_claimed_by_another(&self.record);
        self.record.is_given_up() || by_former()
    }

    /// The holder, unless the record has expired.
    pub fn live_holder(&self, at: Moment) -> Option<&str> {
        if self.is_expired(at) { None } else { self.record.holder.as_deref() }
    }

    /// Counts the durations of a changed record by the rules in the module documentation.
    fn count(&mut self, record: &LeaseRecord, at: Moment) {
        let former = &self.record;
        let is_given_away = former.is_open() || record.is_open();
        let is_over = is_given_away || self.is_free(at);
        let keeps_session = record.uid == former.uid && record.session == former.session;
        let was_claimed = self.is_claimed_by_another(former);
        let is_same_holder = keeps_session && record.holder == former.holder;
        let is_renewal = former.is_renewed_by(record);
        if !keeps_session {
            self.session_began = (record.holder.clone(), record.transitions);
        }
        let is_claimed = self.is_claimed_by_another(record);
        let is_claim = is_claimed && !was_claimed;
        // A third party has removed the session of a term that may still run.
        let is_stripped = former.session.stamp().is_some() && record.session.stamp().is_none() && !was_claimed;
        let relied_on_until = self.relied_on_until.filter(|until| !is_given_away && *until > at);
        self.relied_on_until = if is_claim || (is_stripped && !is_over) {
            relied_on_until.max(Some(at.after(reliance(self.greatest_seconds))))
        } else {
            relied_on_until
        };
        let declared = if is_claimed {
            declared(record.duration_seconds, UNDECLARED_DURATION_SECONDS)
        } else {
            record.declared_seconds()
        };
        let starts_afresh = is_over || is_claim || (is_renewal && !is_claimed);
        self.is_sole = is_over || (is_renewal && !is_claimed) || (self.is_sole && is_same_holder);
        self.greatest_seconds = if starts_afresh { declared } else { self.greatest_seconds.max(declared) };
    }

    /// Whether this version's session belongs to a former holder: it was first observed with another holder, and the
    /// Lease was claimed since.
    fn is_claimed_by_another(&self, record: &LeaseRecord) -> bool {
        let (holder, transitions) = &self.session_began;
        record.session.stamp().is_some() && record.holder != *holder && record.transitions > *transitions
    }
}

#[cfg(test)]
mod tests;
