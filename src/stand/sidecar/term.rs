//! The route `/term`: a stream that the program holds open while it wants to lead.
//!
//! The sidecar serves one client at a time. A stream has at most one term: `leading`, `stopping`, `stopped`. Its reader
//! builds each event from the [`Leadership`] at the time of writing, so no event is late or lost.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use hustings_client::{Leadership, Moment, Term};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::serve::http::{Peer, refusal};

/// How long a second client waits for the first to leave. A restarted program may connect before the sidecar has
/// noticed the end of its former process.
const FORMER_CLIENT_LIMIT: Duration = Duration::from_secs(1);

/// One client, and the term that it gets.
pub(super) struct Client {
    pub(super) peer: Peer,
    part: watch::Sender<Option<ClientTerm>>,
}

/// The term of a client, and the leadership that it belongs to.
#[derive(Clone)]
struct ClientTerm {
    term: Term,
    leadership: Leadership,
}

/// The state that the route's requests share.
#[derive(Clone)]
struct TermRouteState {
    clients: mpsc::Sender<Client>,
    /// One permit for the one client.
    place: Arc<Semaphore>,
    heartbeat: Duration,
    shutdown: CancellationToken,
    over: CancellationToken,
}

/// Writes the stream of one client.
struct ClientStream {
    part: watch::Receiver<Option<ClientTerm>>,
    /// Wakes the reader when the validity changes or ends. `None` before the term.
    validity: Option<BoxStream<'static, Option<Moment>>>,
    written: Written,
    heartbeat: Duration,
    /// Ends the stream, after the events that are due.
    over: CancellationToken,
    _place: OwnedSemaphorePermit,
}

/// The last event of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Nothing,
    Leading,
    Stopping,
    Stopped,
}

/// The data of an event.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventData<'a> {
    identity: &'a str,
    lease: &'a str,
    term: u32,
    token: u64,
    /// How long this replica certainly leads unless it gives up the Lease. Zero if the term is over.
    valid_for_seconds: f64,
}

/// Returns the route and its clients. `heartbeat` is the longest silence of a stream. The route accepts no client after
/// `shutdown`. Streams end with `over`.
pub(super) fn route(
    heartbeat: Duration,
    shutdown: &CancellationToken,
    over: &CancellationToken,
) -> (Router, mpsc::Receiver<Client>) {
    let (clients, receiver) = mpsc::channel(1);
    let state = TermRouteState {
        clients,
        place: Arc::new(Semaphore::new(1)),
        heartbeat,
        shutdown: shutdown.clone(),
        over: over.clone(),
    };
    (Router::new().route("/term", get(connect)).with_state(state), receiver)
}

async fn connect(
    State(state): State<TermRouteState>,
    Extension(peer): Extension<Peer>,
    request: Request<Body>,
) -> Response {
    if request.method() == Method::HEAD {
        return refusal(StatusCode::METHOD_NOT_ALLOWED, "/term is a stream: use GET");
    }
    // The server does not read while it streams. With a body it could not detect the end of the connection.
    if !request.body().is_end_stream() {
        return refusal(StatusCode::BAD_REQUEST, "a request for /term has no body: remove it");
    }
    let place = timeout(FORMER_CLIENT_LIMIT, Arc::clone(&state.place).acquire_owned());
    let Ok(Ok(place)) = place.await else {
        return refusal(
            StatusCode::CONFLICT,
            "another client is connected to /term: a sidecar stands for one process, so close that connection first",
        );
    };
    if state.shutdown.is_cancelled() {
        return later("the sidecar stops");
    }
    let (part, reader) = watch::channel(None);
    if state.clients.try_send(Client { peer, part }).is_err() {
        return later("the former client's term is still being given up");
    }
    let TermRouteState { heartbeat, over, .. } = state;
    let reader =
        ClientStream { part: reader, validity: None, written: Written::Nothing, heartbeat, over, _place: place };
    ([(header::CACHE_CONTROL, "no-store")], Sse::new(reader.events().map(Ok::<_, Infallible>))).into_response()
}

fn later(error: &str) -> Response {
    ([(header::RETRY_AFTER, "1")], refusal(StatusCode::SERVICE_UNAVAILABLE, error)).into_response()
}

impl Client {
    /// Begins the client's term.
    pub(super) fn begin(&self, term: Term, leadership: Leadership) {
        self.part.send_replace(Some(ClientTerm { term, leadership }));
    }
}

impl ClientStream {
    /// The stream of events. It builds each event after the server has written the one before.
    fn events(self) -> impl Stream<Item = Event> + Send + 'static {
        stream::unfold(self, |mut reader| async move { Some((reader.next().await?, reader)) })
    }

    /// The next event, or a comment after a silence. `None` if the stream is over and no event is due.
    async fn next(&mut self) -> Option<Event> {
        let over = self.over.clone();
        let silence_ends = Instant::now() + self.heartbeat;
        loop {
            if let Some(event) = self.due() {
                return Some(event);
            }
            tokio::select! {
                () = self.change() => {}
                () = sleep_until(silence_ends) => {
                    return self.due().or_else(|| Some(Event::default().comment("alive")));
                }
                () = over.cancelled() => return self.due(),
            }
        }
    }

    /// The event that is due now, if any.
    fn due(&mut self) -> Option<Event> {
        let ClientTerm { term, leadership } = self.part.borrow_and_update().clone()?;
        // The stream of the validity ends with the elector, which the connection may outlive.
        self.validity.get_or_insert_with(|| leadership.validity().chain(stream::pending()).boxed());
        let remaining = leadership.remaining();
        let leads = leadership.term().is_some_and(|current| current == term);
        let is_ending = !leads || term.cancellation().is_cancelled();
        self.written = match self.written {
            // If a term ends before its `leading` was written, the stream begins with `stopping`.
            Written::Nothing | Written::Leading if is_ending => Written::Stopping,
            Written::Nothing => Written::Leading,
            Written::Stopping if !leads => Written::Stopped,
            Written::Leading | Written::Stopping | Written::Stopped => return None,
        };
        let valid_millis = if leads { u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX) } else { 0 };
        let data = EventData {
            identity: leadership.identity(),
            lease: leadership.lease(),
            term: term.number,
            token: term.token,
            valid_for_seconds: Duration::from_millis(valid_millis).as_secs_f64(),
        };
        // This cannot fail: the data contain only strings and numbers.
        let data = serde_json::to_string(&data).unwrap_or_default();
        Some(Event::default().event(self.written.as_str()).data(data))
    }

    /// Completes when another event may be due.
    async fn change(&mut self) {
        let part = self.part.borrow().clone();
        match (part, &mut self.validity) {
            (Some(ClientTerm { term, .. }), Some(validity)) => {
                tokio::select! {
                    () = term.cancelled(), if self.written == Written::Leading => {}
                    _ = validity.next() => {}
                }
            }
            // The client is gone and will get no term.
            _ if self.part.changed().await.is_err() => std::future::pending().await,
            _ => {}
        }
    }
}

impl Written {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Leading => "leading",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

#[cfg(test)]
mod tests;
