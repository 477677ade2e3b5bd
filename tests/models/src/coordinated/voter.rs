//! One replica: a coordinated elector, and what the server has shown it of its Lease and of its candidate.

use std::hash::Hash;

use hustings_core::elector::{Action, Observation, Outcome, Source};
use hustings_core::model::{CandidateState, Purpose};

use super::store::{Patch, Reply, Request, Store};
use crate::canonical::Speller;
use crate::process::{Flight, Process, Shown};

#[allow(clippy::struct_excessive_bools, reason = "each is one thing that may be so or not")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Voter {
    pub(super) process: Process,
    candidate_shown: Shown,
    /// Its candidate's status says that it holds the Lease.
    is_called_holder: bool,
    /// It does nothing, and its requests are carried out.
    pub(super) is_asleep: bool,
    /// It will never do anything again.
    pub(super) is_dead: bool,
    /// Its watch shows nothing.
    pub(super) is_silenced: bool,
}

impl Voter {
    pub(super) const fn new(process: Process) -> Self {
        Self {
            process,
            candidate_shown: Shown::Nothing,
            is_called_holder: false,
            is_asleep: false,
            is_dead: false,
            is_silenced: false,
        }
    }

    /// Whether its watches show anything now.
    pub(super) fn is_shown_news(&self, who: usize, store: &Store) -> bool {
        !self.is_asleep && !self.is_silenced && self.has_news(who, store)
    }

    fn has_news(&self, who: usize, store: &Store) -> bool {
        let is_candidate_new = match &store.candidates[who] {
            Some(record) => self.candidate_shown.is_older_than(record.resource_version),
            None => self.candidate_shown != Shown::Missing,
        };
        is_candidate_new || self.process.is_told(store.lease.as_ref())
    }

    /// What its watches have to show.
    pub(super) fn news(&self, who: usize, store: &Store) -> Vec<Observation> {
        let mut news = Vec::new();
        if self.process.is_told(store.lease.as_ref()) {
            news.push(match store.lease.clone() {
                Some(record) => Observation::Lease { record, source: Source::Watch },
                None => Observation::LeaseMissing { source: Source::Watch },
            });
        }
        match &store.candidates[who] {
            Some(record) if self.candidate_shown.is_older_than(record.resource_version) => {
                news.push(Observation::Candidate { record: record.clone(), source: Source::Watch });
            }
            None if self.candidate_shown != Shown::Missing => {
                news.push(Observation::CandidateMissing { source: Source::Watch });
            }
            Some(_) | None => {}
        }
        news
    }

    /// What is asked of the server; `None` where that is nothing.
    pub(super) fn request(&self, who: usize, action: &Action) -> Option<Request> {
        Some(match action {
            Action::ReadLease(_) => Request::ReadLease,
            Action::CreateLease(_) => Request::CreateLease,
            Action::WriteLease { write, .. } => {
                let needs_word = write.purpose == Purpose::Renew && self.process.renews_while_called_holder();
                if needs_word && !self.is_called_holder {
                    return None;
                }
                let is_unconditional = self.process.writes_unconditionally();
                Request::WriteLease { write: write.clone(), is_unconditional }
            }
            Action::ReadCandidate(_) => Request::ReadCandidate(who),
            Action::CreateCandidate { renew_time, .. } => Request::CreateCandidate { who, renew_time: *renew_time },
            Action::RenewCandidate { uid, renew_time, .. } => {
                Request::PatchCandidate { who, uid: uid.clone(), patch: Patch::Renew(*renew_time) }
            }
            Action::DeleteCandidate { uid, .. } => Request::DeleteCandidate { who, uid: uid.clone(), version: None },
            // Nobody lists without a fallback, and work stops when it is asked to.
            Action::ListCandidates(_) | Action::StopWork | Action::AbortWork => return None,
        })
    }

    pub(super) fn observe(&mut self, ticks: i64, observation: Observation) {
        match &observation {
            Observation::Candidate { record, .. }
            | Observation::CandidateWritten { outcome: Outcome::Landed(record), .. } => {
                if self.candidate_shown.is_older_than(record.resource_version) {
                    self.is_called_holder = record.status.state == Some(CandidateState::Holder);
                }
                self.candidate_shown = self.candidate_shown.newest(record.resource_version);
            }
            Observation::CandidateMissing { .. } => {
                (self.candidate_shown, self.is_called_holder) = (Shown::Missing, false);
            }
            _ => {}
        }
        self.process.observe(ticks, observation);
    }

    /// What is on its way to the server.
    pub(super) fn requests(&self, who: usize) -> impl Iterator<Item = Request> {
        self.process.flights.iter().filter_map(move |flight| match flight {
            Flight::Sent { action, .. } => self.request(who, action),
            Flight::Answered { .. } => None,
        })
    }

    pub(super) fn spell(&self, speller: &mut Speller, ticks: i64) {
        self.is_dead.hash(speller);
        if self.is_dead {
            return;
        }
        self.process.spell(speller, ticks, false);
        (self.candidate_shown, self.is_called_holder, self.is_asleep, self.is_silenced).hash(speller);
    }
}

/// The answer to a request, as the elector is told it.
pub(super) fn told(action: &Action, reply: Reply) -> Option<Observation> {
    Some(match (action, reply) {
        (Action::ReadLease(id), Reply::Lease(outcome)) => match outcome {
            Outcome::Landed(record) => Observation::Lease { record, source: Source::Read(*id) },
            _ => Observation::LeaseMissing { source: Source::Read(*id) },
        },
        (Action::CreateLease(attempt) | Action::WriteLease { attempt, .. }, Reply::Lease(outcome)) => {
            Observation::LeaseWritten { attempt: *attempt, outcome }
        }
        (Action::ReadCandidate(id), Reply::Candidate(outcome)) => match outcome {
            Outcome::Landed(record) => Observation::Candidate { record, source: Source::Read(*id) },
            _ => Observation::CandidateMissing { source: Source::Read(*id) },
        },
        (
            Action::CreateCandidate { attempt, .. }
            | Action::RenewCandidate { attempt, .. }
            | Action::DeleteCandidate { attempt, .. },
            Reply::Candidate(outcome),
        ) => Observation::CandidateWritten { attempt: *attempt, outcome },
        _ => return None,
    })
}
