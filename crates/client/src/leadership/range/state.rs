//! The time range of a process, and the instants that the process reported as its own.
//!
//! The rule that must hold: one lock covers decisions and answers, because a decision may close the range.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hustings_core::elector::Range;
use hustings_core::model::{Now, WireTime};

use super::observed_term::ObservedTerm;
use crate::clock::Clock;

/// The newest term that the Lease showed, and the number of changes of the holder up to it.
#[derive(Clone, Debug)]
pub(crate) struct LatestTerm {
    pub(super) change: u64,
    pub(super) term: ObservedTerm,
}

/// The range of a process and its answers.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Mutex<RangeState>);

#[derive(Debug)]
pub(crate) struct RangeState {
    pub(super) range: Option<Owned>,
    /// The latest instant that this process reported as its own.
    pub(super) reported: WireTime,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Owned {
    Always,
    Range(Range),
}

impl LatestTerm {
    /// Records the term that the Lease shows. Returns whether that is a change of the holder.
    pub(crate) fn update(latest: &mut Option<Self>, term: ObservedTerm) -> bool {
        let is_change = latest.as_ref().is_none_or(|latest| !term.continues(&latest.term));
        let before = latest.as_ref().map_or(0, |latest| latest.change);
        *latest = Some(Self { change: before + u64::from(is_change), term });
        is_change
    }
}

impl Ranges {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RangeState> {
        // The values stay consistent even if a thread panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RangeState {
    /// Both clocks. The wall clock is later than every instant that this process has reported as its own.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Now {
        let after_reported = WireTime::from_micros(self.reported.as_micros().saturating_add(1));
        let now = clock.both();
        Now { wall: now.wall.max(after_reported), ..now }
    }

    pub(crate) fn set(&mut self, range: Option<Range>) {
        self.range = range.map(Owned::Range);
    }

    /// Owns every instant, because an election that is switched off has no other participants.
    pub(crate) fn own_everything(&mut self) {
        self.range = Some(Owned::Always);
    }

    /// Ends failing open. Without an elector, this process would not observe that another one has taken over.
    pub(crate) fn stop_failing_open(&mut self) {
        if let Some(Owned::Range(range)) = &mut self.range {
            range.fails_open_until = None;
        }
    }
}

impl Default for RangeState {
    fn default() -> Self {
        Self { range: None, reported: WireTime::MIN }
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{LeaseRecord, SessionMark};

    use super::*;

    #[test]
    fn a_holder_that_claims_its_lease_again_and_again_does_not_change() {
        let mut latest = None;
        for (holder, transitions, is_change) in [("a", 1, true), ("a", 2, false), ("a", 3, false), ("b", 4, true)] {
            let record = LeaseRecord {
                holder: Some(holder.to_owned()),
                session: SessionMark::read(Some(&format!("{holder}/{transitions}/15"))),
                token: Some(u64::from(transitions)),
                transitions,
                ..LeaseRecord::default()
            };
            assert_eq!(LatestTerm::update(&mut latest, ObservedTerm::of(&record).unwrap()), is_change, "{transitions}");
        }
    }
}
