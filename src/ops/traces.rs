//! Exports traces by OTLP, as protobuf over HTTP (feature `otlp`).
//!
//! OpenTelemetry's environment variables configure the export. Without an endpoint, this module exports nothing. The
//! exporter has a bounded queue and drops the spans that do not fit, so a slow collector delays no election.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;

use crate::environment::variable;
use crate::hint::Hinted;

/// The variables that name a collector, such as `http://localhost:4318`.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// How long the collector may take for one batch, and at the end of the process for the last one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The export of this process's spans.
pub struct Traces(SdkTracerProvider);

/// An HTTP client for the exporter's thread, which has no runtime of its own.
#[derive(Debug)]
struct OnRuntime {
    client: Arc<HyperClient>,
    runtime: Handle,
}

impl Traces {
    /// Exports the spans of `service`, if the environment names a collector. Call this in a tokio runtime.
    ///
    /// # Errors
    /// Fails if the environment names an invalid collector.
    pub fn start(service: &'static str) -> anyhow::Result<Option<Self>> {
        let Some((name, endpoint)) = collector(variable)? else { return Ok(None) };
        let client = Arc::new(HyperClient::with_default_connector(TIMEOUT, None));
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(OnRuntime { client, runtime: Handle::current() })
            .with_protocol(Protocol::HttpBinary)
            .build()
            .with_context(|| Hinted::new("cannot export traces", format!("correct {name}={endpoint}")))?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name(service).with_attribute(version).build();
        let provider = SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build();
        opentelemetry::global::set_tracer_provider(provider.clone());
        tracing::info!(endpoint, "exports traces");
        Ok(Some(Self(provider)))
    }

    /// Sends the last spans.
    pub async fn stop(self) {
        let sent = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(TIMEOUT)).await;
        if let Ok(Err(error)) = sent {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

/// The variable that names the collector, and its address. `None` if no variable does.
fn collector(variable: impl Fn(&str) -> Option<String>) -> Result<Option<(&'static str, String)>, Hinted> {
    let endpoint = |name| variable(name).map(|value| (name, value));
    let Some((name, endpoint)) = ENDPOINTS.into_iter().find_map(endpoint) else { return Ok(None) };
    if endpoint.starts_with("http://") {
        return Ok(Some((name, endpoint)));
    }
    let message = format!("{name}: {endpoint:?} is not an http:// address, and traces are sent without TLS");
    Err(Hinted::new(message, "name a collector on this node, such as http://localhost:4318"))
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_for_traces_precedes_and_an_address_that_needs_tls_is_refused() {
        let read = |values: [&str; 2]| {
            let value = |name: &str| Some(values[ENDPOINTS.iter().position(|known| *known == name)?].to_owned());
            collector(|name| value(name).filter(|value| !value.is_empty())).map_err(|error| error.to_string())
        };
        assert_eq!(read(["", ""]), Ok(None));
        assert_eq!(read(["", "http://b:4318"]), Ok(Some((ENDPOINTS[1], "http://b:4318".to_owned()))));
        assert_eq!(read(["http://a:4318", "http://b:4318"]), Ok(Some((ENDPOINTS[0], "http://a:4318".to_owned()))));
        let refused = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: \"https://a\" is not an http:// address, and traces are sent without TLS";
        assert_eq!(read(["https://a", "http://b:4318"]), Err(refused.to_owned()));
    }
}
