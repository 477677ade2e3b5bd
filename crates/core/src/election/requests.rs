//! The actions of an election as requests to the store, and the replies as observations.

use super::decision::Action;
use super::observation::{Observation, Source, Target};
use crate::model::{CandidatePatch, LeaseRecord, Moment, Object, Outcome, Reply, Request, WireTime};

impl Action {
    /// The request to the store that carries out this action; `None` for an event and for a read of a Pod or a Node.
    ///
    /// `lease_name` is the Lease of this election. `current` is the version of the Lease that the decision rests on.
    /// `since` are the times of a status' [conditions](CandidatePatch::Status).
    pub fn request(&self, lease_name: &str, current: Option<&LeaseRecord>, since: [WireTime; 3]) -> Option<Request> {
        let lease_name = || lease_name.to_owned();
        Some(match self {
            Self::ReadLease => Request::ReadLease { name: lease_name() },
            Self::ReadCandidate { candidate } => Request::ReadCandidate { candidate: candidate.clone() },
            Self::CreateLease => Request::CreateLease { name: lease_name() },
            Self::WriteLease { write, .. } => Request::WriteLease {
                name: lease_name(),
                write: Box::new(write.clone()),
                current: current.cloned().map(Box::new),
            },
            Self::Ping { candidate, uid, ping_time } => {
                Request::patch_candidate(candidate, &**uid, CandidatePatch::Ping(*ping_time))
            }
            Self::PatchStatus { candidate, uid, status } => {
                let patch = CandidatePatch::Status { status: Box::new(status.clone()), since };
                Request::patch_candidate(candidate, &**uid, patch)
            }
            Self::DeleteCandidate { candidate, uid, resource_version } => Request::DeleteCandidate {
                candidate: candidate.clone(),
                uid: uid.to_string(),
                resource_version: Some(*resource_version),
            },
            // Pods and Nodes are not in the store of Leases and candidates.
            Self::ReadPod { .. } | Self::ReadNode { .. } | Self::Event(_) => return None,
        })
    }
}

impl Observation {
    /// The observation that reports `reply` to `request`, which was sent at `sent`.
    ///
    /// # Errors
    /// After a conflict, or when the object of a write is missing, returns the live read that the caller must carry out
    /// next.
    pub fn of_reply(request: &Request, reply: Reply, sent: Moment) -> Result<Self, Request> {
        let is_read = matches!(
            request,
            Request::ReadLease { .. } | Request::ReadCandidate { .. } | Request::ListCandidates { .. }
        );
        let is_status = matches!(request, Request::PatchCandidate { patch: CandidatePatch::Status { .. }, .. });
        let source = match (is_read, is_status) {
            (true, _) => Source::Read { sent },
            (_, true) => Source::StatusWritten { sent },
            _ => Source::Written { sent },
        };
        let candidate = match request {
            Request::ReadLease { .. }
            | Request::CreateLease { .. }
            | Request::WriteLease { .. }
            | Request::ListCandidates { .. }
            | Request::CreateCandidate { .. } => None,
            Request::ReadCandidate { candidate }
            | Request::PatchCandidate { candidate, .. }
            | Request::DeleteCandidate { candidate, .. } => Some(candidate.clone()),
        };
        Ok(match (reply, candidate) {
            (Outcome::Landed(Object::Lease(record)), _) => Self::Lease { record, source },
            (Outcome::Landed(Object::Candidate(record)), _) => Self::Candidate { record, source },
            (Outcome::Deleted, Some(candidate)) => Self::CandidateMissing { candidate, source },
            (Outcome::Missing, None) if is_read => Self::LeaseMissing { source },
            (Outcome::Missing, Some(candidate)) if is_read => Self::CandidateMissing { candidate, source },
            (_, Some(candidate)) if is_status => Self::Failed { target: Target::Status(candidate) },
            (Outcome::Conflict | Outcome::Missing, _) => return Err(request.read_back()),
            (_, Some(candidate)) => Self::Failed { target: Target::Candidate(candidate) },
            (_, None) => Self::Failed { target: Target::Lease },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CandidateKey, CandidateRecord, LeaseRecord, LeaseWrite, Moment, Purpose, RecordedStatus};

    fn requested(action: &Action, current: Option<&LeaseRecord>) -> Option<Request> {
        action.request("l", current, [WireTime::from_micros(7); 3])
    }

    #[test]
    fn a_dead_candidate_is_deleted_only_as_it_was_seen() {
        let candidate = CandidateKey::hustings("a");
        let action = Action::DeleteCandidate { candidate: candidate.clone(), uid: "u".into(), resource_version: 9 };
        let expected = Request::DeleteCandidate { candidate, uid: "u".to_owned(), resource_version: Some(9) };
        assert_eq!(requested(&action, None), Some(expected));
    }

    #[test]
    fn a_write_of_the_lease_carries_the_version_that_was_observed() {
        let record = LeaseRecord { resource_version: 5, ..LeaseRecord::as_created() };
        let write = LeaseWrite::new(Purpose::Enrol, &record);
        let action = Action::WriteLease { write: write.clone(), event: None };
        assert_eq!(requested(&action, Some(&record)), Some(Request::write_lease("l", write, &record)));
    }

    #[test]
    fn evidence_and_events_are_not_requests_to_the_store() {
        for action in [Action::ReadPod { pod: "p".into() }, Action::ReadNode { node: "n".into() }] {
            assert_eq!(requested(&action, None), None);
        }
    }

    #[test]
    fn each_reply_is_observed_as_what_it_is() {
        let key = || CandidateKey::hustings("a");
        let sent = Moment::from_micros(3);
        let lease = Request::read_lease("l");
        let write = Request::create_lease("l");
        let candidate = Request::ReadCandidate { candidate: key() };
        let ping = Request::patch_candidate(key(), "u", CandidatePatch::Ping(WireTime::from_micros(1)));
        let status = Box::new(RecordedStatus::default());
        let status = CandidatePatch::Status { status, since: [WireTime::from_micros(7); 3] };
        let status = Request::patch_candidate(key(), "u", status);
        let delete = Request::DeleteCandidate { candidate: key(), uid: "u".to_owned(), resource_version: None };
        let (read, written) = (Source::Read { sent }, Source::Written { sent });
        let record = CandidateRecord::default;
        let landed = || Outcome::Landed(Object::Candidate(record()));
        let seen = |source| Ok(Observation::Candidate { record: record(), source });
        let gone = |source| Ok(Observation::CandidateMissing { candidate: key(), source });
        let failed = |target| Ok(Observation::Failed { target });
        let check = |request: &Request, reply: Reply, expected| {
            let case = format!("{request:?} {reply:?}");
            assert_eq!(Observation::of_reply(request, reply, sent), expected, "{case}");
        };
        check(&lease, Outcome::Missing, Ok(Observation::LeaseMissing { source: read }));
        check(&lease, Outcome::Unknown, failed(Target::Lease));
        check(&write, Outcome::Conflict, Err(lease.clone()));
        check(&write, Outcome::Missing, Err(lease.clone()));
        check(&write, Outcome::Refused, failed(Target::Lease));
        check(&candidate, landed(), seen(read));
        check(&candidate, Outcome::Missing, gone(read));
        check(&candidate, Outcome::Refused, failed(Target::Candidate(key())));
        check(&ping, landed(), seen(written));
        check(&ping, Outcome::Missing, Err(candidate.clone()));
        check(&ping, Outcome::Conflict, Err(candidate.clone()));
        check(&ping, Outcome::Unknown, failed(Target::Candidate(key())));
        check(&status, landed(), seen(Source::StatusWritten { sent }));
        check(&status, Outcome::Missing, failed(Target::Status(key())));
        check(&status, Outcome::Conflict, failed(Target::Status(key())));
        check(&status, Outcome::Refused, failed(Target::Status(key())));
        check(&delete, Outcome::Deleted, gone(written));
        check(&delete, Outcome::Missing, Err(candidate.clone()));
        check(&delete, Outcome::Conflict, Err(candidate.clone()));
        check(&delete, Outcome::Unknown, failed(Target::Candidate(key())));
    }
}
