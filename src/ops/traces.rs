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
        let endpoint = |name| std::env::var(name).ok().filter(|value| !value.is_empty()).map(|value| (name, value));
        let Some((name, endpoint)) = ENDPOINTS.into_iter().find_map(endpoint) else { return Ok(None) };
        if !endpoint.starts_with("http://") {
            let message = format!("{name}: {endpoint:?} is not an http:// address, and traces are sent without TLS");
            return Err(Hinted::new(message, "name a collector on this node, such as http://localhost:4318").into());
        }
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

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let client = Arc::clone(&self.client);
        self.runtime.spawn(async move { client.send_bytes(request).await }).await?
    }
}
