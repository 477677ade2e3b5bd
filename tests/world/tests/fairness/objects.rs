//! Objects of a test, put into the model of the API server.

use http::{HeaderMap, Method, StatusCode};
use hustings_world::server::Server;
use serde_json::{Value, json};

/// When holders renewed before the test.
const RENEWED: &str = "2023-11-14T22:13:20.000000Z";

/// A Lease whose holder is silent, with another candidate.
pub(crate) fn put_silent(server: &Server, namespace: &str, lease: &str) {
    let metadata = json!({ "name": lease, "labels": { "hustings.io/enrolled": "true" } });
    let held = json!({ "holderIdentity": "silent", "leaseDurationSeconds": 15, "renewTime": RENEWED });
    let object = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": held });
    post(server, namespace, "coordination.k8s.io/v1", "leases", &object);
    let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
    let kind = ("hustings.io/v1alpha1", "LeaseCandidate", "leasecandidates");
    create(server, kind, namespace, &format!("{lease}-b"), &spec);
}

/// A Lease that needs writes of every kind: it lacks the label, and neither its holder nor its other candidate ever
/// answers.
pub(crate) fn put_hostile(server: &Server, namespace: &str, lease: &str) {
    let spec = json!({ "holderIdentity": format!("{lease}-a"), "leaseDurationSeconds": 15, "renewTime": RENEWED });
    create(server, ("coordination.k8s.io/v1", "Lease", "leases"), namespace, lease, &spec);
    for name in ["a", "b"] {
        let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
        let kind = ("hustings.io/v1alpha1", "LeaseCandidate", "leasecandidates");
        create(server, kind, namespace, &format!("{lease}-{name}"), &spec);
    }
}

fn create(server: &Server, kind: (&str, &str, &str), namespace: &str, name: &str, spec: &Value) {
    let (version, kind, plural) = kind;
    let object = json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec });
    post(server, namespace, version, plural, &object);
}

fn post(server: &Server, namespace: &str, version: &str, plural: &str, object: &Value) {
    let path = format!("/apis/{version}/namespaces/{namespace}/{plural}").parse().unwrap();
    let answer = server.execute(&Method::POST, &path, &HeaderMap::new(), object.to_string().as_bytes());
    assert_eq!(answer.status(), StatusCode::CREATED);
}
