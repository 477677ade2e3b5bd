//! What an elector knows of its candidate, and what it does about it.

use crate::elector::plan::PlannedRequest;
use crate::model::{CandidateRecord, WireTime};

/// What is known about the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum KnownCandidate {
    /// Nothing was tried yet. The elector creates the candidate without a read: most candidates do not exist before
    /// their process does, and a conflict reveals one that does.
    Untried,
    Unknown,
    Missing {
        /// Whether a live request found that. A watch may begin with a list that is older than the creation.
        live: bool,
    },
    Seen(Box<CandidateRecord>),
}

/// The request that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingRequest {
    pub(super) request: PlannedRequest,
    pub(super) task: CandidateTask,
}

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CandidateTask {
    Read,
    Create,
    Renew(Renewal),
    Delete { uid: String },
}

/// A write of a new renew time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewal {
    pub(super) uid: String,
    pub(super) renew_time: WireTime,
    /// The ping that it answers.
    pub(super) ping: Option<WireTime>,
}
