//! Watches in virtual time, in front of servers that end, refuse or delay them.

use std::convert::Infallible;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use http::Response;
use http_body::Frame;
use serde_json::json;
use tokio::time::sleep;

use super::*;
use crate::api::ReadLease;

const END_OF_INITIAL_EVENTS: &str = r#"{"type": "BOOKMARK", "object": {
    "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
    "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}"#;

/// The log that a watch wrote.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn asks(request: &Request<Body>, for_what: &str) -> bool {
    request.uri().query().is_some_and(|query| query.contains(for_what))
}

fn event(text: &str) -> Vec<u8> {
    let event: serde_json::Value = serde_json::from_str(text).unwrap();
    format!("{event}\n").into_bytes()
}

#[tokio::test(start_paused = true)]
async fn one_request_brings_the_object_or_that_it_is_missing() {
    const LEASE: &str = r#"{"type": "ADDED", "object": {"metadata": {"name": "l", "resourceVersion": "1"}}}"#;
    for exists in [true, false] {
        let server = tower::service_fn(move |request: Request<Body>| async move {
            assert!(asks(&request, "sendInitialEvents=true"), "{request:?}");
            let mut body = if exists { event(LEASE) } else { Vec::new() };
            body.extend(event(END_OF_INITIAL_EVENTS));
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        });
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert_eq!(versions.next().await.map(|version| version.is_some()), Some(exists));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_speaks_soon_after_a_long_outage_whenever_that_ends() {
    for seconds in (300..330).step_by(6) {
        let recovery = Instant::now() + Duration::from_secs(seconds);
        let server = tower::service_fn(move |request: Request<Body>| async move {
            let lease = json!({ "metadata": { "name": "l", "resourceVersion": "2" } });
            // As where streaming lists are turned off.
            if asks(&request, "sendInitialEvents=") {
                return Ok(Response::builder().status(422).body(Body::empty()).unwrap());
            }
            let answer = if !asks(&request, "watch=") {
                json!({ "kind": "LeaseList", "metadata": { "resourceVersion": "1" }, "items": [] })
            } else if Instant::now() < recovery {
                return Err(std::io::Error::other("connection refused"));
            } else {
                json!({ "type": "ADDED", "object": lease })
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
async fn a_server_that_refuses_is_not_asked_every_second() {
    let asked = Arc::new(AtomicU32::new(0));
    let server = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |_: Request<Body>| {
            asked.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap()) }
        }
    });
    // Otherwise, if a test without a subscriber reaches the line first, it disables the line for all threads.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
    assert!(timeout(Duration::from_mins(10), versions.next()).await.is_err(), "there is nothing to tell");
    let asked = asked.load(Ordering::Relaxed);
    assert!((100..=150).contains(&asked), "{asked} requests in ten minutes");
    let told = String::from_utf8_lossy(&log.0.lock().unwrap()).matches("watch failed").count();
    assert!((9..=11).contains(&told), "told {told} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn the_next_watch_begins_before_the_former_has_ended_in_order() {
    let began = Instant::now();
    let notes = Arc::new(Mutex::new(Vec::new()));
    let server = tower::service_fn({
        let notes = Arc::clone(&notes);
        move |request: Request<Body>| {
            let note = {
                let notes = Arc::clone(&notes);
                move |what: &'static str| notes.lock().unwrap().push((what, began.elapsed().as_secs()))
            };
            note("begins");
            let first = if asks(&request, "sendInitialEvents=") { event(END_OF_INITIAL_EVENTS) } else { Vec::new() };
            let first = stream::once(ready(Ok(Frame::data(first.into()))));
            let end = stream::once(async move {
                sleep(Duration::from_secs(LONGEST_WATCH_SECONDS.into())).await;
                note("ends");
                Ok::<_, Infallible>(Frame::data(Vec::new().into()))
            });
            ready(Ok::<_, Infallible>(Response::new(StreamBody::new(first.chain(end)))))
        }
    });
    let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
    assert!(matches!(versions.next().await, Some(None)), "the list is empty");
    assert!(timeout(Duration::from_secs(121), versions.next()).await.is_err(), "there is nothing to tell");
    let expected = [("begins", 0), ("begins", 59), ("ends", 60), ("begins", 118), ("ends", 119)];
    assert_eq!(*notes.lock().unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_not_asked_at_once_again() {
    let asked = Arc::new(AtomicU32::new(0));
    let server = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |request: Request<Body>| {
            let is_too_many = asked.fetch_add(1, Ordering::Relaxed) > 1_000;
            let is_first = asks(&request, "sendInitialEvents=");
            let body = if is_first { event(END_OF_INITIAL_EVENTS) } else { Vec::new() };
            async move {
                if is_too_many {
                    // So that a failing test ends.
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::new(Body::from(body)))
            }
        }
    });
    let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
    assert!(matches!(versions.next().await, Some(None)), "the list is empty");
    assert!(timeout(Duration::from_mins(10), versions.next()).await.is_err(), "there is nothing to tell");
    let asked = asked.load(Ordering::Relaxed);
    assert!((500..=610).contains(&asked), "{asked} requests in ten minutes");
}
