//! The LeaseCandidate of an elector, as it is created and refreshed.
//!
//! A candidate's client writes only the fields that it owns. Once the object exists, its last writer owns its priority,
//! and the controller owns `pingTime` and `status`.

use hustings_core::model::WireTime;
use kube::Resource;
use serde_json::{Map, Value, json};

use crate::api::{MicroTime, ReadCandidate, names};

/// The content of an elector's candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nomination {
    /// The namespace of the Lease, and of the candidate.
    pub namespace: String,
    /// The name of the candidate: the identity under which the elector holds the Lease.
    pub name: String,
    /// `spec.leaseName`.
    pub lease_name: String,
    /// `spec.binaryVersion`.
    pub binary_version: String,
    /// `spec.emulationVersion`.
    pub emulation_version: Option<String>,
    /// `spec.strategy`.
    pub strategy: Option<String>,
    /// `spec.priority` with which the candidate is created.
    pub priority: Option<i32>,
    /// Annotation `hustings.io/lease-duration`.
    pub lease_duration_seconds: u32,
    /// Annotation `hustings.io/session`: the elector instance.
    pub session: String,
    /// The owner.
    pub pod: Option<Pod>,
}

/// The Pod that owns a candidate. Kubernetes deletes the candidate with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl Nomination {
    /// Returns the candidate as it is created.
    pub(crate) fn candidate(&self, renew_time: WireTime) -> Value {
        let mut metadata = self.metadata();
        metadata.insert("namespace".to_owned(), json!(self.namespace));
        metadata.insert("name".to_owned(), json!(self.name));
        let mut spec = self.spec();
        spec.retain(|_, value| !value.is_null());
        spec.insert("leaseName".to_owned(), json!(self.lease_name));
        spec.insert("renewTime".to_owned(), json!(MicroTime(renew_time)));
        if let Some(priority) = self.priority {
            spec.insert("priority".to_owned(), json!(priority));
        }
        json!({
            "apiVersion": ReadCandidate::api_version(&()),
            "kind": ReadCandidate::kind(&()),
            "metadata": metadata,
            "spec": spec,
        })
    }

    /// Returns the merge patch that writes this nomination to the candidate with this uid, which another process
    /// created.
    pub(crate) fn refresh_patch(&self, uid: &str, renew_time: WireTime) -> Value {
        let mut metadata = self.metadata();
        metadata.insert("uid".to_owned(), json!(uid));
        let mut spec = self.spec();
        spec.insert("renewTime".to_owned(), json!(MicroTime(renew_time)));
        json!({ "metadata": metadata, "spec": spec })
    }

    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        let annotations = json!({
            names::LEASE_DURATION: self.lease_duration_seconds.to_string(),
            names::SESSION: self.session,
        });
        metadata.insert("annotations".to_owned(), annotations);
        if let Some(Pod { name, uid }) = &self.pod {
            let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid });
            metadata.insert("ownerReferences".to_owned(), json!([owner]));
        }
        metadata
    }

    /// The fields that change with the program; in a patch, null removes one.
    fn spec(&self) -> Map<String, Value> {
        let mut spec = Map::new();
        spec.insert("binaryVersion".to_owned(), json!(self.binary_version));
        spec.insert("emulationVersion".to_owned(), json!(self.emulation_version));
        spec.insert("strategy".to_owned(), json!(self.strategy));
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nomination() -> Nomination {
        Nomination {
            namespace: "n".to_owned(),
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
            nomination().candidate(WireTime::from_micros(1)),
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
    fn a_refresh_leaves_the_priority_and_the_pings_alone() {
        let patch = nomination().refresh_patch("u", WireTime::from_micros(1));
        assert_eq!(
            patch["spec"],
            json!({
                "binaryVersion": "1.32.0", "emulationVersion": "1.31", "strategy": null,
                "renewTime": "1970-01-01T00:00:00.000001Z",
            })
        );
        assert_eq!(patch["metadata"]["annotations"]["hustings.io/session"], "s", "it is another process");
        assert_eq!((&patch["metadata"]["uid"], &patch["metadata"]["name"]), (&json!("u"), &Value::Null));
    }
}
