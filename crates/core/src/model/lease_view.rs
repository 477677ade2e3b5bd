//! What one process knows about a Lease, and when that Lease is free.
//!
//! The controller, the elector and the fallback all use this view. If two of them had different rules, one could grant
//! or claim a Lease that a holder still relies on.
//!
//! **Which observations count.** An observation is a version of the Lease, or an answer that there is none. A watch may
//! lag behind, so a version from a watch counts only if it is newer than all before. The answer to a live request shows
//! a state that is no older than the sending of that request. So it also counts if nothing was observed since then.
//!
//! **What a missing Lease means.** A watch that no longer shows the Lease proves nothing: the Lease may have lost its
//! label. A live read decides. A deletion does not notify the holder, so a Lease that was held counts as held for a
//! while: see [`MissingLease`]. A Lease was held in these cases:
//!
//! - This process has observed a version that was not given up, even an old one. Another process may have claimed the
//!   Lease after a later release, and this process may have missed that.
//! - The status of a candidate says so.
//!
//! **Own creations.** A Lease is created empty, and counts as held for every process but its creator. The creator found
//! the Lease free, so it may treat its creation as free until the next version, whichever client writes that. It may
//! not do so if it has observed another version or a holder between finding the Lease free and creating it.
//!
//! **The history.** Some terms end without a process that records them: the Lease is deleted, or an elector of another
//! kind releases it or claims it. The view adds these terms to the history that its process writes next.

use std::sync::Arc;

use super::{CandidateRecord, Ending, History, LeaseRecord, MissingLease, Moment, Observed, Step};

static NO_HISTORY: History = History::new();

/// One process's view of one Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseView {
    presence: Presence,
    /// The newest version observed, across deletions.
    newest_version: u64,
    /// When the newest observation arrived.
    newest_at: Moment,
    /// The first version after the Lease was missing and free.
    appeared: Option<u64>,
    /// The version that this process created last.
    created: Option<u64>,
    /// An earlier version than the newest one counted as held.
    was_held: bool,
    /// The past terms, including those that the Lease does not record.
    history: History,
}

/// Whether a Lease exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// Nothing was observed yet.
    Unknown,
    /// It exists.
    Present(Observed),
    /// The watch no longer shows it: it was deleted, or lost its label. Only a live read can show which.
    Lost {
        /// What was observed before.
        last: Observed,
        /// When the watch lost it.
        since: Moment,
    },
    /// A live request found no such Lease.
    Missing(MissingLease),
}

impl LeaseView {
    /// The view of a process that has observed nothing.
    pub const fn new() -> Self {
        Self {
            presence: Presence::Unknown,
            newest_version: 0,
            newest_at: Moment::from_micros(i64::MIN),
            appeared: None,
            created: None,
            was_held: false,
            history: History::new(),
        }
    }

    /// Records a version of the Lease. `sent` is when the live request that it answers was sent; `None` if a watch or a
    /// list shows it. Returns whether the version counts.
    pub fn observe(&mut self, record: impl Into<Arc<LeaseRecord>>, sent: Option<Moment>, now: Moment) -> bool {
        let record = record.into();
        let version = record.resource_version;
        let is_newer = version > self.newest_version;
        let counts = is_newer
            || match &self.presence {
                Presence::Unknown => true,
                Presence::Present(_) => {
                    sent.is_some_and(|sent| version == self.newest_version || self.newest_at < sent)
                }
                // The loss causes the read, so both may have the same time.
                Presence::Lost { since, .. } => sent.is_some_and(|sent| *since <= sent),
                Presence::Missing(_) => sent.is_some_and(|sent| self.newest_at < sent),
            };
        if !counts {
            return false;
        }
        if version != self.newest_version || !matches!(self.presence, Presence::Present(_)) {
            self.was_held |= self.is_held(now);
            self.newest_at = now;
        }
        self.newest_version = version;
        self.history = self.history_with(&record);
        match &mut self.presence {
            Presence::Present(observed) => observed.replace(record, now),
            Presence::Unknown => self.presence = Presence::Present(Observed::first(record, now)),
            Presence::Lost { last, .. } => {
                last.replace(record, now);
                last.restart(now);
                self.presence = Presence::Present(last.clone());
            }
            Presence::Missing(lease) => {
                if now >= lease.free_from() {
                    self.appeared = Some(version);
                }
                self.presence = Presence::Present(lease.followed_by(record, now));
            }
        }
        true
    }

    /// Records the answer to this process's own creation, which was sent at `sent`. Returns whether the answer counts.
    pub fn observe_created(&mut self, record: impl Into<Arc<LeaseRecord>>, sent: Moment, now: Moment) -> bool {
        let record = record.into();
        let version = record.resource_version;
        let counts = self.observe(record, Some(sent), now);
        if counts && self.appeared == Some(version) {
            self.created = Some(version);
        }
        counts
    }

    /// Records the answer to a live request, sent at `sent`, that found no such Lease. Returns whether the answer
    /// counts.
    pub fn observe_missing(&mut self, sent: Moment, now: Moment) -> bool {
        let counts = match &self.presence {
            Presence::Unknown | Presence::Missing(_) => true,
            Presence::Present(_) => self.newest_at < sent,
            Presence::Lost { since, .. } => *since <= sent,
        };
        if counts {
            self.was_held |= self.is_held(now);
            if let Some(term) = self.last().and_then(|last| last.record().past_term(Ending::LeaseDeleted, None)) {
                self.history = self.history.with(&term);
            }
            if !self.is_missing() {
                self.presence = Presence::Missing(MissingLease::new(now, self.last(), self.was_held));
            }
            self.newest_at = now;
        }
        counts
    }

    /// The watch no longer shows the Lease.
    pub fn observe_lost(&mut self, now: Moment) {
        if let Presence::Present(last) = &self.presence {
            self.presence = Presence::Lost { last: last.clone(), since: now };
        }
    }

    /// Takes an existing candidate into account. It may have held the missing Lease, or the one that this Lease
    /// replaced.
    pub fn observe_candidate(&mut self, candidate: &CandidateRecord) {
        match &mut self.presence {
            Presence::Missing(lease) => lease.observe_candidate(candidate),
            Presence::Present(observed) => observed.observe_candidate(candidate),
            Presence::Unknown | Presence::Lost { .. } => {}
        }
    }

    /// The holder of the newest version is proven dead. Returns whether the Lease is free sooner because of that.
    pub fn observe_death(&mut self, now: Moment) -> bool {
        match &mut self.presence {
            Presence::Present(observed) => observed.observe_death(now),
            Presence::Unknown | Presence::Lost { .. } | Presence::Missing(_) => false,
        }
    }

    /// Whether the Lease exists.
    pub const fn presence(&self) -> &Presence {
        &self.presence
    }

    /// The Lease, if it is present.
    pub const fn present(&self) -> Option<&Observed> {
        match &self.presence {
            Presence::Present(observed) => Some(observed),
            Presence::Unknown | Presence::Lost { .. } | Presence::Missing(_) => None,
        }
    }

    /// The newest version of a Lease that is present or that the watch has lost.
    pub const fn last(&self) -> Option<&Observed> {
        match &self.presence {
            Presence::Present(observed) | Presence::Lost { last: observed, .. } => Some(observed),
            Presence::Unknown | Presence::Missing(_) => None,
        }
    }

    /// The record of a Lease that is present.
    pub fn record(&self) -> Option<&LeaseRecord> {
        self.present().map(Observed::record)
    }

    /// The version of a Lease that is present.
    pub fn version(&self) -> Option<u64> {
        self.record().map(|record| record.resource_version)
    }

    /// Whether nothing was observed yet.
    pub const fn is_unknown(&self) -> bool {
        matches!(self.presence, Presence::Unknown)
    }

    /// Whether a live request found no such Lease.
    pub const fn is_missing(&self) -> bool {
        matches!(self.presence, Presence::Missing(_))
    }

    /// Whether this process found the Lease free and created it, and no client has written it since.
    pub fn is_own_creation(&self) -> bool {
        self.created.is_some() && self.created == self.last().map(|last| last.record().resource_version)
    }

    /// The past terms, including those that the Lease does not record.
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// When the newest observation arrived.
    pub const fn newest_at(&self) -> Moment {
        self.newest_at
    }

    /// When the Lease becomes free unless it changes. `None` unless the Lease is present or missing.
    pub fn free_from(&self) -> Option<Moment> {
        match &self.presence {
            Presence::Unknown | Presence::Lost { .. } => None,
            Presence::Missing(lease) => Some(lease.free_from()),
            Presence::Present(observed) if self.is_own_creation() => Some(observed.changed_at()),
            Presence::Present(observed) => Some(observed.free_from()),
        }
    }

    /// Like [`free_from`](Self::free_from), but takes these candidates into account as well.
    pub fn free_from_with<'c>(&self, candidates: impl IntoIterator<Item = &'c CandidateRecord>) -> Option<Moment> {
        let free_from = self.free_from()?;
        let missing = match &self.presence {
            Presence::Missing(lease) => Some(*lease),
            Presence::Present(observed) => observed.predecessor(),
            Presence::Unknown | Presence::Lost { .. } => None,
        };
        let Some(mut missing) = missing else { return Some(free_from) };
        candidates.into_iter().for_each(|candidate| missing.observe_candidate(candidate));
        Some(missing.free_from().max(free_from))
    }

    /// The past terms after the next version of the Lease.
    fn history_with(&self, next: &LeaseRecord) -> History {
        let former = self.last().map(Observed::record);
        let recorded = former.filter(|former| former.uid == next.uid).map_or(&NO_HISTORY, |former| &former.history);
        if next.history != *recorded {
            return next.history.clone();
        }
        let unrecorded = former.and_then(|former| {
            let ending = Step::between(former, next, |_| None).ended()?.clone();
            let given_up_at = next.renew_time.filter(|_| ending.is_given_up());
            former.past_term(ending, given_up_at)
        });
        unrecorded.map_or_else(|| self.history.clone(), |term| self.history.with(&term))
    }

    /// Whether the newest version counts as held if the Lease goes missing. An own creation does not count as held
    /// until it has expired: then another process may have claimed it.
    ///
    /// An expired record does not prove that no process relies on the Lease. Its holder may have renewed it unobserved,
    /// and no conditional write can find that out.
    fn is_held(&self, now: Moment) -> bool {
        self.last().is_some_and(|last| {
            let is_unclaimed = self.is_own_creation() && !last.is_expired(now);
            !last.is_given_up(now) && !is_unclaimed
        })
    }
}

impl Default for LeaseView {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
