//! A decision under construction.

use super::{Action, CandidateVerdict, Decision, LeaseVerdict, Timer};
use crate::model::{CandidateKey, Moment, Now, Request};

/// The actions so far, and the timer that expires first.
#[derive(Debug)]
pub(super) struct DecisionBuilder {
    pub(super) now: Now,
    pub(super) actions: Vec<Action>,
    /// The candidates that have just missed a ping.
    pub(super) missed: Vec<CandidateKey>,
    next: (Moment, Timer),
}

impl DecisionBuilder {
    pub(super) const fn new(now: Now, latest: Moment) -> Self {
        Self { now, actions: Vec::new(), missed: Vec::new(), next: (latest, Timer::Requeue) }
    }

    pub(super) fn act(&mut self, action: impl Into<Action>) {
        self.actions.push(action.into());
    }

    /// Requests another decision at `at`, for the reason `timer`. Ignores a moment that has passed: this decision
    /// already handles what is due.
    pub(super) fn set(&mut self, timer: Timer, at: Moment) {
        if at > self.now.moment {
            self.next = self.next.min((at, timer));
        }
    }

    /// Whether the decision writes or creates the Lease.
    pub(super) fn writes_lease(&self) -> bool {
        let is_write = |request: &Request| matches!(request, Request::WriteLease { .. } | Request::CreateLease { .. });
        self.actions.iter().any(|action| matches!(action, Action::Send { request, .. } if is_write(request)))
    }

    pub(super) fn finish(self, lease: LeaseVerdict, candidates: Vec<CandidateVerdict>) -> Decision {
        let (deadline, timer) = self.next;
        Decision { actions: self.actions, deadline, timer, lease, missed: self.missed, candidates }
    }
}
