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
//! - A held Lease may be deleted and created again. A watcher that first observes the new Lease can learn about the old
//!   one only from the candidates. While a candidate's status says that it holds the Lease, an empty record without the
//!   session annotation counts as held for at least as long as a missing Lease would.
//! - A holder that is proven dead relies on nothing. The proof counts only while no other process can rely on the
//!   record. Therefore, the record must have been free, open or expired before this session, or this session must have
//!   renewed it. Otherwise a client that edits the holder's name could end the wait for the true holder.

use std::time::Duration;

use super::expiry::{UNDECLARED_DURATION_SECONDS, declared, reliance};
use super::{LeaseRecord, Moment};

/// The newest version of a Lease that this process observed, when its record last changed, and how long it may last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    record: LeaseRecord,
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
    pub fn first(record: LeaseRecord, at: Moment) -> Self {
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
    /// Lease. Does nothing if the record is open or given up: its writer has already waited for the earlier holder.
    pub(super) fn extend_until(&mut self, until: Moment) {
        let writer_has_waited = self.record.is_open() || self.record.is_given_up();
        self.relied_on_until = self.relied_on_until.max(Some(until)).filter(|_| !writer_has_waited);
    }

    /// Records a version from a watch or a list, received at `at`. It counts only if it is newer. Returns whether it
    /// counts.
    pub fn observe(&mut self, record: LeaseRecord, at: Moment) -> bool {
        let is_newer = record.resource_version > self.record.resource_version;
        if is_newer {
            self.replace(record, at);
        }
        is_newer
    }

    /// Records a version that counts. [`LeaseView`](super::LeaseView) decides which versions do.
    pub(super) fn replace(&mut self, record: LeaseRecord, at: Moment) {
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
    pub const fn record(&self) -> &LeaseRecord {
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

    /// Whether the Lease is free at `at`: given up, or expired.
    pub fn is_free(&self, at: Moment) -> bool {
        self.record.is_given_up() || self.is_expired(at)
    }

    /// The holder, unless the record has expired.
    pub fn live_holder(&self, at: Moment) -> Option<&str> {
        if self.is_expired(at) { None } else { self.record.holder.as_deref() }
    }

    /// Counts the durations of a changed record by the rules in the module documentation.
    fn count(&mut self, record: &LeaseRecord, at: Moment) {
        let former = &self.record;
        let is_given_away = [former, record].iter().any(|record| record.is_open() || record.is_given_up());
        let is_over = is_given_away || self.is_expired(at);
        let keeps_session = record.uid == former.uid && record.session == former.session;
        let was_claimed = self.is_claimed_by_another(former);
        let is_same_holder = keeps_session && record.holder == former.holder;
        let is_renewal = is_same_holder && record.session.stamp().is_some() && record.renew_time != former.renew_time;
        if !keeps_session {
            self.session_began = (record.holder.clone(), record.transitions);
        }
        let is_claimed = self.is_claimed_by_another(record);
        let is_claim = is_claimed && !was_claimed;
        let relied_on_until = self.relied_on_until.filter(|until| !is_given_away && *until > at);
        self.relied_on_until = if is_claim {
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
mod tests {
    use super::super::{SessionMark, WireTime};
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn held(version: u64, duration_seconds: u32) -> LeaseRecord {
        LeaseRecord {
            resource_version: version,
            holder: Some("a".to_owned()),
            duration_seconds,
            renew_time: Some(WireTime::from_micros(i64::try_from(version).unwrap())),
            session: SessionMark::read(Some(&format!("s/1/{duration_seconds}"))),
            ..LeaseRecord::default()
        }
    }

    #[test]
    fn expiry_counts_from_the_observation_of_the_change_and_never_from_a_timestamp() {
        let mut observed = Observed::first(held(1, 20), at(100));
        assert_eq!(observed.expires_at(), at(100).after(Duration::from_millis(20_020)));
        assert!(observed.observe(held(2, 20), at(110)));
        assert!(!observed.is_expired(at(130)));
        assert!(observed.is_expired(at(131)));
    }

    #[test]
    fn a_duration_that_was_shortened_by_hand_does_not_count() {
        let mut observed = Observed::first(held(1, 20), at(0));
        observed.observe(LeaseRecord { duration_seconds: 1, ..held(2, 20) }, at(1));
        assert_eq!(observed.lasts(), Duration::from_millis(20_020));
        observed.observe(LeaseRecord { duration_seconds: 2, session: SessionMark::Absent, ..held(3, 20) }, at(2));
        assert_eq!(observed.lasts(), Duration::from_millis(20_020));
    }

    #[test]
    fn a_record_without_a_session_lasts_at_least_fifteen_seconds() {
        let observed = Observed::first(LeaseRecord { duration_seconds: 2, ..LeaseRecord::default() }, at(0));
        assert_eq!(observed.lasts(), Duration::from_millis(15_015));
    }

    #[test]
    fn a_grant_lasts_as_long_as_it_declares_regardless_of_the_former_record() {
        let mut observed = Observed::first(held(1, 60), at(0));
        observed.observe(LeaseRecord { session: SessionMark::Open, duration_seconds: 5, ..held(2, 60) }, at(1));
        assert_eq!(observed.expires_at(), at(1).after(Duration::from_millis(5_005)));
        observed.observe(held(3, 15), at(2));
        assert_eq!(observed.lasts(), Duration::from_millis(15_015), "the take-up of a grant starts anew");
    }

    #[test]
    fn a_change_of_other_metadata_is_no_sign_of_life() {
        let mut observed = Observed::first(held(1, 15), at(0));
        assert!(observed.observe(
            LeaseRecord { resource_version: 2, preferred_holder: Some("b".to_owned()), enrolled: true, ..held(1, 15) },
            at(9)
        ));
        assert_eq!(observed.changed_at(), at(0));
        assert_eq!(observed.record().resource_version, 2);
    }

    #[test]
    fn a_version_that_is_not_newer_does_not_count() {
        let mut observed = Observed::first(held(5, 15), at(10));
        assert!(!observed.observe(held(4, 15), at(11)), "a stale replay");
        assert!(!observed.observe(held(5, 15), at(11)), "the same version is not newer");
        assert_eq!(observed.record().resource_version, 5);
    }

    #[test]
    fn a_lease_is_free_when_it_was_given_up_or_has_expired_and_then_has_no_live_holder() {
        let mut observed = Observed::first(held(1, 15), at(0));
        let expired = observed.expires_at();
        assert_eq!((observed.is_free(at(15)), observed.live_holder(at(15))), (false, Some("a")));
        assert_eq!((observed.is_free(expired), observed.live_holder(expired)), (true, None));
        observed.observe(LeaseRecord { holder: None, session: SessionMark::Open, ..held(2, 15) }, at(1));
        assert_eq!((observed.is_free(at(1)), observed.live_holder(at(1))), (true, None));
    }

    #[test]
    fn the_greatest_duration_is_forgotten_when_the_lease_was_free_or_open() {
        assert_eq!(lasts([(held(1, 60), 0), (held(2, 15), 59)]), 60);
        assert_eq!(lasts([(held(1, 60), 0), (held(2, 15), 61)]), 15);
        assert_eq!(lasts([(LeaseRecord { session: SessionMark::Open, ..held(1, 60) }, 0), (held(2, 15), 59)]), 15);
    }

    /// A version of the session `s/1/60` with an edited holder, duration and transitions.
    fn under_session(version: u64, holder: &str, duration_seconds: u32, transitions: u32) -> LeaseRecord {
        LeaseRecord { holder: Some(holder.to_owned()), duration_seconds, transitions, ..held(version, 60) }
    }

    fn lasts(versions: impl IntoIterator<Item = (LeaseRecord, i64)>) -> u64 {
        let mut versions = versions.into_iter();
        let (first, seen_at) = versions.next().unwrap();
        let mut observed = Observed::first(first, at(seen_at));
        for (record, seen_at) in versions {
            observed.observe(record, at(seen_at));
        }
        observed.lasts().as_secs()
    }

    #[test]
    fn a_wrong_duration_counts_until_the_next_renewal_of_the_same_term() {
        let renewed_at = |version, time| LeaseRecord { resource_version: version, ..held(time, 15) };
        let edited = LeaseRecord { duration_seconds: 900, ..renewed_at(2, 1) };
        assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1)]), 900);
        assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (renewed_at(3, 1), 2)]), 900, "undone by hand");
        assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (renewed_at(3, 2), 2)]), 15, "undone by a renewal");
        let another = SessionMark::read(Some("s/2/15"));
        let next_term = LeaseRecord { session: another, ..renewed_at(3, 2) };
        assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (next_term, 2)]), 900, "no renewal of that term");
        let another_lease = LeaseRecord { uid: "v".to_owned(), ..renewed_at(3, 2) };
        assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (another_lease, 2)]), 900, "nor of that Lease");
        let another_holder = LeaseRecord { holder: Some("c".to_owned()), ..renewed_at(3, 2) };
        assert_eq!(lasts([(held(1, 15), 0), (edited, 1), (another_holder, 2)]), 900, "nor by that holder");
    }

    #[test]
    fn a_death_counts_only_while_no_process_but_the_holder_can_rely_on_the_record() {
        let first = || under_session(1, "a", 60, 4);
        let edited = LeaseRecord { duration_seconds: 20, ..first() };
        let renewed = under_session(2, "a", 60, 4);
        let claims = [under_session(2, "c", 15, 5), under_session(3, "c", 15, 5)];
        for (versions, counts) in [
            (vec![LeaseRecord { resource_version: 2, ..edited.clone() }], false),
            (vec![renewed.clone()], true),
            (vec![renewed.clone(), LeaseRecord { resource_version: 3, duration_seconds: 20, ..renewed }], true),
            (claims.to_vec(), false),
        ] {
            let mut observed = Observed::first(first(), at(0));
            for record in versions {
                assert!(observed.observe(record, at(1)));
            }
            assert_eq!(observed.observe_death(at(2)), counts, "{observed:?}");
        }
    }

    #[test]
    fn a_death_after_the_record_expired_changes_nothing() {
        let mut observed = Observed::first(held(1, 15), at(0));
        observed.observe(held(2, 15), at(1));
        let expired = observed.expires_at();
        assert!(observed.observe_death(at(30)));
        assert_eq!(observed.expires_at(), expired);
    }

    #[test]
    fn a_renewal_lasts_at_least_the_seconds_of_its_session_whatever_its_duration() {
        assert_eq!(lasts([(held(1, 60), 0), (under_session(2, "a", 1, 0), 1)]), 60);
    }

    #[test]
    fn a_removed_session_counts_until_the_lease_is_free() {
        let shrunk = LeaseRecord { session: SessionMark::Absent, ..under_session(2, "a", 1, 0) };
        let renewed = LeaseRecord { resource_version: 3, renew_time: None, ..shrunk.clone() };
        assert_eq!(lasts([(under_session(1, "a", 1, 0), 0), (shrunk.clone(), 1), (renewed.clone(), 2)]), 60);
        assert_eq!(lasts([(under_session(1, "a", 1, 0), 0), (shrunk, 1), (renewed, 62)]), 15);
    }

    #[test]
    fn a_former_holder_relies_on_its_session_for_one_wait_after_another_claimed_the_lease() {
        for claimed_at in [1, 100] {
            let mut observed = Observed::first(under_session(1, "a", 60, 4), at(0));
            observed.observe(under_session(2, "c", 15, 5), at(claimed_at));
            let relied_on_until = at(claimed_at).after(Duration::from_millis(60_060));
            assert_eq!(observed.expires_at(), relied_on_until);
            observed.observe(under_session(3, "c", 15, 5), at(claimed_at + 2));
            assert_eq!(observed.expires_at(), relied_on_until, "a renewal does not shorten that wait");
            observed.observe(under_session(4, "c", 15, 5), at(claimed_at + 50));
            assert_eq!(observed.lasts(), Duration::from_millis(15_015));
            observed.observe(under_session(5, "d", 20, 6), at(claimed_at + 70));
            assert_eq!(observed.lasts(), Duration::from_millis(20_020), "the next claim does not count it again");
        }
        let claims = [(40, 1), (15, 50), (15, 80)];
        let claims =
            (2..).zip(claims).map(|(version, (seconds, seen_at))| (under_session(version, "c", seconds, 5), seen_at));
        let versions = [(under_session(1, "a", 60, 4), 0)].into_iter().chain(claims);
        assert_eq!(lasts(versions), 40, "a renewal under the former session resets nothing");
    }

    #[test]
    fn the_session_counts_while_no_other_holder_has_claimed_the_lease() {
        let former = (under_session(1, "a", 60, 4), 0);
        let edited = (under_session(2, "c", 15, 4), 1);
        assert_eq!(lasts([former.clone(), edited.clone(), (under_session(3, "c", 15, 4), 50)]), 60, "only its name");
        assert_eq!(lasts([edited, (under_session(3, "a", 15, 4), 50)]), 60, "that was undone");
        assert_eq!(lasts([former, (under_session(2, "a", 15, 5), 50)]), 60, "the holder is the same");
        let claimed = (under_session(1, "c", 15, 5), 0);
        assert_eq!(lasts([claimed.clone(), (under_session(2, "c", 15, 5), 50)]), 60, "the former holder is unknown");
        assert_eq!(lasts([claimed, (under_session(2, "d", 15, 6), 50), (under_session(3, "d", 15, 6), 120)]), 15);
    }

    #[test]
    fn no_record_lasts_longer_than_an_hour() {
        let hour = Duration::from_millis(3_603_600);
        for record in [held(1, u32::MAX), LeaseRecord { duration_seconds: 3601, ..LeaseRecord::default() }] {
            assert_eq!((record.declared_seconds(), Observed::first(record, at(0)).lasts()), (3600, hour));
        }
    }
}
