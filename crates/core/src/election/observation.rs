//! What an election is told.
//!
//! The driver of an election carries out all actions of one decision and reports the outcome of each before the next
//! decision on the same Lease: the answer of a request that succeeded, or [`Observation::Failed`]. A request that hangs
//! has failed at its deadline. After a conflict the driver reads the object live and reports what it read, which is all
//! that a conflict means; it is no failure. Statuses are the exception: no decision waits for their outcomes, of those
//! that wait for one candidate only the newest need be written, and a conflict is a failure. Before the first decision it tells what the first lists of Leases and of
//! candidates hold: a candidate that is not known yet cannot be waited for.

use crate::model::{CandidateRecord, LeaseRecord, Moment};

/// Something that became known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// A version of the Lease.
    Lease {
        /// What it says.
        record: LeaseRecord,
        /// Where it was seen.
        source: Source,
    },
    /// There is no such Lease: the watch tells of its deletion, a list does not have it, or a read answered 404.
    LeaseMissing {
        /// Where it is missing. From the watch that may only mean that it has lost its label.
        source: Source,
    },
    /// A version of a candidate.
    Candidate {
        /// What it says.
        record: CandidateRecord,
        /// Where it was seen.
        source: Source,
    },
    /// There is no such candidate (any more).
    CandidateMissing {
        /// `metadata.name`.
        name: String,
        /// Where it is missing.
        source: Source,
    },
    /// A request failed for another reason than a conflict or a missing object: refused, unavailable, timed out. A
    /// write of this kind may still land; the watch will tell.
    Failed {
        /// What the request was about.
        target: Target,
    },
}

/// Where something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// In a watch or a list, which may lag behind.
    Watch,
    /// In the answer to a live read.
    Read {
        /// When the read was sent.
        sent: Moment,
    },
    /// In the answer to a write of this controller.
    Written {
        /// When the write was sent.
        sent: Moment,
    },
    /// In the answer to a write of a candidate's status, which may have been overtaken by any other request.
    StatusWritten {
        /// When the write was sent.
        sent: Moment,
    },
}

/// The object that a request is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The Lease.
    Lease,
    /// The candidate of this name.
    Candidate(String),
    /// The status of the candidate of this name.
    Status(String),
}

impl Source {
    /// When the request was sent of which this is the answer.
    pub const fn sent(self) -> Option<Moment> {
        match self {
            Self::Watch => None,
            Self::Read { sent } | Self::Written { sent } | Self::StatusWritten { sent } => Some(sent),
        }
    }
}
