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
            | Request::ListCandidates { .. } => None,
            Request::ReadCandidate { candidate }
            | Request::PatchCandidate { candidate, .. }
            | Request::DeleteCandidate { candidate, .. } => Some(candidate.clone()),
            Request::CreateCandidate { nomination, .. } => Some(nomination.key()),
        };
        Ok(match (reply, candidate) {
            (Outcome::Landed(Object::Lease(record)), _) => Self::Lease { record, source },
            (Outcome::Landed(Object::Candidate(record)), _) => Self::Candidate { record, source },
            (Outcome::Deleted, Some(candidate)) => Self::CandidateMissing { candidate, source },
            (Outcome::Missing, None) if is_read => Self::LeaseMissing { source },
            (Outcome::Missing, Some(candidate)) if is_read => Self::CandidateMissing { candidate, source },
            (_, Some(candidate)) if is_status => Self::Failed { target: Target::Status(candidate) },
            (Outcome::Conflict | Outcome::Missing, _) if !is_read => return Err(request.read_back()),
            (_, Some(candidate)) => Self::Failed { target: Target::Candidate(candidate) },
            (_, None) => Self::Failed { target: Target::Lease },
        })
    }
}
