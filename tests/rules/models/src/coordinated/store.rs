//! The objects of a cluster: one Lease, and one candidate for each identity, in the core's reference store.
//!
//! The versions of each object are counted separately: see [`canonical`](crate::canonical).

use hustings_core::elector::CandidateConfig;
use hustings_core::model::{
    CandidateRecord, LeaseRecord, Object, ObjectName, Outcome, Pod, ReferenceStore, Reply, Request, SessionMark,
    WireTime,
};

use super::IDENTITIES;
use crate::canonical::{FIRST_TRANSITION, FIRST_VERSION, FIRST_WALL_MICROS, VERSIONS_OF_ONE};
use crate::process::LEASE;

/// The stored objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Store {
    objects: ReferenceStore,
    /// The number of identities, in the order of their ranks. An earlier identity has older versions than a later one,
    /// unless they differ only in their names.
    pub(super) seats: usize,
    pub(super) are_equal: bool,
}

/// A request on its way. A planted bug makes a write of the Lease unconditional.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sent {
    pub(super) request: Request,
    pub(super) is_unconditional: bool,
}

impl From<Request> for Sent {
    fn from(request: Request) -> Self {
        Self { request, is_unconditional: false }
    }
}

impl Store {
    /// A free Lease that was never held, and no candidate.
    pub(super) fn new(seats: usize, are_equal: bool) -> Self {
        let candidates = IDENTITIES[..seats].iter().map(|identity| ObjectName::Candidate((*identity).into()));
        let names = std::iter::once(ObjectName::Lease(LEASE.to_owned())).chain(candidates);
        let first = (0..).map(|object| FIRST_VERSION + object * VERSIONS_OF_ONE);
        let mut store = Self { objects: ReferenceStore::counting_apart(names.zip(first)), seats, are_equal };
        let session = SessionMark::Open;
        store.put_lease(LeaseRecord { duration_seconds: 1, session, ..LeaseRecord::as_created() });
        store
    }

    pub(super) fn lease(&self) -> Option<&LeaseRecord> {
        self.objects.lease(LEASE)
    }

    pub(super) fn candidate(&self, who: usize) -> Option<&CandidateRecord> {
        self.objects.candidate(IDENTITIES[who])
    }

    pub(super) fn execute(&mut self, Sent { mut request, is_unconditional }: Sent) -> Reply {
        match &mut request {
            // The models need their own start value for the count of terms.
            Request::CreateLease { .. } if self.lease().is_none() => {
                return Outcome::Landed(Object::Lease(self.put_lease(LeaseRecord::as_created())));
            }
            Request::WriteLease { write, .. } if is_unconditional => {
                write.resource_version = self.lease().map_or(0, |lease| lease.resource_version);
            }
            _ => {}
        }
        self.objects.execute(&request, WireTime::from_micros(FIRST_WALL_MICROS))
    }

    /// Whether the request may still change anything if it arrives later.
    pub(super) fn may_land(&self, Sent { request, is_unconditional }: &Sent) -> bool {
        match request {
            Request::WriteLease { write, .. } => {
                *is_unconditional || self.lease().is_some_and(|lease| lease.resource_version == write.resource_version)
            }
            Request::PatchCandidate { candidate, uid, .. } => {
                self.objects.candidate(candidate).is_some_and(|candidate| candidate.uid == *uid)
            }
            Request::DeleteCandidate { candidate, uid, resource_version } => {
                self.objects.candidate(candidate).is_some_and(|candidate| {
                    candidate.uid == *uid
                        && resource_version.is_none_or(|version| version == candidate.resource_version)
                })
            }
            Request::CreateLease { .. } | Request::CreateCandidate { .. } => true,
            Request::ReadLease { .. } | Request::ReadCandidate { .. } | Request::ListCandidates { .. } => false,
        }
    }

    pub(super) fn put_lease(&mut self, mut lease: LeaseRecord) -> LeaseRecord {
        if self.lease().is_none() {
            lease.transitions = FIRST_TRANSITION;
        }
        self.objects.put_lease(LEASE, lease).clone()
    }

    pub(super) fn delete_lease(&mut self) {
        self.objects.delete_lease(LEASE);
    }

    pub(super) fn delete_candidate(&mut self, who: usize) {
        self.objects.delete_candidate(IDENTITIES[who]);
    }

    /// What the elector of this seat declares about itself.
    pub(super) fn candidate_config(&self, identity: &str) -> CandidateConfig {
        let minor = if self.are_equal { 0 } else { super::index_of(identity) };
        let version = format!("1.{minor}.0");
        CandidateConfig {
            binary_version: version.clone(),
            emulation_version: Some(version),
            strategy: None,
            priority: None,
            pod: Some(Pod { name: identity.to_owned(), uid: identity.to_owned() }),
            fallback: false,
        }
    }
}
