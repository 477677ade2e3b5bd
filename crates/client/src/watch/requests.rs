//! The requests of one watch of a program that watches many objects: how they heed a busy server.
//!
//! A list of many objects has many pages. If a page cost all pages before it whenever the server is busy, a busy server
//! would get more requests than an idle one. The page is therefore requested again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::paced;
use crate::store::answers::{LONGEST_ANSWER, PageTurn, collected};
use crate::store::connections::is_watch;

/// The pause after the answer of a busy server that names none.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause that a server can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How many times one page of a list is requested.
const TRIES: u32 = 10;

/// The requests of one watch. Clones share everything.
#[derive(Clone)]
pub struct WatchRequests {
    begun: watch::Sender<Instant>,
    count_failure: Arc<dyn Fn() + Send + Sync>,
    /// The server was busy, and gets no request before this instant.
    due: Arc<Mutex<Instant>>,
    pages: Arc<Semaphore>,
}

impl WatchRequests {
    /// The requests of a new watch. `count_failure` is called for each failure that costs the watch nothing. All watches of
    /// a process share the permits of `pages`: that many pages of their lists are received at a time.
    pub fn new(pages: Arc<Semaphore>, count_failure: impl Fn() + Send + Sync + 'static) -> Self {
        let now = Instant::now();
        let due = Arc::new(Mutex::new(now));
        Self { begun: watch::channel(now).0, count_failure: Arc::new(count_failure), due, pages }
    }

    /// When the server last began a watch.
    pub fn begun(&self) -> watch::Receiver<Instant> {
        self.begun.subscribe()
    }

    /// Counts a failure that costs the watch nothing.
    pub fn count_failure(&self) {
        (self.count_failure)();
    }

    /// Returns a client like `client` for the lists and watches of this watch, which are [`paced`].
    pub fn client(&self, client: Client, namespace: &str) -> Client {
        let (client, requests) = (paced(client, namespace), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (client, requests) = (client.clone(), requests.clone());
            async move { requests.send(&client, request).await }
        });
        Client::new(service, namespace)
    }

    async fn send(&self, client: &Client, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let is_watch = is_watch(&request);
        // Other requests cost nothing but themselves.
        let is_later_page = request.uri().query().is_some_and(|query| query.contains("continue="));
        let mut tries = if is_later_page { TRIES } else { 1 };
        let (mut head, _) = request.into_parts();
        if !is_watch {
            head.extensions.insert(PageTurn(Arc::clone(&self.pages)));
        }
        loop {
            let due = *self.due.lock().unwrap_or_else(PoisonError::into_inner);
            // Even a sleep until now takes a millisecond, and a long list needs many requests.
            if due > Instant::now() {
                sleep_until(due).await;
            }
            let answer = client.send(Request::from_parts(head.clone(), Body::empty())).await?;
            if is_watch && answer.status().is_success() {
                self.begun.send_replace(Instant::now());
            }
            let Some(pause) = pause_after(&answer) else { return Ok(answer) };
            *self.due.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + pause;
            tries -= 1;
            if tries == 0 {
                return Ok(answer);
            }
            self.count_failure();
            // A body that is not read counts as a request without an answer.
            let _ = collected(answer.into_body(), LONGEST_ANSWER).await;
        }
    }
}

/// How long a server that gives this answer is too busy for the next request; `None` if it is not.
fn pause_after(answer: &Response<Body>) -> Option<Duration> {
    let status = answer.status();
    let asked = answer.headers().get(RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let is_busy =
        matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT);
    let pause = asked.map_or(PAUSE, Duration::from_secs).clamp(PAUSE, LONGEST_PAUSE);
    (is_busy || asked.is_some() && status.is_server_error()).then_some(pause)
}
