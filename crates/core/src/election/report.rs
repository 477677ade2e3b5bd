//! What an observation means for those who only report elections: metrics, events and the page.

use super::{Doubt, Election, Event};
use crate::model::{CandidateKey, Step};

/// What follows from an observation, for those who report it and decide nothing.
///
/// Every controller gets it. Only the leading one counts it and publishes it, so that both happen once. The report of a
/// decision is the [`Decision`](super::Decision).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Before this observation, the Lease had expired in a term. No process is known to have led since its last change.
    pub had_expired: bool,
    /// What happened to the Lease, if this is a newer version of one that was known.
    pub step: Option<Step>,
    /// The candidate whose ping this version is the first to answer.
    pub answered: Option<CandidateKey>,
    /// Why the Pod of the holder does not prove it dead, if that is new.
    pub doubt: Option<Doubt>,
    /// The events to publish.
    pub events: Vec<Event>,
}

impl Election {
    /// The events of a step: the beginning of a candidate's term, and a hand-over that nobody asked for. `former` is the
    /// holder before.
    pub(super) fn events_of(&self, step: &Step, former: Option<&str>) -> Vec<Event> {
        let began = || {
            let holder = self.holder().filter(|holder| self.members.contains_key(holder))?;
            step.begins_term().then_some(Event::BecameLeader { holder })
        };
        let handed_over = || {
            let cause = step.hand_over().filter(|cause| cause.is_end_of_work())?;
            Some(Event::HandedOver { holder: former?.into(), candidate: self.holder()?, cause })
        };
        handed_over().into_iter().chain(began()).collect()
    }
}
