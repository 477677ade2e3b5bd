//! The signals that end a process.

use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// How long a command may take to end after a signal.
const GRACE: Duration = Duration::from_millis(200);

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

/// Ends the process at SIGTERM, SIGINT or SIGHUP, as it would end without a handler, but calls `clean_up` first.
///
/// # Errors
/// Fails if a signal handler cannot be installed.
///
/// # Panics
/// Panics outside a tokio runtime.
pub fn exit_on_signals(clean_up: fn()) -> anyhow::Result<()> {
    let hangup = (!ignores_hangup()).then(SignalKind::hangup);
    for kind in [SignalKind::terminate(), SignalKind::interrupt()].into_iter().chain(hangup) {
        let mut signals = signal(kind).context("cannot install a signal handler")?;
        tokio::spawn(async move {
            signals.recv().await;
            clean_up();
            // A command that handles the signal itself may end gracefully meanwhile.
            tokio::time::sleep(GRACE).await;
            std::process::exit(128 + kind.as_raw_value());
        });
    }
    Ok(())
}

/// Whether this process ignores SIGHUP, as under `nohup`. It and its children then outlive the terminal.
///
/// Call this before installing a handler for SIGHUP, since the process no longer ignores a signal that it handles.
pub fn ignores_hangup() -> bool {
    shows_that_hangup_is_ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Whether a process with this `/proc/PID/status` ignores SIGHUP.
fn shows_that_hangup_is_ignored(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The mask's lowest bit is signal 1, SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_signal_of_the_ignored_ones_is_a_hangup() {
        for (mask, expected) in [("0", false), ("1", true), ("2", false), ("5", true), ("x", false)] {
            let status = format!("SigBlk:\t0000000000000001\nSigIgn:\t000000000000000{mask}\n");
            assert_eq!(shows_that_hangup_is_ignored(&status), expected, "{mask}");
        }
        assert!(!shows_that_hangup_is_ignored(""));
    }
}
