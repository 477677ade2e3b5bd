//! When a Lease expires, by the clock of whoever watches it.
//!
//! Nobody's timestamp is trusted. A watcher notes when it saw the record *change*, and calls the record expired when
//! it has stood for as long as anybody may have relied on it. Both sides of a term count by their own clocks, the
//! holder from the sending of its write and the watcher from the later sight of it, so that the holder's validity has
//! always ended first.

use std::time::Duration;

use super::{LeaseRecord, Moment};

/// What a record that is not open, and names no term of ours, is taken to last at the least: client-go's default.
pub const UNDECLARED_DURATION_SECONDS: u32 = 15;

/// The newest version of a Lease that this process saw, with when its record last changed and how long it may last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    record: LeaseRecord,
    changed_at: Moment,
    newest_seen_at: Moment,
    greatest_duration_seconds: u32,
}

impl Observed {
    /// The first sight of a Lease, at `at`. It proves nothing about how old the record is, so it counts from now.
    pub fn first(record: LeaseRecord, at: Moment) -> Self {
        let greatest_duration_seconds = record.duration_seconds;
        Self { record, changed_at: at, newest_seen_at: at, greatest_duration_seconds }
    }

    /// Takes a version that came from a watch or a list at `at`. Only one that is newer than the newest seen counts;
    /// returns whether it did.
    pub fn see(&mut self, record: LeaseRecord, at: Moment) -> bool {
        let newer = record.resource_version > self.record.resource_version;
        if newer {
            self.newest_seen_at = at;
            self.replace(record, at);
        }
        newer
    }

    /// Takes the answer, received at `at`, of a live read or of a write that was sent at `sent`. It counts unless
    /// something newer was seen since it was sent; returns whether it did.
    pub fn see_live(&mut self, record: LeaseRecord, sent: Moment, at: Moment) -> bool {
        let overtaken = record.resource_version < self.record.resource_version && self.newest_seen_at >= sent;
        if !overtaken {
            if record.resource_version > self.record.resource_version {
                self.newest_seen_at = at;
            }
            self.replace(record, at);
        }
        !overtaken
    }

    /// Counts the record's expiry from `at`: the Lease was out of sight, and what happened meanwhile is unknown.
    pub fn restart(&mut self, at: Moment) {
        self.changed_at = at;
    }

    /// Makes the record last `seconds` at the least: an earlier Lease of this name may still be relied upon. A record
    /// that is open or given up was written by somebody who knew better.
    pub fn outlast(&mut self, seconds: u32) {
        if !self.record.is_open() && !self.record.is_given_up() {
            self.greatest_duration_seconds = self.greatest_duration_seconds.max(seconds);
        }
    }

    /// The newest version.
    pub const fn record(&self) -> &LeaseRecord {
        &self.record
    }

    /// When a version newer than all before was last seen.
    pub const fn newest_seen_at(&self) -> Moment {
        self.newest_seen_at
    }

    /// When the record was last seen to change.
    pub const fn changed_at(&self) -> Moment {
        self.changed_at
    }

    /// How long the record stands before it counts as expired: the greatest duration seen since it was last free or
    /// open; of a record that is not open no less than its session declares, or 15 s where none is named; and 1 in
    /// 1000 more, since clocks differ in rate.
    pub fn lasts(&self) -> Duration {
        let declared = match (&self.record.session.stamp(), self.record.is_open()) {
            (_, true) => 0,
            (Some(stamp), false) => stamp.seconds,
            (None, false) => UNDECLARED_DURATION_SECONDS,
        };
        let seconds = Duration::from_secs(u64::from(self.greatest_duration_seconds.max(declared)));
        seconds.saturating_add(drift_allowance(seconds))
    }

    /// When the record expires.
    pub fn expires_at(&self) -> Moment {
        self.changed_at.after(self.lasts())
    }

    /// Whether the record has expired at `at`.
    pub fn is_expired(&self, at: Moment) -> bool {
        at >= self.expires_at()
    }

    /// Whether the Lease is free at `at`: given up, or expired.
    pub fn is_free(&self, at: Moment) -> bool {
        self.record.is_given_up() || self.is_expired(at)
    }

    /// The holder of the unexpired record.
    pub fn live_holder(&self, at: Moment) -> Option<&str> {
        if self.is_expired(at) { None } else { self.record.holder.as_deref() }
    }

    fn replace(&mut self, record: LeaseRecord, at: Moment) {
        if !record.is_same_record(&self.record) {
            let starts_anew = self.record.is_open() || self.is_free(at) || record.is_open() || record.is_given_up();
            self.greatest_duration_seconds = if starts_anew {
                record.duration_seconds
            } else {
                self.greatest_duration_seconds.max(record.duration_seconds)
            };
            self.changed_at = at;
        }
        self.record = record;
    }
}

/// What is added to a wait, or taken from a validity, because two clocks may differ in rate by 1 in 1000.
pub fn drift_allowance(duration: Duration) -> Duration {
    Duration::from_micros(u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
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
    fn expiry_counts_from_the_sight_of_the_change_and_never_from_a_timestamp() {
        let mut observed = Observed::first(held(1, 20), at(100));
        assert_eq!(observed.expires_at(), at(100).after(Duration::from_millis(20_020)));
        assert!(observed.see(held(2, 20), at(110)));
        assert!(!observed.is_expired(at(130)));
        assert!(observed.is_expired(at(131)));
    }

    #[test]
    fn a_duration_shrunk_by_hand_is_not_obeyed() {
        let mut observed = Observed::first(held(1, 20), at(0));
        observed.see(LeaseRecord { duration_seconds: 1, ..held(2, 20) }, at(1));
        assert_eq!(observed.lasts(), Duration::from_millis(20_020));
        observed.see(LeaseRecord { duration_seconds: 2, session: SessionMark::Absent, ..held(3, 20) }, at(2));
        assert_eq!(observed.lasts(), Duration::from_millis(20_020));
    }

    #[test]
    fn a_record_of_no_session_lasts_fifteen_seconds_at_the_least() {
        let observed = Observed::first(LeaseRecord { duration_seconds: 2, ..LeaseRecord::default() }, at(0));
        assert_eq!(observed.lasts(), Duration::from_millis(15_015));
    }

    #[test]
    fn a_grant_lasts_as_long_as_it_says_whatever_stood_before() {
        let mut observed = Observed::first(held(1, 60), at(0));
        observed.see(LeaseRecord { session: SessionMark::Open, duration_seconds: 5, ..held(2, 60) }, at(1));
        assert_eq!(observed.expires_at(), at(1).after(Duration::from_millis(5_005)));
        observed.see(held(3, 15), at(2));
        assert_eq!(observed.lasts(), Duration::from_millis(15_015), "the take-up of a grant starts anew");
    }

    #[test]
    fn other_metadata_are_no_sign_of_life() {
        let mut observed = Observed::first(held(1, 15), at(0));
        assert!(observed.see(
            LeaseRecord { resource_version: 2, preferred_holder: Some("b".to_owned()), enrolled: true, ..held(1, 15) },
            at(9)
        ));
        assert_eq!(observed.changed_at(), at(0));
        assert_eq!(observed.record().resource_version, 2);
    }

    #[test]
    fn an_old_version_counts_only_when_nothing_newer_was_seen_since_it_was_asked_for() {
        let mut observed = Observed::first(held(5, 15), at(10));
        assert!(!observed.see(held(4, 15), at(11)), "a stale replay");
        assert!(!observed.see(held(5, 15), at(11)), "nor is the same version any newer");
        assert_eq!(observed.newest_seen_at(), at(10));
        assert!(!observed.see_live(held(4, 15), at(9), at(12)), "an answer that was overtaken");
        assert_eq!(observed.record().resource_version, 5);
        assert!(observed.see_live(held(4, 15), at(12), at(13)));
        assert_eq!(observed.record().resource_version, 4);
    }

    #[test]
    fn only_what_is_newer_moves_the_time_at_which_something_newer_was_seen() {
        let mut observed = Observed::first(held(5, 15), at(10));
        for (version, newest_seen_at) in [(5, 10), (6, 12), (4, 12)] {
            assert!(observed.see_live(held(version, 15), at(11 + newest_seen_at), at(12)));
            assert_eq!(observed.newest_seen_at(), at(newest_seen_at), "version {version}");
        }
    }

    #[test]
    fn a_lease_is_free_when_it_was_given_up_or_has_expired_and_then_has_no_live_holder() {
        let mut observed = Observed::first(held(1, 15), at(0));
        let expired = observed.expires_at();
        assert_eq!((observed.is_free(at(15)), observed.live_holder(at(15))), (false, Some("a")));
        assert_eq!((observed.is_free(expired), observed.live_holder(expired)), (true, None));
        observed.see(LeaseRecord { holder: None, session: SessionMark::Open, ..held(2, 15) }, at(1));
        assert_eq!((observed.is_free(at(1)), observed.live_holder(at(1))), (true, None));
    }

    #[test]
    fn an_earlier_lease_makes_no_record_last_longer_that_is_open_or_given_up() {
        let open = LeaseRecord { session: SessionMark::Open, ..held(1, 5) };
        let given_up = LeaseRecord { holder: None, duration_seconds: 1, ..held(1, 15) };
        for (record, seconds) in [(held(1, 15), 60), (open, 5), (given_up, 15)] {
            let mut observed = Observed::first(record, at(0));
            observed.outlast(60);
            assert_eq!(observed.lasts().as_secs(), seconds);
        }
    }

    #[test]
    fn the_greatest_duration_is_forgotten_when_the_lease_was_free_or_open() {
        let lasts = |former: LeaseRecord, seconds| {
            let mut observed = Observed::first(former, at(0));
            observed.see(held(2, 15), at(seconds));
            observed.lasts().as_secs()
        };
        assert_eq!(lasts(held(1, 60), 59), 60);
        assert_eq!(lasts(held(1, 60), 61), 15);
        assert_eq!(lasts(LeaseRecord { session: SessionMark::Open, ..held(1, 60) }, 59), 15);
    }
}
