//! What becomes of an elector's requests: the server executes them, or they are lost, or their answers.

use hustings_core::elector::{Action, Observation, Outcome, Source};
use hustings_core::model::Purpose;

use super::words::{describe_action, describe_outcome};
use super::{Actor, Event, Fate, LEASE, Scene, micros};
use crate::store::describe;

impl Scene {
    pub(super) fn execute(&mut self, index: usize, action: &Action, fate: Fate) {
        let Actor { name, label, may_not_ask, .. } = &self.actors[index];
        let (name, label, may_not_ask) = (name.clone(), label.clone(), *may_not_ask);
        if !fate.executed {
            self.say(&format!("{label}'s {} is lost", describe_action(action)));
            return self.answer(index, unknown(action), fate);
        }
        if self.actors[index].told_missing
            && let Some(observation) = missing(action)
        {
            self.say(&format!("{label} {}: a proxy answers 404", describe_action(action)));
            return self.answer(index, observation, fate);
        }
        let store = &mut self.store;
        let mut lease_changed = false;
        let mut candidate_changed = false;
        let (observation, result) = match action {
            Action::ReadLease(id) => {
                let source = Source::Read(*id);
                match &store.lease {
                    Some(record) => (Observation::Lease { record: record.clone(), source }, describe(record)),
                    None => (Observation::LeaseMissing { source }, "missing".to_owned()),
                }
            }
            Action::CreateLease(attempt) => {
                let outcome = store.create_lease();
                lease_changed = true;
                let result = describe_outcome(&outcome, describe);
                (Observation::LeaseWritten { attempt: *attempt, outcome }, result)
            }
            Action::WriteLease { attempt, write } => {
                let outcome = match write.purpose {
                    Purpose::Prefer if may_not_ask => Outcome::Refused,
                    _ => store.write_lease(write),
                };
                lease_changed = matches!(outcome, Outcome::Landed(_));
                let result = describe_outcome(&outcome, |lease| match write.purpose {
                    Purpose::Renew => {
                        format!("v{}{}", lease.resource_version, if lease.leaving { " leaving" } else { "" })
                    }
                    _ => describe(lease),
                });
                (Observation::LeaseWritten { attempt: *attempt, outcome }, result)
            }
            Action::ReadCandidate(id) => {
                let source = Source::Read(*id);
                match store.candidates.get(&name) {
                    Some(record) => (Observation::Candidate { record: record.clone(), source }, "found".to_owned()),
                    None => (Observation::CandidateMissing { source }, "missing".to_owned()),
                }
            }
            Action::ListCandidates(attempt) => {
                let records = store.list_candidates(LEASE);
                let result = records.as_ref().map_or("no such kind".to_owned(), |records| {
                    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
                    names.join(", ")
                });
                (Observation::Candidates { attempt: *attempt, records }, result)
            }
            Action::CreateCandidate { attempt, renew_time, names_owner } => {
                let Actor { version, elector, has_owner, .. } = &self.actors[index];
                let strategy = elector.config().strategy.as_str();
                let owned = *has_owner && *names_owner;
                let outcome = store.create_candidate(&name, LEASE, version, strategy, owned, *renew_time);
                candidate_changed = matches!(outcome, Outcome::Landed(_));
                let result = describe_outcome(&outcome, |_| "done".to_owned());
                (Observation::CandidateWritten { attempt: *attempt, outcome }, result)
            }
            Action::RenewCandidate { attempt, uid, renew_time, refresh, names_owner } => {
                let names_owner = *refresh && *names_owner && self.actors[index].has_owner;
                let is_kept = store.strips.is_none();
                let outcome = store.edit_candidate(&name, Some(uid), |candidate| {
                    if is_kept {
                        candidate.renew_time = Some(*renew_time);
                    }
                    candidate.owned |= names_owner;
                });
                candidate_changed = matches!(outcome, Outcome::Landed(_));
                let result = describe_outcome(&outcome, |_| "done".to_owned());
                (Observation::CandidateWritten { attempt: *attempt, outcome }, result)
            }
            Action::DeleteCandidate { attempt, .. } => {
                let outcome = store.candidates.remove(&name).map_or(Outcome::Missing, |_| Outcome::Deleted);
                candidate_changed = matches!(outcome, Outcome::Deleted);
                let result = if candidate_changed { "done" } else { "missing" };
                (Observation::CandidateWritten { attempt: *attempt, outcome }, result.to_owned())
            }
            Action::StopWork | Action::AbortWork => unreachable!("no requests"),
        };
        let lost = if fate.answer_lost { ", and the answer is lost" } else { "" };
        self.say(&format!("{label} {}: {result}{lost}", describe_action(action)));
        self.answer(index, if fate.answer_lost { unknown(action) } else { observation }, fate);
        if lease_changed {
            self.lease_changed();
        }
        if candidate_changed {
            self.candidate_changed(&name);
        }
    }

    fn answer(&mut self, index: usize, observation: Observation, fate: Fate) {
        self.push(self.now_micros + micros(fate.back), Event::Tell(index, observation));
    }
}

/// The answer 404 to a write of what may exist.
fn missing(action: &Action) -> Option<Observation> {
    match action {
        Action::WriteLease { attempt, .. } => {
            Some(Observation::LeaseWritten { attempt: *attempt, outcome: Outcome::Missing })
        }
        Action::RenewCandidate { attempt, .. } | Action::DeleteCandidate { attempt, .. } => {
            Some(Observation::CandidateWritten { attempt: *attempt, outcome: Outcome::Missing })
        }
        _ => None,
    }
}

fn unknown(action: &Action) -> Observation {
    match action {
        Action::ReadLease(id) | Action::ReadCandidate(id) | Action::ListCandidates(id) => Observation::ReadFailed(*id),
        Action::CreateLease(attempt) | Action::WriteLease { attempt, .. } => {
            Observation::LeaseWritten { attempt: *attempt, outcome: Outcome::Unknown }
        }
        Action::CreateCandidate { attempt, .. }
        | Action::RenewCandidate { attempt, .. }
        | Action::DeleteCandidate { attempt, .. } => {
            Observation::CandidateWritten { attempt: *attempt, outcome: Outcome::Unknown }
        }
        Action::StopWork | Action::AbortWork => Observation::WorkStopped,
    }
}
