//! The wall-clock time that a process may call its own, so that of all replicas that see the same one acts upon it.
//!
//! Every replica of a collector, say, gathers the same data points, and each point is to be exported by one of them,
//! however late. Whether a process leads *now* does not answer that; whether the point's own time falls into the range of
//! its term does: [`Leadership::contains`]. A range starts with the take-up or claim of its term, and goes on for one lease
//! after the last renewal that is known to have succeeded. It stays when the term is over, until the next one begins.
//!
//! The rule that must hold: no instant is ever called its own by two processes, whatever their clocks show, counting the
//! answers given earlier. That ranges do not overlap is the core's to see to, and argued in
//! `elector/range.rs` there: each term starts, on the axis of `renewTime`, where the one before has
//! ended. What is left for this one is that a range may be closed before its end, when the Lease is handed over or
//! released:
//!
//! - No instant is called one's own that the own wall clock has not shown yet. So a range that is closed at the clock's
//!   time takes back no answer.
//! - A clock may be set back. So the latest instant that was called one's own is kept, and closes the range where the
//!   clock would do so earlier.
//! - While the elector decides, and may close the range, nobody is answered: both are done under one lock.
//!
//! [`TimeRange::end`] is no answer in this sense, since it lies ahead. An elector that is set up with
//! [`keep_on_stop`](crate::ElectorBuilder::keep_on_stop) takes it back only to hand over, to resign, which a function that
//! fails has it do, or where the Lease is deleted.
//!
//! **Failing open** ([`FailOpen`](crate::FailOpen)): when a range has ended, and nobody is known to have taken over, it goes on for the
//! replica that led last, and for no other. This is for those who would rather have a point twice than not at all: another
//! may have taken over unseen, and for as long as this one cannot see that, both act, until the bound.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{Stream, StreamExt};
use hustings_core::elector::Range;
use hustings_core::model::{Now, WireTime};
use jiff::Timestamp;
use tracing::Instrument;

use crate::clock::Clock;
use crate::leadership::Leadership;

mod tenure;

pub(crate) use tenure::Tenure;

/// From when to when instants of the wall clock are a process's own, as far as it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// The first instant.
    pub start: Timestamp,
    /// The first instant that is not its own any more unless it renews. `None` if there is none.
    pub end: Option<Timestamp>,
    /// The range has gone on after its end since nobody is known to have taken over, and another's may overlap it: also
    /// when the bound of that has passed.
    pub is_failing_open: bool,
}

impl TimeRange {
    /// The range of a process that leads without an election.
    pub const ALWAYS: Self = Self { start: Timestamp::MIN, end: None, is_failing_open: false };
}

/// One change of holders that really took place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderChange {
    /// The holder before, as far as one was seen. It may be `holder` itself: another has held the Lease in between.
    pub former: Option<String>,
    /// Who holds the Lease since.
    pub holder: String,
}

/// The newest term that was seen of anybody, and how many changes of holders there had been with it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    change: u64,
    tenure: Tenure,
}

/// What a process may call its own, and what it has.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Mutex<RangeState>);

#[derive(Debug)]
pub(crate) struct RangeState {
    range: Option<Owned>,
    /// The latest instant that was called its own.
    vouched: WireTime,
}

#[derive(Clone, Copy, Debug)]
enum Owned {
    Always,
    Range(Range),
}

impl Leadership {
    /// The wall-clock time of the last term that this process led, whether or not it still leads. `None` if it never did.
    pub fn range(&self) -> Option<TimeRange> {
        let wall = self.clock().wall();
        Some(match self.ranges().lock().range? {
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

    /// Whether this instant is this process's own. No other process has ever said, or will ever say, the same of it, unless
    /// one of them [fails open](Self::failing_open). An instant that the own clock has not shown yet is nobody's.
    pub fn contains(&self, instant: Timestamp) -> bool {
        let instant = WireTime::from_micros(instant.as_microsecond());
        let mut state = self.ranges().lock();
        // Read under the lock: what it shows is not later than the time at which the next decision is made.
        let wall = self.clock().wall();
        let is_own = match state.range {
            None => false,
            Some(Owned::Always) => true,
            Some(Owned::Range(Range { start, end, fails_open_until })) => {
                let end = fails_open_until.map_or(end, |until| until.max(end));
                (start..end).contains(&instant) && instant <= wall
            }
        };
        if is_own && wall >= instant {
            state.vouched = state.vouched.max(instant);
        }
        is_own
    }

    /// Whether the range goes on after its end since nobody is known to have taken over: what is worth an alert.
    pub fn failing_open(&self) -> bool {
        let wall = self.clock().wall();
        let range = self.ranges().lock().range;
        let Some(Owned::Range(Range { end, fails_open_until: Some(until), .. })) = range else { return false };
        (end..until).contains(&wall)
    }

    /// Each change of holders, the present holder first. A holder that loses the Lease and has it again before anybody
    /// else, renewals that fail, and a grant that is not taken up are none. A holder that has it again after another is
    /// one, also for those who have not seen the other; and so is what cannot be told from that: a Lease that was deleted
    /// meanwhile, a grant to another in between, a new process of the same name. Whoever is slow misses what lay between,
    /// never the last.
    pub fn holder_changes(&self) -> impl Stream<Item = HolderChange> + Send + use<> {
        let state = (self.holders(), None::<Told>);
        futures::stream::unfold(state, |(mut holders, former)| async move {
            let known = former.as_ref().map(|told| told.change);
            let is_change = |told: &Option<Told>| told.as_ref().is_some_and(|told| Some(told.change) != known);
            let told = holders.wait_for(is_change).await.ok()?.clone()?;
            let former = former.map(|former| former.tenure.holder);
            Some((HolderChange { former, holder: told.tenure.holder.clone() }, (holders, Some(told))))
        })
    }

    /// Calls `tell` with each of the [changes of holders](Self::holder_changes), one after the other, for as long as the
    /// elector lives: client-go's `OnNewLeader`. It runs in a task of its own, on the current runtime, so that nothing
    /// waits for it; it should not block. If it panics, it is called again at the next change.
    pub fn on_new_leader(&self, tell: impl FnMut(HolderChange) + Send + 'static) {
        tokio::spawn(tell_each(self.holder_changes(), tell).in_current_span());
    }
}

impl Told {
    /// Takes note of the term that is seen now, and says whether it is a change.
    pub(crate) fn update(told: &mut Option<Self>, tenure: Tenure) -> bool {
        let is_change = told.as_ref().is_none_or(|told| !tenure.continues(&told.tenure));
        let before = told.as_ref().map_or(0, |told| told.change);
        *told = Some(Self { change: before + u64::from(is_change), tenure });
        is_change
    }
}

impl Ranges {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RangeState> {
        // Whoever panicked meanwhile has left whole values.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RangeState {
    /// Both clocks, of which the wall clock is never behind an instant that was called one's own.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Now {
        let after_vouched = WireTime::from_micros(self.vouched.as_micros().saturating_add(1));
        let now = clock.both();
        Now { wall: now.wall.max(after_vouched), ..now }
    }

    pub(crate) fn set(&mut self, range: Option<Range>) {
        self.range = range.map(Owned::Range);
    }

    /// There is no election, and so no other.
    pub(crate) fn own_everything(&mut self) {
        self.range = Some(Owned::Always);
    }

    /// Nobody would learn any more that another has taken over.
    pub(crate) fn stop_failing_open(&mut self) {
        if let Some(Owned::Range(range)) = &mut self.range {
            range.fails_open_until = None;
        }
    }
}

impl Default for RangeState {
    fn default() -> Self {
        Self { range: None, vouched: WireTime::MIN }
    }
}

/// Tells whoever is to be told, for as long as the elector lives.
async fn tell_each(changes: impl Stream<Item = HolderChange>, mut tell: impl FnMut(HolderChange)) {
    let mut changes = pin!(changes);
    while let Some(change) = changes.next().await {
        // Where it panics is seen by the panic hook.
        if catch_unwind(AssertUnwindSafe(|| tell(change))).is_err() {
            tracing::error!("a callback for changes of holders panicked; it is called again at the next one");
        }
    }
}

/// What no calendar can show is far away.
fn timestamp(time: WireTime) -> Timestamp {
    let edge = if time < WireTime::from_micros(0) { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(time.as_micros()).unwrap_or(edge)
}

#[cfg(test)]
mod tests;
