//! How long an elector waits after writes that the server accepted and reverted.
//!
//! An admission policy may strip what an elector writes: the server answers 200, but the returned version does not show
//! the write. Each such version calls for the same write again. So the elector compares the answer with its write.
//! After each reverted write it waits twice as long, whatever it observes in between, until a version shows a write: an
//! answer, or the watch where it is faster.

use std::time::Duration;

use super::plan::Plan;
use crate::model::Moment;

/// How long a write must last to be settled: longer than the longest wait.
const SETTLED_AFTER: Duration = Duration::from_mins(1);

/// The writes of one object that were reverted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct UnkeptWrites {
    in_a_row: u32,
    retry_at: Moment,
    is_reported: bool,
}

impl UnkeptWrites {
    /// Records that a write is sent.
    pub(super) fn observe_sent(&mut self, plan: &Plan) {
        self.retry_at = plan.retry_after(self.in_a_row);
    }

    /// Records that what was written at `written` is undone now. It is a revert if that happens soon. A client that undoes
    /// one write a minute later does no harm.
    pub(super) fn observe_undone(&mut self, written: Moment, now: Moment) {
        self.observe_answer(now >= written.after(SETTLED_AFTER));
    }

    /// Records whether the answer to a write shows the write.
    pub(super) fn observe_answer(&mut self, is_kept: bool) {
        if is_kept {
            *self = Self { retry_at: self.retry_at, ..Self::default() };
        } else {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
    }

    /// The earliest time for the next write.
    pub(super) fn not_before(&self, now: Moment) -> Moment {
        if self.in_a_row > 0 { self.retry_at } else { now }
    }

    /// Whether a note should report this now.
    pub(super) fn take_report(&mut self) -> bool {
        self.in_a_row > 0 && !std::mem::replace(&mut self.is_reported, true)
    }
}
