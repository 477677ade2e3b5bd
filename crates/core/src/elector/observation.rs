//! The inputs of an elector.

pub use crate::model::Outcome;
use crate::model::{CandidateRecord, Cause, LeaseRecord};

/// Identifies one request of one elector. The caller reports the result, or the lack of one, under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId(pub u64);

/// An input of the elector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Observation {
    /// A version of the Lease.
    Lease {
        /// Its content.
        record: LeaseRecord,
        /// How it became known.
        source: Source,
    },
    /// There is no such Lease. From a watch this is a hint: the elector then reads the Lease.
    LeaseMissing {
        /// How it became known.
        source: Source,
    },
    /// The outcome of a creation or a write of the Lease.
    LeaseWritten {
        /// The request.
        attempt: AttemptId,
        /// Its outcome.
        outcome: Outcome<LeaseRecord>,
    },
    /// A version of this elector's own candidate.
    Candidate {
        /// Its content.
        record: CandidateRecord,
        /// How it became known.
        source: Source,
    },
    /// This elector's candidate does not exist.
    CandidateMissing {
        /// How it became known.
        source: Source,
    },
    /// The outcome of a write of the candidate.
    CandidateWritten {
        /// The request.
        attempt: AttemptId,
        /// Its outcome.
        outcome: Outcome<CandidateRecord>,
    },
    /// The candidates of this Lease, in answer to a list.
    Candidates {
        /// The request.
        attempt: AttemptId,
        /// Their content; `None` if the cluster does not know the kind LeaseCandidate.
        records: Option<Vec<CandidateRecord>>,
    },
    /// A read or a list got no usable answer.
    ReadFailed(AttemptId),
    /// This elector's preference (direct mode only). The elector asks a holder with a lower preference to hand over.
    /// While it is `None`, the elector never asks.
    Key(Option<i64>),
    /// The work of the last term has ended. The caller must answer every [`Action::StopWork`](super::Action::StopWork) with this, at once if
    /// there is no work.
    WorkStopped,
    /// The running term is no longer wanted: the elector gives it up, stands aside for a while, and campaigns again.
    /// Without a term, this has no effect.
    Resign,
    /// The process is about to end, for this reason: the elector gives up gracefully, and does not campaign again. The
    /// history of the Lease keeps the reason.
    Stop(Cause),
}

/// How a version became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// From a watch or a list, which may lag behind.
    Watch,
    /// From the live read with this number.
    Read(AttemptId),
}
