//! The replies of the store as observations of an elector.

use super::{AttemptId, Observation, Source};
use crate::model::{Object, Outcome, Reply, Request};

impl Observation {
    /// The observation that reports `reply` to `request`, which has this number.
    pub fn of_reply(attempt: AttemptId, request: &Request, reply: Reply) -> Self {
        let source = Source::Read(attempt);
        match (request, reply) {
            (Request::ReadLease { .. }, Outcome::Landed(Object::Lease(record))) => Self::Lease { record, source },
            (Request::ReadLease { .. }, Outcome::Missing) => Self::LeaseMissing { source },
            (Request::ReadCandidate { .. }, Outcome::Landed(Object::Candidate(record))) => {
                Self::Candidate { record, source }
            }
            (Request::ReadCandidate { .. }, Outcome::Missing) => Self::CandidateMissing { source },
            (Request::ListCandidates { .. }, Outcome::Landed(Object::Candidates(records))) => {
                Self::Candidates { attempt, records: Some(records) }
            }
            // The cluster does not know the kind.
            (Request::ListCandidates { .. }, Outcome::Missing) => Self::Candidates { attempt, records: None },
            (Request::ReadLease { .. } | Request::ReadCandidate { .. } | Request::ListCandidates { .. }, _) => {
                Self::ReadFailed(attempt)
            }
            (Request::CreateLease { .. } | Request::WriteLease { .. }, reply) => {
                Self::LeaseWritten { attempt, outcome: reply.lease() }
            }
            // A finalizer keeps the object for a while. To the elector it is gone.
            (Request::DeleteCandidate { .. }, Outcome::Landed(Object::Candidate(_))) => {
                Self::CandidateWritten { attempt, outcome: Outcome::Deleted }
            }
            (
                Request::CreateCandidate { .. } | Request::PatchCandidate { .. } | Request::DeleteCandidate { .. },
                reply,
            ) => Self::CandidateWritten { attempt, outcome: reply.candidate() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CandidateKey, CandidateRecord};

    #[test]
    fn each_reply_is_observed_as_what_it_is() {
        let attempt = AttemptId(1);
        let candidate = || CandidateKey::hustings("a");
        let read_lease = || Request::read_lease("l");
        let read = || Request::ReadCandidate { candidate: candidate() };
        let list = || Request::ListCandidates { lease_name: "l".to_owned() };
        let delete =
            || Request::DeleteCandidate { candidate: candidate(), uid: "v".to_owned(), resource_version: None };
        let source = Source::Read(attempt);
        let written = |outcome| Observation::CandidateWritten { attempt, outcome };
        let failed = || Observation::ReadFailed(attempt);
        for (request, reply, expected) in [
            (read_lease(), Outcome::Missing, Observation::LeaseMissing { source }),
            (read_lease(), Outcome::Unknown, failed()),
            (read(), Outcome::Missing, Observation::CandidateMissing { source }),
            (read(), Outcome::Refused, failed()),
            (
                list(),
                Outcome::Landed(Object::Candidates(Vec::new())),
                Observation::Candidates { attempt, records: Some(Vec::new()) },
            ),
            (list(), Outcome::Missing, Observation::Candidates { attempt, records: None }),
            (list(), Outcome::Refused, failed()),
            // A finalizer keeps the object for a while.
            (delete(), Outcome::Landed(Object::Candidate(CandidateRecord::default())), written(Outcome::Deleted)),
            (delete(), Outcome::Deleted, written(Outcome::Deleted)),
            (delete(), Outcome::Conflict, written(Outcome::Conflict)),
        ] {
            assert_eq!(Observation::of_reply(attempt, &request, reply.clone()), expected, "{request:?} {reply:?}");
        }
    }
}
