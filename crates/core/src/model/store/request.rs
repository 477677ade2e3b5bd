//! Requests to a store of Leases and candidates, and its replies, as values.
//!
//! These are all the operations that electors and elections need. All names are within one namespace, which the sender
//! knows.

use super::super::{CandidateKey, CandidateRecord, LeaseRecord, LeaseWrite, Pod, RecordedStatus, WireTime};

/// One request about a Lease or about candidates. A store executes it whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Read a Lease live.
    ReadLease {
        /// `metadata.name`.
        name: String,
    },
    /// Create a Lease as [`LeaseRecord::as_created`] specifies.
    CreateLease {
        /// `metadata.name`.
        name: String,
    },
    /// Write a Lease, conditional on the version in the write. It never creates a Lease.
    WriteLease {
        /// `metadata.name`.
        name: String,
        /// The write.
        write: Box<LeaseWrite>,
    },
    /// Read a candidate live.
    ReadCandidate {
        /// Its kind and name.
        candidate: CandidateKey,
    },
    /// List the `hustings.io` candidates of one Lease live. A store may omit those beyond the first 500.
    ListCandidates {
        /// `spec.leaseName`.
        lease_name: String,
    },
    /// Create a candidate.
    CreateCandidate {
        /// Its content.
        nomination: Box<Nomination>,
        /// `spec.renewTime`.
        renew_time: WireTime,
    },
    /// Change a candidate, conditional on its uid.
    PatchCandidate {
        /// Its kind and name.
        candidate: CandidateKey,
        /// `metadata.uid`.
        uid: String,
        /// The change.
        patch: CandidatePatch,
    },
    /// Delete a candidate, conditional on its uid.
    DeleteCandidate {
        /// Its kind and name.
        candidate: CandidateKey,
        /// `metadata.uid`.
        uid: String,
        /// `metadata.resourceVersion`, if the deletion is conditional on the version, too.
        resource_version: Option<u64>,
    },
}

/// A change of a candidate. It keeps every field that it does not name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CandidatePatch {
    /// Sets `spec.pingTime`.
    Ping(WireTime),
    /// Sets `spec.renewTime`.
    Renew(WireTime),
    /// Sets `spec.renewTime`, and everything that the nomination contains, except the Lease and the priority. It never
    /// removes an owner.
    Refresh {
        /// The content.
        nomination: Box<Nomination>,
        /// `spec.renewTime`.
        renew_time: WireTime,
    },
    /// Replaces `status`.
    Status {
        /// The content.
        status: Box<RecordedStatus>,
        /// `lastTransitionTime` of the conditions `Admissible`, `Responsive` and `Leading`, which no record keeps.
        since: [WireTime; 3],
    },
}

/// The content of an elector's candidate. Once the object exists, its last writer owns its priority, and the controller
/// owns `pingTime` and `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nomination {
    /// The name of the candidate: the identity under which the elector holds the Lease.
    pub name: String,
    /// `spec.leaseName`.
    pub lease_name: String,
    /// `spec.binaryVersion`.
    pub binary_version: String,
    /// `spec.emulationVersion`.
    pub emulation_version: Option<String>,
    /// `spec.strategy`.
    pub strategy: Option<String>,
    /// `spec.priority` with which the candidate is created.
    pub priority: Option<i32>,
    /// Annotation `hustings.io/lease-duration`.
    pub lease_duration_seconds: u32,
    /// Annotation `hustings.io/session`: the elector instance.
    pub session: String,
    /// The owner.
    pub pod: Option<Pod>,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<Record> {
    /// The request succeeded; this is the answer.
    Landed(Record),
    /// Another version exists (409), or, for a creation, the object already exists.
    Conflict,
    /// The server answered that there is no such object (404). After a write, this is a hint: the sender then reads the
    /// object.
    Missing,
    /// This request deleted the object.
    Deleted,
    /// The server has certainly not executed the request (403, 422, 429), or it was never sent.
    Refused,
    /// It is unknown whether the request took effect: it timed out, the connection was lost, or the server answered
    /// 5xx. The server may still execute it, even much later.
    Unknown,
}

/// The answer to a successful request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// The Lease as read, or after the write.
    Lease(LeaseRecord),
    /// The candidate as read, or after the write. After a deletion, a finalizer keeps it.
    Candidate(CandidateRecord),
    /// The candidates of one Lease, by name.
    Candidates(Vec<CandidateRecord>),
}

/// The reply of a store.
pub type Reply = Outcome<Object>;

impl Request {
    /// Reads a Lease.
    pub fn read_lease(name: impl Into<String>) -> Self {
        Self::ReadLease { name: name.into() }
    }

    /// Creates a Lease.
    pub fn create_lease(name: impl Into<String>) -> Self {
        Self::CreateLease { name: name.into() }
    }

    /// Writes a Lease.
    pub fn write_lease(name: impl Into<String>, write: LeaseWrite) -> Self {
        Self::WriteLease { name: name.into(), write: Box::new(write) }
    }

    /// Changes the candidate with this uid.
    pub fn patch_candidate(candidate: impl Into<CandidateKey>, uid: impl Into<String>, patch: CandidatePatch) -> Self {
        Self::PatchCandidate { candidate: candidate.into(), uid: uid.into(), patch }
    }

    /// Replaces the status of the candidate with this uid. `since` are the times of its
    /// [conditions](CandidatePatch::Status).
    pub fn patch_status(
        candidate: impl Into<CandidateKey>,
        uid: impl Into<String>,
        status: RecordedStatus,
        since: [WireTime; 3],
    ) -> Self {
        Self::patch_candidate(candidate, uid, CandidatePatch::Status { status: Box::new(status), since })
    }

    /// The name of its object. For a list of candidates, that is the name of their Lease.
    pub fn object_name(&self) -> &str {
        match self {
            Self::CreateCandidate { nomination, .. } => &nomination.name,
            Self::ReadLease { name }
            | Self::CreateLease { name }
            | Self::WriteLease { name, .. }
            | Self::ListCandidates { lease_name: name } => name,
            Self::ReadCandidate { candidate }
            | Self::PatchCandidate { candidate, .. }
            | Self::DeleteCandidate { candidate, .. } => &candidate.name,
        }
    }

    /// The candidate that it is about, if that exists already.
    pub const fn candidate(&self) -> Option<&CandidateKey> {
        match self {
            Self::ReadCandidate { candidate }
            | Self::PatchCandidate { candidate, .. }
            | Self::DeleteCandidate { candidate, .. } => Some(candidate),
            Self::ReadLease { .. }
            | Self::CreateLease { .. }
            | Self::WriteLease { .. }
            | Self::ListCandidates { .. }
            | Self::CreateCandidate { .. } => None,
        }
    }

    /// The live read of the same object, which follows a conflict.
    #[must_use]
    pub fn read_back(&self) -> Self {
        match self {
            Self::ReadLease { name } | Self::CreateLease { name } | Self::WriteLease { name, .. } => {
                Self::ReadLease { name: name.clone() }
            }
            Self::ListCandidates { lease_name } => Self::ListCandidates { lease_name: lease_name.clone() },
            Self::CreateCandidate { nomination, .. } => Self::ReadCandidate { candidate: nomination.key() },
            Self::ReadCandidate { candidate }
            | Self::PatchCandidate { candidate, .. }
            | Self::DeleteCandidate { candidate, .. } => Self::ReadCandidate { candidate: candidate.clone() },
        }
    }
}

impl CandidatePatch {
    /// The candidate after this patch has succeeded on `record`, before it gets its new version.
    #[must_use]
    pub fn applied_to(&self, record: &CandidateRecord) -> CandidateRecord {
        let mut patched = record.clone();
        match self {
            Self::Ping(time) => patched.ping_time = Some(*time),
            Self::Renew(time) => patched.renew_time = Some(*time),
            Self::Refresh { nomination, renew_time } => {
                nomination.write_to(&mut patched);
                patched.renew_time = Some(*renew_time);
            }
            Self::Status { status, .. } => patched.status.clone_from(status),
        }
        patched
    }
}

impl Nomination {
    /// The candidate that this creates or refreshes.
    pub fn key(&self) -> CandidateKey {
        CandidateKey::hustings(&self.name)
    }

    /// The candidate as it is created, before it gets its metadata.
    pub fn candidate(&self, renew_time: WireTime) -> CandidateRecord {
        let mut record = CandidateRecord {
            name: self.name.clone(),
            lease_name: self.lease_name.clone(),
            priority: self.priority.unwrap_or(0),
            renew_time: Some(renew_time),
            ..CandidateRecord::default()
        };
        self.write_to(&mut record);
        record
    }

    fn write_to(&self, record: &mut CandidateRecord) {
        record.binary_version.clone_from(&self.binary_version);
        record.emulation_version.clone_from(&self.emulation_version);
        record.strategy.clone_from(&self.strategy);
        record.lease_duration_seconds = Some(self.lease_duration_seconds);
        record.session = Some(self.session.clone());
        record.owned |= self.pod.is_some();
        record.pod = self.pod.clone().or_else(|| record.pod.take());
    }
}

impl Reply {
    /// The Lease in the reply to a request about one.
    pub fn lease(self) -> Outcome<LeaseRecord> {
        self.narrow(|object| if let Object::Lease(record) = object { Some(record) } else { None })
    }

    /// The candidate in the reply to a request about one.
    pub fn candidate(self) -> Outcome<CandidateRecord> {
        self.narrow(|object| if let Object::Candidate(record) = object { Some(record) } else { None })
    }
}

impl<Record> Outcome<Record> {
    /// Applies `change` to the answer of a request that succeeded.
    pub fn map<Other>(self, change: impl FnOnce(Record) -> Other) -> Outcome<Other> {
        self.narrow(|record| Some(change(record)))
    }

    /// Applies `part` to the answer of a request that succeeded. If that returns `None`, the outcome is unknown.
    fn narrow<Other>(self, part: impl FnOnce(Record) -> Option<Other>) -> Outcome<Other> {
        match self {
            Self::Landed(record) => part(record).map_or(Outcome::Unknown, Outcome::Landed),
            Self::Conflict => Outcome::Conflict,
            Self::Missing => Outcome::Missing,
            Self::Deleted => Outcome::Deleted,
            Self::Refused => Outcome::Refused,
            Self::Unknown => Outcome::Unknown,
        }
    }
}
