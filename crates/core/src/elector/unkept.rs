//! How long an elector waits after writes that the server accepted but did not keep.
//!
//! An admission policy may strip what an elector writes: the server answers 200, but the returned version does not show
//! the write. Each such version calls for the same write again. So the elector compares the answer with what it wrote.
//! It waits twice as long after each write that was not kept, whatever it observes meanwhile.

use super::plan::Plan;
use crate::model::Moment;

/// The writes of one object that were not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Unkept {
    in_a_row: u32,
    retry_at: Moment,
    is_noted: bool,
}

impl Unkept {
    /// A write is sent.
    pub(super) fn sent(&mut self, plan: &Plan) {
        self.retry_at = plan.retry_after(self.in_a_row);
    }

    /// Records the answer to a write: `is_kept` says whether it shows the write.
    pub(super) fn answered(&mut self, is_kept: bool) {
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
    pub(super) fn is_news(&mut self) -> bool {
        self.in_a_row > 0 && !std::mem::replace(&mut self.is_noted, true)
    }
}
