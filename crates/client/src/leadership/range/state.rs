//! The time range of a process, and the instants that the process reported as its own.
//!
//! The rule that must hold: one lock covers decisions and answers, because a decision may close the range.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hustings_core::elector::Range;
use hustings_core::model::{Now, WireTime};

use crate::clock::Clock;

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
