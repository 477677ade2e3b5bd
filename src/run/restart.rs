//! Whether the command is started again after it has ended by itself, and when.

use std::time::Duration;

use super::children::Status;

/// The wait after the first end.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait. A command that ran for longer starts anew with the first.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// When the command is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// It never is: the wrapper ends with it.
    Never,
    /// If it has failed.
    OnFailure,
    /// Whatever its end was.
    Always,
}

/// How long to wait before the command may be started again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    last: Option<Duration>,
}

impl Restart {
    /// Reads `--restart`.
    pub fn read(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(Self::Never),
            "on-failure" => Ok(Self::OnFailure),
            "always" => Ok(Self::Always),
            _ => Err(format!("{text:?} is neither never, on-failure nor always")),
        }
    }

    pub(super) fn wants(self, status: Status) -> bool {
        match self {
            // By these two codes a command says that it could not be started, which the next attempt cannot either.
            _ if matches!(status, Status::Code(126 | 127)) => false,
            Self::Never => false,
            Self::OnFailure => status != Status::Code(0),
            Self::Always => true,
        }
    }
}

impl Backoff {
    /// The wait after a command that ran for so long.
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
    fn waits_double_up_to_a_limit_and_begin_anew_after_a_long_life() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..10).map(|_| backoff.next(Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
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
