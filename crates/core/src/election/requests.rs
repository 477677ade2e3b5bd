//! The replies of the store as observations of an election.

use super::observation::{Observation, Source, Target};
use crate::model::{CandidatePatch, Moment, Object, Outcome, Reply, Request};

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
        Ok(match (reply, request.candidate().cloned()) {
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
    use crate::model::{CandidateKey, CandidateRecord, RecordedStatus, WireTime};

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
