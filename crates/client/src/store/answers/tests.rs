//! Right and wrong answers to every request that Hustings sends.

use std::convert::Infallible;

use http::header::ACCEPT;
use serde_json::{Value, json};

use super::*;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases";
const CANDIDATES: &str = "/apis/hustings.io/v1alpha1/namespaces/n/leasecandidates";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

fn request(method: &str, uri: &str, body: &Value) -> Request<Body> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    Request::builder().method(method).uri(uri).body(Body::from(body)).unwrap()
}

/// The answer of a client behind a server that answers each request like this.
async fn answer(request: Request<Body>, status: u16, body: &[u8]) -> Result<Bytes, String> {
    let body = body.to_vec();
    let server = tower::service_fn(move |_: Request<Body>| {
        let answer = Response::builder().status(status).body(Body::from(body.clone())).unwrap();
        async move { Ok::<_, Infallible>(answer) }
    });
    // The second check must not change anything.
    let client = checked(checked(Client::new(server, "n")));
    let answer = client.send(request).await.map_err(|error| error.to_string())?;
    let body = answer.into_body().collect().await.map_err(|error| crate::store::failure::with_causes(&error))?;
    Ok(body.to_bytes())
}

fn object(api_version: &str, kind: &str, namespace: Option<&str>) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": { "name": "a", "uid": "u", "resourceVersion": "7" },
    });
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object
}

fn lease() -> Value {
    object("coordination.k8s.io/v1", "Lease", Some("n"))
}

fn candidate() -> Value {
    object("hustings.io/v1alpha1", "LeaseCandidate", Some("n"))
}

fn list(api_version: &str, kind: &str, items: &[Value]) -> Value {
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "resourceVersion": "9" }, "items": items })
}

fn status(status: &str, name: &str, uid: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": status, "code": 200,
        "details": { "name": name, "group": "hustings.io", "kind": "leasecandidates", "uid": uid } })
}

/// A request, its right answer, and pointers to the parts of that answer that may not be different.
type Row = (Request<Body>, Value, &'static [&'static str]);

fn rows() -> Vec<Row> {
    const TYPES: [&str; 2] = ["/kind", "/apiVersion"];
    const OBJECT: &[&str] = &[
        "/kind",
        "/apiVersion",
        "/metadata/name",
        "/metadata/namespace",
        "/metadata/uid!",
        "/metadata/resourceVersion!",
    ];
    const SAME: &[&str] = &["/kind", "/apiVersion", "/metadata/name", "/metadata/namespace", "/metadata/uid"];
    const GLOBAL: &[&str] = &["/kind", "/apiVersion", "/metadata/name", "/metadata/uid!", "/metadata/resourceVersion!"];
    const LIST: &[&str] = &[
        "/kind",
        "/apiVersion",
        "/metadata/resourceVersion!",
        "/items/0/metadata/namespace",
        "/items/0/metadata/name!",
        "/items/0/metadata/uid!",
        "/items/0/metadata/resourceVersion!",
    ];
    const ONE: &[&str] = &["/kind", "/items/0/metadata/name"];
    let of = |method: &str, uri: String, body: Value| request(method, &uri, &body);
    let conditional = json!({ "metadata": { "resourceVersion": "6" } });
    let with_uid = json!({ "metadata": { "uid": "u" } });
    let native = "/apis/coordination.k8s.io/v1beta1/namespaces/n/leasecandidates";
    let group_list = json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] });
    let resources = json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "hustings.io/v1alpha1",
        "resources": [] });
    let review = json!({ "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": {}, "status": { "allowed": true } });
    let named = json!({ "metadata": { "name": "a" } });
    let mut partial = object("meta.k8s.io/v1", "PartialObjectMetadata", Some("n"));
    let mut labelled = of("PATCH", "/api/v1/namespaces/n/pods/a".to_owned(), json!({}));
    let accepts = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    labelled.headers_mut().insert(ACCEPT, accepts.parse().unwrap());
    partial["metadata"]["labels"] = json!({ "l": "1" });
    vec![
        (of("GET", format!("{LEASES}/a"), Value::Null), lease(), OBJECT),
        (of("POST", LEASES.to_owned(), named.clone()), lease(), OBJECT),
        (of("PATCH", format!("{LEASES}/a"), conditional), lease(), OBJECT),
        (of("GET", format!("{CANDIDATES}/a"), Value::Null), candidate(), OBJECT),
        (of("POST", CANDIDATES.to_owned(), named), candidate(), OBJECT),
        (of("PATCH", format!("{CANDIDATES}/a"), with_uid.clone()), candidate(), SAME),
        (of("PATCH", format!("{CANDIDATES}/a/status"), with_uid), candidate(), SAME),
        (
            of("DELETE", format!("{CANDIDATES}/a"), json!({ "preconditions": { "uid": "u" } })),
            status("Success", "a", "u"),
            &["/status", "/details/name", "/details/uid"],
        ),
        (of("DELETE", format!("{CANDIDATES}/a"), Value::Null), candidate(), OBJECT),
        (
            of("GET", format!("{native}/a"), Value::Null),
            object("coordination.k8s.io/v1beta1", "LeaseCandidate", Some("n")),
            OBJECT,
        ),
        (
            of("GET", format!("{LEASES}?limit=1"), Value::Null),
            list("coordination.k8s.io/v1", "LeaseList", &[lease()]),
            LIST,
        ),
        (
            of("GET", format!("{CANDIDATES}?limit=1"), Value::Null),
            list("hustings.io/v1alpha1", "LeaseCandidateList", &[candidate()]),
            LIST,
        ),
        (
            of("GET", format!("{LEASES}?limit=1&fieldSelector=metadata.name%3Da"), Value::Null),
            list("coordination.k8s.io/v1", "LeaseList", &[lease()]),
            ONE,
        ),
        (of("GET", "/api/v1/namespaces/n/pods/a".to_owned(), Value::Null), object("v1", "Pod", Some("n")), OBJECT),
        (of("GET", "/api/v1/nodes/a".to_owned(), Value::Null), object("v1", "Node", None), GLOBAL),
        (of("GET", "/api/v1/namespaces/a".to_owned(), Value::Null), object("v1", "Namespace", None), GLOBAL),
        (labelled, partial, OBJECT),
        (
            of("GET", "/apis/apps/v1/deployments".to_owned(), Value::Null),
            list("apps/v1", "DeploymentList", &[object("apps/v1", "Deployment", Some("n"))]),
            &["/kind", "/apiVersion", "/metadata/resourceVersion!", "/items/0/kind", "/items/0/apiVersion"],
        ),
        (
            of("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/a".to_owned(), Value::Null),
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition", None),
            GLOBAL,
        ),
        (of("POST", REVIEWS.to_owned(), review.clone()), review, &TYPES),
        (of("GET", "/apis".to_owned(), Value::Null), group_list, &["/kind"]),
        (of("GET", "/apis/hustings.io/v1alpha1".to_owned(), Value::Null), resources, &["/kind", "/groupVersion"]),
    ]
}

/// The right answer with other values at the pointer. One that ends with `!` may be different, but not missing.
fn spoilt(right: &Value, pointer: &str) -> Vec<Value> {
    let place = pointer.trim_end_matches('!');
    let other = if pointer.ends_with('!') { vec![json!("")] } else { vec![json!("other"), json!("")] };
    let zero = place.ends_with("resourceVersion").then(|| json!("0"));
    let with = |value: Value| {
        let mut wrong = right.clone();
        *wrong.pointer_mut(place).unwrap() = value;
        wrong
    };
    let (parent, field) = place.rsplit_once('/').unwrap();
    let mut without = right.clone();
    without.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field);
    let is_optional =
        place.starts_with("/items") && (field == "kind" || field == "apiVersion") || place == "/details/uid";
    let missing = (!is_optional).then_some(without);
    let other = other.into_iter().filter(|value| !is_optional || value != "");
    other.chain(zero).map(with).chain(missing).collect()
}

#[tokio::test]
async fn only_the_object_of_the_request_is_an_answer() {
    for (request, right, fixed) in rows() {
        let what = format!("{} {}", request.method(), request.uri());
        let again = || {
            let mut again = Request::new(request.body().try_clone().unwrap());
            *again.method_mut() = request.method().clone();
            *again.uri_mut() = request.uri().clone();
            *again.headers_mut() = request.headers().clone();
            again
        };
        let bytes = right.to_string().into_bytes();
        assert_eq!(answer(again(), 200, &bytes).await.as_deref(), Ok(&bytes[..]), "{what}");
        // A failure passes, whatever it is.
        assert!(answer(again(), 503, b"<html>").await.is_ok(), "{what}");
        let junk = [
            json!({ "message": "please sign in" }),
            json!([]),
            json!(null),
            json!({ "kind": 1, "apiVersion": {} }),
            status("Success", "other", "other"),
            status("Failure", "a", "u"),
            object("example.com/v1", "Other", Some("n")),
        ];
        let mut wrong: Vec<_> = junk.iter().map(|junk| junk.to_string().into_bytes()).collect();
        wrong.extend(
            fixed.iter().flat_map(|pointer| spoilt(&right, pointer)).map(|wrong| wrong.to_string().into_bytes()),
        );
        wrong.extend([Vec::new(), b"<html>sign in</html>".to_vec(), bytes[..bytes.len() - 1].to_vec()]);
        for body in wrong {
            for status in [200, 204, 302] {
                let refused = answer(again(), status, &body).await.expect_err(&what);
                let body = String::from_utf8_lossy(&body);
                assert!(
                    refused.contains("the answer is not ") && refused.contains("check for a proxy or a login page"),
                    "{what}: {refused}"
                );
                assert!(!refused.contains("sign in"), "{what} quotes {body}: {refused}");
                assert!(refused.len() < 400, "{what}: {refused}");
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_answer_is_described() {
    let read = || request("GET", &format!("{LEASES}/a"), &Value::Null);
    let mut other = lease();
    other["metadata"]["name"] = json!("b");
    let mut long = lease();
    long["kind"] = json!("x".repeat(1000));
    for (wrong, expected) in [
        (status("Success", "a", "u"), "its kind is \"Status\"".to_owned()),
        (json!({ "message": "please sign in" }), "it has no kind".to_owned()),
        (json!("<html>"), "it is not the JSON of such an object".to_owned()),
        (other, "its name is \"b\"".to_owned()),
        (long, format!("its kind is {:?}", "x".repeat(63))),
    ] {
        let wrong = answer(read(), 200, wrong.to_string().as_bytes()).await.unwrap_err();
        let expected = format!(
            "the answer is not leases.coordination.k8s.io a in namespace n: {expected}; check for a proxy or a login page \
             in between"
        );
        assert!(wrong.ends_with(&expected), "{wrong}");
    }
}

#[tokio::test]
async fn a_conditional_write_leads_to_no_older_version_and_an_answer_of_any_form_passes() {
    let write = |version: &str| {
        request("PATCH", &format!("{LEASES}/a"), &json!({ "metadata": { "resourceVersion": version } }))
    };
    let right = lease().to_string();
    for (version, is_right) in [("6", true), ("7", true), ("8", false)] {
        assert_eq!(answer(write(version), 200, right.as_bytes()).await.is_ok(), is_right, "{version}");
    }
    for uri in ["/version", "/api/v1/namespaces/n/pods/a/log", "/apis/metrics.k8s.io/v1beta1/nodes/a", "/readyz"] {
        assert!(answer(request("GET", uri, &Value::Null), 200, b"any").await.is_ok(), "{uri}");
    }
    let mut table = request("GET", LEASES, &Value::Null);
    table.headers_mut().insert(ACCEPT, "application/json;as=Table;g=meta.k8s.io;v=v1".parse().unwrap());
    assert!(answer(table, 200, b"{}").await.is_ok());
}

#[tokio::test]
async fn a_wrong_event_ends_a_watch_after_the_good_ones() {
    let watch = || request("GET", &format!("{LEASES}?watch=true&fieldSelector=metadata.name%3Da"), &Value::Null);
    let event = |type_: &str, object: Value| format!("{}\n", json!({ "type": type_, "object": object }));
    let bookmark =
        json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": { "resourceVersion": "8" } });
    let good = ["ADDED", "MODIFIED", "DELETED"].map(|type_| event(type_, lease())).concat()
        + &event("BOOKMARK", bookmark)
        + "\n"
        + &event("ERROR", status("Failure", "", ""));
    assert_eq!(answer(watch(), 200, good.as_bytes()).await.as_deref(), Ok(good.as_bytes()));
    let spoil = |pointer: &str, value: &str| {
        let mut wrong = lease();
        *wrong.pointer_mut(pointer).unwrap() = json!(value);
        wrong
    };
    let wrong = [
        "<html>\n".to_owned(),
        "{\"message\":\"please sign in\"}\n".to_owned(),
        lease().to_string() + "\n",
        event("ADDED", candidate()),
        event("CHANGED", lease()),
        event("ERROR", lease()),
        event("BOOKMARK", candidate()),
        event("BOOKMARK", json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {} })),
        event("MODIFIED", status("Failure", "a", "u")),
        event("MODIFIED", spoil("/metadata/name", "b")),
        event("MODIFIED", spoil("/metadata/namespace", "other")),
        event("MODIFIED", spoil("/metadata/uid", "")),
        event("MODIFIED", spoil("/metadata/resourceVersion", "0")),
        event("DELETED", spoil("/metadata/resourceVersion", "")),
    ];
    let cut_off = format!("{good}{{\"type\":\"ADDED\",\"obj");
    assert_eq!(answer(watch(), 200, cut_off.as_bytes()).await.as_deref(), Ok(good.as_bytes()), "it comes again");
    for page in ["<html>sign in</html>", "{\"message\":\"sign in\"}"] {
        assert!(answer(watch(), 200, page.as_bytes()).await.is_err(), "{page}");
    }
    for line in wrong {
        let (before, after) = (event("ADDED", lease()), event("MODIFIED", lease()));
        let body = [&*before, &*line, &*after].concat();
        // The events arrive in pieces of any length.
        for piece in [1, 100, body.len()] {
            let pieces: Vec<_> = body.as_bytes().chunks(piece).map(Bytes::copy_from_slice).collect();
            let pieces = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
            let body = StreamBody::new(stream::iter(pieces));
            let (body, request) = (UnsyncBoxBody::new(body), watch());
            let mut events = std::pin::pin!(events(body, Expected::of(&request, b"").unwrap()));
            assert_eq!(events.next().await.unwrap().unwrap(), before.as_bytes(), "{line}");
            let wrong = events.next().await.unwrap().unwrap_err().to_string();
            assert!(wrong.contains("the answer is not a watch of leases.coordination.k8s.io a"), "{wrong}");
            assert!(events.next().await.is_none(), "{line}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_would_take_too_much_memory_is_given_up() {
    let mut long = lease();
    long["spec"]["holderIdentity"] = json!("a".repeat(LONGEST_ANSWER));
    let list = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList", "metadata": {}, "items": [long] });
    let error = answer(request("GET", LEASES, &Value::Null), 200, list.to_string().as_bytes()).await.unwrap_err();
    assert!(error.ends_with("the answer is longer than 32 MiB"), "{error}");
}

/// A client whose requests for the Leases take turns, behind a server that answers with these bodies in order.
fn taking_turns(bodies: Vec<CheckedBody>) -> Client {
    let (turn, mut bodies) = (PageTurn(Arc::new(Semaphore::new(1))), bodies.into_iter());
    let server = checked(Client::new(
        tower::service_fn(move |_: Request<Body>| {
            let body = bodies.next().unwrap();
            async move { Ok::<_, Infallible>(Response::new(body)) }
        }),
        "n",
    ));
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.extensions_mut().insert(turn.clone());
        let server = server.clone();
        async move { server.send(request).await }
    });
    Client::new(service, "n")
}

fn page(items: &[Value]) -> CheckedBody {
    let list = list("coordination.k8s.io/v1", "LeaseList", items).to_string();
    Full::from(list).map_err(|never| match never {}).boxed_unsync()
}

#[tokio::test(start_paused = true)]
async fn one_page_is_received_at_a_time_unless_it_arrives_slowly() {
    let stalls = || StreamBody::new(stream::pending()).boxed_unsync();
    let client = taking_turns(vec![page(&[]), page(&[]), page(&[]), stalls(), page(&[])]);
    let send = || client.send(request("GET", LEASES, &Value::Null));
    let limit = Duration::from_secs(1);
    let first = send().await.unwrap();
    assert!(tokio::time::timeout(limit, send()).await.is_err(), "the first page has not been taken");
    first.into_body().collect().await.unwrap();
    drop(send().await.unwrap());
    let stalled = send();
    let next = async {
        tokio::time::sleep(limit).await;
        let began = tokio::time::Instant::now();
        send().await.map(|_| began.elapsed())
    };
    tokio::select! {
        _ = stalled => unreachable!(),
        waited = next => assert_eq!(waited.unwrap(), LONGEST_TURN.saturating_sub(limit)),
    }
}

#[tokio::test]
async fn a_page_of_a_list_is_shorter_than_another_answer() {
    let mut long = lease();
    long["spec"]["holderIdentity"] = json!("a".repeat(LONGEST_PAGE));
    let error = taking_turns(vec![page(&[long])]).send(request("GET", LEASES, &Value::Null)).await.unwrap_err();
    assert!(error.to_string().ends_with("the answer is longer than 8 MiB"), "{error}");
}
