//! The decision of an election: actions, the next deadline, and verdicts, all as values.

use std::sync::Arc;

use super::plan::Plan;
use super::{CandidateVerdict, Event, LeaseVerdict, Timer};
use crate::model::{CandidateKey, Moment, RecordedStatus, Request};

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

impl Decision {
    /// The decision of a finished plan, without candidates.
    pub(super) fn of(plan: Plan, lease: LeaseVerdict) -> Self {
        let (deadline, timer) = plan.next.unwrap_or((plan.now.moment, Timer::Requeue));
        Self { actions: plan.actions, deadline, timer, lease, missed: Vec::new(), candidates: Vec::new() }
    }
}

/// An output of the election. The caller carries it out and reports the outcome as an
/// [`Observation`](super::Observation).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send this request to the store.
    Send {
        /// The request.
        request: Request,
        /// The event to publish after it has succeeded.
        event: Option<Event>,
    },
    /// Replace `status`, conditional only on the uid. The caller knows the times of its conditions
    /// ([`CandidatePatch::Status`](crate::model::CandidatePatch::Status)).
    PatchStatus {
        /// Its kind and name.
        candidate: CandidateKey,
        /// `metadata.uid`.
        uid: Arc<str>,
        /// The new status.
        status: RecordedStatus,
    },
    /// Publish an event.
    Event(Event),
}

impl From<Request> for Action {
    fn from(request: Request) -> Self {
        Self::Send { request, event: None }
    }
}
