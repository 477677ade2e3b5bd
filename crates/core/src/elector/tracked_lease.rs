//! What one elector remembers about its Lease beyond the [view](LeaseView) that every process has.

use std::time::Duration;

use crate::model::{
    CandidateKind, Hold, LeaseRecord, LeaseStage, LeaseView, Moment, Presence, UNDECLARED_DURATION_SECONDS, WireTime,
};

/// How long a controller needs to ping the candidates that matter and to elect one, settling included.
const CONTROLLER_TAKES: Duration = Duration::from_secs(2);

/// The elector's view of the Lease, and the facts of its past that matter later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TrackedLease {
    view: LeaseView,
    /// When this elector last observed a version that only a controller writes.
    controller_seen_at: Option<Moment>,
    /// When this elector observed that a hold was removed. No election ran before that, and no candidate had to prove
    /// itself live. So the wait for a controller and the proofs of life start over. Otherwise only the candidate that
    /// was created last would seem live.
    lifted_at: Option<Moment>,
    /// A grant or a preferred holder was observed: a controller elects for this Lease.
    was_elected: bool,
    /// Until when a term of a deleted Lease may own instants of the wall clock.
    lost_range_end: Option<WireTime>,
}

impl TrackedLease {
    pub(super) const fn view(&self) -> &LeaseView {
        &self.view
    }

    /// Whether a controller was observed to elect for this Lease.
    pub(super) const fn was_elected(&self) -> bool {
        self.was_elected
    }

    /// When the Lease entered its current state. Equal moments mean the same circumstances.
    pub(super) fn changed_at(&self) -> Option<Moment> {
        match self.view.presence() {
            Presence::Unknown | Presence::Lost { .. } => None,
            Presence::Missing(lease) => Some(lease.found_at()),
            Presence::Present(observed) => self.lifted_at.max(Some(observed.changed_at())),
        }
    }

    /// When this elector last observed that a hold was removed.
    pub(super) const fn lifted_at(&self) -> Option<Moment> {
        self.lifted_at
    }

    /// When a version was last observed that only a controller writes.
    pub(super) const fn controller_seen_at(&self) -> Option<Moment> {
        self.controller_seen_at
    }

    /// When candidates renew without a ping, so that an election finds fresh signs of life:
    ///
    /// - when the Lease has been empty or missing for longer than a controller needs;
    /// - when the record has been unchanged for two thirds of its duration.
    ///
    /// If this elector expects no controller, it does not wait for one.
    pub(super) fn quiet_from(&self, is_alone: bool) -> Option<Moment> {
        let controller_takes = if is_alone { Duration::ZERO } else { CONTROLLER_TAKES };
        let wait = match self.view.present() {
            Some(observed) if observed.record().holder.is_some() => observed.lasts() / 3 * 2,
            _ => controller_takes,
        };
        Some(self.changed_at()?.after(wait))
    }

    /// Records a version of the Lease. `sent` is when the live request that it answers was sent. Returns whether the
    /// version counts.
    pub(super) fn observe(&mut self, record: LeaseRecord, sent: Option<Moment>, now: Moment) -> bool {
        self.take(record, now, |view, record| view.observe(record, sent, now))
    }

    /// Records the answer to this elector's own creation.
    pub(super) fn observe_created(&mut self, record: LeaseRecord, sent: Moment, now: Moment) {
        self.take(record, now, |view, record| view.observe_created(record, sent, now));
    }

    /// Records the answer to a request, sent at `sent`, that found no such Lease. Returns whether the answer counts.
    pub(super) fn observe_missing(&mut self, sent: Moment, now: Moment) -> bool {
        let range_end = self.range_end_if_lost(now);
        let counts = self.view.observe_missing(sent, now);
        if counts {
            self.lost_range_end = self.lost_range_end.max(range_end);
        }
        counts
    }

    /// Until when terms on former Leases of this name may own instants of the wall clock.
    pub(super) const fn lost_range_end(&self) -> Option<WireTime> {
        self.lost_range_end
    }

    fn take(
        &mut self,
        record: LeaseRecord,
        now: Moment,
        observe: impl FnOnce(&mut LeaseView, LeaseRecord) -> bool,
    ) -> bool {
        let former = self.view.record();
        let is_by_controller = shows_controller(former, &record);
        let is_elected = is_grant(&record) || record.preferred_holder.is_some();
        let is_another = former.is_some_and(|former| former.uid != record.uid);
        let is_lifted = former.is_some_and(is_held_back) && !is_held_back(&record);
        let range_end = if is_another { self.range_end_if_lost(now) } else { None };
        let counts = observe(&mut self.view, record);
        if counts {
            if is_by_controller {
                self.controller_seen_at = Some(now);
            }
            if is_lifted {
                self.lifted_at = Some(now);
            }
            self.was_elected |= is_elected;
            self.lost_range_end = self.lost_range_end.max(range_end);
        }
        counts
    }

    /// The latest possible end of the last observed term's range. Its holder may have renewed unobserved for as long as
    /// the Lease existed. The observed version may have been up to one lease old when it was observed; if it had been
    /// older, its term would have ended.
    fn range_end_if_lost(&self, now: Moment) -> Option<WireTime> {
        let unseen = now.since(self.view.newest_at());
        let observed = self.view.present()?;
        let late = Duration::from_secs(u64::from(observed.greatest_seconds().max(UNDECLARED_DURATION_SECONDS)));
        let end = observed.record().range_end()?.after(unseen).after(late);
        (end < WireTime::MAX).then_some(end)
    }
}

fn is_grant(record: &LeaseRecord) -> bool {
    record.stage(Some(CandidateKind::Hustings)) == LeaseStage::Granted
}

fn is_held_back(record: &LeaseRecord) -> bool {
    Hold::read(record.hold.as_deref()).is_some()
}

/// Whether a controller wrote `record`: no other client grants, names a preferred holder or sets a hold. A value that
/// the `former` version already had proves nothing.
fn shows_controller(former: Option<&LeaseRecord>, record: &LeaseRecord) -> bool {
    let is_new = |of: fn(&LeaseRecord) -> Option<&String>| {
        of(record).is_some() && former.is_none_or(|former| of(former) != of(record))
    };
    let grants = is_grant(record)
        && former.is_none_or(|former| (&former.holder, former.transitions) != (&record.holder, record.transitions));
    grants || is_new(|record| record.preferred_holder.as_ref()) || is_new(|record| record.hold.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionMark;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn version(resource_version: u64) -> LeaseRecord {
        LeaseRecord { resource_version, ..LeaseRecord::as_created() }
    }

    #[test]
    fn only_a_new_value_shows_that_a_controller_wrote() {
        let named = |name: &str| Some(name.to_owned());
        let grant = |resource_version, transitions| LeaseRecord {
            holder: named("a"),
            transitions,
            session: SessionMark::Open,
            ..version(resource_version)
        };
        let mut history = TrackedLease::default();
        for (record, seen_at) in [
            (version(1), None),
            (LeaseRecord { hold: named("x"), ..version(2) }, Some(2)),
            (LeaseRecord { hold: named("x"), ..version(3) }, Some(2)),
            (LeaseRecord { hold: named("y"), ..version(4) }, Some(4)),
            (grant(5, 1), Some(5)),
            (grant(6, 1), Some(5)),
            (grant(7, 2), Some(7)),
            (LeaseRecord { preferred_holder: named("b"), ..version(8) }, Some(8)),
            (LeaseRecord { preferred_holder: named("b"), ..version(9) }, Some(8)),
            (LeaseRecord { preferred_holder: named("c"), ..version(10) }, Some(10)),
        ] {
            let now = at(i64::try_from(record.resource_version).unwrap());
            history.observe(record, None, now);
            assert_eq!(history.controller_seen_at(), seen_at.map(at));
        }
        let outdated = LeaseRecord { hold: named("z"), ..version(3) };
        assert!(!history.observe(outdated, None, at(11)));
        assert_eq!(history.controller_seen_at(), Some(at(10)));
    }

    #[test]
    fn a_preferred_holder_shows_that_a_controller_elects() {
        let mut history = TrackedLease::default();
        history.observe(version(1), None, at(1));
        assert!(!history.was_elected());
        history.observe(LeaseRecord { preferred_holder: Some("b".to_owned()), ..version(2) }, None, at(2));
        assert!(history.was_elected());
    }

    #[test]
    fn the_range_of_a_deleted_lease_ends_a_lease_of_at_least_15_s_after_its_last_possible_renewal() {
        let open = |resource_version| LeaseRecord { session: SessionMark::Open, ..version(resource_version) };
        for (record, seconds) in [
            (version(1), 10 + 15 + 1 + 15),
            (LeaseRecord { duration_seconds: 5, ..open(1) }, 10 + 1 + 15),
            (LeaseRecord { duration_seconds: 60, ..version(1) }, 10 + 60 + 1 + 60),
        ] {
            let renew_time = Some(WireTime::from_micros(10_000_000));
            let mut history = TrackedLease::default();
            history.observe(LeaseRecord { renew_time, ..record }, None, at(1));
            assert!(!history.observe_missing(at(0), at(2)), "a version was observed since");
            assert_eq!(history.lost_range_end(), None);
            assert!(history.observe_missing(at(2), at(2)));
            assert_eq!(history.lost_range_end(), Some(WireTime::from_micros(seconds * 1_000_000)));
        }
    }

    #[test]
    fn of_several_deleted_leases_the_latest_possible_end_of_a_range_counts() {
        let mut history = TrackedLease::default();
        for (micros, found_at) in [(60_000_000, 1), (10_000_000, 3)] {
            let record = LeaseRecord { renew_time: Some(WireTime::from_micros(micros)), ..version(1) };
            history.observe(record, Some(at(found_at)), at(found_at));
            assert!(history.observe_missing(at(found_at + 1), at(found_at + 1)));
            assert_eq!(history.lost_range_end(), Some(WireTime::from_micros(91_000_000)), "{found_at}");
        }
    }

    #[test]
    fn a_lost_range_that_ends_at_the_latest_representable_time_is_ignored() {
        let lost = |renewed| {
            let mut history = TrackedLease::default();
            let renew_time = Some(WireTime::from_micros(renewed));
            history.observe(LeaseRecord { renew_time, ..version(1) }, None, at(1));
            assert!(history.observe_missing(at(2), at(2)));
            history.lost_range_end()
        };
        let latest = WireTime::MAX.as_micros();
        assert_eq!(lost(latest - 20_000_000), None);
        assert_eq!(lost(latest - 40_000_000), Some(WireTime::from_micros(latest - 9_000_000)));
    }
}
