//! The meaning of the answers of a server and of proxies in front of it.

mod missing;

use http::Response;
use hustings_core::model::{CandidateKey, CandidatePatch, LeaseWrite, Object, Outcome, Purpose, Set, WireTime};
use hustings_wire::failure::Failure;
use hustings_wire::request::{Decoded, encode};
use kube::client::Body;
use kube::core::Status;
use serde_json::json;

use super::*;
use crate::clock::SystemClock;
use crate::store::{candidate_of, lease_of};
use crate::testing::nomination;
use crate::work::gate::GateError;

fn read() -> Request {
    Request::read_lease("l")
}

fn create() -> Request {
    Request::create_lease("l")
}

/// An object as a server returns it.
fn object(api_version: &str, kind: &str, name: &str) -> serde_json::Value {
    let metadata = json!({ "name": name, "namespace": "n", "uid": "u", "resourceVersion": "7" });
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
}

async fn answered(code: u16) -> Answer {
    let service = tower::service_fn(move |_: http::Request<Body>| async move {
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "m" });
        let body = if code == 200 { object("coordination.k8s.io/v1", "Lease", "l") } else { status };
        Ok::<_, std::convert::Infallible>(
            Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
        )
    });
    let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    store.send("n", &read()).await
}

#[tokio::test]
async fn every_answer_has_a_definite_meaning() {
    for (code, expected) in [
        (200, None),
        (400, Some(Outcome::Refused)),
        (403, Some(Outcome::Refused)),
        (404, Some(Outcome::Unknown)),
        (408, Some(Outcome::Unknown)),
        (409, Some(Outcome::Conflict)),
        (422, Some(Outcome::Refused)),
        (429, Some(Outcome::Refused)),
        (500, Some(Outcome::Unknown)),
        (503, Some(Outcome::Unknown)),
        (504, Some(Outcome::Unknown)),
    ] {
        let failure = answered(code).await.err();
        let retryable = failure.as_ref().is_some_and(Failure::is_retryable);
        assert_eq!(retryable, matches!(code, 404 | 408 | 409 | 429 | 500..), "{code}");
        assert_eq!(failure.map(|failure| failure.outcome::<()>()), expected, "{code}");
    }
}

#[tokio::test]
async fn the_pause_that_an_overloaded_server_asks_for_is_read() {
    for seconds in [1, 7] {
        let service = tower::service_fn(move |_: http::Request<Body>| async move {
            let response = Response::builder().status(429).header("Retry-After", seconds);
            Ok::<_, std::convert::Infallible>(response.body(Body::from(b"Too many requests".to_vec())).unwrap())
        });
        let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
        let failure = store.send("n", &read()).await.unwrap_err();
        assert_eq!(failure.retry_after(), Some(Duration::from_secs(seconds)));
        assert_eq!(failure.to_string(), "refused: Too many requests (429); try again later");
    }
    assert_eq!(answered(429).await.unwrap_err().retry_after(), None);
}

#[test]
fn reads_and_the_list_of_candidates_never_come_from_the_cache_of_a_server() {
    let list = Request::ListCandidates { lease_name: "l".to_owned() };
    for request in [read(), Request::ReadCandidate { candidate: "l".into() }, list] {
        let sent = encode("n", &request, NativeVersion::V1beta1).unwrap();
        // A server may answer from its watch cache if the request names a version.
        assert!(!sent.uri().to_string().contains("resourceVersion"), "{sent:?}");
    }
}

#[test]
fn a_deletion_names_uid_and_version_and_a_status_goes_to_its_subresource() {
    let (candidate, uid) = (CandidateKey::hustings("c"), "u".to_owned());
    let delete = Request::DeleteCandidate { candidate, uid, resource_version: Some(7) };
    let sent = encode("n", &delete, NativeVersion::V1beta1).unwrap();
    let options: serde_json::Value = serde_json::from_slice(sent.body()).unwrap();
    assert_eq!(options["preconditions"], json!({ "uid": "u", "resourceVersion": "7" }));

    let status = CandidatePatch::Status { status: Box::default(), since: [WireTime::default(); 3] };
    let patch = Request::patch_candidate(CandidateKey::hustings("c"), "u", status);
    assert!(encode("n", &patch, NativeVersion::V1beta1).unwrap().uri().path().ends_with("/leasecandidates/c/status"));
    let patch = Request::patch_candidate(CandidateKey::hustings("c"), "u", CandidatePatch::Renew(WireTime::default()));
    assert!(encode("n", &patch, NativeVersion::V1beta1).unwrap().uri().path().ends_with("/leasecandidates/c"));
}

/// Its method, path, query and format.
fn encoded(request: &Request) -> String {
    let sent = encode("n", request, NativeVersion::V1beta1).unwrap();
    let query = sent.uri().query().unwrap_or_default().trim_matches('&');
    let format = sent.headers().get(http::header::CONTENT_TYPE).map_or("", |format| format.to_str().unwrap());
    format!("{} {} {query} {format}", sent.method(), sent.uri().path())
}

#[test]
fn each_request_has_its_verb_path_field_manager_and_format() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases";
    const CANDIDATES: &str = "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates";
    let (candidate, current) = (CandidateKey::hustings("c"), LeaseRecord::default());
    let patch = |patch| Request::patch_candidate(candidate.clone(), "u", patch);
    let nomination = nomination("c");
    let status = CandidatePatch::Status { status: Box::default(), since: [WireTime::default(); 3] };
    let merge = "application/merge-patch+json";
    for (request, expected) in [
        (read(), format!("GET {LEASES}/l  ")),
        (create(), format!("POST {LEASES} fieldManager=hustings application/json")),
        (
            Request::write_lease("l", LeaseWrite::new(Purpose::Renew, &current)),
            format!("PATCH {LEASES}/l fieldManager=hustings {merge}"),
        ),
        (Request::ReadCandidate { candidate: candidate.clone() }, format!("GET {CANDIDATES}/c  ")),
        (
            Request::ListCandidates { lease_name: "l".to_owned() },
            format!("GET {CANDIDATES} fieldSelector=spec.leaseName%3Dl&limit=500 "),
        ),
        (
            Request::CreateCandidate { nomination, renew_time: WireTime::default() },
            format!("POST {CANDIDATES} fieldManager=hustings application/json"),
        ),
        (
            patch(CandidatePatch::Ping(WireTime::default())),
            format!("PATCH {CANDIDATES}/c fieldManager=hustings {merge}"),
        ),
        (patch(status), format!("PATCH {CANDIDATES}/c/status fieldManager=hustings {merge}")),
        (
            Request::DeleteCandidate { candidate: candidate.clone(), uid: "u".to_owned(), resource_version: None },
            format!("DELETE {CANDIDATES}/c  application/json"),
        ),
    ] {
        assert_eq!(encoded(&request), expected);
    }
}

#[tokio::test]
async fn the_answer_to_a_write_shows_whether_the_server_keeps_native_fields() {
    let current = LeaseRecord { strategy: Some("OldestEmulationVersion".to_owned()), ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder: Set::To("b".to_owned()), ..LeaseWrite::new(Purpose::Prefer, &current) };
    let write = Request::write_lease("l", write);
    for keeps in [false, true] {
        let service = tower::service_fn(move |request: http::Request<Body>| async move {
            let patch = request.into_body().collect_bytes().await.unwrap();
            let patch: serde_json::Value = serde_json::from_slice(&patch).unwrap();
            assert_eq!(patch["spec"]["preferredHolder"], "b");
            let annotations = json!({ "hustings.io/strategy": "OldestEmulationVersion" });
            let mut answer = object("coordination.k8s.io/v1", "Lease", "l");
            answer["metadata"]["annotations"] = annotations;
            if keeps {
                answer["spec"] = patch["spec"].clone();
            }
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        });
        let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
        assert_eq!(store.keeps_native_fields(), None);
        store.send("n", &write).await.unwrap();
        assert_eq!(store.keeps_native_fields(), Some(keeps));
    }
}

#[tokio::test]
async fn requests_about_native_candidates_go_to_the_version_that_was_last_discovered() {
    let paths = Arc::<std::sync::Mutex<Vec<String>>>::default();
    let asked = Arc::clone(&paths);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path().to_owned();
        let answer = object(&path.split('/').skip(2).take(2).collect::<Vec<_>>().join("/"), "LeaseCandidate", "c");
        asked.lock().unwrap().push(path);
        let answer = answer.to_string();
        async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer.into_bytes()))) }
    });
    let (served, receiver) = watch::channel(None);
    let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    let store = store.native_version(receiver);
    let read = Request::ReadCandidate { candidate: CandidateKey::native("c") };
    for version in NativeVersion::ALL {
        served.send_replace(Some(version));
        store.send("n", &read).await.unwrap();
        let path = format!("/apis/coordination.k8s.io/{}/namespaces/n/leasecandidates/c", version.as_str());
        assert_eq!(paths.lock().unwrap().pop(), Some(path));
    }
}

#[test]
fn a_patch_of_an_object_that_was_replaced_is_a_conflict() {
    let invalid = |field: &str| {
        let causes = json!([{ "reason": "FieldValueInvalid", "message": "m", "field": field }]);
        let status = json!({ "status": "Failure", "reason": "Invalid", "message": "m", "code": 422,
            "details": { "causes": causes } });
        let status: Status = serde_json::from_value(status).unwrap();
        failure_of(kube::Error::Api(status.boxed())).outcome::<()>()
    };
    assert_eq!(invalid("metadata.uid"), Outcome::Conflict);
    assert_eq!(invalid("spec.leaseDurationSeconds"), Outcome::Refused);
}

fn candidate_object(api_version: &str, name: &str) -> serde_json::Value {
    let mut candidate = object(api_version, "LeaseCandidate", name);
    candidate["spec"]["leaseName"] = json!("l");
    candidate
}

/// What a success with this body answers.
fn success(request: &Request, body: &serde_json::Value) -> Answer {
    let (mut exchange, _) = Exchange::begin("n", request, NativeVersion::V1beta1).unwrap();
    match exchange.answered("n", request, 200, None, body.to_string().as_bytes()) {
        Next::Answered(answer) => answer.map(|Decoded { object, .. }| object),
        Next::Ask(request) => panic!("{request:?}"),
    }
}

#[test]
fn a_deletion_that_a_finalizer_delays_leaves_the_object() {
    for (finalizers, is_kept) in [(json!(["example.com/f"]), true), (json!([]), false)] {
        let mut body = candidate_object("hustings.io/v1alpha1", "c");
        body["metadata"]["finalizers"] = finalizers;
        let (candidate, uid) = (CandidateKey::hustings("c"), "u".to_owned());
        let delete = Request::DeleteCandidate { candidate, uid, resource_version: None };
        assert_eq!(success(&delete, &body).unwrap().is_some(), is_kept, "{body}");
    }
}

#[test]
fn the_answers_to_a_creation_and_to_a_list_contain_candidates() {
    let candidate = candidate_object("hustings.io/v1alpha1", "c");
    let create = Request::CreateCandidate { nomination: nomination("c"), renew_time: WireTime::default() };
    let list = Request::ListCandidates { lease_name: "l".to_owned() };
    let items = json!({
        "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidateList", "metadata": { "resourceVersion": "8" },
        "items": [candidate],
    });
    let Ok(Some(Object::Candidate(created))) = success(&create, &candidate) else { panic!("no candidate") };
    let Ok(Some(Object::Candidates(listed))) = success(&list, &items) else { panic!("no candidates") };
    assert_eq!((created.name.as_str(), listed), ("c", vec![created.clone()]));
    let of_other = Request::ListCandidates { lease_name: "other".to_owned() };
    assert!(success(&of_other, &items).is_err(), "a proxy may drop the selector");
}

#[tokio::test]
async fn an_answer_that_is_not_the_object_of_the_request_leaves_the_outcome_of_every_request_unknown() {
    let (candidate, uid) = (CandidateKey::hustings("c"), "u".to_owned());
    let patch = |patch| Request::patch_candidate(candidate.clone(), "u", patch);
    let current = LeaseRecord { resource_version: 6, ..LeaseRecord::default() };
    let status = CandidatePatch::Status { status: Box::default(), since: [WireTime::default(); 3] };
    for request in [
        read(),
        create(),
        Request::write_lease("l", LeaseWrite::new(Purpose::Renew, &current)),
        Request::ReadCandidate { candidate: candidate.clone() },
        Request::ReadCandidate { candidate: CandidateKey::native("c") },
        Request::ListCandidates { lease_name: "l".to_owned() },
        Request::CreateCandidate { nomination: nomination("c"), renew_time: WireTime::default() },
        patch(CandidatePatch::Renew(WireTime::default())),
        patch(CandidatePatch::Ping(WireTime::default())),
        patch(status),
        Request::DeleteCandidate { candidate: candidate.clone(), uid, resource_version: None },
    ] {
        for wrong in [
            json!({ "message": "please sign in" }),
            json!({ "kind": "Status", "apiVersion": "v1", "status": "Success", "code": 200 }),
            object("coordination.k8s.io/v1", "Lease", "other"),
            object("hustings.io/v1alpha1", "LeaseCandidate", "other"),
            object("v1", "Pod", "l"),
        ] {
            let body = wrong.to_string().into_bytes();
            let service = tower::service_fn(move |_: http::Request<Body>| {
                let answer = Response::new(Body::from(body.clone()));
                async move { Ok::<_, std::convert::Infallible>(answer) }
            });
            let client = Client::new(service, "default");
            let store = Kubernetes::new(client, SystemClock::shared(), Duration::from_mins(1));
            let failure = store.send("n", &request).await.expect_err("it is another object");
            assert_eq!(failure.outcome::<()>(), Outcome::Unknown, "{request:?}: {wrong}");
            assert!(failure.to_string().contains("the answer is not "), "{failure}");
        }
    }
}

#[tokio::test]
async fn a_request_without_an_answer_ends_at_its_deadline() {
    let service =
        tower::service_fn(|_: http::Request<Body>| std::future::pending::<Result<Response<Body>, std::io::Error>>());
    let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_millis(20));
    let failure = store.send("n", &create()).await.unwrap_err();
    assert!(matches!(failure, Failure::TimedOut(limit) if limit == Duration::from_millis(20)), "{failure}");
    assert_eq!(failure.outcome::<()>(), Outcome::Unknown);
}

#[tokio::test]
async fn a_request_without_credentials_was_certainly_not_sent() {
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    config.auth_info = serde_json::from_value(json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never",
    }}))
    .unwrap();
    let client = lease_client(config).unwrap();
    let store = Kubernetes::new(client, SystemClock::shared(), Duration::from_mins(1));
    let failure = store.send("n", &create()).await.unwrap_err();
    assert!(failure.to_string().contains("false"), "{failure}");
    assert_eq!((failure.outcome::<()>(), failure.is_retryable()), (Outcome::Refused, true), "{failure}");
}

#[tokio::test]
async fn a_lost_connection_leaves_the_outcome_unknown() {
    let service = tower::service_fn(|_: http::Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("connection reset"))
    });
    let store = Kubernetes::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    let failure = store.send("n", &create()).await.unwrap_err();
    assert_eq!(failure.outcome::<()>(), Outcome::Unknown);
    assert!(failure.to_string().contains("connection reset"), "{failure}");
}

#[test]
fn only_a_write_that_the_gate_sent_has_an_unknown_outcome() {
    let lease: Arc<str> = "n/l".into();
    for (error, expected) in [
        (GateError::NotLeading { lease: lease.clone() }, Outcome::Refused),
        (GateError::TooManyParked { lease: lease.clone(), most: 1 }, Outcome::Refused),
        (GateError::TookTooLong { lease: lease.clone() }, Outcome::Unknown),
        (GateError::LostMeanwhile { lease: lease.clone() }, Outcome::Unknown),
        (GateError::GivenUp { lease }, Outcome::Unknown),
    ] {
        let text = error.to_string();
        let failure = failure_of(kube::Error::Service(error.into()));
        assert_eq!(failure.outcome::<()>(), expected, "{text}");
    }
}

#[test]
fn a_request_about_a_native_candidate_goes_to_its_api_in_the_served_version() {
    let candidate = CandidateKey::native("host_1f");
    let time = WireTime::from_micros(1);
    let ping = Request::patch_candidate(&candidate, "u", CandidatePatch::Ping(time));
    let delete =
        Request::DeleteCandidate { candidate: candidate.clone(), uid: "u".to_owned(), resource_version: Some(7) };
    for request in [Request::ReadCandidate { candidate }, ping.clone(), delete] {
        for version in NativeVersion::ALL {
            let sent = encode("n", &request, version).unwrap();
            let path = format!("/apis/coordination.k8s.io/{}/namespaces/n/leasecandidates/host_1f", version.as_str());
            assert_eq!(sent.uri().path(), path);
        }
    }
    let sent = encode("n", &ping, NativeVersion::V1beta1).unwrap();
    let patch: serde_json::Value = serde_json::from_slice(sent.body()).unwrap();
    let expected = json!({ "metadata": { "uid": "u" }, "spec": { "pingTime": "1970-01-01T00:00:00.000001Z" } });
    assert_eq!(patch, expected);
    let answer = candidate_object("coordination.k8s.io/v1beta1", "host_1f");
    let Ok(Some(Object::Candidate(record))) = success(&ping, &answer) else { panic!("no candidate") };
    assert_eq!(record.key(), CandidateKey::native("host_1f"));
}

#[test]
fn a_request_that_cannot_be_built_is_not_sent() {
    let invalid = kube::core::request::Error::Validation("no name".to_owned());
    let failure = failure_of(kube::Error::BuildRequest(invalid));
    assert_eq!((failure.outcome::<()>(), failure.is_retryable()), (Outcome::Refused, false));
}

#[test]
fn only_a_failure_that_names_a_pause_asks_for_one() {
    let failure = |seconds: u32| {
        let status = json!({ "status": "Failure", "code": 429, "details": { "retryAfterSeconds": seconds } });
        let status: Status = serde_json::from_value(status).unwrap();
        failure_of(kube::Error::Api(status.boxed()))
    };
    assert_eq!((failure(0).retry_after(), failure(2).retry_after()), (None, Some(Duration::from_secs(2))));
}

#[test]
fn an_answer_about_another_object_leaves_the_outcome_unknown() {
    let record = LeaseRecord { uid: "u".to_owned(), ..LeaseRecord::default() };
    let lease = || Ok(Some(Object::Lease(record.clone())));
    assert_eq!(lease_of(lease()).unwrap(), record);
    for failure in [lease_of(Ok(None)).unwrap_err(), candidate_of(lease()).unwrap_err()] {
        assert_eq!(failure.outcome::<()>(), Outcome::Unknown, "{failure}");
    }
}
