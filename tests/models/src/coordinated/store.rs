//! The API server: one Lease, and one candidate for each identity. It honours the conditions that a request names.

use hustings_core::elector::Outcome;
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, RecordedStatus, SessionMark, WireTime};

use crate::canonical::{FIRST_TRANSITION, FIRST_VERSION, FIRST_WALL_MICROS, VERSIONS_OF_ONE};
use crate::process::LEASE;

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    pub(super) lease: Option<LeaseRecord>,
    /// In the order of their ranks: of two, the former has the older versions, unless all are equal but for their names.
    pub(super) candidates: Vec<Option<CandidateRecord>>,
    pub(super) are_equal: bool,
    /// The last versions of the Lease and of each candidate, which grow across deletion.
    versions: Vec<Version>,
    /// How many objects have been deleted.
    deleted: u8,
}

/// The last version of an object. A type of its own, since integers in a row are hashed all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Version(u64);

/// A request, as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Request {
    ReadLease,
    CreateLease,
    WriteLease { write: Box<LeaseWrite>, is_unconditional: bool },
    ReadCandidate(usize),
    CreateCandidate { who: usize, renew_time: WireTime },
    PatchCandidate { who: usize, uid: String, patch: Patch },
    DeleteCandidate { who: usize, uid: String, version: Option<u64> },
}

/// A change of a candidate. Whoever writes a status or a time leaves all else alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Patch {
    Ping(WireTime),
    Renew(WireTime),
    Status(Box<RecordedStatus>),
}

/// The answer.
pub(super) enum Reply {
    Lease(Outcome<LeaseRecord>),
    Candidate(Outcome<CandidateRecord>),
}

impl Request {
    /// What is asked after a conflict.
    pub(super) const fn read_back(&self) -> Self {
        match self {
            Self::ReadLease | Self::CreateLease | Self::WriteLease { .. } => Self::ReadLease,
            Self::ReadCandidate(who)
            | Self::CreateCandidate { who, .. }
            | Self::PatchCandidate { who, .. }
            | Self::DeleteCandidate { who, .. } => Self::ReadCandidate(*who),
        }
    }
}

impl Reply {
    pub(super) const fn is_conflict(&self) -> bool {
        matches!(self, Self::Lease(Outcome::Conflict) | Self::Candidate(Outcome::Conflict))
    }
}

impl Store {
    /// A free Lease that nobody has ever held, and no candidate.
    pub(super) fn new(candidates: usize, are_equal: bool) -> Self {
        let objects = 0..=candidates as u64;
        let mut store = Self {
            lease: None,
            are_equal,
            candidates: vec![None; candidates],
            versions: objects.map(|object| Version(FIRST_VERSION + object * VERSIONS_OF_ONE)).collect(),
            deleted: 0,
        };
        let session = SessionMark::Open;
        store.put_lease(LeaseRecord { duration_seconds: 1, session, ..LeaseRecord::as_created() });
        store
    }

    pub(super) fn execute(&mut self, request: Request) -> Reply {
        match request {
            Request::ReadLease => Reply::Lease(found(self.lease.as_ref())),
            Request::CreateLease if self.lease.is_some() => Reply::Lease(Outcome::Conflict),
            Request::CreateLease => {
                self.put_lease(LeaseRecord::as_created());
                Reply::Lease(found(self.lease.as_ref()))
            }
            Request::WriteLease { write, is_unconditional } => {
                let Some(lease) = &self.lease else { return Reply::Lease(Outcome::Missing) };
                if write.resource_version != lease.resource_version && !is_unconditional {
                    return Reply::Lease(Outcome::Conflict);
                }
                self.put_lease(write.applied_to(lease, 0));
                Reply::Lease(found(self.lease.as_ref()))
            }
            Request::ReadCandidate(who) => Reply::Candidate(found(self.candidates[who].as_ref())),
            Request::CreateCandidate { who, .. } if self.candidates[who].is_some() => {
                Reply::Candidate(Outcome::Conflict)
            }
            Request::CreateCandidate { who, renew_time } => {
                let candidate = self.created(super::IDENTITIES[who], who, renew_time);
                self.put_candidate(who, candidate)
            }
            Request::PatchCandidate { who, uid, patch } => {
                let Some(mut candidate) = self.candidates[who].clone() else {
                    return Reply::Candidate(Outcome::Missing);
                };
                if candidate.uid != uid {
                    return Reply::Candidate(Outcome::Conflict);
                }
                match patch {
                    Patch::Ping(time) => candidate.ping_time = Some(time),
                    Patch::Renew(time) => candidate.renew_time = Some(time),
                    Patch::Status(status) => candidate.status = *status,
                }
                self.put_candidate(who, candidate)
            }
            Request::DeleteCandidate { who, uid, version } => match &self.candidates[who] {
                None => Reply::Candidate(Outcome::Missing),
                Some(candidate)
                    if candidate.uid != uid || version.is_some_and(|version| version != candidate.resource_version) =>
                {
                    Reply::Candidate(Outcome::Conflict)
                }
                Some(candidate) => {
                    let deleted = candidate.clone();
                    self.delete_candidate(who);
                    Reply::Candidate(Outcome::Landed(deleted))
                }
            },
        }
    }

    /// Whether the request can still change anything, however late it comes.
    pub(super) fn may_land(&self, request: &Request) -> bool {
        match request {
            Request::WriteLease { write, is_unconditional } => {
                *is_unconditional || write.resource_version == self.versions[0].0
            }
            Request::PatchCandidate { who, uid, .. } | Request::DeleteCandidate { who, uid, version: None } => {
                self.candidates[*who].as_ref().is_some_and(|candidate| candidate.uid == *uid)
            }
            Request::DeleteCandidate { who, version: Some(version), .. } => *version == self.versions[who + 1].0,
            Request::CreateLease | Request::CreateCandidate { .. } => true,
            Request::ReadLease | Request::ReadCandidate(_) => false,
        }
    }

    pub(super) fn put_lease(&mut self, mut lease: LeaseRecord) {
        self.versions[0].0 += 1;
        lease.resource_version = self.versions[0].0;
        if self.lease.is_none() {
            lease.uid = format!("uid-{}", self.deleted);
            lease.transitions = FIRST_TRANSITION;
        }
        self.lease = Some(lease);
    }

    pub(super) fn delete_lease(&mut self) {
        self.versions[0].0 += 1;
        self.deleted += 1;
        self.lease = None;
    }

    pub(super) fn delete_candidate(&mut self, who: usize) {
        self.versions[who + 1].0 += 1;
        self.deleted += 1;
        self.candidates[who] = None;
    }

    fn put_candidate(&mut self, who: usize, mut candidate: CandidateRecord) -> Reply {
        self.versions[who + 1].0 += 1;
        candidate.resource_version = self.versions[who + 1].0;
        self.candidates[who] = Some(candidate);
        Reply::Candidate(found(self.candidates[who].as_ref()))
    }

    fn created(&self, identity: &str, who: usize, renew_time: WireTime) -> CandidateRecord {
        let minor = if self.are_equal { 0 } else { who };
        CandidateRecord {
            name: identity.to_owned(),
            uid: format!("{identity}-{}", self.deleted),
            creation_time: WireTime::from_micros(FIRST_WALL_MICROS),
            owned: true,
            lease_name: LEASE.to_owned(),
            binary_version: format!("1.{minor}.0"),
            emulation_version: Some(format!("1.{minor}.0")),
            renew_time: Some(renew_time),
            lease_duration_seconds: Some(super::LEASE_SECONDS),
            ..CandidateRecord::default()
        }
    }
}

fn found<T: Clone>(object: Option<&T>) -> Outcome<T> {
    object.map_or(Outcome::Missing, |object| Outcome::Landed(object.clone()))
}
