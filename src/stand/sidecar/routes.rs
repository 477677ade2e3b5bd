//! The routes for the program. The sidecar builds each answer when it writes it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::updates::{Update, Updates};
use crate::base::duration;
use crate::serve::http::{answer, refusal};

/// The most streams and waits at a time. The server accepts more connections, so short requests always find one.
const MOST_WAITING: usize = 64;

/// How long `/leader/wait` waits by default.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// The longest wait that `/leader/wait` accepts.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// How often a stream without events sends a comment, to show that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client should wait before it reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// The state that the routes share.
#[derive(Clone)]
struct SidecarState {
    updates: Arc<Updates>,
    permits: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Returns the routes for the program. Streams end when `stop` is cancelled.
pub(super) fn program(updates: &Arc<Updates>, stop: &CancellationToken) -> Router {
    let state = SidecarState {
        updates: Arc::clone(updates),
        permits: Arc::new(Semaphore::new(MOST_WAITING)),
        stop: stop.clone(),
    };
    Router::new()
        .route("/", get(name))
        .route("/leader", get(leader))
        .route("/leader/wait", get(wait))
        .route("/events", get(events))
        .route("/sse", get(names))
        .with_state(state)
}

/// The answer of the classic leader-elector sidecar.
async fn name(State(state): State<SidecarState>) -> Response {
    answer(StatusCode::OK, &json!({ "name": state.updates.snapshot().name() }))
}

async fn leader(State(state): State<SidecarState>) -> Response {
    answer(StatusCode::OK, &state.updates.snapshot())
}

#[derive(Deserialize)]
struct WaitQuery {
    timeout: Option<String>,
}

/// Answers as soon as this replica leads, or after the time limit. The wait ends if the client disconnects.
async fn wait(State(state): State<SidecarState>, query: Result<Query<WaitQuery>, QueryRejection>) -> Response {
    let limit = match query.map(|Query(WaitQuery { timeout })| timeout) {
        Ok(None) => Ok(DEFAULT_WAIT),
        Ok(Some(text)) => duration::parse(&text).and_then(|limit| match limit {
            limit if limit <= LONGEST_WAIT => Ok(limit),
            _ => Err(format!("{text:?} is longer than 5m")),
        }),
        Err(rejection) => Err(rejection.body_text()),
    };
    let limit = match limit {
        Ok(limit) => limit,
        Err(reason) => return refusal(StatusCode::BAD_REQUEST, &format!("timeout: {reason}")),
    };
    let Some(_permit) = state.permit() else { return full() };
    match tokio::time::timeout(limit, state.updates.leading()).await {
        Ok(Some(snapshot)) => answer(StatusCode::OK, &snapshot),
        Ok(None) | Err(_) => answer(StatusCode::SERVICE_UNAVAILABLE, &state.updates.snapshot()),
    }
}

/// Streams the current state first, and then an event for each change.
async fn events(State(state): State<SidecarState>) -> Response {
    state.stream(|update| {
        let Update { number, event, snapshot } = update;
        Event::default().event(event.as_str()).id(number.to_string()).data(text(snapshot))
    })
}

/// Streams as nais/elector does: only the holder, in events without a name.
async fn names(State(state): State<SidecarState>) -> Response {
    // Every update has another holder than the one before: see `updates::tests`.
    state.stream(|Update { snapshot, .. }| {
        let last_update = format!("{:.0}", jiff::Timestamp::now());
        Event::default().data(text(&json!({ "name": snapshot.name(), "last_update": last_update })))
    })
}

impl SidecarState {
    fn permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    fn stream(self, form: impl Fn(&Update) -> Event + Send + 'static) -> Response {
        let Some(permit) = self.permit() else { return full() };
        let mut first = true;
        let events = self.updates(permit).map(move |update| {
            let event = form(&update);
            Ok::<_, Infallible>(if std::mem::take(&mut first) { event.retry(RETRY) } else { event })
        });
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        ([(header::CACHE_CONTROL, "no-store")], Sse::new(events).keep_alive(keep_alive)).into_response()
    }

    /// The stream of updates. It builds each update only after the client has taken the one before.
    fn updates(self, permit: OwnedSemaphorePermit) -> impl Stream<Item = Update> + Send + 'static {
        let reader = self.updates.reader();
        stream::unfold((reader, permit), |(mut reader, permit)| async move {
            let update = reader.next().await;
            Some((update, (reader, permit)))
        })
        .take_until(self.stop.cancelled_owned())
    }
}

fn full() -> Response {
    let refused = refusal(StatusCode::SERVICE_UNAVAILABLE, "too many streams and waits: retry later");
    ([(header::RETRY_AFTER, "1")], refused).into_response()
}

fn text(body: &impl Serialize) -> String {
    // This cannot fail: the bodies contain only strings and numbers.
    serde_json::to_string(body).unwrap_or_default()
}

#[cfg(test)]
mod tests;
