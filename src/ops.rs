//! What an operator sees of a running process, health, metrics and the log, and how it is told to end.

pub mod admin;
pub mod health;
pub mod http;
pub mod logging;
pub mod metrics;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that SIGTERM, SIGINT and the end of the terminal cancel. To be called within the runtime.
pub fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let hangup = (!ignores_hangup()).then(SignalKind::hangup);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()].into_iter().chain(hangup) {
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

/// Whether SIGHUP is ignored, as `nohup` has it: then this process, and what it starts, outlives its terminal. To be asked
/// before SIGHUP is received, which ends that.
pub fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is that of the signal 1.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
