//! A candidate's `status` on the wire.
//!
//! The election decides the content of the status, but it does not keep the conditions' `lastTransitionTime`. This
//! module carries those times over from one version of the object to the next.

use hustings_client::api::{LeaseCandidateStatus, MicroTime};
use hustings_core::model::{CandidateState, Condition, RecordedStatus, Truth, WireTime};
use serde_json::{Value, json};

const TYPES: [&str; 3] = ["Admissible", "Responsive", "Leading"];

/// The `lastTransitionTime` of each condition, with the value that the condition has had since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transitions([Option<(Truth, WireTime)>; 3]);

impl Transitions {
    /// Reads the conditions of the object's status.
    pub(super) fn read(status: &LeaseCandidateStatus) -> Self {
        Self(TYPES.map(|type_| {
            let condition = status.conditions.iter().find(|condition| condition.type_ == type_)?;
            let since = WireTime::from_micros(condition.last_transition_time.0.as_microsecond());
            Some((Truth::read(&condition.status), since))
        }))
    }

    /// The `lastTransitionTime` of the condition `index` when it is written with the value `status` at `now`.
    fn since(&self, index: usize, status: Truth, now: WireTime) -> WireTime {
        match self.0.get(index) {
            Some(Some((former, since))) if *former == status => *since,
            _ => now,
        }
    }
}

/// Returns the merge patch that replaces the status of the candidate with this uid.
pub(super) fn patch(uid: &str, status: &RecordedStatus, former: &Transitions, now: WireTime) -> Value {
    let conditions = [&status.admissible, &status.responsive, &status.leading];
    let conditions: Vec<Value> = TYPES
        .iter()
        .zip(conditions)
        .enumerate()
        .map(|(index, (type_, Condition { status, reason }))| {
            json!({
                "type": type_,
                "status": status.as_str(),
                "reason": reason,
                "message": "",
                "lastTransitionTime": seconds(former.since(index, *status, now)),
            })
        })
        .collect();
    json!({
        "metadata": { "uid": uid },
        "status": {
            "state": status.state.map(CandidateState::as_str),
            "message": status.message,
            "unresponsiveSince": status.unresponsive_since.map(MicroTime),
            "dampingCount": i32::try_from(status.damping_count).unwrap_or(i32::MAX),
            "dampedUntil": status.damped_until.map(MicroTime),
            "conditions": conditions,
        },
    })
}

/// Formats a timestamp in whole seconds, as conditions have it.
fn seconds(time: WireTime) -> String {
    // Only times beyond the year 9999 are out of range.
    let time = jiff::Timestamp::from_second(time.as_micros().div_euclid(1_000_000));
    time.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
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
        let written = patch("u", &status, &Transitions::default(), WireTime::from_micros(5_999_999));
        assert_eq!(written["metadata"]["uid"], "u");
        assert_eq!(written["status"]["conditions"][2]["lastTransitionTime"], "1970-01-01T00:00:05Z");
        let written: LeaseCandidateStatus = serde_json::from_value(written["status"].clone()).unwrap();

        status.leading = condition(Truth::True, "Leads");
        status.admissible.reason = "Other".to_owned();
        let later = WireTime::from_micros(9_000_000);
        let conditions = &patch("u", &status, &Transitions::read(&written), later)["status"]["conditions"];
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:05Z", "only the reason changed");
        assert_eq!(conditions[2]["lastTransitionTime"], "1970-01-01T00:00:09Z");
    }

    #[test]
    fn fields_that_no_longer_apply_are_removed() {
        let written = patch("u", &RecordedStatus::default(), &Transitions::default(), WireTime::from_micros(0));
        assert_eq!(written["status"]["unresponsiveSince"], Value::Null);
        assert_eq!(written["status"]["dampingCount"], 0);
        assert_eq!(written["status"]["dampedUntil"], Value::Null);
    }
}
