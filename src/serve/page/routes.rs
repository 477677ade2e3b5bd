//! The routes of the page: four embedded files and a stream of server-sent events.
//!
//! The stream sends `change` events: first the whole state in batches, then the changes. A `heartbeat` shows that the
//! connection is alive. Every event carries the time of this process, so that the browser can show ages by one clock.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt as _, stream};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::feed::{Batch, Feed, Position};
use crate::serve::http::{Peer, refusal};

/// The most streams at a time. The server accepts more connections, so probes always find one.
const MOST_STREAMS: usize = 32;

/// The most Leases in one event.
const MOST_LEASES: usize = 64;

/// How often a stream without changes sends a heartbeat. After three missed heartbeats, the script treats the
/// connection as dead.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long a browser should wait before it reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// The policy allows only the embedded script, no markup from a script, no other origin, and no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The headers of every answer below `/ui`.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The values of the header `Host` for which the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// Every host, as behind a Service or an Ingress; for clients of this host, which may be a port forward, only names
    /// of this machine.
    Any,
    /// Only names of this machine. Otherwise a site in the operator's browser could resolve its own name to a loopback
    /// address and read the page.
    Loopback,
}

#[derive(Clone)]
struct PageState {
    feed: Arc<Feed>,
    permits: Arc<Semaphore>,
    stop: CancellationToken,
}

/// One event. `leases` replaces the Leases that it names.
#[derive(Serialize)]
struct PageChange<'a> {
    now: String,
    reset: bool,
    controller: Option<&'a RawValue>,
    removed: &'a [String],
    leases: Vec<&'a RawValue>,
    more: bool,
}

/// The routes below `/ui`. Streams end when `stop` is cancelled.
pub(super) fn router(feed: Arc<Feed>, hosts: Hosts, stop: CancellationToken) -> Router {
    let state = PageState { feed, permits: Arc::new(Semaphore::new(MOST_STREAMS)), stop };
    Router::new()
        // The location is relative, so that it works behind a proxy with a prefix.
        .route("/ui", get(async || (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "ui/")])))
        .route("/ui/", get(async || file("text/html; charset=utf-8", include_str!("assets/index.html"))))
        .route("/ui/page.css", get(async || file("text/css; charset=utf-8", include_str!("assets/page.css"))))
        .route("/ui/page.js", get(async || file("text/javascript; charset=utf-8", include_str!("assets/page.js"))))
        .route("/ui/lease.js", get(async || file("text/javascript; charset=utf-8", include_str!("assets/lease.js"))))
        .route("/ui/events", get(events))
        .with_state(state)
        .layer(from_fn_with_state(hosts, protect))
}

/// Checks the host, and adds the headers.
async fn protect(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    let is_local = request.extensions().get::<Peer>().is_some_and(Peer::is_local);
    let mut response = if (hosts == Hosts::Any && !is_local) || host.is_none_or(is_loopback) {
        next.run(request).await
    } else {
        refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "this address serves /ui only as localhost: use http://localhost:PORT/ui/",
        )
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether the value of the header `Host` names this machine.
fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let is_port = |text: &str| text.chars().all(|digit| digit.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn file(type_: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, type_)], text).into_response()
}

async fn events(State(state): State<PageState>, headers: HeaderMap) -> Response {
    let Ok(permit) = Arc::clone(&state.permits).try_acquire_owned() else {
        let refused = refusal(StatusCode::SERVICE_UNAVAILABLE, "too many open pages: close one, or retry later");
        return ([(header::RETRY_AFTER, "5")], refused).into_response();
    };
    let id = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let position = id.map(|id| state.feed.position(id)).unwrap_or_default();
    let first = stream::once(std::future::ready(Event::default().retry(RETRY)));
    let changes = changes(state.feed, position, permit).take_until(state.stop.cancelled_owned());
    Sse::new(first.chain(changes).map(Ok::<_, Infallible>)).into_response()
}

/// The events for one reader. The server builds each after the reader has taken the one before.
fn changes(feed: Arc<Feed>, position: Position, permit: OwnedSemaphorePermit) -> impl Stream<Item = Event> + Send {
    stream::unfold((feed, position, permit), |(feed, mut position, permit)| async move {
        let event = match tokio::time::timeout(HEARTBEAT, feed.wait(&mut position, MOST_LEASES)).await {
            Ok(batch) => Event::default().event("change").id(feed.id(position)).data(text(&batch)),
            Err(_) => Event::default().event("heartbeat").data(now()),
        };
        Some((event, (feed, position, permit)))
    })
}

fn text(batch: &Batch) -> String {
    let Batch { reset, controller, removed, leases, more } = batch;
    let leases = leases.iter().map(|lease| &**lease).collect();
    let controller = controller.as_deref();
    let change = PageChange { now: now(), reset: *reset, controller, removed, leases, more: *more };
    // This cannot fail: a change contains only strings and documents.
    serde_json::to_string(&change).unwrap_or_default()
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests;
