//! How the wrapper handles its own signals.
//!
//! SIGTERM, SIGINT and the signals of `--stop-on` start a voluntary end. So does SIGHUP on a terminal, since the terminal
//! is then gone. The wrapper forwards every other signal to the command. A wrapper that runs no command stops at once.

mod names;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(in crate::stand::run) use self::names::name;
pub use self::names::{StopSignals, stop_signal};
use super::children::Children;
use crate::base::signals;

/// The signals that the wrapper always forwards.
const PASSED_ON: [Signal; 5] = [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT];

/// The signals that it also forwards without a terminal. On a terminal they concern the terminal itself.
const PASSED_ON_WITHOUT_TERMINAL: [Signal; 3] = [Signal::HUP, Signal::TTIN, Signal::TTOU];

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

/// Starts to receive signals. `terminal` means that the command shares the wrapper's terminal and process group. `further`
/// stop the wrapper, too; when one of them comes again, the command gets `stop_signal`.
///
/// # Errors
/// Fails if a signal handler cannot be installed.
pub(super) fn listen(
    children: &Children,
    terminal: bool,
    further: &StopSignals,
    stop_signal: Signal,
) -> anyhow::Result<Stop> {
    let stop = Stop { token: CancellationToken::new(), by_terminal: Arc::default() };
    let ignored = signals::ignores_hangup().then_some(Signal::HUP);
    let hangup = terminal.then_some(Signal::HUP);
    let usual = [Signal::TERM, Signal::INT].into_iter().chain(hangup).filter(|kind| Some(*kind) != ignored);
    let mut numbers: Vec<i32> = usual.map(Signal::as_raw).collect();
    numbers.extend(&further.0);
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers.iter().copied() {
        let mut received = signal(SignalKind::from_raw(number)).context("signals cannot be received")?;
        let (stop, children) = (stop.clone(), children.clone());
        // The keys Ctrl-C and Ctrl-\ send their signals to the command as well.
        let by_terminal = terminal && [Signal::INT, Signal::QUIT].map(Signal::as_raw).contains(&number);
        let again = [Signal::TERM, Signal::INT].into_iter().find(|kind| kind.as_raw() == number);
        tokio::spawn(async move {
            while received.recv().await.is_some() {
                if stop.token.is_cancelled() {
                    // Forward a second signal: the command may then end faster. A second Ctrl-C reaches the command itself.
                    if !by_terminal {
                        children.signal(again.unwrap_or(stop_signal));
                    }
                    continue;
                }
                tracing::info!("stopping");
                stop.by_terminal.store(by_terminal, Ordering::SeqCst);
                stop.token.cancel();
            }
        });
    }
    let elsewhere = if terminal { &[][..] } else { &PASSED_ON_WITHOUT_TERMINAL };
    let passed_on = PASSED_ON.iter().chain(elsewhere).copied();
    for kind in passed_on.filter(|kind| Some(*kind) != ignored && !numbers.contains(&kind.as_raw())) {
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
