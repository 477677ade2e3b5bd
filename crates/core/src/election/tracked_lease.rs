//! What a controller knows about one Lease: the [view](LeaseView) that every process has, and its own requests.

use std::sync::Arc;

use super::Source;
use crate::model::{CandidateRecord, LeaseRecord, LeaseView, Moment};

/// The view of one Lease, and the requests for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TrackedLease {
    pub(super) view: LeaseView,
    /// When the Lease was last read or written.
    pub(super) read_at: Option<Moment>,
}

impl TrackedLease {
    /// Records a version of the Lease. Returns `false` if the view ignores it as outdated.
    pub(super) fn observe(&mut self, record: Arc<LeaseRecord>, source: Source, now: Moment) -> bool {
        let Some(sent) = source.sent() else { return self.view.observe(record, None, now) };
        self.read_at = Some(now);
        // The answer to any other write is not the first version of the Lease, so the view takes it for no creation.
        if matches!(source, Source::Written { .. }) {
            self.view.observe_created(record, sent, now)
        } else {
            self.view.observe(record, Some(sent), now)
        }
    }

    /// The Lease was not found. `candidates` are all existing candidates.
    pub(super) fn observe_missing<'c>(
        &mut self,
        source: Source,
        now: Moment,
        candidates: impl IntoIterator<Item = &'c CandidateRecord>,
    ) {
        match source.sent() {
            None => self.view.observe_lost(now),
            Some(sent) => _ = self.view.observe_missing(sent, now),
        }
        candidates.into_iter().for_each(|candidate| self.view.observe_candidate(candidate));
    }
}
