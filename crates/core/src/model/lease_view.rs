//! What one process knows of a Lease, and when that Lease is free.
//!
//! The controller, the elector and the fallback have this one view. If two of them had different rules, one could grant
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
//! - This process has observed a version that was not given up. That version may be old: another process may have
//!   claimed the Lease after its release, and this process may have missed that.
//! - The status of a candidate says so.
//!
//! **Own creations.** A Lease is created empty, and counts as held for every process but its creator. The creator found
//! the Lease free, so it may treat its creation as free. That ends with the next version, whoever wrote it. It does not
//! begin if the creator has observed another version, or a holder, between the two.

use super::{CandidateRecord, LeaseRecord, MissingLease, Moment, Observed};

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
    /// A version before the newest one counted as held.
    was_held: bool,
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
        }
    }

    /// Takes a version of the Lease. `sent` is when the live request that it answers was sent; `None` if a watch or a
    /// list shows it. Returns whether the version counts.
    pub fn observe(&mut self, record: LeaseRecord, sent: Option<Moment>, now: Moment) -> bool {
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

    /// Takes the answer to this process's own creation, which was sent at `sent`. Returns whether the answer counts.
    pub fn observe_created(&mut self, record: LeaseRecord, sent: Moment, now: Moment) -> bool {
        let version = record.resource_version;
        let counts = self.observe(record, Some(sent), now);
        if counts && self.appeared == Some(version) {
            self.created = Some(version);
        }
        counts
    }

    /// Takes an answer that there is no such Lease. The live request was sent at `sent`. Returns whether the answer
    /// counts.
    pub fn observe_missing(&mut self, sent: Moment, now: Moment) -> bool {
        let counts = match &self.presence {
            Presence::Unknown | Presence::Missing(_) => true,
            Presence::Present(_) => self.newest_at < sent,
            Presence::Lost { since, .. } => *since <= sent,
        };
        if counts {
            self.was_held |= self.is_held(now);
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

    /// Whether this process created the Lease, which it had found free, and no client has written it since.
    pub fn is_own_creation(&self) -> bool {
        self.created.is_some() && self.created == self.last().map(|last| last.record().resource_version)
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
            Presence::Present(observed) => {
                let is_free = observed.record().is_given_up() || self.is_own_creation();
                Some(if is_free { observed.changed_at() } else { observed.expires_at() })
            }
        }
    }

    /// Like [`free_from`](Self::free_from), if these candidates are taken into account as well.
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

    /// Whether the newest version counts as held if the Lease goes missing. An own creation does not, until other
    /// processes may find it expired.
    ///
    /// An expired record does not prove that no process relies on the Lease. Its holder may have renewed it unobserved,
    /// and no conditional write can find that out.
    fn is_held(&self, now: Moment) -> bool {
        self.last().is_some_and(|last| {
            let is_unclaimed = self.is_own_creation() && !last.is_expired(now);
            !last.record().is_given_up() && !is_unclaimed
        })
    }
}

impl Default for LeaseView {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CandidateState, RecordedStatus, SessionMark, reliance};
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn version(resource_version: u64) -> LeaseRecord {
        LeaseRecord { resource_version, holder: Some("a".to_owned()), duration_seconds: 20, ..LeaseRecord::default() }
    }

    fn given_up(resource_version: u64) -> LeaseRecord {
        LeaseRecord { holder: None, duration_seconds: 1, session: SessionMark::Open, ..version(resource_version) }
    }

    fn created(resource_version: u64) -> LeaseRecord {
        LeaseRecord { resource_version, ..LeaseRecord::as_created() }
    }

    /// A view of version 5, observed at 1 s.
    fn present() -> LeaseView {
        let mut view = LeaseView::new();
        assert!(view.observe(version(5), None, at(1)));
        view
    }

    /// A view of a Lease that was found missing at 1 s by a read sent at 0 s.
    fn missing() -> LeaseView {
        let mut view = LeaseView::new();
        assert!(view.observe_missing(at(0), at(1)));
        view
    }

    fn waits(view: &LeaseView) -> i64 {
        let Presence::Missing(lease) = view.presence() else { panic!("the Lease is missing") };
        (lease.free_from().as_micros() - lease.found_at().as_micros()) / 1_000_000
    }

    #[test]
    fn a_version_from_a_watch_counts_only_if_it_is_newer() {
        let mut view = present();
        assert!(!view.observe(version(5), None, at(2)) && !view.observe(version(4), None, at(2)));
        assert!(view.observe(version(6), None, at(2)));
        assert_eq!(view.version(), Some(6));
    }

    #[test]
    fn an_older_answer_counts_unless_something_was_observed_since_its_request() {
        let mut view = present();
        assert!(!view.observe(version(4), Some(at(0)), at(3)) && !view.observe(version(4), Some(at(1)), at(3)));
        assert!(view.observe(version(5), Some(at(0)), at(3)), "the version is known already");
        assert!(view.observe(version(4), Some(at(2)), at(3)));
        assert!(!view.observe(version(3), Some(at(3)), at(4)), "version 4 arrived when that request was sent");
    }

    #[test]
    fn an_older_version_does_not_bring_a_missing_lease_back() {
        let mut view = present();
        assert!(view.observe_missing(at(2), at(3)) && view.is_missing());
        assert!(!view.observe(version(5), None, at(4)) && !view.observe(version(5), Some(at(2)), at(4)));
        assert!(view.clone().observe(version(6), None, at(4)));
        assert!(view.clone().observe(version(5), Some(at(4)), at(5)));
        assert!(view.observe_missing(at(9), at(10)));
        assert!(!view.observe(version(5), Some(at(4)), at(11)), "a later answer said that it is missing");
    }

    #[test]
    fn a_lease_is_missing_unless_a_version_was_observed_since_the_request() {
        let mut view = present();
        assert!(!view.observe_missing(at(0), at(2)) && !view.observe_missing(at(1), at(2)));
        assert!(view.present().is_some());
        assert!(view.observe_missing(at(2), at(2)) && view.is_missing());
    }

    #[test]
    fn a_read_sent_before_the_watch_lost_the_lease_decides_nothing() {
        let mut view = present();
        view.observe_lost(at(3));
        assert!(!view.observe(version(5), Some(at(2)), at(4)) && !view.observe(version(5), None, at(4)));
        assert!(!view.observe_missing(at(2), at(4)));
        assert!(view.present().is_none() && view.last().is_some() && view.free_from().is_none());
        assert!(view.clone().observe(version(6), None, at(4)), "a newer version exists");
        assert!(view.clone().observe_missing(at(3), at(4)));
        assert!(view.observe(version(5), Some(at(3)), at(4)));
        assert_eq!(view.present().unwrap().changed_at(), at(4), "its expiry counts from that read");
    }

    #[test]
    fn a_lease_that_was_ever_observed_held_counts_as_held_when_it_is_missing() {
        let mut view = LeaseView::new();
        view.observe(given_up(4), None, at(0));
        assert!(view.clone().observe_missing(at(1), at(2)));
        let mut never_held = view.clone();
        never_held.observe_missing(at(1), at(2));
        assert_eq!(waits(&never_held), 0);
        view.observe(version(5), None, at(1));
        view.observe(given_up(6), None, at(2));
        view.observe_missing(at(3), at(3));
        assert_eq!(waits(&view), 15, "a claim after the release may have gone unobserved");
    }

    #[test]
    fn a_creation_is_free_for_its_creator_until_the_next_version() {
        let mut view = missing();
        assert!(view.observe(created(6), None, at(2)));
        assert!(!view.is_own_creation(), "another process may have created it");
        assert!(view.observe_created(created(6), at(1), at(3)));
        assert_eq!((view.is_own_creation(), view.free_from()), (true, Some(at(2))));
        view.observe(created(7), None, at(4));
        assert_eq!((view.is_own_creation(), view.free_from()), (false, Some(view.present().unwrap().expires_at())));
    }

    #[test]
    fn a_creation_is_not_free_if_another_version_or_a_holder_was_observed_before_its_answer() {
        let mut view = missing();
        view.observe(version(5), None, at(2));
        assert!(view.observe_created(created(6), at(1), at(3)) && !view.is_own_creation());
        let mut view = missing();
        view.observe_candidate(&CandidateRecord {
            status: RecordedStatus { state: Some(CandidateState::Holder), ..RecordedStatus::default() },
            ..CandidateRecord::default()
        });
        assert!(view.observe_created(created(6), at(1), at(3)) && !view.is_own_creation());
    }

    #[test]
    fn an_own_creation_that_goes_missing_was_not_held_unless_it_had_expired() {
        for (missing_at, waited) in [(17, 0), (18, 15)] {
            let mut view = missing();
            view.observe_created(created(6), at(1), at(2));
            assert!(view.observe_missing(at(3), at(missing_at)));
            assert_eq!(waits(&view), waited, "{missing_at} s");
        }
    }

    #[test]
    fn a_duration_counts_only_if_the_last_version_or_an_existing_candidate_declares_it() {
        let declares =
            |seconds| CandidateRecord { lease_duration_seconds: Some(seconds), ..CandidateRecord::default() };
        let mut view = LeaseView::new();
        view.observe(LeaseRecord { duration_seconds: 3000, ..version(5) }, None, at(0));
        view.observe(LeaseRecord { session: SessionMark::Open, ..version(6) }, None, at(1));
        view.observe_missing(at(2), at(2));
        assert_eq!(waits(&view), 20, "an earlier holder declared more");
        assert_eq!(view.free_from_with(&[declares(40), declares(30)]), Some(at(2).after(reliance(40))));
        view.observe_candidate(&declares(40));
        assert_eq!(waits(&view), 40);
    }
}
