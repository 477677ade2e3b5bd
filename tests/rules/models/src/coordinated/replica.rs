//! One replica: a coordinated elector, and what its watches have shown of its Lease and its candidate.

use std::hash::Hash;

use hustings_core::elector::{Action, Observation, Outcome, Source};
use hustings_core::model::{CandidateState, Purpose, Request};

use super::store::{Sent, Store};
use crate::canonical::CanonicalHasher;
use crate::process::{Flight, Process, Shown};

#[allow(clippy::struct_excessive_bools, reason = "each is one thing that may be so or not")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) process: Process,
    candidate_shown: Shown,
    /// Whether the status of its candidate has the state Holder.
    is_called_holder: bool,
    /// It is frozen. The server still executes its requests.
    pub(super) is_asleep: bool,
    /// It will never run again.
    pub(super) is_dead: bool,
    /// Its watch shows nothing.
    pub(super) is_silenced: bool,
}

impl Replica {
    pub(super) fn new(process: Process) -> Self {
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
        let is_candidate_new = match store.candidate(who) {
            Some(record) => self.candidate_shown.is_older_than(record.resource_version),
            None => self.candidate_shown != Shown::Missing,
        };
        is_candidate_new || self.process.has_news(store.lease())
    }

    /// The observations that its watches have not delivered yet.
    pub(super) fn news(&self, who: usize, store: &Store) -> Vec<Observation> {
        let mut news = Vec::new();
        if self.process.has_news(store.lease()) {
            news.push(match store.lease().cloned() {
                Some(record) => Observation::Lease { record, source: Source::Watch },
                None => Observation::LeaseMissing { source: Source::Watch },
            });
        }
        match store.candidate(who) {
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

    /// The request for this action, if it needs one.
    pub(super) fn request(&self, action: &Action) -> Option<Sent> {
        let Action::Send { request, .. } = action else { return None };
        let is_write = matches!(request, Request::WriteLease { .. });
        let is_renewal = matches!(request, Request::WriteLease { write, .. } if write.purpose == Purpose::Renew);
        if is_renewal && self.process.renews_while_called_holder() && !self.is_called_holder {
            return None;
        }
        Some(Sent { request: request.clone(), is_unconditional: is_write && self.process.writes_unconditionally() })
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

    /// Its requests on their way to the server.
    pub(super) fn requests(&self) -> impl Iterator<Item = Sent> {
        self.process.flights.iter().filter_map(|flight| match flight {
            Flight::Sent { action, .. } => self.request(action),
            Flight::Answered { .. } => None,
        })
    }

    pub(super) fn hash_into(&self, hasher: &mut CanonicalHasher, ticks: i64) {
        self.is_dead.hash(hasher);
        if self.is_dead {
            return;
        }
        self.process.hash_into(hasher, ticks, false);
        (self.candidate_shown, self.is_called_holder, self.is_asleep, self.is_silenced).hash(hasher);
    }
}
