//! S4: no candidate is elected by Hustings' own strategy while the candidates that determine the strategy want another
//! one.
//!
//! The strategy is that of the candidates with the highest binary version that are not Unresponsive. So if a live
//! candidate with that version wants another strategy, a third party decides about the Lease, or the candidates
//! disagree. The other candidates do not change that.

use hustings_core::model::{CandidateState, LeaseRecord, Strategy, Version};
use tokio::time::Instant;

use super::grants::{Candidate, Grants, OBSERVED_WITHIN, WELL_FOR};
use super::is_grant;

/// Without a controller, a candidate counts if its last sign of life is at most this much older than the newest one.
const DETERMINES_STRATEGY_MICROS: i64 = 30 * 60 * 1_000_000;

impl Grants {
    /// Checks a version that a controller wrote. The controller, and the processes of the candidates `live`, have been
    /// healthy for a long time.
    pub(super) fn check_strategy(&mut self, record: &LeaseRecord, by: &str, at: Instant, live: &[&str]) {
        let (Some(former), Some(ranked_at)) = (&self.former, self.ranked_at) else { return };
        let is_named = is_grant(record) && (&record.holder, record.transitions) != (&former.holder, former.transitions);
        let is_preferred = record.preferred_holder.is_some() && record.preferred_holder != former.preferred_holder;
        // A decision is made before its write.
        if !(is_named || is_preferred) || at - ranked_at < OBSERVED_WITHIN {
            return;
        }
        if let Some(dissenter) = self.dissenter(live) {
            let violation = format!("S4: {by} elects although {} wants another strategy", dissenter.record.name);
            self.violations.push(violation);
        }
    }

    /// Checks the next version, which a candidate that has been healthy for a long time is about to write. Without a
    /// controller, that candidate must elect none, not even itself.
    pub fn check_claim(&mut self, record: &LeaseRecord, by: &str, at: Instant, live: &[&str]) {
        let (Some(former), Some(ranked_at)) = (&self.former, self.ranked_at) else { return };
        let claims = record.session.stamp().is_some() && record.holder.as_deref() == Some(by);
        // The candidate listed the others once, and relies on that list until its claim arrives. If the Lease was
        // deleted, that takes longer than this limit. The next Lease then has no token.
        let is_settled = former.token.is_some() && at - ranked_at >= WELL_FOR;
        if !claims || former.holder == record.holder || live.is_empty() || !is_settled {
            return;
        }
        self.judged += 1;
        let newest = self.candidates.values().map(shown_at).max();
        let has_a_say = |candidate: &&Candidate| {
            newest.is_some_and(|newest| newest - shown_at(candidate) <= DETERMINES_STRATEGY_MICROS)
        };
        if let Some(dissenter) = self.dissenter(live).filter(has_a_say) {
            let violation =
                format!("S4: {by} claims the Lease although {} wants another strategy", dissenter.record.name);
            self.violations.push(violation);
        }
    }

    /// A live candidate because of which another strategy applies.
    fn dissenter(&self, live: &[&str]) -> Option<&Candidate> {
        let highest = self.candidates.values().filter_map(binary_version).max();
        let decides = |candidate: &&Candidate| {
            let record = &candidate.record;
            let is_heard = record.status.state != Some(CandidateState::Unresponsive) && record.acts.exclude.is_none();
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
