//! Counts the writes of elections that the server rejected, and those that a policy reverted.

use std::collections::BTreeMap;

use http::Method;
use hustings_client::api::names;
use hustings_core::model::SessionMark;

use super::call::Call;
use super::kind::Kind;

/// Everything that is counted.
pub const REFUSALS: [&str; 5] = [LOST_CLAIM, LOST_TAKE_UP, LOST_GRANT, LOST_RENEWAL, TAKEN_BACK];

// These are writes on a version that another writer has replaced.
const LOST_CLAIM: &str = "lost race for a free Lease";
const LOST_TAKE_UP: &str = "refused take-up";
const LOST_GRANT: &str = "refused grant, hand-over or release";
const LOST_RENEWAL: &str = "refused renewal or request";

/// A write whose field a policy left unchanged.
pub(super) const TAKEN_BACK: &str = "write that a policy took back";

/// The counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(BTreeMap<&'static str, u64>);

impl Refusals {
    pub(super) fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    /// Counts `call`, which the server rejects because it came too late.
    pub(super) fn count_conflict(&mut self, call: &Call) {
        if call.kind != Kind::Lease || call.method != Method::PATCH {
            return;
        }
        let session = call.body["metadata"]["annotations"][names::SESSION].as_str();
        let has_transitions = !call.body["spec"]["leaseTransitions"].is_null();
        self.count(match SessionMark::read(session) {
            SessionMark::Term(_) if has_transitions => LOST_CLAIM,
            SessionMark::Term(_) => LOST_TAKE_UP,
            SessionMark::Open => LOST_GRANT,
            SessionMark::Absent | SessionMark::Unreadable(_) => LOST_RENEWAL,
        });
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.0.clone()
    }
}
