//! How the wrapper handles its own signals.
//!
//! SIGTERM and SIGINT start a voluntary end. So does SIGHUP on a terminal, since the terminal is then gone. The wrapper
//! forwards every other signal to the command. A wrapper that runs no command stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::children::Children;
use crate::ops;

/// The signals that the wrapper always forwards.
const PASSED_ON: [Signal; 5] = [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT];

/// The signals that it also forwards without a terminal. On a terminal they concern the terminal itself.
const PASSED_ON_WITHOUT_TERMINAL: [Signal; 3] = [Signal::HUP, Signal::TTIN, Signal::TTOU];

/// The values of `--stop-signal`.
const STOP_SIGNALS: [(&str, Signal); 8] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
    ("KILL", Signal::KILL),
];

/// Whether a signal has stopped the wrapper.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    /// Cancelled by the signal.
    pub(super) token: CancellationToken,
    by_terminal: Arc<AtomicBool>,
}

impl Stop {
    /// Whether the signal may have come from the terminal. Ctrl-C also reaches the command; `kill -INT` does not.
    pub(super) fn is_by_terminal(&self) -> bool {
        self.by_terminal.load(Ordering::SeqCst)
    }
}

/// The name of a stop signal, as in `--stop-signal`.
pub(super) fn name(signal: Signal) -> &'static str {
    STOP_SIGNALS.iter().find(|(_, known)| *known == signal).map_or("another", |(name, _)| name)
}

/// Parses `--stop-signal`, with or without `SIG`.
pub fn stop_signal(text: &str) -> Result<Signal, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let found = STOP_SIGNALS.iter().find(|(known, _)| *known == name);
    found.map(|(_, signal)| *signal).ok_or_else(|| {
        let names = STOP_SIGNALS.map(|(name, _)| name).join(", ");
        format!("{text:?} is not a stop signal: use one of {names}")
    })
}

/// Starts to receive signals. `terminal` means that the command shares the wrapper's terminal and process group.
///
/// # Errors
/// Fails if a signal handler cannot be installed.
pub(super) fn listen(children: &Children, terminal: bool) -> anyhow::Result<Stop> {
    let stop = Stop { token: CancellationToken::new(), by_terminal: Arc::default() };
    let ignored = ops::ignores_hangup().then_some(Signal::HUP);
    let hangup = terminal.then_some(Signal::HUP);
    for kind in [Signal::TERM, Signal::INT].into_iter().chain(hangup).filter(|kind| Some(*kind) != ignored) {
        let mut received = signal(SignalKind::from_raw(kind.as_raw())).context("signals cannot be received")?;
        let (stop, children) = (stop.clone(), children.clone());
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                let by_terminal = terminal && kind == Signal::INT;
                if stop.token.is_cancelled() {
                    // Forward a second signal: the command may then end faster. A second Ctrl-C reaches the command itself.
                    if !by_terminal {
                        children.signal(kind);
                    }
                    continue;
                }
                tracing::info!("stopping");
                stop.by_terminal.store(by_terminal, Ordering::SeqCst);
                stop.token.cancel();
            }
        });
    }
    let further = if terminal { &[][..] } else { &PASSED_ON_WITHOUT_TERMINAL };
    for kind in PASSED_ON.iter().chain(further).copied().filter(|kind| Some(*kind) != ignored) {
        let mut received = signal(SignalKind::from_raw(kind.as_raw())).context("signals cannot be received")?;
        let (token, children) = (stop.token.clone(), children.clone());
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                let is_passed_on = children.signal(kind);
                // Some images use SIGQUIT as their stop signal.
                if !is_passed_on && kind == Signal::QUIT {
                    tracing::info!("stopping");
                    token.cancel();
                }
            }
        });
    }
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names_with_or_without_sig() {
        for text in ["QUIT", "quit", "SIGQUIT"] {
            assert_eq!(stop_signal(text), Ok(Signal::QUIT));
        }
        for text in ["", "STOP", "15", "SIG"] {
            assert!(stop_signal(text).unwrap_err().contains("use one of TERM, INT"), "{text}");
        }
    }
}
