//! S4: nobody is elected by Hustings' own strategy while the candidates that decide upon it want another.
//!
//! The strategy is that of the candidates of the highest binary version among those that are not Unresponsive. So a live
//! one that wants another, and above which nobody stands, leaves the Lease to a third party, or makes a disagreement:
//! whoever is heard beside it, it is heard itself.

use hustings_core::model::{CandidateState, LeaseRecord, Strategy, Version};
use tokio::time::Instant;

use super::grants::{Candidate, Grants, HEARD_WITHIN};

impl Grants {
    /// This version was written by a controller with which nothing has been wrong for long, and nothing has been wrong
    /// with the processes of the candidates `live` either.
    pub(super) fn check_strategy(&mut self, record: &LeaseRecord, by: &str, at: Instant, live: &[&str]) {
        let (Some(former), Some(ranked_at)) = (&self.former, self.ranked_at) else { return };
        let is_named =
            record.is_grant() && (&record.holder, record.transitions) != (&former.holder, former.transitions);
        let is_preferred = record.preferred_holder.is_some() && record.preferred_holder != former.preferred_holder;
        // A decision is older than its write.
        if !(is_named || is_preferred) || at - ranked_at < HEARD_WITHIN {
            return;
        }
        let highest = self.candidates.values().filter_map(binary_version).max();
        let decides = |candidate: &&Candidate| {
            let is_heard = candidate.record.status.state != Some(CandidateState::Unresponsive);
            is_heard && wants_another(candidate) && binary_version(candidate) == highest
        };
        let dissenter = live.iter().filter_map(|name| self.candidates.get(*name)).find(decides);
        if let Some(dissenter) = dissenter {
            let violation = format!("S4: {by} elects although {} wants another strategy", dissenter.record.name);
            self.violations.push(violation);
        }
    }
}

fn binary_version(candidate: &Candidate) -> Option<Version> {
    candidate.record.standing().ok().map(|standing| standing.binary_version)
}

fn wants_another(candidate: &Candidate) -> bool {
    candidate.record.standing().is_ok_and(|standing| standing.strategy != Strategy::OldestEmulationVersion)
}
