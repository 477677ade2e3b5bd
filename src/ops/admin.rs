//! The admin server: `/livez`, `/readyz` and `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::health::Health;

/// Where the admin server listens: `:8080` on every address, or `host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminAddress {
    host: Option<String>,
    port: u16,
}

impl AdminAddress {
    /// Reads `--admin-address`.
    pub fn read(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is no address such as :8080 or 127.0.0.1:8080");
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let port = port.parse().map_err(|_| refused())?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        if host.contains(char::is_whitespace) || (host.contains(':') && !bracketed) {
            return Err(refused());
        }
        Ok(Self { host: (!host.is_empty()).then(|| host.to_owned()), port })
    }

    /// Begins to listen.
    pub async fn bind(&self) -> std::io::Result<TcpListener> {
        match &self.host {
            Some(host) => TcpListener::bind(format!("{host}:{}", self.port)).await,
            None => match TcpListener::bind(SocketAddr::from(([0_u16; 8], self.port))).await {
                Ok(listener) => Ok(listener),
                // A machine without IPv6.
                Err(_) => TcpListener::bind(SocketAddr::from(([0_u8; 4], self.port))).await,
            },
        }
    }
}

impl std::fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host.as_deref().unwrap_or_default(), self.port)
    }
}

/// Serves until `stop` is cancelled.
pub async fn serve(
    listener: TcpListener,
    health: Health,
    registry: Arc<Registry>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    axum::serve(listener, router(health, registry)).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// The routes, which other commands may extend.
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
        (StatusCode::INTERNAL_SERVER_ERROR, "the event loop stands still\n").into_response()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_host() {
        for text in [":8080", "127.0.0.1:0", "localhost:9090", "[::1]:80"] {
            assert_eq!(AdminAddress::read(text).unwrap().to_string(), text);
        }
        for refused in ["", "8080", "::1:80", "host:", "host:http", ":99999", "a b:80"] {
            assert!(AdminAddress::read(refused).is_err(), "{refused:?}");
        }
    }
}
