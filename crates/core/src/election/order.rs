//! The order of the candidates, for everybody who shows it: `hustings status`, explanations and the page.

use super::Election;
use super::eligibility::{Conditions, rule_and_hold, shared_names};
use super::hand_over;
use crate::model::{CandidateKey, CandidateKind, Now};
use crate::ranking::Criterion;

impl Election {
    /// The candidates in the order in which this election elects them, best first, each with its place from 1. Those
    /// that are not admissible have no place and come last.
    pub fn ranking(&self, now: Now) -> Vec<(CandidateKey, Option<usize>)> {
        let conditions = self.conditions(now);
        let places = conditions.ranked(&self.members).into_iter().zip(1..);
        places.map(|(member, place)| (member.key.clone(), conditions.admit(member).is_ok().then_some(place))).collect()
    }

    /// The first criterion in which two admissible candidates differ; `None` if one of them is not admissible.
    pub fn criterion(&self, one: &CandidateKey, other: &CandidateKey, now: Now) -> Option<Criterion> {
        let conditions = self.conditions(now);
        let contender = |key: &CandidateKey| {
            let member = self.members.get(key)?;
            Some(conditions.contender((member, conditions.admit(member).ok()?)))
        };
        contender(one)?.criterion(&contender(other)?)
    }

    /// The facts that determine the order and which candidates are eligible.
    pub(super) fn conditions(&self, now: Now) -> Conditions {
        let members = || self.members.values().map(AsRef::as_ref);
        let record = self.lease.view.record();
        let (rule, hold) = rule_and_hold(record, members(), now.wall);
        let holder = record.and_then(|record| self.holder_of(record));
        let kind = holder.as_ref().map_or(CandidateKind::Hustings, |holder| holder.kind);
        let pin = record.and_then(|record| record.pin(now.wall));
        Conditions {
            rule,
            hold,
            now: now.moment,
            wall: now.wall,
            preferred: record.and_then(|record| self.preferred_of(record, kind)),
            request_stands: record.is_some_and(hand_over::stands_among_equals),
            pinned: pin.map(|pin| self.candidate_of(&pin.candidate)),
            transfer: record.and_then(|record| record.acts.transfer.clone()),
            holder_stays: kind == CandidateKind::Native && self.holder_stays(now.moment),
            shared_names: shared_names(members()),
            holder,
        }
    }
}
