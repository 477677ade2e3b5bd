//! A status to write, and the times of its conditions.
//!
//! The election decides the content of the status, but it does not keep the conditions' `lastTransitionTime`. This
//! module carries those times over from one version of the object to the next.

use std::sync::Arc;

use hustings_client::api::LeaseCandidateStatus;
use hustings_client::api::names::CONDITIONS;
use hustings_core::model::{CandidateKey, RecordedStatus, Truth, WireTime};

use super::key::LeaseKey;

/// A status to write.
pub(super) struct StatusWrite {
    /// The Lease for which the candidate stands.
    pub(super) key: LeaseKey,
    /// The candidate.
    pub(super) candidate: CandidateKey,
    /// The candidate's `metadata.uid`, on which the write is conditional.
    pub(super) uid: Arc<str>,
    /// The new status.
    pub(super) status: RecordedStatus,
    /// The transition times of the status that it replaces.
    pub(super) transitions: Transitions,
}

/// The `lastTransitionTime` of each condition, with the value that the condition has had since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transitions([Option<(Truth, WireTime)>; 3]);

impl Transitions {
    /// Reads the conditions of the object's status.
    pub(super) fn read(status: &LeaseCandidateStatus) -> Self {
        Self(CONDITIONS.map(|type_| {
            let condition = status.conditions.iter().find(|condition| condition.type_ == type_)?;
            let since = WireTime::from_micros(condition.last_transition_time.0.as_microsecond());
            Some((Truth::read(&condition.status), since))
        }))
    }

    /// The `lastTransitionTime` of each condition of `status` when it is written at `now`.
    pub(super) fn since(&self, status: &RecordedStatus, now: WireTime) -> [WireTime; 3] {
        let conditions = [&status.admissible, &status.responsive, &status.leading];
        let mut since = [now; 3];
        for ((since, previous), condition) in since.iter_mut().zip(&self.0).zip(conditions) {
            if let Some((previous, unchanged_since)) = previous
                && *previous == condition.status
            {
                *since = *unchanged_since;
            }
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::api::candidate_patch;
    use hustings_client::store::CandidatePatch;
    use hustings_core::model::{CandidateState, Condition};

    use super::*;

    #[test]
    fn a_condition_keeps_its_time_until_its_value_changes() {
        let condition = |status, reason: &str| Condition { status, reason: reason.to_owned() };
        let mut status = RecordedStatus {
            state: Some(CandidateState::Standby),
            message: "Why.".to_owned(),
            admissible: condition(Truth::True, "Admissible"),
            responsive: condition(Truth::Unknown, "NotAsked"),
            leading: condition(Truth::False, "Outranked"),
            ..RecordedStatus::default()
        };
        let first = WireTime::from_micros(5_000_000);
        assert_eq!(Transitions::default().since(&status, first), [first; 3]);
        let patch = CandidatePatch::Status { status: Box::new(status.clone()), since: [first; 3] };
        let written = serde_json::from_value(candidate_patch("u", &patch)["status"].take()).unwrap();

        status.leading = condition(Truth::True, "Leads");
        status.admissible.reason = "Other".to_owned();
        let later = WireTime::from_micros(9_000_000);
        let since = Transitions::read(&written).since(&status, later);
        assert_eq!(since, [first, first, later], "of the first, only the reason changed");
    }
}
