//! The operator's side of a running process: health, metrics, the log, and signals.

pub mod admin;
pub mod health;
pub mod http;
pub mod logging;
pub mod metrics;
#[cfg(feature = "otlp")]
pub mod traces;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Returns a token that SIGTERM, SIGINT and SIGHUP (the end of the terminal) cancel. If the process already ignores
/// SIGHUP, it still does.
///
/// # Errors
/// Fails if a signal handler cannot be installed.
///
/// # Panics
/// Panics outside a tokio runtime.
pub fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let hangup = (!ignores_hangup()).then(SignalKind::hangup);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()].into_iter().chain(hangup) {
        let mut signals = signal(kind).context("cannot install a signal handler")?;
        let token = token.clone();
        tokio::spawn(async move {
            signals.recv().await;
            tracing::info!("stopping");
            token.cancel();
        });
    }
    Ok(token)
}

/// Whether this process ignores SIGHUP, as under `nohup`. It and its children then outlive the terminal.
///
/// Call this before installing a handler for SIGHUP, since the process no longer ignores a signal that it handles.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The mask's lowest bit is signal 1, SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
