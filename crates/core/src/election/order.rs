//! The order of the candidates, for everybody who shows it: `hustings status`, explanations and the page.

use super::Election;
use super::eligibility::{Terms, compare};
use crate::model::{CandidateKey, CandidateKind, Now};
use crate::ranking::Criterion;

impl Election {
    /// The candidates in the order in which this election elects them, best first, each with its place from 1. Those
    /// that are not admissible have no place and come last.
    pub fn ranking(&self, now: Now) -> Vec<(CandidateKey, Option<usize>)> {
        let terms = self.terms(now);
        let mut members: Vec<_> = self.members.values().map(AsRef::as_ref).collect();
        members.sort_by(|a, b| compare(&terms, a, b));
        let places = members.into_iter().zip(1..);
        places.map(|(member, place)| (member.key.clone(), terms.admit(member).is_ok().then_some(place))).collect()
    }

    /// The first criterion in which two admissible candidates differ; `None` if one of them is not admissible.
    pub fn criterion(&self, one: &CandidateKey, other: &CandidateKey, now: Now) -> Option<Criterion> {
        let terms = self.terms(now);
        let contender = |key: &CandidateKey| {
            let member = self.members.get(key)?;
            Some(terms.contender((member, terms.admit(member).ok()?)))
        };
        contender(one)?.criterion(&contender(other)?)
    }

    /// The facts that determine the order and which candidates are eligible.
    pub(super) fn terms(&self, now: Now) -> Terms {
        let mut terms = Terms::new(self.lease.view.record(), self.members.values().map(AsRef::as_ref), now);
        if let Some(record) = self.lease.view.record() {
            terms.holder = self.holder_of(record);
            let kind = terms.holder.as_ref().map_or(CandidateKind::Hustings, |holder| holder.kind);
            terms.preferred = self.preferred_of(record, kind);
            terms.holder_stays = kind == CandidateKind::Native && self.holder_stays(now.moment);
            terms.pinned = record.pin(now.wall).map(|pin| self.candidate_of(&pin.candidate));
            terms.transfer.clone_from(&record.acts.transfer);
        }
        terms
    }
}
