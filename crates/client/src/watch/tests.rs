//! Watches in virtual time, against servers that end, reject or delay them.

mod connections;
mod pace;
mod requests;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures::stream::BoxStream;
use http::{Response, header};
use serde_json::json;
use tokio::time::{timeout, timeout_at};

use super::*;
use crate::api::ReadLease;
use crate::store::connections::user_agent;
use crate::testing::Log;

const END_OF_INITIAL_EVENTS: &str = r#"{"type": "BOOKMARK", "object": {
    "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}"#;

fn asks(request: &Request<Body>, for_what: &str) -> bool {
    request.uri().query().is_some_and(|query| query.contains(for_what))
}

/// An event about the Lease `l`.
fn lease_event(type_: &str, version: u64) -> String {
    let metadata = json!({ "name": "l", "namespace": "n", "uid": "u", "resourceVersion": version.to_string() });
    let lease = json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata });
    json!({ "type": type_, "object": lease }).to_string()
}

/// A list without Leases.
fn lease_list() -> serde_json::Value {
    json!({ "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "metadata": { "resourceVersion": "1" },
        "items": [] })
}

fn event(text: &str) -> Vec<u8> {
    let event: serde_json::Value = serde_json::from_str(text).unwrap();
    format!("{event}\n").into_bytes()
}

#[tokio::test(start_paused = true)]
async fn one_request_shows_the_object_or_that_it_is_missing() {
    for exists in [true, false] {
        let server = tower::service_fn(move |request: Request<Body>| async move {
            assert!(asks(&request, "sendInitialEvents=true"), "{request:?}");
            assert_eq!(request.headers().get(header::USER_AGENT), Some(&user_agent()));
            let mut body = if exists { event(&lease_event("ADDED", 1)) } else { Vec::new() };
            body.extend(event(END_OF_INITIAL_EVENTS));
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        });
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert_eq!(versions.next().await.map(|version| version.is_some()), Some(exists));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_reported_by_an_event_and_by_a_list_after_a_gap() {
    const GONE: &str = r#"{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": 410, "message": "too old"}}"#;
    let (added, deleted) = (lease_event("ADDED", 1), lease_event("DELETED", 2));
    for end in [&*deleted, GONE] {
        let watches = AtomicU32::new(0);
        let (added, last) = (added.clone(), end.to_owned());
        let server = tower::service_fn(move |_: Request<Body>| {
            let lines: &[&str] = match watches.fetch_add(1, Ordering::SeqCst) {
                0 => &[&added, END_OF_INITIAL_EVENTS, &last],
                _ => &[END_OF_INITIAL_EVENTS],
            };
            let body = lines.iter().flat_map(|line| event(line)).collect::<Vec<_>>();
            async move { Ok::<_, Infallible>(Response::new(Body::from(body))) }
        });
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert!(versions.next().await.unwrap().is_some(), "it exists");
        let next = timeout(Duration::from_millis(500), versions.next()).await;
        assert_eq!(next.is_ok(), end == deleted, "an object that exists is not missing after the first list");
        let next = if end == deleted { next.unwrap() } else { versions.next().await };
        assert!(next.unwrap().is_none(), "it is missing: {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_soon_after_a_long_outage_whenever_that_ends() {
    for seconds in (300..330).step_by(6) {
        let recovery = Instant::now() + Duration::from_secs(seconds);
        let server = tower::service_fn(move |request: Request<Body>| async move {
            // Like a server with streamed lists switched off.
            if asks(&request, "sendInitialEvents=") {
                return Ok(Response::builder().status(422).body(Body::empty()).unwrap());
            }
            let answer = if !asks(&request, "watch=") {
                lease_list()
            } else if Instant::now() < recovery {
                return Err(std::io::Error::other("connection refused"));
            } else {
                serde_json::from_str(&lease_event("ADDED", 2)).unwrap()
            };
            Ok(Response::new(Body::from(answer.to_string().into_bytes())))
        });
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert!(matches!(versions.next().await, Some(None)), "the list is empty");
        let version = timeout_at(recovery + LONGEST_PAUSE + Duration::from_secs(1), versions.next()).await;
        assert!(matches!(version, Ok(Some(Some(_)))), "after {seconds} s: {version:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_event_is_no_observation_and_the_watch_resumes_after_the_last_right_one() {
    let (log, _guard) = Log::begin();
    let watches = AtomicU32::new(0);
    let resumed = Arc::<Mutex<Vec<String>>>::default();
    let asked = Arc::clone(&resumed);
    let server = tower::service_fn(move |request: Request<Body>| {
        let number = watches.fetch_add(1, Ordering::SeqCst);
        asked.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
        let wrong = lease_event("MODIFIED", 9).replace("\"u\"", "\"\"");
        let lines = match number {
            0 => vec![lease_event("ADDED", 2), END_OF_INITIAL_EVENTS.to_owned(), lease_event("MODIFIED", 3), wrong],
            1 => vec!["{\"message\": \"please sign in\"}".to_owned()],
            2 => vec![lease_event("MODIFIED", 4)],
            _ => Vec::new(),
        };
        let body = lines.iter().flat_map(|line| event(line)).collect::<Vec<_>>();
        async move { Ok::<_, Infallible>(Response::new(Body::from(body))) }
    });
    let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
    for expected in [2, 3, 4] {
        let version = timeout(Duration::from_secs(30), versions.next()).await.expect("it goes on").unwrap().unwrap();
        assert_eq!(version.record.resource_version, expected);
    }
    let resumed = resumed.lock().unwrap();
    assert!(resumed[1..3].iter().all(|query| query.contains("resourceVersion=3")), "{resumed:?}");
    let logged = log.take();
    assert!(logged.contains("it has no uid") && !logged.contains("sign in\""), "{logged}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_rejects_watches_does_not_get_a_request_every_second() {
    let asked = Arc::new(AtomicU32::new(0));
    let server = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |_: Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap()) }
        }
    });
    let (log, _guard) = Log::begin();
    let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
    assert!(timeout(Duration::from_mins(10), versions.next()).await.is_err(), "there is nothing to report");
    let asked = asked.load(Ordering::Relaxed);
    assert!((100..=150).contains(&asked), "{asked} requests in ten minutes");
    let logged = log.take().matches("WARN watch failed").count();
    assert!((9..=11).contains(&logged), "logged {logged} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_the_server_ends_at_once_does_not_restart_at_once() {
    let asked = Arc::new(AtomicU32::new(0));
    let server = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |request: Request<Body>| {
            let is_too_many = asked.fetch_add(1, Ordering::Relaxed) > 1_000;
            let is_first = asks(&request, "sendInitialEvents=");
            let body = if is_first { event(END_OF_INITIAL_EVENTS) } else { Vec::new() };
            async move {
                if is_too_many {
                    // This ends a failing test.
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::new(Body::from(body)))
            }
        }
    });
    let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
    assert!(matches!(versions.next().await, Some(None)), "the list is empty");
    assert!(timeout(Duration::from_mins(10), versions.next()).await.is_err(), "there is nothing to report");
    let asked = asked.load(Ordering::Relaxed);
    assert!((500..=610).contains(&asked), "{asked} requests in ten minutes");
}

/// The queries of one watch if the server streams no lists: the rejected one, the list, and the watch after it.
async fn queries(mut watch: impl FnMut(Client) -> BoxStream<'static, ()>) -> Vec<String> {
    let queries = Arc::<Mutex<Vec<String>>>::default();
    let asked = Arc::clone(&queries);
    let server = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        asked.lock().unwrap().push(query.clone());
        async move {
            let list = lease_list();
            let (code, body) = match query.contains("watch=true") {
                true if query.contains("sendInitialEvents=") => (400, json!({ "code": 400, "status": "Failure" })),
                true => std::future::pending().await,
                false => (200, list),
            };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let mut events = watch(Client::new(server, "n"));
    while timeout(Duration::from_secs(20), events.next()).await.is_ok() {}
    let queries = queries.lock().unwrap();
    queries.clone()
}

#[tokio::test(start_paused = true)]
async fn a_watch_lasts_a_minute_and_a_list_comes_in_pages_of_a_hundred() {
    let one = queries(|client| watch_object::<ReadLease>(client, "n", "l", 0).map(drop).boxed()).await;
    let all = queries(|client| watch_namespace::<ReadLease>(client, "n").map(drop).boxed()).await;
    for [streamed, list, watch] in [one.clone(), all].map(|queries| <[String; 3]>::try_from(queries).unwrap()) {
        assert!(streamed.contains("timeoutSeconds=60") && watch.contains("timeoutSeconds=60"), "{streamed} {watch}");
        assert!(list.contains("limit=100"), "{list}");
    }
    assert!(one[0].contains("resourceVersion=0"), "from the memory of the server: {one:?}");
    assert!(one.iter().all(|query| query.contains("fieldSelector=metadata.name%3Dl")), "{one:?}");
}

#[tokio::test(start_paused = true)]
async fn pauses_double_up_to_five_seconds_minus_a_random_part_and_no_event_resets_them() {
    let mut pauses = Pauses::new(Duration::from_secs(1), StdRng::seed_from_u64(1));
    let mut next = |longest: f64| {
        let share = pauses.next().unwrap().as_secs_f64() / longest;
        assert!((0.8..1.0).contains(&share), "{share} of {longest} s");
        Backoff::reset(&mut pauses);
    };
    for longest in [1.0, 2.0, 4.0, 5.0, 5.0] {
        next(longest);
    }
    tokio::time::advance(QUIET + Duration::from_secs(1)).await;
    next(1.0);
}

#[test]
fn a_failed_watch_is_reported_with_its_remedy() {
    let status =
        |code, message: &str| kube::core::Status { code, ..kube::core::Status::failure(message, "Forbidden") }.boxed();
    let denied =
        || status(403, r#"leases.coordination.k8s.io is forbidden: User "jane" cannot list resource "leases""#);
    let grant = |verb| format!("not allowed: grant the verb {verb} on leases.coordination.k8s.io in namespace n");
    for (error, expected) in [
        (Error::InitialListFailed(kube::Error::Api(denied())), grant("list")),
        (Error::WatchStartFailed(kube::Error::Api(denied())), grant("watch")),
        (Error::WatchError(denied()), grant("watch")),
        (Error::WatchError(status(403, "by a webhook")), "by a webhook (403)".to_owned()),
        (
            Error::WatchError(
                kube::core::Status {
                    code: 422,
                    ..kube::core::Status::failure(r#"field "a" cannot be empty"#, "Invalid")
                }
                .boxed(),
            ),
            r#"field "a" cannot be empty (422)"#.to_owned(),
        ),
        (Error::NoResourceVersion, Error::NoResourceVersion.to_string()),
    ] {
        assert_eq!(reason(&error, "leases.coordination.k8s.io", Some("n")), expected);
    }
    let missing = || Error::InitialListFailed(kube::Error::Api(status(404, "404 page not found")));
    assert_eq!(reason(&missing(), "leases.coordination.k8s.io", Some("n")), "404 page not found (404)");
    let without_crd = reason(&missing(), "leasecandidates.hustings.io", Some("n"));
    assert!(without_crd.contains("CRD is not installed") && without_crd.contains("hustings crds"), "{without_crd}");
}

#[tokio::test(start_paused = true)]
async fn each_other_failure_of_a_watch_is_a_warning_and_a_repeated_one_only_once_a_minute() {
    let (log, _guard) = Log::begin();
    let mut last = LastFailure::default();
    for (seconds, reason, level) in [
        (0, "reset on port 1", "WARN"),
        (1, "reset on port 2", "DEBUG"),
        (2, "denied", "WARN"),
        (3, "down", "WARN"),
        (60, "down", "WARN"),
    ] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        last.log(reason.to_owned(), "leases", "n/l");
        let line = format!(r#"{level} watch failed, trying again resource="leases" what="n/l" reason="{reason}""#);
        assert_eq!(log.take(), line);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_a_watch_names_the_resource_and_what_is_watched() {
    let (log, _guard) = Log::begin();
    let server = || {
        let refusal = json!({ "kind": "Status", "status": "Failure", "message": "no", "code": 403 }).to_string();
        let answer = move |_: Request<Body>| {
            let response = Response::builder().status(403).body(Body::from(refusal.clone().into_bytes()));
            std::future::ready(Ok::<_, Infallible>(response.unwrap()))
        };
        Client::new(tower::service_fn(answer), "n")
    };
    let object = watch_object::<ReadLease>(server(), "n", "l", 0).map(drop).boxed();
    let all = watch_namespace::<ReadLease>(server(), "n").map(drop).boxed();
    for (watch, what) in [(object, "n/l"), (all, "namespace n")] {
        let mut watch = watch;
        assert!(timeout(Duration::from_secs(1), watch.next()).await.is_err(), "no event");
        let what = format!(r#"resource="leases.coordination.k8s.io" what="{what}" reason="no (403)""#);
        let logged = log.take();
        assert!(logged.contains(&what), "{logged}");
    }
}

#[test]
fn only_a_server_without_streamed_lists_gets_lists_in_pages() {
    for (code, expected) in [(400, true), (422, true), (403, false), (410, false), (429, false), (500, false)] {
        let status = kube::core::Status { code, ..kube::core::Status::failure("m", "r") };
        let event = Err::<(), _>(Error::WatchStartFailed(kube::Error::Api(status.boxed())));
        assert_eq!(refuses_to_stream(&event), expected, "{code}");
    }
}
