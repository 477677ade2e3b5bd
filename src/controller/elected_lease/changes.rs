//! The changes that an observation of a Lease shows, and that the controller publishes.

use hustings_core::election::Event;
use hustings_core::model::{CandidateKey, Cause, Ending, LeaseRecord};

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
    pub(super) fn unasked_hand_over(&self, previous: &LeaseRecord, record: &LeaseRecord) -> Option<(String, Event)> {
        let holder = previous.holder.as_deref()?.into();
        let (candidate, cause) = (self.election.holder()?, end_of_work(record)?);
        Some((record.uid.clone(), Event::HandedOver { holder, candidate, cause }))
    }

    pub(super) fn term_start(&self, previous: &LeaseRecord, record: &LeaseRecord) -> Option<TermStart> {
        let holder = self.election.holder().filter(|holder| self.candidates.contains_key(holder))?;
        let was_grant = self.election.is_grant(previous);
        let new_term = was_grant || previous.holder != record.holder || previous.token != record.token;
        let starts = new_term && !self.election.is_grant(record);
        starts.then(|| TermStart { lease_uid: record.uid.clone(), holder })
    }
}

pub(super) fn is_hand_over(previous: &LeaseRecord, record: &LeaseRecord) -> bool {
    previous.holder.is_some()
        && previous.preferred_holder.is_some()
        && previous.preferred_holder == record.holder
        && previous.holder != record.holder
}

/// The cause of the last hand-over, if the former holder's work or program had ended.
pub(super) fn end_of_work(record: &LeaseRecord) -> Option<Cause> {
    match record.history.newest(record.transitions.checked_sub(1)?)?.ending {
        Ending::HandedOver(cause) if cause.is_end_of_work() => Some(cause),
        _ => None,
    }
}
