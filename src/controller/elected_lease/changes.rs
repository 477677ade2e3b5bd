//! The changes that an observation of a Lease shows, and that the controller publishes.

use hustings_core::election::Event;
use hustings_core::model::{CandidateKey, Step};

use super::ElectedLease;

/// The changes to publish after an observation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::controller) struct Change {
    /// The start of a candidate's term.
    pub(in crate::controller) began: Option<TermStart>,
    /// A hand-over that nobody requested, with `metadata.uid` of the Lease.
    pub(in crate::controller) handed_over: Option<(String, Event)>,
}

/// The start of a candidate's term.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::controller) struct TermStart {
    /// `metadata.uid` of the Lease.
    pub(in crate::controller) lease_uid: String,
    /// The holder.
    pub(in crate::controller) holder: CandidateKey,
}

impl ElectedLease {
    pub(super) fn unasked_hand_over(&self, former: Option<&str>, step: &Step) -> Option<(String, Event)> {
        let cause = step.hand_over().filter(|cause| cause.is_end_of_work())?;
        let (holder, candidate) = (former?.into(), self.election.holder()?);
        Some((self.record()?.uid.clone(), Event::HandedOver { holder, candidate, cause }))
    }

    pub(super) fn term_start(&self, step: &Step) -> Option<TermStart> {
        let holder = self.election.holder().filter(|holder| self.candidates.contains_key(holder))?;
        step.begins_term().then_some(TermStart { lease_uid: self.record()?.uid.clone(), holder })
    }
}
