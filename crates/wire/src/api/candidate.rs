//! LeaseCandidates on the wire: their status, and how they are read.
//!
//! The server enforces the rules in the schema, but a reader relies on none of them.

#![allow(unreachable_pub, clippy::duplicated_attributes, reason = "both lints misread what the derive writes")]

use std::borrow::Cow;

use hustings_core::model::{
    CandidateKind, CandidateRecord, CandidateState, Pod, RecordedStatus, Truth, Unparsed, WireTime,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube_core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::acts::candidate_acts;
use super::names;
use super::object::ObjectParts;
use super::reading::{
    annotation, annotation_text, cut, note_unparsed_time, owned, resource_version, signed, text, time,
};
use super::timestamp::MicroTime;

/// The controller's last verdict on the candidate. The controller writes it only when it changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "crd", derive(kube::KubeSchema))]
#[serde(rename_all = "camelCase")]
pub struct LeaseCandidateStatus {
    /// state is the candidate's state in its election: Holder (it holds the Lease), Preferred (the holder was asked to
    /// hand over to it), Standby (it is live, and another candidate is better), Unproven (it is not known whether it is
    /// live), Unresponsive (it did not answer a ping within 5 seconds), Damped (it lost the Lease or left a grant
    /// unused, and ranks last for a while) or Invalid (its spec is not valid, as message explains).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "String", extend("enum" = STATES)))]
    pub state: Option<String>,
    /// message explains in a sentence why this candidate leads or does not lead. It has at most 1024 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[cfg_attr(feature = "crd", schemars(length(max = 1024)))]
    pub message: String,
    /// conditions are Admissible (the spec is valid, so the candidate may stand), Responsive (it answered its last
    /// ping; Unknown if it was not pinged) and Leading (it holds the Lease). They have no observedGeneration, because
    /// each ping and each answer changes the generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // No elector reads them.
    #[cfg_attr(not(feature = "controller"), serde(skip_deserializing))]
    #[cfg_attr(feature = "crd", schemars(length(max = 16)))]
    #[cfg_attr(feature = "crd", x_kube(merge_strategy = ListMerge::Map(vec!["type".to_string()])))]
    pub conditions: Vec<Condition>,
    /// unresponsiveSince is the time at which the candidate failed to answer a ping, by the clock of the controller
    /// that sent it. It is absent if the candidate answered its last ping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "MicroTime"))]
    pub unresponsive_since: Option<MicroTime>,
    /// dampingCount is how often the candidate lost the Lease since its last full term: it left a grant unused, let the
    /// Lease expire, took it back after a restart, or gave it up and stayed a candidate. Each time doubles how long it
    /// ranks last, from 30 seconds up to 10 minutes.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "crd", schemars(range(min = 0)))]
    pub damping_count: i32,
    /// dampedUntil is the time until which the candidate ranks last, by the clock of the controller that wrote it. It
    /// stays here when it has passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "crd", schemars(with = "MicroTime"))]
    pub damped_until: Option<MicroTime>,
}

/// The values of `status.state`.
#[cfg(feature = "crd")]
const STATES: [&str; 7] = {
    let mut names = [""; 7];
    let mut index = 0;
    while index < names.len() {
        names[index] = CandidateState::ALL[index].as_str();
        index += 1;
    }
    names
};

/// A LeaseCandidate as read from the server. Deserialising never fails, so that a watch never stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadCandidate {
    /// The object's metadata, without `managedFields`.
    pub metadata: ObjectMeta,
    /// The fields that the election uses.
    pub record: CandidateRecord,
    /// Its status. A status that does not parse counts as empty, and the next write replaces it.
    pub status: LeaseCandidateStatus,
}

impl ReadCandidate {
    /// Reads a candidate. Accepts any JSON.
    pub fn from_json(object: Value) -> Self {
        ObjectParts::from_json(object).into()
    }
}

/// The fields that candidates of both APIs have in the same form.
pub(super) fn common_fields(kind: CandidateKind, metadata: &ObjectMeta, spec: &Value) -> CandidateRecord {
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0.as_microsecond());
    let renew_time = time(spec, "renewTime");
    CandidateRecord {
        kind,
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: resource_version(metadata),
        creation_time: created.map(WireTime::from_micros).unwrap_or_default(),
        owned: metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty()),
        lease_name: owned(spec, "leaseName"),
        binary_version: owned(spec, "binaryVersion"),
        ping_time: time(spec, "pingTime"),
        renew_time,
        unparsed: note_unparsed_time(Unparsed::NONE, spec, "renewTime", renew_time),
        acts: candidate_acts(metadata),
        ..CandidateRecord::default()
    }
}

fn pod_of(owner: &OwnerReference) -> Option<Pod> {
    let is_pod = owner.kind == "Pod" && owner.api_version == "v1";
    is_pod.then(|| Pod { name: cut(&owner.name), uid: cut(&owner.uid) })
}

fn read_condition(conditions: &[Condition], type_: &str) -> hustings_core::model::Condition {
    conditions.iter().find(|condition| condition.type_ == type_).map_or_else(Default::default, |condition| {
        hustings_core::model::Condition { status: Truth::read(&condition.status), reason: cut(&condition.reason) }
    })
}

fn read_state(text: &str) -> Option<CandidateState> {
    CandidateState::ALL.into_iter().find(|state| state.as_str() == text)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl From<ObjectParts> for ReadCandidate {
    fn from(ObjectParts { metadata, spec, status, .. }: ObjectParts) -> Self {
        let status: LeaseCandidateStatus = serde_json::from_value(status).unwrap_or_default();
        let spec = &spec;
        let optional = |field| text(spec, field).map(cut);
        let [admissible, responsive, leading] = names::CONDITIONS.map(|name| read_condition(&status.conditions, name));
        let record = CandidateRecord {
            pod: metadata.owner_references.iter().flatten().find_map(pod_of),
            emulation_version: optional("emulationVersion"),
            strategy: optional("strategy"),
            priority: signed(spec, "priority"),
            lease_duration_seconds: annotation(&metadata, names::LEASE_DURATION),
            session: annotation_text(&metadata, names::SESSION).map(cut),
            status: RecordedStatus {
                state: status.state.as_deref().and_then(read_state),
                message: cut(&status.message),
                unresponsive_since: status.unresponsive_since.map(|time| time.0),
                damping_count: u32::try_from(status.damping_count).unwrap_or(0),
                damped_until: status.damped_until.map(|time| time.0),
                admissible,
                responsive,
                leading,
            },
            ..common_fields(CandidateKind::Hustings, &metadata, spec)
        };
        Self { metadata, record, status }
    }
}

impl<'de> Deserialize<'de> for ReadCandidate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ObjectParts::deserialize(deserializer).map(Self::from)
    }
}

impl kube_core::Resource for ReadCandidate {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "LeaseCandidate".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        names::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "leasecandidates".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::CandidateActs;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_candidate_has_given_a_sign_of_life_when_the_text_of_its_renew_time_has_changed() {
        let renewal =
            |renewed: Value| ReadCandidate::from_json(json!({ "spec": { "renewTime": renewed } })).record.renewal();
        // The schema's `date-time` accepts the first form.
        for (former, next) in [
            (json!("1970-01-01 00:00:02"), json!("1970-01-01 00:00:04")),
            (json!("soon"), json!("later")),
            (json!(1), json!(2)),
        ] {
            assert_ne!(renewal(former), renewal(next));
        }
        assert_eq!(
            renewal(json!("1970-01-01T00:00:02.000000Z")),
            (Some(WireTime::from_micros(2_000_000)), Unparsed::NONE)
        );
    }

    #[test]
    fn a_candidate_is_read() {
        let read = ReadCandidate::from_json(json!({
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": "9", "creationTimestamp": "1970-01-01T00:00:05Z",
                "annotations": { "hustings.io/lease-duration": "20", "hustings.io/session": "s" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p" }],
            },
            "spec": {
                "leaseName": "l", "binaryVersion": "1.32", "emulationVersion": "1.31", "priority": 4,
                "strategy": "OldestEmulationVersion", "pingTime": "1970-01-01T00:00:07.000000Z",
            },
            "status": {
                "state": "Damped", "message": "Why.", "dampingCount": 3,
                "unresponsiveSince": "1970-01-01T00:00:06.000000Z",
                "dampedUntil": "1970-01-01T00:00:08.000000Z",
                "conditions": [{
                    "type": "Leading", "status": "False", "reason": "GrantNotTakenUp", "message": "",
                    "lastTransitionTime": "1970-01-01T00:00:06Z",
                }],
            },
        }));
        let expected = CandidateRecord {
            kind: CandidateKind::Hustings,
            name: "a".to_owned(),
            uid: "u".to_owned(),
            resource_version: 9,
            creation_time: WireTime::from_micros(5_000_000),
            owned: true,
            pod: Some(Pod { name: "a".to_owned(), uid: "p".to_owned() }),
            lease_name: "l".to_owned(),
            binary_version: "1.32".to_owned(),
            emulation_version: Some("1.31".to_owned()),
            strategy: Some("OldestEmulationVersion".to_owned()),
            priority: 4,
            ping_time: Some(WireTime::from_micros(7_000_000)),
            renew_time: None,
            unparsed: Unparsed::NONE,
            lease_duration_seconds: Some(20),
            session: Some("s".to_owned()),
            acts: CandidateActs::default(),
            status: RecordedStatus {
                state: Some(CandidateState::Damped),
                unresponsive_since: Some(WireTime::from_micros(6_000_000)),
                damping_count: 3,
                damped_until: Some(WireTime::from_micros(8_000_000)),
                message: "Why.".to_owned(),
                leading: hustings_core::model::Condition {
                    status: Truth::False,
                    reason: hustings_core::model::Condition::GRANT_NOT_TAKEN_UP.to_owned(),
                },
                ..RecordedStatus::default()
            },
        };
        assert_eq!(read.record, expected);
    }

    #[test]
    fn only_a_pod_of_the_core_group_is_the_pod_of_a_candidate() {
        for (kind, api_version, expected) in
            [("Pod", "v1", true), ("Pod", "example.com/v1", false), ("Node", "v1", false)]
        {
            let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "a", "uid": "p" });
            let read = ReadCandidate::from_json(json!({ "metadata": { "name": "a", "ownerReferences": [owner] } }));
            assert_eq!((read.record.owned, read.record.pod.is_some()), (true, expected), "{kind} {api_version}");
            assert_eq!(kube_core::Resource::meta(&read).name.as_deref(), Some("a"));
        }
        let owner = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": "p" });
        let owners = [owner("ConfigMap", "a"), owner("Pod", "b"), owner("Pod", "c")];
        let read = ReadCandidate::from_json(json!({ "metadata": { "ownerReferences": owners } }));
        assert_eq!(read.record.pod.unwrap().name, "b", "the first Pod among the owners");
    }

    #[test]
    fn a_status_is_written_without_a_count_of_zero() {
        let status = |damping_count| {
            let status = LeaseCandidateStatus { damping_count, ..LeaseCandidateStatus::default() };
            serde_json::to_value(status).unwrap()["dampingCount"].clone()
        };
        assert_eq!((status(0), status(3)), (Value::Null, json!(3)));
    }

    #[test]
    fn a_status_of_another_writer_is_read_as_far_as_it_makes_sense() {
        let record = |status: Value| ReadCandidate::from_json(json!({ "status": status })).record.status;
        assert_eq!(record(json!({ "state": "Asleep", "dampingCount": -1 })), RecordedStatus::default());
        let condition = |type_: &str, status: &str| json!({ "type": type_, "status": status, "reason": "", "message": "", "lastTransitionTime": "1970-01-01T00:00:05Z" });
        let conditions =
            [condition("Responsive", "True"), condition("Admissible", "False"), condition("Leading", "Maybe")];
        let read = record(json!({ "conditions": conditions }));
        let statuses = [read.admissible, read.responsive, read.leading].map(|condition| condition.status);
        assert_eq!(statuses, [Truth::False, Truth::True, Truth::Unknown]);
    }

    #[test]
    fn a_candidate_of_any_content_is_read() {
        let read: ReadCandidate = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "annotations": { "hustings.io/lease-duration": "-1" }, "ownerReferences": [],
            },
            "spec": { "leaseName": 5, "priority": 99_999_999_999_i64, "renewTime": 3, "pingTime": "9999-12-31T23:59:59Z" },
            "status": { "conditions": [{ "lastTransitionTime": "9999-12-31T23:59:59Z" }] },
        }))
        .unwrap();
        assert_eq!((read.record.lease_name.as_str(), read.record.priority), ("", i32::MAX));
        assert_eq!((read.record.renew_time, read.record.ping_time), (Some(WireTime::MAX), Some(WireTime::MAX)));
        assert_eq!((read.record.lease_duration_seconds, read.record.owned), (None, false));
        assert_eq!(read.status, LeaseCandidateStatus::default());
        assert_eq!(ReadCandidate::from_json(Value::Null), ReadCandidate::default());
    }

    #[test]
    fn every_text_is_cut_to_a_kilobyte() {
        let long = "x".repeat(5_000);
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": long, "message": long,
                "lastTransitionTime": "1970-01-01T00:00:05Z",
            })
        };
        let conditions = ["Admissible", "Responsive", "Leading"].map(condition);
        let ReadCandidate { record, .. } = ReadCandidate::from_json(json!({
            "metadata": {
                "annotations": { "hustings.io/session": long },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": long, "uid": long }],
            },
            "spec": { "leaseName": long, "binaryVersion": long, "emulationVersion": long, "strategy": long },
            "status": { "message": long, "conditions": conditions },
        }));
        let (pod, status) = (record.pod.unwrap(), record.status);
        let optional = [record.session, record.emulation_version, record.strategy].map(Option::unwrap_or_default);
        let conditions = [status.admissible, status.responsive, status.leading].map(|condition| condition.reason);
        let required = [record.lease_name, record.binary_version, pod.name, pod.uid, status.message];
        for text in optional.into_iter().chain(conditions).chain(required) {
            assert_eq!(text.len(), 1_024);
        }
    }
}
