//! LeaseCandidates of `coordination.k8s.io` on the wire: the candidates of Kubernetes' own components.
//!
//! Both served versions have the same fields. They have neither a status nor a priority. Their owners are client-go's
//! electors, which answer a ping only if `pingTime` is later than `renewTime`.

use std::borrow::Cow;

use hustings_core::model::{CandidateKind, CandidateRecord};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{DynamicResourceScope, Resource};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::candidate::{LeaseCandidateStatus, ReadCandidate, common_fields};
use super::names;
use super::object::ObjectParts;
use super::reading::{cut, text};

/// A version of the API `coordination.k8s.io` that serves LeaseCandidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NativeVersion {
    /// `v1beta1`, since Kubernetes 1.33.
    #[default]
    V1beta1,
    /// `v1alpha2`, since Kubernetes 1.32.
    V1alpha2,
}

impl NativeVersion {
    /// Every version, the newest first.
    pub const ALL: [Self; 2] = [Self::V1beta1, Self::V1alpha2];

    /// The version as the API server spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1beta1 => "v1beta1",
            Self::V1alpha2 => "v1alpha2",
        }
    }
}

/// A native LeaseCandidate as read from the server. Deserialising never fails, so that a watch never stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadNativeCandidate {
    /// The object's metadata, without `managedFields`.
    pub metadata: ObjectMeta,
    /// The fields that the election uses.
    pub record: CandidateRecord,
}

impl ReadNativeCandidate {
    /// Reads a candidate. Accepts any JSON.
    pub fn from_json(object: Value) -> Self {
        ObjectParts::from_json(object).into()
    }
}

/// The same candidate, with an empty status.
impl From<ReadNativeCandidate> for ReadCandidate {
    fn from(ReadNativeCandidate { metadata, record }: ReadNativeCandidate) -> Self {
        Self { metadata, record, status: LeaseCandidateStatus::default() }
    }
}

impl From<ObjectParts> for ReadNativeCandidate {
    fn from(ObjectParts { metadata, spec, .. }: ObjectParts) -> Self {
        let spec = &spec;
        let some = |field| text(spec, field).filter(|text| !text.is_empty()).map(cut);
        let record = CandidateRecord {
            emulation_version: some("emulationVersion"),
            strategy: some("strategy"),
            ..common_fields(CandidateKind::Native, &metadata, spec)
        };
        Self { metadata, record }
    }
}

impl<'de> Deserialize<'de> for ReadNativeCandidate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ObjectParts::deserialize(deserializer).map(Self::from)
    }
}

impl Resource for ReadNativeCandidate {
    type DynamicType = NativeVersion;
    // kube has no other scope for types whose version is known only at run time.
    type Scope = DynamicResourceScope;

    fn kind(_: &NativeVersion) -> Cow<'_, str> {
        "LeaseCandidate".into()
    }

    fn group(_: &NativeVersion) -> Cow<'_, str> {
        names::NATIVE_GROUP.into()
    }

    fn version(version: &NativeVersion) -> Cow<'_, str> {
        version.as_str().into()
    }

    fn plural(_: &NativeVersion) -> Cow<'_, str> {
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
    use hustings_core::model::WireTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_native_candidate_is_read() {
        let read = ReadNativeCandidate::from_json(json!({
            "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate",
            "metadata": {
                "name": "host_1f", "uid": "u", "resourceVersion": "9", "creationTimestamp": "1970-01-01T00:00:05Z",
                "annotations": { "hustings.io/session": "s", "hustings.io/lease-duration": "20" },
            },
            "spec": {
                "leaseName": "l", "binaryVersion": "1.36.0", "emulationVersion": "1.35.0", "priority": 4,
                "strategy": "OldestEmulationVersion", "pingTime": "1970-01-01T00:00:07.000000Z",
                "renewTime": "1970-01-01T00:00:08.000000Z",
            },
            "status": { "state": "Holder" },
        }));
        let expected = CandidateRecord {
            kind: CandidateKind::Native,
            name: "host_1f".to_owned(),
            uid: "u".to_owned(),
            resource_version: 9,
            creation_time: WireTime::from_micros(5_000_000),
            lease_name: "l".to_owned(),
            binary_version: "1.36.0".to_owned(),
            emulation_version: Some("1.35.0".to_owned()),
            strategy: Some("OldestEmulationVersion".to_owned()),
            ping_time: Some(WireTime::from_micros(7_000_000)),
            renew_time: Some(WireTime::from_micros(8_000_000)),
            ..CandidateRecord::default()
        };
        assert_eq!(read.record, expected, "a native candidate has no priority, session, duration or status");
    }

    #[test]
    fn a_native_candidate_has_its_owner_its_exclusion_and_its_kind() {
        let read = ReadNativeCandidate::from_json(json!({ "metadata": {
            "name": "a",
            "annotations": { "hustings.io/exclude": "2026-12-31T23:59:59Z: works" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "p" }],
        }}));
        assert!(read.record.owned && read.record.acts.exclude.is_some());
        assert!(!ReadNativeCandidate::from_json(json!({ "metadata": { "ownerReferences": [] } })).record.owned);
        assert_eq!(ReadNativeCandidate::kind(&NativeVersion::V1beta1), "LeaseCandidate");
        assert_eq!(read.meta().name.as_deref(), Some("a"));
    }

    #[test]
    fn a_native_candidate_of_any_content_is_read() {
        let read: ReadNativeCandidate = serde_json::from_value(json!({
            "metadata": { "name": "a", "generation": "x" },
            "spec": { "leaseName": 5, "emulationVersion": "", "renewTime": null, "pingTime": "9999-12-31T23:59:59Z" },
        }))
        .unwrap();
        assert_eq!((read.record.lease_name.as_str(), read.record.emulation_version), ("", None));
        assert_eq!((read.record.renew_time, read.record.ping_time), (None, Some(WireTime::MAX)));
        for value in [json!(null), json!([]), json!({ "metadata": 3, "spec": "x" })] {
            assert_eq!(ReadNativeCandidate::from_json(value).record.kind, CandidateKind::Native);
        }
    }

    #[test]
    fn each_version_has_its_path() {
        let paths = NativeVersion::ALL.map(|version| ReadNativeCandidate::url_path(&version, Some("n")));
        assert_eq!(
            paths,
            [
                "/apis/coordination.k8s.io/v1beta1/namespaces/n/leasecandidates",
                "/apis/coordination.k8s.io/v1alpha2/namespaces/n/leasecandidates"
            ]
        );
    }
}
