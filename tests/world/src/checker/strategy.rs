//! S4: nobody is elected by Hustings' own strategy while the candidates that decide upon it want another.
//!
//! The strategy is that of the candidates of the highest binary version among those that are not Unresponsive. So a live
//! one that wants another, and above which nobody stands, leaves the Lease to a third party, or makes a disagreement:
//! whoever is heard beside it, it is heard itself.

use hustings_core::model::{CandidateState, LeaseRecord, Strategy, Version};
use tokio::time::Instant;

use super::grants::{Candidate, Grants, HEARD_WITHIN, WELL_FOR};

/// How much older than the newest sign of life one may be that gives a candidate a say where no controller asks.
const HAS_A_SAY_MICROS: i64 = 30 * 60 * 1_000_000;

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
        if let Some(dissenter) = self.dissenter(live) {
            let violation = format!("S4: {by} elects although {} wants another strategy", dissenter.record.name);
            self.violations.push(violation);
        }
    }

    /// This version is about to follow, written by a candidate with which nothing has been wrong for long either: without a
    /// controller it elects nobody, itself included.
    pub fn check_claim(&mut self, record: &LeaseRecord, by: &str, at: Instant, live: &[&str]) {
        let (Some(former), Some(ranked_at)) = (&self.former, self.ranked_at) else { return };
        let claims = record.session.stamp().is_some() && record.holder.as_deref() == Some(by);
        // It has asked the others once, and goes by that until its claim arrives: for longer than this where the Lease was
        // deleted, whose next one has no token.
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

    /// Who lives and decides that the strategy is another.
    fn dissenter(&self, live: &[&str]) -> Option<&Candidate> {
        let highest = self.candidates.values().filter_map(binary_version).max();
        let decides = |candidate: &&Candidate| {
            let is_heard = candidate.record.status.state != Some(CandidateState::Unresponsive);
            is_heard && wants_another(candidate) && binary_version(candidate) == highest
        };
        live.iter().filter_map(|name| self.candidates.get(*name)).find(decides)
    }
}

/// When it last showed that it lives, by its own clock. One that is behind by as much as a day has no say, and one that is
/// ahead takes it from the others.
fn shown_at(candidate: &Candidate) -> i64 {
    candidate.record.renew_time.unwrap_or(candidate.record.creation_time).as_micros()
}

fn binary_version(candidate: &Candidate) -> Option<Version> {
    candidate.record.standing().ok().map(|standing| standing.binary_version)
}

fn wants_another(candidate: &Candidate) -> bool {
    candidate.record.standing().is_ok_and(|standing| standing.strategy != Strategy::OldestEmulationVersion)
}
