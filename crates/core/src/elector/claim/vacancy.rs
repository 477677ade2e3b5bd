//! A period without a holder.

use crate::elector::tracked_lease::TrackedLease;
use crate::model::{Moment, Presence};

/// One period without a holder, present or expected. Equal values mean the same circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::elector) struct Vacancy {
    /// When it was found missing or given up, or when it expires unless it changes.
    pub(super) found_at: Moment,
    /// When it becomes free.
    pub(super) free_from: Moment,
    is_missing: bool,
}

impl Vacancy {
    /// The vacancy of the Lease, or its next one unless the Lease changes. `None` while nothing is known.
    pub(super) fn of(lease: &TrackedLease) -> Option<Self> {
        let view = lease.view();
        let free_from = view.free_from()?;
        let found_at = match view.presence() {
            Presence::Missing(lease) => lease.found_at(),
            _ => lease.lifted_at().map_or(free_from, |lifted_at| free_from.max(lifted_at)),
        };
        Some(Self { found_at, free_from, is_missing: view.is_missing() })
    }
}
