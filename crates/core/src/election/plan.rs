//! What a plan of an election needs beyond every plan.

use super::{Action, Timer};
use crate::model::Request;

pub(super) type Plan = crate::plan::Plan<Action, Timer>;

impl Plan {
    /// Whether the decision writes or creates the Lease.
    pub(super) fn writes_lease(&self) -> bool {
        let is_write = |request: &Request| matches!(request, Request::WriteLease { .. } | Request::CreateLease { .. });
        self.actions.iter().any(|action| matches!(action, Action::Send { request, .. } if is_write(request)))
    }
}
