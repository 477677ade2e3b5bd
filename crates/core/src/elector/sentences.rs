//! The sentence for each note of an elector.

use std::fmt;

use super::{Loss, Note, Withheld};

/// How much a note matters to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteSeverity {
    /// It explains a single request.
    Debug,
    /// It is part of every election.
    Info,
    /// It is not as it should be.
    Warning,
    /// A person must act.
    Error,
}

impl Note {
    /// How much it matters.
    pub const fn severity(&self) -> NoteSeverity {
        match self {
            Self::Conflict | Self::Refused | Self::OutcomeUnknown => NoteSeverity::Debug,
            Self::Began { .. }
            | Self::HandOverAsked { .. }
            | Self::Asked { .. }
            | Self::GaveUp
            | Self::LeftToRunOut
            | Self::Reclaims { .. }
            | Self::NoController => NoteSeverity::Info,
            Self::Lost(_)
            | Self::Resigned { .. }
            | Self::GiveUpAbandoned
            | Self::NamesakeHolds { .. }
            | Self::LandedTooLate
            | Self::WriteReverted
            | Self::CandidateWriteReverted
            | Self::CandidateDeleted
            | Self::NoCandidates
            | Self::Withheld(_)
            | Self::OwnerDropped
            | Self::NamesakeAsked { .. }
            | Self::NamesakeReplaced { .. }
            | Self::CandidateEdited { .. }
            | Self::Emptied => NoteSeverity::Warning,
            Self::WorkDidNotStop | Self::CandidateOfAnotherLease { .. } => NoteSeverity::Error,
        }
    }

    /// What has happened. The values of the note are not part of the sentence.
    pub const fn sentence(&self) -> &'static str {
        match self {
            Self::Began { .. } => "term began",
            Self::Lost(Loss::NotRenewed) => "term lost: no renewal succeeded in time",
            Self::Lost(Loss::LeaseMissing) => "term lost: the Lease is missing",
            Self::Lost(Loss::NotMine { .. }) => "term lost: the Lease belongs to another term",
            Self::HandOverAsked { .. } => "handing over to the preferred holder",
            Self::Resigned { .. } => "giving the term up: it was resigned",
            Self::Asked { .. } => "asking the holder to hand over: its key is lower",
            Self::GaveUp => "gave the Lease up",
            Self::LeftToRunOut => "stopping: letting the Lease expire, as configured",
            Self::GiveUpAbandoned => "could not give the Lease up in time: it expires",
            Self::WorkDidNotStop => "the work did not stop within its grace: the Lease expires",
            Self::NamesakeHolds { .. } => "another process holds the Lease under this identity",
            Self::Reclaims { .. } => "reclaiming the Lease of this container's previous process",
            Self::LandedTooLate => "a take-up or claim of the Lease succeeded too late to lead",
            Self::Conflict => "another writer wrote the Lease first",
            Self::Refused => "the server refused a write of the Lease",
            Self::OutcomeUnknown => "a write of the Lease has an unknown outcome",
            Self::WriteReverted => {
                "the server accepts writes of the Lease but does not keep their content: check for an admission policy or \
                 webhook that changes spec or the annotations hustings.io/* of Leases"
            }
            Self::CandidateWriteReverted => {
                "the server accepts writes of the candidate but does not keep its renewTime: check for an admission \
                 policy or webhook that changes LeaseCandidates"
            }
            Self::CandidateDeleted => {
                "another client deletes the candidate soon after each creation: check for a tool that deletes the \
                 LeaseCandidates that its manifests do not contain"
            }
            Self::NoController => "no controller elects: the candidates elect among themselves",
            Self::NoCandidates => {
                "the cluster has no LeaseCandidates: the Lease is claimed without an order among the replicas"
            }
            Self::Withheld(_) => "the Lease is free, and no replica is elected",
            Self::OwnerDropped => {
                "the candidate was deleted soon after its owner was set: the API server does not know the pod by this UID \
                 (POD_UID), as with static pods; creating the candidate without an owner"
            }
            Self::CandidateOfAnotherLease { .. } => {
                "the candidate of this name stands for another Lease, and its process lives or it has an owner: give \
                 each elector an identity of its own (--identity)"
            }
            Self::NamesakeAsked { .. } => {
                "the candidate of this name stands for another Lease: it is replaced unless its process answers a ping"
            }
            Self::NamesakeReplaced { .. } => {
                "replacing the candidate of this name that stands for another Lease: no process has answered for it"
            }
            Self::CandidateEdited { .. } => "another client has changed the candidate: writing its own value again",
            Self::Emptied => {
                "a replica with client-go has emptied the Lease, which it lost before: writing the holder back"
            }
        }
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TurnedOff => f.write_str("no controller elects, and this elector is configured to wait for one"),
            Self::NoList => f.write_str("no controller elects, and the candidates cannot be listed"),
            Self::Hold(hold) => write!(f, "the Lease is on hold: {hold}"),
            Self::Inadmissible(why) => write!(f, "no controller elects, and this candidate is not admissible: {why}"),
        }
    }
}
