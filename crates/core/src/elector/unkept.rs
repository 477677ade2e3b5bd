//! How long an elector waits after writes that the server accepted and did not keep.
//!
//! An admission policy may strip what an elector writes: the server answers 200, and the version it answers with does not
//! show it. Each such version asks for the same write again. So an elector that repeats a write compares the answer with
//! what it wrote, and waits twice as long after each one that was not kept, whatever it observes meanwhile.

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

    /// The server answered a write with a version that shows it, or does not.
    pub(super) fn answered(&mut self, is_kept: bool) {
        if is_kept {
            *self = Self { retry_at: self.retry_at, ..Self::default() };
        } else {
            self.in_a_row = self.in_a_row.saturating_add(1);
        }
    }

    /// When the next write may be sent, as far as this is concerned.
    pub(super) fn not_before(&self, now: Moment) -> Moment {
        if self.in_a_row > 0 { self.retry_at } else { now }
    }

    /// Whether a person should now be told of it.
    pub(super) fn is_news(&mut self) -> bool {
        self.in_a_row > 0 && !std::mem::replace(&mut self.is_noted, true)
    }
}
