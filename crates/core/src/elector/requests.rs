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
            Self::DeleteCandidate { uid, resource_version, .. } => {
                let resource_version = *resource_version;
                Request::DeleteCandidate { candidate: candidate(), uid: uid.clone(), resource_version }
            }
            Self::PingNamesake { uid, ping_time, .. } => {
                Request::patch_candidate(candidate(), uid, CandidatePatch::Ping(*ping_time))
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
            Self::CreateCandidate { attempt, .. }
            | Self::RenewCandidate { attempt, .. }
            | Self::PingNamesake { attempt, .. } => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elector::AttemptId;
    use crate::model::{CandidateRecord, LeaseWrite, Pod, Purpose, WireTime};

    fn nomination(pod: Option<Pod>) -> Nomination {
        Nomination {
            name: "a".to_owned(),
            lease_name: "l".to_owned(),
            binary_version: "1.0".to_owned(),
            emulation_version: None,
            strategy: None,
            priority: None,
            lease_duration_seconds: 15,
            session: "s".to_owned(),
            pod,
        }
    }

    #[test]
    fn a_write_is_encoded_only_upon_the_version_that_it_is_conditional_on() {
        let known = |resource_version| LeaseRecord { resource_version, ..LeaseRecord::as_created() };
        let write = Box::new(LeaseWrite::new(Purpose::Renew, &known(5)));
        let action = Action::WriteLease { attempt: AttemptId(1), write: write.clone() };
        for (current, upon) in [(None, None), (Some(known(5)), Some(known(5))), (Some(known(6)), None)] {
            let expected =
                Request::WriteLease { name: "l".to_owned(), write: write.clone(), current: upon.map(Box::new) };
            assert_eq!(action.request(&Config::of("a"), None, current.as_ref()), Some(expected));
        }
    }

    #[test]
    fn a_candidate_names_its_owner_only_where_the_elector_says_so() {
        let attempt = AttemptId(1);
        let renew_time = WireTime::from_micros(3);
        let pod = || Some(Pod { name: "p".to_owned(), uid: "u".to_owned() });
        let whole = nomination(pod());
        for names_owner in [false, true] {
            let expected = Box::new(nomination(pod().filter(|_| names_owner)));
            let action = Action::CreateCandidate { attempt, renew_time, names_owner };
            assert_eq!(
                action.request(&Config::of("a"), Some(&whole), None),
                Some(Request::CreateCandidate { nomination: expected.clone(), renew_time })
            );
            let renew = |refresh| {
                let action = Action::RenewCandidate { attempt, uid: "v".to_owned(), renew_time, refresh, names_owner };
                action.request(&Config::of("a"), Some(&whole), None)
            };
            let patch = |patch| Some(Request::patch_candidate("a", "v", patch));
            assert_eq!(renew(true), patch(CandidatePatch::Refresh { nomination: expected, renew_time }));
            assert_eq!(renew(false), patch(CandidatePatch::Renew(renew_time)));
        }
    }

    #[test]
    fn the_own_candidate_is_deleted_by_its_uid_in_any_version() {
        let action = Action::DeleteCandidate { attempt: AttemptId(1), uid: "v".to_owned(), resource_version: None };
        let expected = Request::DeleteCandidate {
            candidate: CandidateKey::hustings("a"),
            uid: "v".to_owned(),
            resource_version: None,
        };
        assert_eq!(action.request(&Config::of("a"), None, None), Some(expected));
    }

    #[test]
    fn each_reply_is_observed_as_what_it_is() {
        let attempt = AttemptId(1);
        let candidate = || Object::Candidate(CandidateRecord::default());
        let source = Source::Read(attempt);
        let written = |outcome| Some(Observation::CandidateWritten { attempt, outcome });
        let delete = || Action::DeleteCandidate { attempt, uid: "v".to_owned(), resource_version: None };
        let failed = || Some(Observation::ReadFailed(attempt));
        let check = |action: Action, reply: Reply, expected| {
            assert_eq!(action.observation(reply.clone()), expected, "{action:?} {reply:?}");
        };
        check(Action::ReadLease(attempt), Outcome::Missing, Some(Observation::LeaseMissing { source }));
        check(Action::ReadLease(attempt), Outcome::Unknown, failed());
        check(Action::ReadCandidate(attempt), Outcome::Missing, Some(Observation::CandidateMissing { source }));
        check(Action::ReadCandidate(attempt), Outcome::Refused, failed());
        check(
            Action::ListCandidates(attempt),
            Outcome::Landed(Object::Candidates(Vec::new())),
            Some(Observation::Candidates { attempt, records: Some(Vec::new()) }),
        );
        check(
            Action::ListCandidates(attempt),
            Outcome::Missing,
            Some(Observation::Candidates { attempt, records: None }),
        );
        check(Action::ListCandidates(attempt), Outcome::Refused, failed());
        // A finalizer keeps the object for a while.
        check(delete(), Outcome::Landed(candidate()), written(Outcome::Deleted));
        check(delete(), Outcome::Deleted, written(Outcome::Deleted));
        check(delete(), Outcome::Conflict, written(Outcome::Conflict));
        check(Action::StopWork, Outcome::Deleted, None);
    }
}
