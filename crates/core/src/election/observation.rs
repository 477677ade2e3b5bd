//! The inputs of an election.
//!
//! The caller of an election follows these rules:
//!
//! - Before the first decision, it reports the first lists of Leases and of candidates: an election cannot wait for a
//!   candidate that it does not know.
//! - It carries out all actions of one decision. Before the next decision on the same Lease, it reports the outcome of
//!   each: the answer of a request that succeeded, or [`Observation::Failed`].
//! - It gives each request a deadline. A request that hangs has failed at its deadline.
//! - After a conflict, it reads the object live and reports the result. A conflict is not a failure.
//!
//! Status writes are the exception. No decision waits for their outcomes, and a conflict is a failure. If several
//! status writes for one candidate are pending, the caller may drop all but the newest.

use std::sync::Arc;

use crate::model::{CandidateKey, CandidateRecord, LeaseRecord, Moment, NodeRecord, PodRecord};

/// An input of the election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// A version of the Lease.
    Lease {
        /// Its content.
        record: LeaseRecord,
        /// Where it was observed.
        source: Source,
    },
    /// There is no such Lease: the watch reports its deletion, a list does not contain it, or a read answered 404.
    LeaseMissing {
        /// Where it is missing. From the watch, this may only mean that the Lease has lost its label.
        source: Source,
    },
    /// A version of a candidate.
    Candidate {
        /// Its content.
        record: CandidateRecord,
        /// Where it was observed.
        source: Source,
    },
    /// There is no such candidate, or it was deleted.
    CandidateMissing {
        /// Its kind and name.
        candidate: CandidateKey,
        /// Where it is missing.
        source: Source,
    },
    /// A version of a Pod, which may be its last one. That a list lacks a Pod is no observation: it proves nothing.
    Pod {
        /// Its content.
        record: Arc<PodRecord>,
    },
    /// A version of a Node.
    Node {
        /// Its content.
        record: NodeRecord,
    },
    /// A request failed for a reason other than a conflict or a missing object: it was refused, timed out, or the
    /// server was unavailable. A failed write may still take effect later; the watch then reports it.
    Failed {
        /// What the request was about.
        target: Target,
    },
}

/// Where something was observed.
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
    /// In the answer to a write of a candidate's status. Any other request may have overtaken it.
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
    /// A candidate.
    Candidate(CandidateKey),
    /// The status of a candidate.
    Status(CandidateKey),
}

impl Source {
    /// When the request of this answer was sent.
    pub const fn sent(self) -> Option<Moment> {
        match self {
            Self::Watch => None,
            Self::Read { sent } | Self::Written { sent } | Self::StatusWritten { sent } => Some(sent),
        }
    }
}
