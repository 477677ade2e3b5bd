//! The decision of an election: actions, the next deadline, and verdicts, all as values.

use std::sync::Arc;

use super::{CandidateVerdict, Event, LeaseVerdict, Timer};
use crate::model::{CandidateKey, LeaseWrite, Moment, RecordedStatus, WireTime};

/// One decision about a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The actions to perform. They may run concurrently and in any order.
    pub actions: Vec<Action>,
    /// The latest time of the next decision, even without an observation. Never later than the requeue interval.
    pub deadline: Moment,
    /// The timer that expires at the deadline.
    pub timer: Timer,
    /// The state of the Lease.
    pub lease: LeaseVerdict,
    /// The candidates that have just missed a ping: they did not answer it within its window.
    pub missed: Vec<CandidateKey>,
    /// The verdict on each candidate, in the order of their ranks. Candidates that are not admissible come last.
    pub candidates: Vec<CandidateVerdict>,
}

/// An output of the election. The caller carries it out and reports the outcome as an
/// [`Observation`](super::Observation).
#[expect(clippy::large_enum_variant, reason = "a decision has few actions, and at most one of them writes the Lease")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read the Lease live.
    ReadLease,
    /// Read the candidate live.
    ReadCandidate {
        /// Its kind and name.
        candidate: CandidateKey,
    },
    /// Create the Lease as [`LeaseRecord::as_created`](crate::model::LeaseRecord::as_created) specifies.
    CreateLease,
    /// Write the Lease, conditional on the version in the write.
    WriteLease {
        /// The write.
        write: LeaseWrite,
        /// The event to publish after the write has succeeded.
        event: Option<Event>,
    },
    /// Set `spec.pingTime`, conditional only on the uid.
    Ping {
        /// Its kind and name.
        candidate: CandidateKey,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// The new value.
        ping_time: WireTime,
    },
    /// Replace `status`, conditional only on the uid.
    PatchStatus {
        /// Its kind and name.
        candidate: CandidateKey,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// The new status.
        status: RecordedStatus,
    },
    /// Delete the candidate, whose process no longer answers.
    DeleteCandidate {
        /// Its kind and name.
        candidate: CandidateKey,
        /// The uid on which the deletion is conditional.
        uid: Arc<str>,
        /// The version on which the deletion is conditional.
        resource_version: u64,
    },
    /// Read the Pod of a silent holder live.
    ReadPod {
        /// `metadata.name`.
        pod: Arc<str>,
    },
    /// Read the Node of a silent holder live.
    ReadNode {
        /// `metadata.name`.
        node: Arc<str>,
    },
    /// Publish an event.
    Event(Event),
}
