//! LeaseCandidates on the wire: their creation, and the merge patches that change them.
//!
//! Each patch contains only the fields that its writer owns. Once the object exists, its last writer owns its priority,
//! and the controller owns `pingTime` and `status`.

use hustings_core::model::{CandidatePatch, CandidateState, Condition, Nomination, Pod, RecordedStatus, WireTime};
use kube_core::Resource;
use serde_json::{Map, Value, json};

use super::candidate::ReadCandidate;
use super::names;
use super::timestamp::MicroTime;

/// Returns the object to create for a candidate.
pub fn new_candidate(namespace: &str, nomination: &Nomination, renew_time: WireTime) -> Value {
    let mut metadata = metadata(nomination);
    metadata.insert("namespace".to_owned(), json!(namespace));
    metadata.insert("name".to_owned(), json!(nomination.name));
    let mut spec = spec(nomination, renew_time);
    spec.retain(|_, value| !value.is_null());
    spec.insert("leaseName".to_owned(), json!(nomination.lease_name));
    if let Some(priority) = nomination.priority {
        spec.insert("priority".to_owned(), json!(priority));
    }
    json!({
        "apiVersion": ReadCandidate::api_version(&()),
        "kind": ReadCandidate::kind(&()),
        "metadata": metadata,
        "spec": spec,
    })
}

/// Returns the merge patch that changes the candidate with this uid. It has no other precondition, because each field
/// has one writer.
pub fn candidate_patch(uid: &str, patch: &CandidatePatch) -> Value {
    let of_uid = json!({ "uid": uid });
    match patch {
        CandidatePatch::Ping(time) => json!({ "metadata": of_uid, "spec": { "pingTime": MicroTime(*time) } }),
        CandidatePatch::Renew(time) => json!({ "metadata": of_uid, "spec": { "renewTime": MicroTime(*time) } }),
        CandidatePatch::Refresh { nomination, renew_time } => {
            let mut metadata = metadata(nomination);
            metadata.insert("uid".to_owned(), json!(uid));
            json!({ "metadata": metadata, "spec": spec(nomination, *renew_time) })
        }
        CandidatePatch::Status { status, since } => json!({ "metadata": of_uid, "status": status_of(status, since) }),
    }
}

fn metadata(nomination: &Nomination) -> Map<String, Value> {
    let mut metadata = Map::new();
    let annotations = json!({
        names::LEASE_DURATION: nomination.lease_duration_seconds.to_string(),
        names::SESSION: nomination.session,
    });
    metadata.insert("annotations".to_owned(), annotations);
    if let Some(Pod { name, uid }) = &nomination.pod {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid });
        metadata.insert("ownerReferences".to_owned(), json!([owner]));
    }
    metadata
}

/// The fields that depend on the program. In a patch, null removes a field.
fn spec(nomination: &Nomination, renew_time: WireTime) -> Map<String, Value> {
    let mut spec = Map::new();
    spec.insert("binaryVersion".to_owned(), json!(nomination.binary_version));
    spec.insert("emulationVersion".to_owned(), json!(nomination.emulation_version));
    spec.insert("strategy".to_owned(), json!(nomination.strategy));
    spec.insert("renewTime".to_owned(), json!(MicroTime(renew_time)));
    spec
}

fn status_of(status: &RecordedStatus, since: &[WireTime; 3]) -> Value {
    let conditions = [&status.admissible, &status.responsive, &status.leading];
    let conditions: Vec<Value> = names::CONDITIONS
        .iter()
        .zip(conditions)
        .zip(status.condition_messages())
        .zip(since)
        .map(|(((type_, Condition { status, reason }), message), since)| {
            // No observedGeneration: pings and answers raise the generation, and `kubectl wait` ignores a condition
            // whose observedGeneration is lower.
            json!({
                "type": type_,
                "status": status.as_str(),
                "reason": reason,
                "message": message,
                "lastTransitionTime": seconds(*since),
            })
        })
        .collect();
    json!({
        "state": status.state.map(CandidateState::as_str),
        "message": status.message,
        "unresponsiveSince": status.unresponsive_since.map(MicroTime),
        "dampingCount": i32::try_from(status.damping_count).unwrap_or(i32::MAX),
        "dampedUntil": status.damped_until.map(MicroTime),
        "conditions": conditions,
    })
}

/// Formats a timestamp in whole seconds, as conditions require.
fn seconds(time: WireTime) -> String {
    // Only times beyond the year 9999 are out of range.
    let time = jiff::Timestamp::from_second(time.as_micros().div_euclid(1_000_000));
    time.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use hustings_core::model::Truth;

    use super::*;

    fn nomination() -> Nomination {
        Nomination {
            name: "a".to_owned(),
            lease_name: "l".to_owned(),
            binary_version: "1.32.0".to_owned(),
            emulation_version: Some("1.31".to_owned()),
            strategy: None,
            priority: Some(3),
            lease_duration_seconds: 15,
            session: "s".to_owned(),
            pod: Some(Pod { name: "a".to_owned(), uid: "p".to_owned() }),
        }
    }

    #[test]
    fn a_candidate_is_created_whole() {
        assert_eq!(
            new_candidate("n", &nomination(), WireTime::from_micros(1)),
            json!({
                "apiVersion": "hustings.io/v1alpha1",
                "kind": "LeaseCandidate",
                "metadata": {
                    "namespace": "n", "name": "a",
                    "annotations": { "hustings.io/lease-duration": "15", "hustings.io/session": "s" },
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p" }],
                },
                "spec": {
                    "leaseName": "l", "binaryVersion": "1.32.0", "emulationVersion": "1.31", "priority": 3,
                    "renewTime": "1970-01-01T00:00:00.000001Z",
                },
            })
        );
    }

    #[test]
    fn a_priority_of_zero_is_written_and_a_missing_one_is_left_to_others() {
        for (priority, written) in [(Some(0), Some(&json!(0))), (None, None)] {
            let nomination = Nomination { priority, ..nomination() };
            let created = new_candidate("n", &nomination, WireTime::default());
            assert_eq!(created["spec"].get("priority"), written);
        }
    }

    #[test]
    fn a_count_beyond_the_range_of_the_field_is_clamped() {
        let status = Box::new(RecordedStatus { damping_count: u32::MAX, ..RecordedStatus::default() });
        let patch = candidate_patch("u", &CandidatePatch::Status { status, since: [WireTime::default(); 3] });
        assert_eq!(patch["status"]["dampingCount"], i32::MAX);
    }

    #[test]
    fn a_refresh_leaves_the_priority_and_the_pings_alone() {
        let patch = candidate_patch(
            "u",
            &CandidatePatch::Refresh { nomination: Box::new(nomination()), renew_time: WireTime::from_micros(1) },
        );
        assert_eq!(
            patch["spec"],
            json!({
                "binaryVersion": "1.32.0", "emulationVersion": "1.31", "strategy": null,
                "renewTime": "1970-01-01T00:00:00.000001Z",
            })
        );
        assert_eq!(patch["metadata"]["annotations"]["hustings.io/session"], "s", "it is another process");
        assert_eq!((&patch["metadata"]["uid"], patch["metadata"].get("name")), (&json!("u"), None));
    }

    #[test]
    fn a_ping_and_its_answer_change_one_field_each() {
        let time = WireTime::from_micros(1);
        for (patch, field) in [(CandidatePatch::Ping(time), "pingTime"), (CandidatePatch::Renew(time), "renewTime")] {
            let spec = json!({ field: "1970-01-01T00:00:00.000001Z" });
            assert_eq!(candidate_patch("u", &patch), json!({ "metadata": { "uid": "u" }, "spec": spec }));
        }
    }

    #[test]
    fn a_candidate_declares_the_duration_of_its_own_lease() {
        let nomination = Nomination { lease_duration_seconds: 60, ..nomination() };
        let created = new_candidate("n", &nomination, WireTime::default());
        assert_eq!(created["metadata"]["annotations"]["hustings.io/lease-duration"], "60");
    }

    #[test]
    fn a_status_names_each_condition_and_the_end_of_a_damping() {
        let condition = |status, reason: &str| Condition { status, reason: reason.to_owned() };
        let status = Box::new(RecordedStatus {
            admissible: condition(Truth::True, "Admissible"),
            responsive: condition(Truth::Unknown, "NotAsked"),
            leading: condition(Truth::False, "Damped"),
            message: "Why.".to_owned(),
            damping_count: 2,
            unresponsive_since: Some(WireTime::from_micros(6_000_000)),
            damped_until: Some(WireTime::from_micros(8_000_000)),
            ..RecordedStatus::default()
        });
        let since = [1, 2, 3].map(|seconds| WireTime::from_micros(seconds * 1_000_000));
        let patch = candidate_patch("u", &CandidatePatch::Status { status, since });
        let status = &patch["status"];
        assert_eq!(
            (&status["dampingCount"], &status["dampedUntil"]),
            (&json!(2), &json!("1970-01-01T00:00:08.000000Z"))
        );
        assert_eq!(
            (&status["unresponsiveSince"], &status["message"]),
            (&json!("1970-01-01T00:00:06.000000Z"), &json!("Why."))
        );
        let conditions = status["conditions"].as_array().unwrap();
        let shown = conditions
            .iter()
            .map(|each| json!([each["type"], each["status"], each["reason"], each["lastTransitionTime"]]));
        let expected = [
            json!(["Admissible", "True", "Admissible", "1970-01-01T00:00:01Z"]),
            json!(["Responsive", "Unknown", "NotAsked", "1970-01-01T00:00:02Z"]),
            json!(["Leading", "False", "Damped", "1970-01-01T00:00:03Z"]),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert_eq!(conditions[2]["message"], "Why.");
        assert!(conditions.iter().all(|each| each.get("observedGeneration").is_none()), "kubectl would wait in vain");
    }

    #[test]
    fn a_status_removes_the_fields_that_no_longer_apply() {
        let status = Box::new(RecordedStatus::default());
        let patch =
            candidate_patch("u", &CandidatePatch::Status { status, since: [WireTime::from_micros(5_999_999); 3] });
        assert_eq!(patch["metadata"], json!({ "uid": "u" }));
        // A merge patch removes a field by null. A field that it does not contain would stay.
        for field in ["state", "unresponsiveSince", "dampedUntil"] {
            assert_eq!(patch["status"].get(field), Some(&Value::Null), "{field}");
        }
        assert_eq!(patch["status"]["dampingCount"], 0);
        assert_eq!(patch["status"]["conditions"][2]["lastTransitionTime"], "1970-01-01T00:00:05Z");
    }
}
