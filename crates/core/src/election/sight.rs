//! What is known of the Lease itself: present, missing, or to be read live before anything else.
//!
//! The watch shows labelled Leases only, so one that it does not show may be there all the same. One that is really
//! missing is free at once, unless somebody may still rely on it.

use std::time::Duration;

use super::Source;
use crate::model::{LeaseRecord, Moment, Observed, SessionMark, UNDECLARED_DURATION_SECONDS, drift_allowance};

/// Where the Lease was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sight {
    /// Nowhere yet.
    Unknown,
    /// The watch has lost it: deleted, or without its label.
    Lost { last: Observed, since: Moment },
    /// There is no such object.
    Missing(Missing),
    /// There it is.
    Present(Observed),
}

/// A Lease that a live read did not find.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Missing {
    /// When that was found.
    pub(super) since: Moment,
    /// It was not given up when it was last seen, or a candidate's status said Holder.
    pub(super) was_held: bool,
    last_version: u64,
}

/// The Lease, and what stays in mind when it goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseView {
    pub(super) sight: Sight,
    /// What this controller created and nobody has touched since.
    own_creation: Option<LeaseRecord>,
    /// A creation was asked for, and the next answer to a write tells of it.
    pub(super) creating: bool,
    /// The greatest duration that any Lease of this name, or any of its candidates, was seen to declare.
    greatest_seconds: u32,
    /// When the Lease was last read or written.
    pub(super) read_at: Option<Moment>,
}

/// Longer than this no elector holds a Lease without renewing it, whatever the Lease or a candidate's annotation says.
const LONGEST_DECLARED_SECONDS: u32 = 3600;

impl LeaseView {
    pub(super) fn new() -> Self {
        Self {
            sight: Sight::Unknown,
            own_creation: None,
            creating: false,
            greatest_seconds: UNDECLARED_DURATION_SECONDS,
            read_at: None,
        }
    }

    /// What the Lease declares, or a candidate about the Leases it would hold.
    pub(super) fn hear_of_duration(&mut self, seconds: u32) {
        self.greatest_seconds = self.greatest_seconds.max(seconds.min(LONGEST_DECLARED_SECONDS));
    }

    /// Takes a version of the Lease. Returns whether it counts.
    pub(super) fn see(&mut self, record: LeaseRecord, source: Source, now: Moment) -> bool {
        self.hear_of_duration(record.session.stamp().map_or(0, |stamp| stamp.seconds).max(record.duration_seconds));
        let created = self.creating && matches!(source, Source::Written { .. });
        // Its creator had found the Lease free. That is so no more when another's tenure was seen before the answer.
        self.creating &= source == Source::Watch && record.holder.is_none() && record.session == SessionMark::Absent;
        let version = record.resource_version;
        let counts = match &mut self.sight {
            Sight::Unknown => {
                self.sight = Sight::Present(Observed::first(record.clone(), now));
                true
            }
            Sight::Present(observed) => see(observed, record.clone(), source, now),
            Sight::Lost { last, since } => {
                let asked_since = source.sent().is_some_and(|sent| sent >= *since);
                let counts =
                    (asked_since || version > last.record().resource_version) && see(last, record.clone(), source, now);
                if counts {
                    let mut observed = last.clone();
                    observed.restart(now);
                    self.sight = Sight::Present(observed);
                }
                counts
            }
            Sight::Missing(missing) => {
                let asked_since = source.sent().is_some_and(|sent| sent >= missing.since);
                let counts = asked_since || version > missing.last_version;
                if counts {
                    let mut observed = Observed::first(record.clone(), now);
                    if missing.was_held && missing.since.after(self.reliance()) > now {
                        observed.outlast(self.greatest_seconds);
                    }
                    self.sight = Sight::Present(observed);
                }
                counts
            }
        };
        if counts {
            if source != Source::Watch {
                self.read_at = Some(now);
            }
            if created {
                self.own_creation = Some(record);
            } else if self.own_creation.as_ref().is_some_and(|created| !created.is_same_record(&record)) {
                self.own_creation = None;
            }
        }
        counts
    }

    /// The Lease was not found. `status_says_holder`: whether any candidate's status names it as the holder.
    pub(super) fn miss(&mut self, source: Source, now: Moment, status_says_holder: bool) {
        self.creating = false;
        let (was_held, last_version) = match (&self.sight, source.sent()) {
            (Sight::Present(last), None) => {
                self.sight = Sight::Lost { last: last.clone(), since: now };
                return;
            }
            (_, None) | (Sight::Missing(_), _) => return,
            (Sight::Lost { since, .. }, Some(sent)) if sent < *since => return,
            (Sight::Present(last), Some(sent)) if last.newest_seen_at() > sent => return,
            (Sight::Unknown, Some(_)) => (false, 0),
            // That it has expired is no proof: it may have been renewed out of sight, and no conditional write can tell.
            (Sight::Present(last) | Sight::Lost { last, .. }, Some(_)) => {
                (!last.record().is_given_up() && !self.is_own_creation(), last.record().resource_version)
            }
        };
        self.own_creation = None;
        let was_held = was_held || status_says_holder;
        self.sight = Sight::Missing(Missing { since: now, was_held, last_version });
    }

    /// How long a missing Lease counts as held.
    pub(super) fn reliance(&self) -> Duration {
        let seconds = Duration::from_secs(u64::from(self.greatest_seconds));
        seconds.saturating_add(drift_allowance(seconds))
    }

    /// Whether the Lease is as this controller created it: to its creator, who had found it free, it is free.
    pub(super) const fn is_own_creation(&self) -> bool {
        self.own_creation.is_some()
    }

    /// The newest version seen, of a Lease that is there or that the watch has lost.
    pub(super) const fn last(&self) -> Option<&Observed> {
        match &self.sight {
            Sight::Present(observed) | Sight::Lost { last: observed, .. } => Some(observed),
            Sight::Unknown | Sight::Missing(_) => None,
        }
    }

    /// The Lease, if it is there.
    pub(super) const fn present(&self) -> Option<&Observed> {
        match &self.sight {
            Sight::Present(observed) => Some(observed),
            Sight::Unknown | Sight::Lost { .. } | Sight::Missing(_) => None,
        }
    }
}

fn see(observed: &mut Observed, record: LeaseRecord, source: Source, now: Moment) -> bool {
    match source.sent() {
        None => observed.see(record, now),
        Some(sent) => observed.see_live(record, sent, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn version(resource_version: u64) -> LeaseRecord {
        LeaseRecord { resource_version, holder: Some("a".to_owned()), duration_seconds: 20, ..LeaseRecord::default() }
    }

    #[test]
    fn a_read_sent_before_the_watch_lost_the_lease_does_not_bring_it_back() {
        let mut view = LeaseView::new();
        view.see(version(5), Source::Watch, at(0));
        view.miss(Source::Watch, at(2), false);
        assert!(!view.see(version(5), Source::Read { sent: at(1) }, at(3)));
        assert!(!view.see(version(5), Source::Watch, at(3)));
        view.miss(Source::Read { sent: at(1) }, at(3), false);
        assert!(matches!(view.sight, Sight::Lost { .. }), "and it does not prove it missing either");
        assert_eq!(view.last().map(|last| last.record().resource_version), Some(5), "what it knew is not forgotten");
        assert!(view.clone().see(version(6), Source::Watch, at(3)), "a newer version is there, whoever shows it");
        assert!(view.see(version(5), Source::Read { sent: at(2) }, at(3)));
        assert_eq!(view.present().unwrap().changed_at(), at(3), "its expiry counts from that read");
    }

    #[test]
    fn a_lease_created_while_its_predecessor_may_be_relied_upon_lasts_as_long_as_that() {
        let mut view = LeaseView::new();
        view.see(LeaseRecord { duration_seconds: 40, ..version(5) }, Source::Watch, at(0));
        view.miss(Source::Watch, at(1), false);
        view.miss(Source::Read { sent: at(1) }, at(1), false);
        let created = LeaseRecord { resource_version: 6, ..LeaseRecord::as_created() };
        assert!(view.see(created, Source::Watch, at(2)));
        assert!(view.present().unwrap().expires_at() > at(42));
    }

    #[test]
    fn an_own_creation_is_free_unless_another_tenure_was_seen_meanwhile() {
        let created = LeaseRecord { resource_version: 6, ..LeaseRecord::as_created() };
        let creating = || {
            let mut view = LeaseView::new();
            view.miss(Source::Read { sent: at(0) }, at(0), false);
            view.creating = true;
            view
        };
        let mut view = creating();
        assert!(view.see(created.clone(), Source::Watch, at(1)));
        assert!(view.see(created.clone(), Source::Written { sent: at(0) }, at(1)));
        assert!(view.is_own_creation());
        let mut view = creating();
        assert!(view.see(version(5), Source::Watch, at(1)));
        assert!(view.see(created, Source::Written { sent: at(0) }, at(1)));
        assert!(!view.is_own_creation());
    }

    #[test]
    fn a_lease_is_missing_when_nothing_newer_was_seen_since_that_was_asked() {
        let mut view = LeaseView::new();
        view.see(version(5), Source::Watch, at(5));
        view.miss(Source::Read { sent: at(3) }, at(6), false);
        assert!(view.present().is_some(), "it was created meanwhile");
        view.miss(Source::Read { sent: at(5) }, at(6), false);
        assert!(matches!(view.sight, Sight::Missing(_)));
        assert!(!view.see(version(5), Source::Watch, at(7)), "a stale replay does not bring it back");
        assert!(!view.see(version(5), Source::Read { sent: at(5) }, at(7)), "nor does an answer that was overtaken");
        assert!(view.see(version(5), Source::Read { sent: at(6) }, at(7)));
    }

    #[test]
    fn a_lease_lasts_as_it_says_where_nobody_relies_on_its_predecessor() {
        let created = LeaseRecord { resource_version: 6, ..LeaseRecord::as_created() };
        let lasts = |was_held, created_at: Moment| {
            let mut view = LeaseView::new();
            view.hear_of_duration(40);
            view.miss(Source::Read { sent: at(0) }, at(0), was_held);
            view.see(created.clone(), Source::Watch, created_at);
            view.present().unwrap().lasts().as_secs()
        };
        let reliance = Duration::from_millis(40_040);
        assert_eq!(lasts(false, at(1)), 15);
        assert_eq!(lasts(true, at(1)), 40);
        assert_eq!(lasts(true, at(0).after(reliance)), 15);
    }
}
