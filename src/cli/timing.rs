//! The three durations of a term, which every command that holds a Lease parses in the same way.

use std::time::Duration;

use hustings_core::elector::{InvalidTiming, Timing};

use super::Values;
use super::values::{duration, whole_seconds};

/// The values of the three flags, unparsed. The flags are called `PREFIXlease-duration` and so on.
pub(super) struct TimingFlags<'a> {
    pub(super) prefix: &'a str,
    pub(super) lease_duration: &'a str,
    pub(super) renew_deadline: &'a str,
    pub(super) retry_period: &'a str,
}

impl TimingFlags<'_> {
    /// Parses the flags. Returns `None` if one of them is invalid or if they break a rule of [`Timing`].
    pub(super) fn read(&self, values: &mut Values) -> Option<Timing> {
        let flag = |name| format!("{}{name}", self.prefix);
        let lease = values.take(&flag("lease-duration"), self.lease_duration, whole_seconds);
        let deadline = values.take(&flag("renew-deadline"), self.renew_deadline, duration);
        let retry = values.take(&flag("retry-period"), self.retry_period, duration);
        let (lease, deadline, retry) = (lease?, deadline?, retry?);
        let timing = Timing {
            lease_duration_seconds: lease,
            renew_deadline: deadline,
            retry_period: retry,
            ..Timing::default()
        };
        // A request that hangs must leave time for another one before the deadline. A write that is sent when the next
        // renewal is due must also end before the deadline.
        let longest = (deadline / 2).min(deadline.saturating_sub(timing.longest_retry_period()));
        let request_timeout = longest.clamp(Duration::from_millis(1), timing.request_timeout);
        let timing = Timing { request_timeout, ..timing };
        let broken = timing.validate().err().unwrap_or_default();
        for rule in &broken {
            let name = match rule {
                InvalidTiming::LeaseDurationZero | InvalidTiming::LeaseDurationTooLong => "lease-duration",
                InvalidTiming::RetryPeriodZero => "retry-period",
                InvalidTiming::RenewDeadlineTooLong
                | InvalidTiming::RenewDeadlineTooShort
                // The request timeout follows from the deadline and is never zero.
                | InvalidTiming::RequestTimeoutZero => "renew-deadline",
                InvalidTiming::StopGraceZero => "stop-grace",
            };
            values.refuse(&flag(name), &rule.to_string());
        }
        broken.is_empty().then_some(timing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lease_duration: &str, renew_deadline: &str, retry_period: &str) -> Result<Timing, String> {
        let mut values = Values::default();
        let flags = TimingFlags { prefix: "", lease_duration, renew_deadline, retry_period };
        let timing = flags.read(&mut values);
        values.accept((timing, Some(()))).map(|(timing, ())| timing).map_err(|refused| refused.to_string())
    }

    #[test]
    fn what_client_go_accepts_is_accepted_with_fractions_of_seconds_and_a_request_ends_before_the_deadline() {
        for (texts, request_timeout) in [
            (("15s", "10s", "2s"), 5_000),
            (("30s", "15s", "7.5s"), 5_000),
            (("5s", "4.9s", "500ms"), 2_450),
            (("15s", "3s", "2s"), 600),
            (("1m0.0s", "0.5m", "1s"), 5_000),
        ] {
            let timing = read(texts.0, texts.1, texts.2).unwrap();
            assert_eq!(timing.request_timeout, Duration::from_millis(request_timeout), "{texts:?}");
        }
        let refused = read("15.5s", "10s", "2s").unwrap_err();
        assert!(refused.contains("--lease-duration: \"15.5s\" is not a whole number of seconds"), "{refused}");
        let refused = read("15s", "2.4s", "2s").unwrap_err();
        assert!(refused.contains("--renew-deadline: the renew deadline must be longer"), "{refused}");
    }
}
