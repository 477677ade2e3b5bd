//! The admin server: `/livez`, `/readyz` and `/metrics`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::time::Instant;

use super::health::Health;
use super::http::refusal;

/// The routes of the admin server. Commands may add their own.
pub fn router(health: Health, registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(Arc::new(Exposition::new(registry))))
}

/// The most answers of `/metrics` that are in memory at a time, sent or being sent. Each may have megabytes.
const MOST_EXPOSITIONS: usize = 4;

/// How old metrics may be that are served again while clients read too many former answers.
const LONGEST_AGE: Duration = Duration::from_secs(10);

/// The metrics, and the last answers that clients are still reading.
struct Exposition {
    registry: Arc<Registry>,
    sent: Mutex<VecDeque<(Instant, Bytes)>>,
}

impl Exposition {
    const fn new(registry: Arc<Registry>) -> Self {
        Self { registry, sent: Mutex::new(VecDeque::new()) }
    }

    /// The metrics as text. Slow clients must cost no memory: while they read too many former answers, this is the last
    /// one of these, or `None` if that is old.
    fn text(&self) -> Result<Option<Bytes>, std::fmt::Error> {
        // Nothing below panics while it holds the lock.
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|(_, text)| !text.is_unique());
        if let Some((at, last)) = sent.back().filter(|_| sent.len() >= MOST_EXPOSITIONS) {
            return Ok((at.elapsed() <= LONGEST_AGE).then(|| last.clone()));
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        text.shrink_to_fit();
        let text = Bytes::from(text);
        sent.push_back((Instant::now(), text.clone()));
        Ok(Some(text))
    }
}

#[derive(Deserialize)]
struct Verbosity {
    verbose: Option<String>,
}

async fn livez(State(health): State<Health>) -> Response {
    if health.is_alive() {
        (StatusCode::OK, "ok\n").into_response()
    } else {
        (StatusCode::INTERNAL_SERVER_ERROR, "the event loop is stuck\n").into_response()
    }
}

async fn readyz(State(health): State<Health>, Query(Verbosity { verbose }): Query<Verbosity>) -> Response {
    let readiness = health.readiness();
    let code = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if verbose.is_some() {
        return (code, Json(readiness)).into_response();
    }
    if readiness.ready {
        return (code, "ok\n").into_response();
    }
    let failing: Vec<_> = readiness.checks.into_iter().filter(|check| !check.ok).map(|check| check.name).collect();
    (code, format!("not ready: {}\n", failing.join(", "))).into_response()
}

async fn metrics(State(exposition): State<Arc<Exposition>>) -> Response {
    match exposition.text() {
        Ok(Some(text)) => {
            ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
                .into_response()
        }
        Ok(None) => refusal(StatusCode::SERVICE_UNAVAILABLE, "too many clients are reading the metrics slowly"),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;
    use crate::serve::health::STUCK_AFTER;
    use crate::serve::http::testing::{ask, text_of};

    async fn get(health: &Health, path: &str) -> (u16, String) {
        let response = ask(&router(health.clone(), Arc::default()), path).await;
        (response.status().as_u16(), text_of(response).await)
    }

    #[tokio::test]
    async fn readiness_has_the_same_code_in_both_forms_and_names_what_fails() {
        let health = Health::new();
        let (own, crd) = (health.check("own-lease"), health.check("crd"));
        own.pass();
        crd.fail("not installed");
        assert_eq!(get(&health, "/readyz").await, (503, "not ready: crd\n".to_owned()));
        let (code, text) = get(&health, "/readyz?verbose").await;
        let checks =
            json!([{ "name": "crd", "ok": false, "message": "not installed" }, { "name": "own-lease", "ok": true }]);
        let expected = json!({ "ready": false, "checks": checks });
        assert_eq!((code, serde_json::from_str::<Value>(&text).unwrap()), (503, expected));
        crd.pass_with(Some("old".to_owned()));
        assert_eq!(get(&health, "/readyz").await, (200, "ok\n".to_owned()));
        let (code, text) = get(&health, "/readyz?verbose").await;
        assert!(code == 200 && text.contains("\"message\":\"old\""), "{text}");
        assert_eq!(get(&health, "/livez").await, (200, "ok\n".to_owned()));
        assert_eq!(get(&health, "/metrics").await, (200, "# EOF\n".to_owned()));
    }

    #[tokio::test]
    async fn every_failing_check_is_named_even_before_its_first_result() {
        let health = Health::new();
        let checks = [health.check("crd"), health.check("own-lease")];
        assert_eq!(get(&health, "/readyz").await, (503, "not ready: crd, own-lease\n".to_owned()));
        let text = get(&health, "/readyz?verbose").await.1;
        assert_eq!(text.matches("\"message\":\"no result yet\"").count(), checks.len(), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_whose_event_loop_is_stuck_is_not_alive() {
        let health = Health::new();
        tokio::time::advance(STUCK_AFTER).await;
        assert_eq!(get(&health, "/livez").await, (500, "the event loop is stuck\n".to_owned()));
        health.beat();
        assert_eq!(get(&health, "/livez").await, (200, "ok\n".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_take_the_memory_of_a_few() {
        let exposition = Exposition::new(Arc::default());
        let next = || exposition.text().unwrap();
        let mut unread: Vec<_> = (0..9).map(|_| next().unwrap()).collect();
        let distinct = |texts: &[Bytes]| texts.iter().map(|text| text.as_ptr()).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&unread), MOST_EXPOSITIONS);
        // The first one has been read, so the next one is new.
        unread.remove(0);
        unread.push(next().unwrap());
        assert_eq!(distinct(&unread), MOST_EXPOSITIONS);
        assert_ne!(unread[8].as_ptr(), unread[7].as_ptr());
        tokio::time::advance(2 * LONGEST_AGE).await;
        assert_eq!(next(), None, "old values would look like new ones");
        unread.clear();
        assert!(next().is_some());
    }

    #[tokio::test]
    async fn metrics_have_the_content_type_of_openmetrics() {
        let response = ask(&router(Health::new(), Arc::default()), "/metrics").await;
        let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(response.headers()["content-type"], expected);
    }
}
