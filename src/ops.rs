//! What an operator sees of a running process: health, metrics and the log.

pub mod admin;
pub mod health;
pub mod http;
pub mod logging;
pub mod metrics;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that SIGTERM and SIGINT cancel. To be called within the runtime.
pub fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut signals = signal(kind).context("signals cannot be received")?;
        let token = token.clone();
        tokio::spawn(async move {
            signals.recv().await;
            tracing::info!("stopping");
            token.cancel();
        });
    }
    Ok(token)
}
