//! Objects of a test, put into the model of the API server.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
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

/// A Lease in the term of a holder in the container `main` of a Pod, with another candidate.
pub(crate) fn put_in_pod(server: &Server, namespace: &str, lease: &str) {
    let holder = format!("{lease}-a");
    let metadata = json!({
        "name": lease,
        "labels": { "hustings.io/enrolled": "true" },
        "annotations": { "hustings.io/session": format!("uid-{holder}.main.-.r/1/15"), "hustings.io/token": "1" },
    });
    let spec = json!({
        "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1,
        "acquireTime": RENEWED, "renewTime": RENEWED,
    });
    let object = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec });
    post(server, namespace, "coordination.k8s.io/v1", "leases", &object);
    for name in [holder, format!("{lease}-b")] {
        let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": format!("uid-{name}") });
        let metadata = json!({ "name": name, "ownerReferences": [owner] });
        let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
        let (version, kind, plural) = ("hustings.io/v1alpha1", "LeaseCandidate", "leasecandidates");
        let object = json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec });
        post(server, namespace, version, plural, &object);
    }
}

/// The holder renews, `second` seconds after its term began.
pub(crate) fn renew(server: &Server, namespace: &str, lease: &str, second: u32) {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}").parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
    let renewal = json!({ "spec": { "renewTime": format!("2023-11-14T22:13:{:02}.000000Z", 20 + second) } });
    let answer = server.execute(&Method::PATCH, &path, &headers, renewal.to_string().as_bytes());
    assert_eq!(answer.status(), StatusCode::OK);
}

/// The Pod of a holder whose container ended `second` seconds after its term began.
pub(crate) fn ended_pod(namespace: &str, name: &str, second: u32) -> Value {
    let end =
        json!({ "exitCode": 137, "reason": "Error", "finishedAt": format!("2023-11-14T22:13:{:02}Z", 20 + second) });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "uid": format!("uid-{name}") },
        "spec": { "containers": [] },
        "status": { "containerStatuses": [{
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": end },
        }] },
    })
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
