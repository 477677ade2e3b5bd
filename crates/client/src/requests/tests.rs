//! What the requests make of every answer, and of none.

use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use hustings_core::elector::Outcome;
use kube::client::Body;
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::clock::SystemClock;

async fn answered(code: u16) -> Result<ReadLease, Failure> {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        let body = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "m" });
        Ok::<_, std::convert::Infallible>(
            Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
        )
    });
    let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    requests.read_lease("n", "l").await
}

#[tokio::test]
async fn every_answer_has_its_meaning() {
    for (code, expected) in [
        (200, None),
        (400, Some(Outcome::Refused)),
        (403, Some(Outcome::Refused)),
        (404, Some(Outcome::Missing)),
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
        assert_eq!(retryable, matches!(code, 408 | 409 | 429 | 500..), "{code}");
        assert_eq!(failure.map(|failure| failure.outcome::<()>()), expected, "{code}");
    }
}

#[tokio::test]
async fn what_a_server_that_sheds_load_asks_for_is_read() {
    let service = tower::service_fn(|_: Request<Body>| async {
        let response = Response::builder().status(429).header("Retry-After", "7");
        Ok::<_, std::convert::Infallible>(response.body(Body::from(b"Too many requests".to_vec())).unwrap())
    });
    let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    let failure = requests.read_lease("n", "l").await.unwrap_err();
    assert_eq!(failure.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(failure.to_string(), "refused: Too many requests (429); try again later");
    assert_eq!(answered(429).await.unwrap_err().retry_after(), None);
}

#[tokio::test]
async fn a_request_without_an_answer_ends_at_its_deadline() {
    let service =
        tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, std::io::Error>>());
    let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_millis(20));
    let failure = requests.create_lease("n", "l").await.unwrap_err();
    assert!(matches!(failure, Failure::TimedOut(_)), "{failure}");
    assert_eq!(failure.outcome::<()>(), Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn whoever_watches_keeps_a_connection_in_use_beside_that_of_the_watch() {
    let reads = Arc::new(AtomicU32::new(0));
    let service = tower::service_fn({
        let reads = Arc::clone(&reads);
        move |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            reads.fetch_add(u32::from(!is_watch), Ordering::Relaxed);
            async move {
                if is_watch {
                    std::future::pending::<()>().await;
                }
                Err::<Response<Body>, _>(std::io::Error::other("connection reset"))
            }
        }
    });
    let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_secs(5));
    let mut sightings = requests.watch_lease("n", "l");
    assert!(timeout(Duration::from_mins(10), sightings.next()).await.is_err(), "there is nothing to tell");
    let reads = reads.load(Ordering::Relaxed);
    assert!((10..=15).contains(&reads), "{reads} requests in ten minutes, and idle connections last one");
}

#[tokio::test]
async fn a_lost_connection_leaves_the_outcome_unknown() {
    let service = tower::service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("connection reset"))
    });
    let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
    let failure = requests.create_lease("n", "l").await.unwrap_err();
    assert_eq!(failure.outcome::<()>(), Outcome::Unknown);
    assert!(failure.to_string().contains("connection reset"), "{failure}");
}
