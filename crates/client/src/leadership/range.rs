//! Time ranges: the wall-clock time that a process owns, so that at most one replica handles each instant.
//!
//! Every replica of a collector, for example, gathers the same data points, and exactly one of them must export each
//! point, however late. Whether a process leads *now* does not determine that. What counts is whether the point's
//! timestamp falls into the range of the process's term: [`Leadership::contains`].
//!
//! A range starts with the take-up or claim of its term. It extends to one lease after the last renewal that is known
//! to have succeeded. The process keeps the range after the term, until its next term begins.
//!
//! The rule that must hold: two processes never own the same instant, whatever their clocks show. Every answer stays
//! true forever. The core ensures that ranges do not overlap: measured by `renewTime`, each term starts where the
//! previous one ended (see `elector/range.rs` there). This module covers ranges that close early, when the Lease is
//! handed over or released:
//!
//! - A process never owns an instant that its own wall clock has not shown yet. So no answer becomes false when the
//!   range is closed at the time that the clock shows.
//! - A clock may be set back. So the process remembers the latest instant that it reported as its own. If the clock is
//!   behind that instant, the range closes after the instant.
//! - The elector may close the range while it decides. So one lock covers decisions and answers.
//!
//! [`TimeRange::end`] is not such an answer, because it lies in the future. With
//! [`keep_on_stop`](crate::ElectorBuilder::keep_on_stop), a range ends before its reported end in only three cases: the
//! elector hands over, it resigns (including because a function failed), or the Lease is deleted.
//!
//! **Failing open** ([`FailOpen`](crate::FailOpen)): the range of the replica that led last may continue after its end
//! while no other replica is known to have taken over. Use it where handling a point twice is better than not at all.
//! Another replica may have taken over unobserved. Then both own the same instants until this replica observes the
//! other one, at most until the bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use futures::{Stream, StreamExt};
use hustings_core::elector::Range;
use hustings_core::model::WireTime;
use hustings_wire::driver::LatestTerm;
use jiff::Timestamp;
use tracing::Instrument;

use crate::leadership::handle::Leadership;

pub(crate) mod state;

use self::state::Owned;

/// The wall-clock time that a process owns, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first instant.
    pub start: Timestamp,
    /// The first instant that the process does not own, unless it renews. `None` if the range has no end.
    pub end: Option<Timestamp>,
    /// The range continued after its end because no other replica was known to have taken over. Another replica's range
    /// may overlap it. This stays `true` after the bound has passed.
    pub is_failing_open: bool,
}

impl TimeRange {
    /// The range of a process that leads without an election.
    pub const ALWAYS: Self = Self { start: Timestamp::MIN, end: None, is_failing_open: false };
}

/// A change of the holder. See [`Leadership::holder_changes`] for what counts as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderChange {
    /// The previous holder, if one was observed. It may be `holder` itself, if another replica held the Lease in
    /// between.
    pub former: Option<String>,
    /// The new holder.
    pub holder: String,
}

impl Leadership {
    /// Returns the range of the last term that this process led, whether or not it still leads. `None` if it never led.
    pub fn range(&self) -> Option<TimeRange> {
        let wall = self.clock().wall();
        Some(match self.shared.ranges.lock().range? {
            Owned::Always => TimeRange::ALWAYS,
            Owned::Range(range) => {
                let fails_open_until = range.fails_open_until.filter(|_| wall >= range.end);
                let end = match fails_open_until {
                    None => Some(timestamp(range.end)),
                    Some(until) => (until < WireTime::MAX).then(|| timestamp(until)),
                };
                TimeRange { start: timestamp(range.start), end, is_failing_open: fails_open_until.is_some() }
            }
        })
    }

    /// Whether this process owns this instant. This never returns true for the same instant in two processes, whenever
    /// they call it, unless one of them [fails open](Self::failing_open).
    ///
    /// It returns false for an instant that the wall clock of this process has not shown yet. Without an election, it
    /// always returns true.
    pub fn contains(&self, instant: Timestamp) -> bool {
        let instant = WireTime::from_micros(instant.as_microsecond());
        let mut state = self.shared.ranges.lock();
        // Read the clock under the lock, so that it is not later than the clock of the next decision.
        let wall = self.clock().wall();
        let is_own = match state.range {
            None => false,
            Some(Owned::Always) => true,
            Some(Owned::Range(Range { start, end, fails_open_until })) => {
                (start..fails_open_until.unwrap_or(end)).contains(&instant) && instant <= wall
            }
        };
        if is_own {
            state.reported = state.reported.max(instant);
        }
        is_own
    }

    /// Whether the range continues after its end because no other replica is known to have taken over. Alert on it.
    pub fn failing_open(&self) -> bool {
        let wall = self.clock().wall();
        let range = self.shared.ranges.lock().range;
        let Some(Owned::Range(Range { end, fails_open_until: Some(until), .. })) = range else { return false };
        (end..until).contains(&wall)
    }

    /// Each change of the holder, the present holder first. Slow readers skip intermediate changes, never the latest.
    ///
    /// These are not changes:
    /// - a holder that loses the Lease and regains it before any other replica holds it;
    /// - a renewal that fails;
    /// - a grant that is not taken up.
    ///
    /// These are changes:
    /// - a holder that regains the Lease after another replica held it, even if this process did not observe the other
    ///   replica;
    /// - events that cannot be distinguished from that: the Lease was deleted, was granted to another replica in
    ///   between, or is held by a new process of the same name.
    pub fn holder_changes(&self) -> impl Stream<Item = HolderChange> + Send + use<> {
        let state = (self.holders.clone(), None::<LatestTerm>);
        futures::stream::unfold(state, |(mut holders, former)| async move {
            let known = former.as_ref().map(|latest| latest.change);
            let is_change =
                |latest: &Option<LatestTerm>| latest.as_ref().is_some_and(|latest| Some(latest.change) != known);
            let latest = holders.wait_for(is_change).await.ok()?.clone()?;
            let former = former.map(|former| former.term.holder);
            Some((HolderChange { former, holder: latest.term.holder.clone() }, (holders, Some(latest))))
        })
    }

    /// Calls `callback` on each of the [changes of the holder](Self::holder_changes), one after the other, as long as
    /// the elector lives. This is client-go's `OnNewLeader`. The calls run in a separate task on the current runtime,
    /// so that nothing waits for them; `callback` should not block. If it panics, it is called again at the next
    /// change.
    pub fn on_new_leader(&self, callback: impl FnMut(HolderChange) + Send + 'static) {
        tokio::spawn(call_each(self.holder_changes(), callback).in_current_span());
    }
}

/// Calls `callback` on each change, as long as the elector lives.
async fn call_each(changes: impl Stream<Item = HolderChange>, mut callback: impl FnMut(HolderChange)) {
    let mut changes = pin!(changes);
    while let Some(change) = changes.next().await {
        // The panic hook reports the panic itself.
        if catch_unwind(AssertUnwindSafe(|| callback(change))).is_err() {
            tracing::error!("the callback of on_new_leader panicked; it is called again at the next change");
        }
    }
}

/// The time as a timestamp. A timestamp can represent [`WireTime::MAX`]; an earlier time than the first timestamp
/// becomes that one.
fn timestamp(time: WireTime) -> Timestamp {
    Timestamp::from_microsecond(time.as_micros()).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
