//! S4: no candidate is elected by Hustings' own strategy while the candidates that determine the strategy want another.
//!
//! The strategy is that of the candidates with the highest binary version that are not Unresponsive. So a live
//! candidate with that version which wants another strategy leaves the Lease to a third party or causes a disagreement.
//! It does so whichever other candidates count.

use hustings_core::model::{CandidateState, LeaseRecord, Strategy, Version};
use tokio::time::Instant;

use super::grants::{Candidate, Grants, HEARD_WITHIN, WELL_FOR};

/// How far the sign of life of a candidate may lie behind the newest one for the candidate to count, without a
/// controller.
const HAS_A_SAY_MICROS: i64 = 30 * 60 * 1_000_000;

impl Grants {
    /// Checks a version written by a controller that has been healthy for long. The processes of the candidates `live`
    /// have been healthy as long.
    pub(super) fn check_strategy(&mut self, record: &LeaseRecord, by: &str, at: Instant, live: &[&str]) {
        let (Some(former), Some(ranked_at)) = (&self.former, self.ranked_at) else { return };
        let is_named =
            record.is_grant() && (&record.holder, record.transitions) != (&former.holder, former.transitions);
        let is_preferred = record.preferred_holder.is_some() && record.preferred_holder != former.preferred_holder;
        // A decision is older than its write.
        if !(is_named || is_preferred) || at - ranked_at < HEARD_WITHIN {
            return;
        }
        if let Some(dissenter) = self.dissenter(live) {
            let violation = format!("S4: {by} elects although {} wants another strategy", dissenter.record.name);
            self.violations.push(violation);
        }
    }

    /// Checks the next version, which a long-healthy candidate is about to write. Without a controller it must elect no
    /// candidate, itself included.
    pub fn check_claim(&mut self, record: &LeaseRecord, by: &str, at: Instant, live: &[&str]) {
        let (Some(former), Some(ranked_at)) = (&self.former, self.ranked_at) else { return };
        let claims = record.session.stamp().is_some() && record.holder.as_deref() == Some(by);
        // It has listed the other candidates once, and relies on that list until its claim arrives. That takes longer
        // than this limit if the Lease was deleted, since the next Lease has no token.
        let is_settled = former.token.is_some() && at - ranked_at >= WELL_FOR;
        if !claims || former.holder == record.holder || live.is_empty() || !is_settled {
            return;
        }
        self.judged += 1;
        let newest = self.candidates.values().map(shown_at).max();
        let has_a_say =
            |candidate: &&Candidate| newest.is_some_and(|newest| newest - shown_at(candidate) <= HAS_A_SAY_MICROS);
        if let Some(dissenter) = self.dissenter(live).filter(has_a_say) {
            let violation =
                format!("S4: {by} claims the Lease although {} wants another strategy", dissenter.record.name);
            self.violations.push(violation);
        }
    }

    /// A live candidate that makes the strategy a different one.
    fn dissenter(&self, live: &[&str]) -> Option<&Candidate> {
        let highest = self.candidates.values().filter_map(binary_version).max();
        let decides = |candidate: &&Candidate| {
            let is_heard = candidate.record.status.state != Some(CandidateState::Unresponsive);
            is_heard && wants_another(candidate) && binary_version(candidate) == highest
        };
        live.iter().filter_map(|name| self.candidates.get(*name)).find(decides)
    }
}

/// When the candidate last showed a sign of life, by its own clock. A candidate whose clock is a day behind does not
/// count, and one whose clock is a day ahead keeps the others from counting.
fn shown_at(candidate: &Candidate) -> i64 {
    candidate.record.renew_time.unwrap_or(candidate.record.creation_time).as_micros()
}

fn binary_version(candidate: &Candidate) -> Option<Version> {
    candidate.record.standing().ok().map(|standing| standing.binary_version)
}

fn wants_another(candidate: &Candidate) -> bool {
    candidate.record.standing().is_ok_and(|standing| standing.strategy != Strategy::OldestEmulationVersion)
}
