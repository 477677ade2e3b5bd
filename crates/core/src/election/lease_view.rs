//! What a controller knows of the Lease itself: present, missing, or to be read live first.
//!
//! The watch shows only labelled Leases, so a Lease that it does not show may exist. A Lease that a live read finds
//! missing is free at once, unless its holder may still rely on it.

use super::Source;
use crate::model::{CandidateRecord, LeaseRecord, MissingLease, Moment, Observed, SessionMark};

/// What was last observed of the Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LeaseState {
    /// Nothing was observed yet.
    Unknown,
    /// The watch no longer shows it: it was deleted, or lost its label.
    Lost { last: Observed, since: Moment },
    /// A live read found no such object. Versions up to `last_version` do not bring it back.
    Missing { lease: MissingLease, last_version: u64 },
    /// It exists.
    Present(Observed),
}

/// The Lease, and what has to be remembered when it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LeaseView {
    pub(super) state: LeaseState,
    /// The record that this controller created, while nobody has changed it.
    own_creation: Option<LeaseRecord>,
    /// A creation was requested. The next answer to a write is its answer.
    pub(super) creating: bool,
    /// When the Lease was last read or written.
    pub(super) read_at: Option<Moment>,
}

impl LeaseView {
    pub(super) fn new() -> Self {
        Self { state: LeaseState::Unknown, own_creation: None, creating: false, read_at: None }
    }

    /// Takes a version of the Lease. Returns whether it counts.
    pub(super) fn see(&mut self, record: LeaseRecord, source: Source, now: Moment) -> bool {
        let created = self.creating && matches!(source, Source::Written { .. });
        // The creator found the Lease free. It is no longer free if another tenure was observed before the answer.
        self.creating &= source == Source::Watch && record.holder.is_none() && record.session == SessionMark::Absent;
        let version = record.resource_version;
        let counts = match &mut self.state {
            LeaseState::Unknown => {
                self.state = LeaseState::Present(Observed::first(record.clone(), now));
                true
            }
            LeaseState::Present(observed) => see(observed, record.clone(), source, now),
            LeaseState::Lost { last, since } => {
                let asked_since = source.sent().is_some_and(|sent| sent >= *since);
                let counts =
                    (asked_since || version > last.record().resource_version) && see(last, record.clone(), source, now);
                if counts {
                    let mut observed = last.clone();
                    observed.restart(now);
                    self.state = LeaseState::Present(observed);
                }
                counts
            }
            LeaseState::Missing { lease, last_version } => {
                let asked_since = source.sent().is_some_and(|sent| sent >= lease.found_at());
                let counts = asked_since || version > *last_version;
                if counts {
                    self.state = LeaseState::Present(lease.followed_by(record.clone(), now));
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

    /// The Lease was not found. `candidates` are all existing candidates.
    pub(super) fn miss<'c>(
        &mut self,
        source: Source,
        now: Moment,
        candidates: impl IntoIterator<Item = &'c CandidateRecord>,
    ) {
        self.creating = false;
        let (last, last_version) = match (&self.state, source.sent()) {
            (LeaseState::Present(last), None) => {
                self.state = LeaseState::Lost { last: last.clone(), since: now };
                return;
            }
            (_, None) | (LeaseState::Missing { .. }, _) => return,
            (LeaseState::Lost { since, .. }, Some(sent)) if sent < *since => return,
            (LeaseState::Present(last), Some(sent)) if last.newest_seen_at() > sent => return,
            (LeaseState::Unknown, Some(_)) => (None, 0),
            (LeaseState::Present(last) | LeaseState::Lost { last, .. }, Some(_)) => {
                (Some(last), last.record().resource_version)
            }
        };
        // An expired record does not prove that no process relies on the Lease. The holder may have renewed it
        // unobserved, and no conditional write can find that out.
        let was_held = last.is_some_and(|last| !last.record().is_given_up()) && !self.is_own_creation();
        let mut lease = MissingLease::new(now, last, was_held);
        for candidate in candidates {
            lease.observe_candidate(candidate);
        }
        self.own_creation = None;
        self.state = LeaseState::Missing { lease, last_version };
    }

    /// Takes a candidate into account. It may have held the missing Lease, or the one that this Lease replaced.
    pub(super) fn observe_candidate(&mut self, candidate: &CandidateRecord) {
        match &mut self.state {
            LeaseState::Missing { lease, .. } => lease.observe_candidate(candidate),
            LeaseState::Present(observed) => observed.observe_candidate(candidate),
            LeaseState::Unknown | LeaseState::Lost { .. } => {}
        }
    }

    /// Whether the Lease is unchanged since this controller created it. For its creator, who found it free, it is free.
    pub(super) const fn is_own_creation(&self) -> bool {
        self.own_creation.is_some()
    }

    /// The newest version of a Lease that is present or that the watch has lost.
    pub(super) const fn last(&self) -> Option<&Observed> {
        match &self.state {
            LeaseState::Present(observed) | LeaseState::Lost { last: observed, .. } => Some(observed),
            LeaseState::Unknown | LeaseState::Missing { .. } => None,
        }
    }

    /// The Lease, if it is present.
    pub(super) const fn present(&self) -> Option<&Observed> {
        match &self.state {
            LeaseState::Present(observed) => Some(observed),
            LeaseState::Unknown | LeaseState::Lost { .. } | LeaseState::Missing { .. } => None,
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
        view.miss(Source::Watch, at(2), []);
        assert!(!view.see(version(5), Source::Read { sent: at(1) }, at(3)));
        assert!(!view.see(version(5), Source::Watch, at(3)));
        view.miss(Source::Read { sent: at(1) }, at(3), []);
        assert!(matches!(view.state, LeaseState::Lost { .. }), "and it does not prove it missing either");
        assert_eq!(view.last().map(|last| last.record().resource_version), Some(5), "what it knew is not forgotten");
        assert!(view.clone().see(version(6), Source::Watch, at(3)), "a newer version is there, whoever shows it");
        assert!(view.see(version(5), Source::Read { sent: at(2) }, at(3)));
        assert_eq!(view.present().unwrap().changed_at(), at(3), "its expiry counts from that read");
    }

    #[test]
    fn an_own_creation_is_free_unless_another_tenure_was_seen_meanwhile() {
        let created = LeaseRecord { resource_version: 6, ..LeaseRecord::as_created() };
        let creating = || {
            let mut view = LeaseView::new();
            view.miss(Source::Read { sent: at(0) }, at(0), []);
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
        view.miss(Source::Read { sent: at(3) }, at(6), []);
        assert!(view.present().is_some(), "it was created meanwhile");
        view.miss(Source::Read { sent: at(5) }, at(6), []);
        assert!(matches!(view.state, LeaseState::Missing { .. }));
        assert!(!view.see(version(5), Source::Watch, at(7)), "a stale replay does not bring it back");
        assert!(!view.see(version(5), Source::Read { sent: at(5) }, at(7)), "nor does an answer that was overtaken");
        assert!(view.see(version(5), Source::Read { sent: at(6) }, at(7)));
    }

    #[test]
    fn a_duration_counts_only_if_the_last_version_or_a_candidate_that_exists_declares_it() {
        let declares =
            |seconds| CandidateRecord { lease_duration_seconds: Some(seconds), ..CandidateRecord::default() };
        let waits = |candidates: &[CandidateRecord], seen_later: &[CandidateRecord]| {
            let mut view = LeaseView::new();
            view.see(LeaseRecord { duration_seconds: 3000, ..version(5) }, Source::Watch, at(0));
            view.see(LeaseRecord { session: SessionMark::Open, ..version(6) }, Source::Watch, at(1));
            view.miss(Source::Read { sent: at(2) }, at(2), candidates);
            for candidate in seen_later {
                view.observe_candidate(candidate);
            }
            let LeaseState::Missing { lease, .. } = view.state else { panic!("the Lease is missing") };
            lease.free_from().since(at(2)).as_secs()
        };
        assert_eq!(waits(&[], &[]), 20, "an earlier holder declared more");
        assert_eq!(waits(&[declares(40), declares(30)], &[]), 40);
        assert_eq!(waits(&[], &[declares(40)]), 40, "it was seen only after the Lease was found missing");
    }
}
