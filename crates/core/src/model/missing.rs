//! A Lease that does not exist: until when its last holder may still rely on it.
//!
//! A deletion does not notify the holder. So a Lease that was held counts as held for a while after a read found it
//! missing. A new Lease that is created in that time counts as held, too.

use std::sync::Arc;

use super::expiry::{UNDECLARED_DURATION_SECONDS, reliance};
use super::{CandidateRecord, CandidateState, LeaseRecord, Moment, Observed, SessionMark};

/// A Lease that a live read did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MissingLease {
    found_at: Moment,
    was_held: bool,
    /// The greatest duration that the last observed version or a candidate declares.
    greatest_seconds: u32,
    /// Until when the holder of an even earlier Lease of this name may rely on it.
    relied_on_until: Option<Moment>,
}

impl MissingLease {
    /// A Lease that a read found missing at `found_at`. `last` is its newest observed version, if there is one.
    /// `was_held` is whether this process observed the Lease as held.
    pub fn new(found_at: Moment, last: Option<&Observed>, was_held: bool) -> Self {
        Self {
            found_at,
            was_held,
            greatest_seconds: last.map_or(0, Observed::greatest_seconds).max(UNDECLARED_DURATION_SECONDS),
            relied_on_until: last.and_then(Observed::relied_on_until),
        }
    }

    /// Takes an existing candidate into account.
    ///
    /// - Its status may say that it holds the Lease.
    /// - Its declared duration counts whatever its status says: it may have taken the Lease up before a controller
    ///   recorded that.
    ///
    /// Both count even if the candidate is deleted later, because its process may still rely on the Lease.
    pub fn observe_candidate(&mut self, candidate: &CandidateRecord) {
        self.was_held |= candidate.status.state == Some(CandidateState::Holder);
        self.greatest_seconds = self.greatest_seconds.max(candidate.lease_duration_seconds.unwrap_or(0));
    }

    /// When the Lease was found missing.
    pub const fn found_at(&self) -> Moment {
        self.found_at
    }

    /// When the Lease becomes free: at once, unless it is known to have been held.
    pub fn free_from(&self) -> Moment {
        if self.was_held {
            let held_until = self.found_at.after(reliance(self.greatest_seconds));
            self.relied_on_until.map_or(held_until, |until| until.max(held_until))
        } else {
            self.found_at
        }
    }

    /// The first version observed since, received at `at`. It becomes free no earlier than its predecessor would have,
    /// unless it is open: the writer of such a version has waited for the predecessor.
    pub fn followed_by(&self, record: impl Into<Arc<LeaseRecord>>, at: Moment) -> Observed {
        let mut observed = Observed::first(record, at);
        if at < self.free_from() {
            observed.extend_until(self.free_from());
        }
        observed
    }
}

impl Observed {
    /// The Lease that this one may have replaced. A held Lease may have been deleted and created again before this
    /// process observed it. Only the candidates can show that.
    pub fn predecessor(&self) -> Option<MissingLease> {
        let LeaseRecord { holder, session, .. } = self.record();
        let is_empty = holder.is_none() && *session == SessionMark::Absent;
        is_empty.then(|| MissingLease::new(self.changed_at(), None, false))
    }

    /// Takes an existing candidate into account. Its status may say that it held the [predecessor](Self::predecessor).
    pub fn observe_candidate(&mut self, candidate: &CandidateRecord) {
        if let Some(mut predecessor) = self.predecessor() {
            predecessor.observe_candidate(candidate);
            self.extend_until(predecessor.free_from());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecordedStatus;
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn held(seconds: u32) -> LeaseRecord {
        let session = SessionMark::read(Some(&format!("s/1/{seconds}")));
        LeaseRecord { holder: Some("a".to_owned()), duration_seconds: seconds, session, ..LeaseRecord::default() }
    }

    fn candidate(state: Option<CandidateState>, declares: Option<u32>) -> CandidateRecord {
        CandidateRecord {
            status: RecordedStatus { state, ..RecordedStatus::default() },
            lease_duration_seconds: declares,
            ..CandidateRecord::default()
        }
    }

    #[test]
    fn a_lease_that_was_held_counts_as_held_for_its_declared_duration_and_between_fifteen_seconds_and_an_hour() {
        for (seconds, waits) in [(5, 15_015), (40, 40_040), (u32::MAX, 3_603_600)] {
            let last = Observed::first(held(seconds), at(0));
            let missing = MissingLease::new(at(10), Some(&last), true);
            assert_eq!(missing.free_from().since(at(10)).as_millis(), waits, "{seconds} s");
            assert_eq!(MissingLease::new(at(10), Some(&last), false).free_from(), at(10));
        }
    }

    #[test]
    fn each_candidate_can_extend_the_time_but_only_a_holders_status_makes_a_missing_lease_count_as_held() {
        let mut missing = MissingLease::new(at(0), None, false);
        missing.observe_candidate(&candidate(Some(CandidateState::Standby), Some(30)));
        assert_eq!(missing.free_from(), at(0));
        missing.observe_candidate(&candidate(Some(CandidateState::Holder), None));
        assert_eq!(missing.free_from().since(at(0)).as_millis(), 30_030);
    }

    #[test]
    fn a_lease_created_while_a_holder_may_rely_on_its_predecessor_expires_no_earlier_than_that() {
        let last = Observed::first(held(40), at(0));
        let missing = MissingLease::new(at(1), Some(&last), true);
        let created = missing.followed_by(LeaseRecord::as_created(), at(2));
        assert_eq!(created.expires_at(), missing.free_from());
        let late = missing.followed_by(LeaseRecord::as_created(), at(30));
        assert_eq!(late.expires_at().since(at(30)).as_millis(), 15_015, "and no later than its own duration asks for");
        let again = MissingLease::new(at(3), Some(&created), true);
        assert_eq!(again.free_from(), missing.free_from(), "another deletion takes nothing of that back");
        let later = MissingLease::new(at(40), Some(&created), true);
        assert_eq!(later.free_from().since(at(40)).as_millis(), 15_015, "the creation counts, too");
        let mut granted = created;
        granted.observe(LeaseRecord { resource_version: 1, session: SessionMark::Open, ..held(5) }, at(3));
        assert_eq!(granted.lasts().as_millis(), 5_005, "the writer of a grant has waited");
        for observed_at in [missing.free_from(), at(60)] {
            let created = missing.followed_by(LeaseRecord::as_created(), observed_at);
            assert_eq!(created.relied_on_until(), None, "a wait that is over is forgotten");
        }
    }

    #[test]
    fn only_an_empty_record_without_a_session_may_have_replaced_a_held_lease() {
        let created = LeaseRecord::as_created();
        let released = LeaseRecord { duration_seconds: 1, ..created.clone() };
        let without_holder = LeaseRecord { holder: None, ..held(15) };
        let other = LeaseRecord { holder: Some("a".to_owned()), ..created.clone() };
        // client-go may have released the empty Lease, too, without checking what it was.
        let empty = [created, released].map(|record| (record, Some(at(5))));
        for (record, is_held_until) in empty.into_iter().chain([(without_holder, None), (other, None)]) {
            let predecessor = Observed::first(record, at(5)).predecessor();
            assert_eq!(predecessor.map(|lease| lease.free_from()), is_held_until, "no candidate is known to hold it");
        }
    }

    #[test]
    fn an_earlier_lease_extends_a_record_that_client_go_has_released_and_none_that_is_open() {
        let missing = MissingLease::new(at(0), Some(&Observed::first(held(60), at(0))), true);
        let open = LeaseRecord { session: SessionMark::Open, duration_seconds: 5, ..held(60) };
        assert_eq!(missing.followed_by(open, at(1)).lasts().as_millis(), 5_005);
        let given_up = LeaseRecord { holder: None, duration_seconds: 1, ..LeaseRecord::default() };
        let released = missing.followed_by(given_up, at(1));
        assert_eq!((released.free_from(), released.is_free(at(1))), (missing.free_from(), false));
    }
}
