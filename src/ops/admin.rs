//! The admin server: `/livez`, `/readyz` and `/metrics`.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use serde::Deserialize;

use super::health::Health;

/// The routes of the admin server. Commands may add their own.
pub fn router(health: Health, registry: Arc<Registry>) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
        .merge(Router::new().route("/metrics", get(metrics)).with_state(registry))
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

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
