//! The actions of an elector as requests to the store, and the replies as observations.

use super::config::Config;
use super::messages::{Action, Observation, Source};
use crate::model::{CandidateKey, CandidatePatch, LeaseRecord, Nomination, Object, Outcome, Reply, Request};

impl Action {
    /// The request of this action, for an elector with this configuration. `current` is the newest version of the Lease
    /// that the caller knows.
    ///
    /// `None` for the actions on the work of a term, and without a `nomination` for those that need one.
    pub fn request(
        &self,
        config: &Config,
        nomination: Option<&Nomination>,
        current: Option<&LeaseRecord>,
    ) -> Option<Request> {
        let Config { identity, lease_name, .. } = config;
        let candidate = || CandidateKey::hustings(identity);
        let nomination = |names_owner: bool| {
            let mut nomination = Box::new(nomination?.clone());
            nomination.pod = nomination.pod.filter(|_| names_owner);
            Some(nomination)
        };
        Some(match self {
            Self::ReadLease(_) => Request::ReadLease { name: lease_name.clone() },
            Self::CreateLease(_) => Request::CreateLease { name: lease_name.clone() },
            Self::WriteLease { write, .. } => {
                let current = current.filter(|record| record.resource_version == write.resource_version);
                let current = current.cloned().map(Box::new);
                Request::WriteLease { name: lease_name.clone(), write: write.clone(), current }
            }
            Self::ReadCandidate(_) => Request::ReadCandidate { candidate: candidate() },
            Self::ListCandidates(_) => Request::ListCandidates { lease_name: lease_name.clone() },
            Self::CreateCandidate { renew_time, names_owner, .. } => {
                Request::CreateCandidate { nomination: nomination(*names_owner)?, renew_time: *renew_time }
            }
            Self::RenewCandidate { uid, renew_time, refresh, names_owner, .. } => {
                let renew_time = *renew_time;
                let patch = if *refresh {
                    CandidatePatch::Refresh { nomination: nomination(*names_owner)?, renew_time }
                } else {
                    CandidatePatch::Renew(renew_time)
                };
                Request::patch_candidate(candidate(), uid, patch)
            }
            Self::DeleteCandidate { uid, .. } => {
                Request::DeleteCandidate { candidate: candidate(), uid: uid.clone(), resource_version: None }
            }
            Self::StopWork | Self::AbortWork => return None,
        })
    }

    /// The observation that reports `reply`; `None` for the actions that are not requests.
    pub fn observation(&self, reply: Reply) -> Option<Observation> {
        Some(match self {
            Self::ReadLease(attempt) => match reply {
                Outcome::Landed(Object::Lease(record)) => Observation::Lease { record, source: Source::Read(*attempt) },
                Outcome::Missing => Observation::LeaseMissing { source: Source::Read(*attempt) },
                _ => Observation::ReadFailed(*attempt),
            },
            Self::CreateLease(attempt) | Self::WriteLease { attempt, .. } => {
                Observation::LeaseWritten { attempt: *attempt, outcome: reply.lease() }
            }
            Self::ReadCandidate(attempt) => match reply {
                Outcome::Landed(Object::Candidate(record)) => {
                    Observation::Candidate { record, source: Source::Read(*attempt) }
                }
                Outcome::Missing => Observation::CandidateMissing { source: Source::Read(*attempt) },
                _ => Observation::ReadFailed(*attempt),
            },
            Self::ListCandidates(attempt) => match reply {
                Outcome::Landed(Object::Candidates(records)) => {
                    Observation::Candidates { attempt: *attempt, records: Some(records) }
                }
                // The cluster does not know the kind.
                Outcome::Missing => Observation::Candidates { attempt: *attempt, records: None },
                _ => Observation::ReadFailed(*attempt),
            },
            Self::CreateCandidate { attempt, .. } | Self::RenewCandidate { attempt, .. } => {
                Observation::CandidateWritten { attempt: *attempt, outcome: reply.candidate() }
            }
            Self::DeleteCandidate { attempt, .. } => {
                let outcome = match reply.candidate() {
                    // A finalizer keeps the object for a while. To the elector it is gone.
                    Outcome::Landed(_) => Outcome::Deleted,
                    outcome => outcome,
                };
                Observation::CandidateWritten { attempt: *attempt, outcome }
            }
            Self::StopWork | Self::AbortWork => return None,
        })
    }
}
