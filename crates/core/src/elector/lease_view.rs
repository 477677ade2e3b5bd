//! What one elector knows of its Lease, and whether the Lease is free.
//!
//! A missing Lease is not automatically free: it may have been deleted while it was held. A Lease that was ever
//! observed held counts as held for a while: see [`MissingLease`].

use std::time::Duration;

use crate::model::{Hold, LeaseRecord, MissingLease, Moment, Observed, UNDECLARED_DURATION_SECONDS, WireTime};

/// How soon a controller, settling included, has pinged the candidates that it needs and elected one.
const CONTROLLER_TAKES: Duration = Duration::from_secs(2);

/// The elector's knowledge of the Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseView {
    state: State,
    /// The first version after the Lease was missing and free.
    appeared: Option<u64>,
    /// The version that this elector created last. While the Lease has that version, this elector may claim it.
    created: Option<u64>,
    /// The newest version observed, across deletions.
    newest_version: u64,
    /// When the newest observation arrived.
    newest_at: Moment,
    /// When this elector last observed a version that only a controller writes.
    controller_seen_at: Option<Moment>,
    /// When this elector observed that a hold was removed. No election ran before that, and no candidate had to prove
    /// itself live. So the wait for a controller and the proofs of life start over. Otherwise the candidate that came
    /// last would seem to be the only live one.
    lifted_at: Option<Moment>,
    was_seen_held: bool,
    /// A grant or a preferred holder was observed: a controller elects for this Lease.
    was_elected: bool,
    /// Until when a term of a deleted Lease may have claimed instants.
    lost_range_end: Option<WireTime>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Unknown,
    Missing(MissingLease),
    Seen(Box<Observed>),
}

/// How the Lease lacks a holder. Equal values mean the same circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Vacancy {
    /// When it was found missing or given up, or when it expires unless it changes.
    pub(super) found_at: Moment,
    /// When it becomes free.
    pub(super) free_from: Moment,
    /// Set if the Lease does not exist, or if it may have replaced one that was held.
    pub(super) missing: Option<MissingLease>,
}

impl LeaseView {
    pub(super) const fn new(now: Moment) -> Self {
        Self {
            state: State::Unknown,
            appeared: None,
            created: None,
            newest_version: 0,
            newest_at: now,
            controller_seen_at: None,
            lifted_at: None,
            was_seen_held: false,
            was_elected: false,
            lost_range_end: None,
        }
    }

    pub(super) const fn observed(&self) -> Option<&Observed> {
        match &self.state {
            State::Seen(observed) => Some(observed),
            State::Unknown | State::Missing(_) => None,
        }
    }

    pub(super) fn record(&self) -> Option<&LeaseRecord> {
        self.observed().map(Observed::record)
    }

    /// The current version; `None` if the Lease is missing or was never observed.
    pub(super) fn version(&self) -> Option<u64> {
        self.record().map(|record| record.resource_version)
    }

    pub(super) const fn is_unknown(&self) -> bool {
        matches!(self.state, State::Unknown)
    }

    pub(super) const fn is_missing(&self) -> bool {
        matches!(self.state, State::Missing(_))
    }

    /// Whether a controller was observed to elect for this Lease.
    pub(super) const fn was_elected(&self) -> bool {
        self.was_elected
    }

    /// When the Lease took its current state. Equal moments mean the same circumstances.
    pub(super) fn changed_at(&self) -> Option<Moment> {
        match &self.state {
            State::Unknown => None,
            State::Missing(lease) => Some(lease.found_at()),
            State::Seen(observed) => self.lifted_at.max(Some(observed.changed_at())),
        }
    }

    /// How the Lease lacks a holder, or will lack one unless it changes. `None` while nothing is known.
    pub(super) fn vacancy(&self) -> Option<Vacancy> {
        match &self.state {
            State::Unknown => None,
            State::Missing(lease) => {
                Some(Vacancy { found_at: lease.found_at(), free_from: lease.free_from(), missing: Some(*lease) })
            }
            State::Seen(observed) => {
                let is_free = observed.record().is_given_up() || self.is_own_creation();
                let free_from = if is_free { observed.changed_at() } else { observed.expires_at() };
                let found_at = self.lifted_at.map_or(free_from, |lifted_at| free_from.max(lifted_at));
                Some(Vacancy { found_at, free_from, missing: observed.predecessor() })
            }
        }
    }

    /// Whether this elector created the Lease and nothing has changed since, so that it may claim it.
    pub(super) fn is_own_creation(&self) -> bool {
        self.created.is_some() && self.created == self.version()
    }

    /// When a version was last seen that only a controller writes.
    pub(super) const fn controller_seen_at(&self) -> Option<Moment> {
        self.controller_seen_at
    }

    /// When candidates renew without a ping. That is in one of these cases:
    ///
    /// - The Lease has been empty or missing for longer than a controller takes. A controller's pings would have to
    ///   wait for that first write.
    /// - The record has been unchanged for two thirds of its duration.
    ///
    /// If this elector expects no controller, it does not wait for one.
    pub(super) fn quiet_from(&self, is_alone: bool) -> Option<Moment> {
        let controller_takes = if is_alone { Duration::ZERO } else { CONTROLLER_TAKES };
        let observed = match &self.state {
            State::Unknown => return None,
            State::Missing(lease) => return Some(lease.found_at().after(controller_takes)),
            State::Seen(observed) => observed,
        };
        let wait = if observed.record().holder.is_none() { controller_takes } else { observed.lasts() / 3 * 2 };
        Some(self.changed_at()?.after(wait))
    }

    /// Takes a version from a watch. It counts if it is newer than the newest observed.
    pub(super) fn see(&mut self, record: LeaseRecord, now: Moment) {
        if record.resource_version > self.newest_version {
            self.replace(record, None, now);
        }
    }

    /// Takes the answer to a read or write that was sent at `sent`. Returns whether it counts.
    pub(super) fn see_live(&mut self, record: LeaseRecord, sent: Moment, now: Moment) -> bool {
        let newest = self.newest_version;
        let is_known = record.resource_version == newest && !self.is_missing();
        let counts = is_known || record.resource_version > newest || self.newest_at < sent;
        if counts {
            self.replace(record, Some(sent), now);
        }
        counts
    }

    /// Takes the answer to this elector's own creation. This elector may claim the Lease only if no other version was
    /// observed since the Lease was found free.
    pub(super) fn see_created(&mut self, record: LeaseRecord, sent: Moment, now: Moment) {
        let version = record.resource_version;
        if self.see_live(record, sent, now) && self.appeared == Some(version) {
            self.created = Some(version);
        }
    }

    /// Takes an answer that there is no such Lease. The request was sent at `sent`. Returns whether the answer counts.
    pub(super) fn find_missing(&mut self, sent: Moment, now: Moment) -> bool {
        let counts = self.is_missing() || self.is_unknown() || self.newest_at < sent;
        if counts {
            self.lost_range_end = self.lost_range_end.max(self.range_end_if_lost(now));
            if !self.is_missing() {
                self.state = State::Missing(MissingLease::new(now, self.observed(), self.was_seen_held));
            }
            self.newest_at = now;
        }
        counts
    }

    /// Until when terms on former Leases of this name may have claimed instants.
    pub(super) const fn lost_range_end(&self) -> Option<WireTime> {
        self.lost_range_end
    }

    /// The end of the last observed term's range, at the latest. Its holder may have renewed unobserved as long as the
    /// Lease existed. The observed version was older than its observation, but by at most one lease, or its term would
    /// have ended.
    fn range_end_if_lost(&self, now: Moment) -> Option<WireTime> {
        let unseen = now.since(self.newest_at);
        let observed = self.observed()?;
        let late = Duration::from_secs(u64::from(observed.greatest_seconds().max(UNDECLARED_DURATION_SECONDS)));
        let end = observed.record().range_end()?.after(unseen).after(late);
        (end < WireTime::MAX).then_some(end)
    }

    fn replace(&mut self, record: LeaseRecord, sent: Option<Moment>, now: Moment) {
        if shows_controller(self.record(), &record) {
            self.controller_seen_at = Some(now);
        }
        if self.record().is_some_and(|seen| seen.uid != record.uid) {
            self.lost_range_end = self.lost_range_end.max(self.range_end_if_lost(now));
        }
        let is_held_back = |record: &LeaseRecord| Hold::read(record.hold.as_deref()).is_some();
        if self.record().is_some_and(is_held_back) && !is_held_back(&record) {
            self.lifted_at = Some(now);
        }
        if record.resource_version != self.newest_version {
            self.newest_at = now;
        }
        self.newest_version = record.resource_version;
        self.was_seen_held |= !record.is_given_up();
        self.was_elected |= record.is_grant() || record.preferred_holder.is_some();
        match &mut self.state {
            State::Seen(observed) => {
                match sent {
                    Some(sent) => observed.see_live(record, sent, now),
                    None => observed.see(record, now),
                };
            }
            State::Unknown => self.state = State::Seen(Box::new(Observed::first(record, now))),
            State::Missing(lease) => {
                if now >= lease.free_from() {
                    self.appeared = Some(record.resource_version);
                }
                self.state = State::Seen(Box::new(lease.followed_by(record, now)));
            }
        }
    }
}

/// Whether a controller wrote `record`: no other client grants, names a preferred holder or sets a hold. A value that
/// the `former` version already had proves nothing.
fn shows_controller(former: Option<&LeaseRecord>, record: &LeaseRecord) -> bool {
    let is_new = |of: fn(&LeaseRecord) -> Option<&String>| {
        of(record).is_some() && former.is_none_or(|former| of(former) != of(record))
    };
    let grants = record.is_grant()
        && former.is_none_or(|former| (&former.holder, former.transitions) != (&record.holder, record.transitions));
    grants || is_new(|record| record.preferred_holder.as_ref()) || is_new(|record| record.hold.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn version(resource_version: u64) -> LeaseRecord {
        LeaseRecord { resource_version, ..LeaseRecord::as_created() }
    }

    #[test]
    fn an_answer_counts_unless_something_newer_was_seen_since_it_was_asked_for() {
        let mut view = LeaseView::new(at(0));
        view.see(version(5), at(2));
        assert!(!view.see_live(version(4), at(1), at(3)));
        assert!(!view.see_live(version(4), at(2), at(3)));
        assert!(view.see_live(version(5), at(1), at(3)), "what is known already");
        assert!(view.see_live(version(4), at(3), at(4)));
    }

    #[test]
    fn no_version_from_before_it_was_found_missing_brings_a_lease_back() {
        let mut view = LeaseView::new(at(0));
        view.see(version(5), at(1));
        assert!(view.find_missing(at(2), at(3)));
        view.see(version(5), at(4));
        assert!(view.is_missing());
        assert!(!view.see_live(version(5), at(2), at(4)) && view.is_missing());
        view.see(version(6), at(5));
        assert!(!view.is_missing());
    }

    #[test]
    fn a_controller_is_seen_when_it_writes_and_not_whenever_its_writing_is() {
        let mut view = LeaseView::new(at(0));
        let held_back =
            |hold: &str, resource_version| LeaseRecord { hold: Some(hold.to_owned()), ..version(resource_version) };
        for (record, seen_at) in [
            (version(1), None),
            (held_back("x", 2), Some(2)),
            (held_back("x", 3), Some(2)),
            (held_back("y", 4), Some(4)),
        ] {
            let now = at(i64::try_from(record.resource_version).unwrap());
            view.see(record, now);
            assert_eq!(view.controller_seen_at(), seen_at.map(at));
        }
    }

    #[test]
    fn a_range_that_was_lost_at_the_end_of_all_times_has_no_end_to_go_by() {
        let lost = |renewed| {
            let mut view = LeaseView::new(at(0));
            view.see(LeaseRecord { renew_time: Some(WireTime::from_micros(renewed)), ..version(1) }, at(1));
            assert!(view.find_missing(at(2), at(2)));
            view.lost_range_end()
        };
        let latest = WireTime::MAX.as_micros();
        assert_eq!(lost(latest - 20_000_000), None);
        assert_eq!(lost(latest - 40_000_000), Some(WireTime::from_micros(latest - 9_000_000)));
    }
}
