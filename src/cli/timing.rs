//! The three durations of a term, which every command that holds a Lease takes in the same way.

use std::time::Duration;

use hustings_core::elector::{InvalidTiming, Timing};

use super::Values;
use super::values::{duration, whole_seconds};

/// The texts of the three flags; their names are `PREFIXlease-duration` and so on.
pub(super) struct TimingFlags<'a> {
    pub(super) prefix: &'a str,
    pub(super) lease_duration: &'a str,
    pub(super) renew_deadline: &'a str,
    pub(super) retry_period: &'a str,
}

impl TimingFlags<'_> {
    /// What they mean; `None` where one was refused, or where they do not go together.
    pub(super) fn read(&self, values: &mut Values) -> Option<Timing> {
        let flag = |name| format!("{}{name}", self.prefix);
        let lease = values.take(&flag("lease-duration"), self.lease_duration, whole_seconds);
        let deadline = values.take(&flag("renew-deadline"), self.renew_deadline, duration);
        let retry = values.take(&flag("retry-period"), self.retry_period, duration);
        let (lease, deadline, retry) = (lease?, deadline?, retry?);
        // A request that hangs must leave time for another before the deadline.
        let request_timeout = (deadline / 2).clamp(Duration::from_millis(1), Timing::default().request_timeout);
        let timing = Timing {
            lease_duration_seconds: lease,
            renew_deadline: deadline,
            retry_period: retry,
            request_timeout,
            ..Timing::default()
        };
        let broken = timing.validate().err().unwrap_or_default();
        for rule in &broken {
            let name = match rule {
                InvalidTiming::LeaseDurationZero | InvalidTiming::LeaseDurationTooLong => "lease-duration",
                InvalidTiming::RetryPeriodZero => "retry-period",
                InvalidTiming::RenewDeadlineTooLong
                | InvalidTiming::RenewDeadlineTooShort
                // It follows from the deadline, and is not zero.
                | InvalidTiming::RequestTimeoutZero => "renew-deadline",
                InvalidTiming::StopGraceZero => "stop-grace",
            };
            values.refuse(&flag(name), &rule.to_string());
        }
        broken.is_empty().then_some(timing)
    }
}
