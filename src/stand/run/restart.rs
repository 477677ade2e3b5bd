//! Decides whether and when the wrapper restarts a command that has ended by itself.

use std::time::Duration;

use super::children::Status;

/// The first wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait. After a run longer than this, the waits begin again with the first.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// When the wrapper restarts the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Never: the wrapper ends with the command.
    Never,
    /// After an exit code other than 0, or a signal.
    OnFailure,
    /// After every end.
    Always,
}

/// Computes the wait before the next start of the command.
#[derive(Debug, Default)]
pub(super) struct RestartBackoff {
    last: Option<Duration>,
}

impl Restart {
    /// Every policy, with its name.
    pub const NAMES: [(&'static str, Self); 3] =
        [("never", Self::Never), ("on-failure", Self::OnFailure), ("always", Self::Always)];

    pub(super) fn wants(self, status: Status) -> bool {
        match self {
            // These codes mean that the command could not be started. Another attempt would fail as well.
            _ if matches!(status, Status::Code(126 | 127)) => false,
            Self::Never => false,
            Self::OnFailure => status != Status::Code(0),
            Self::Always => true,
        }
    }
}

impl RestartBackoff {
    /// The wait after a command that ran for the duration `ran`.
    pub(super) fn next(&mut self, ran: Duration) -> Duration {
        let wait = match self.last {
            Some(last) if ran <= LONGEST_WAIT => last.saturating_mul(2).min(LONGEST_WAIT),
            _ => FIRST_WAIT,
        };
        self.last = Some(wait);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_reset_after_a_long_run() {
        let mut backoff = RestartBackoff::default();
        let waits: Vec<_> = (0..10).map(|_| backoff.next(Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(backoff.next(LONGEST_WAIT), LONGEST_WAIT);
        assert_eq!(backoff.next(Duration::from_mins(6)), FIRST_WAIT);
    }

    #[test]
    fn a_command_that_cannot_be_started_is_never_tried_again() {
        assert!(!Restart::Always.wants(Status::Code(127)) && !Restart::OnFailure.wants(Status::Code(126)));
        assert!(Restart::OnFailure.wants(Status::Code(1)) && Restart::OnFailure.wants(Status::Signal(9)));
        assert!(!Restart::OnFailure.wants(Status::Code(0)) && Restart::Always.wants(Status::Code(0)));
        assert!(!Restart::Never.wants(Status::Signal(9)));
    }
}
