//! The three durations of a term. Every command that holds a Lease parses them in the same way.

use std::time::Duration;

use hustings_core::elector::{Durations, InvalidTiming, Timing};

use super::Mistakes;

/// The timing of an elector from its three flags, named `PREFIXlease-duration` and so on. `None` after a mistake.
pub(super) fn timing(
    prefix: &str,
    lease_duration_seconds: u32,
    renew_deadline: Duration,
    retry_period: Duration,
    mistakes: &mut Mistakes,
) -> Option<Timing> {
    let durations = Durations { lease_duration_seconds, renew_deadline, retry_period, ..Durations::default() };
    valid(prefix, durations.with_fitting_request_timeout(), mistakes)
}

/// The timing of these durations. `None` after a mistake.
pub(super) fn valid(prefix: &str, durations: Durations, mistakes: &mut Mistakes) -> Option<Timing> {
    let add = |rule: InvalidTiming| {
        let name = match rule {
            InvalidTiming::LeaseDurationZero | InvalidTiming::LeaseDurationTooLong { .. } => "lease-duration",
            InvalidTiming::RetryPeriodZero => "retry-period",
            InvalidTiming::RenewDeadlineTooLong { .. }
            | InvalidTiming::RenewDeadlineTooShort { .. }
            // The request timeout follows from the deadline.
            | InvalidTiming::RequestTimeoutZero => "renew-deadline",
            InvalidTiming::StopGraceZero => "stop-grace",
        };
        mistakes.add(&format!("--{prefix}{name}"), rule.to_string());
    };
    Timing::new(durations).map_err(|broken| broken.into_iter().for_each(add)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        lease_duration_seconds: u32,
        renew_deadline_millis: u64,
        retry_period_millis: u64,
    ) -> Result<Timing, String> {
        let [deadline, period] = [renew_deadline_millis, retry_period_millis].map(Duration::from_millis);
        let timing = Mistakes::check(|mistakes| timing("own-", lease_duration_seconds, deadline, period, mistakes));
        timing.map_err(|error| error.to_string())
    }

    #[test]
    fn the_rules_of_client_go_hold_and_a_request_ends_before_the_deadline() {
        for (lease, deadline, retry, request_timeout) in [
            (15, 10_000, 2_000, 5_000),
            (30, 15_000, 7_500, 5_000),
            (5, 4_900, 500, 2_450),
            (15, 3_000, 2_000, 600),
            (60, 30_000, 1_000, 5_000),
        ] {
            let timing = read(lease, deadline, retry).unwrap();
            assert_eq!(timing.request_timeout(), Duration::from_millis(request_timeout), "{lease} {deadline} {retry}");
        }
        let error = read(15, 2_400, 2_000).unwrap_err();
        assert!(error.contains("--own-renew-deadline: the renew deadline of 2.4s is not above 2.4s"), "{error}");
    }

    #[test]
    fn each_broken_rule_names_its_flag() {
        let ten = Duration::from_secs(10);
        let good = Durations::default();
        for (durations, flag) in [
            (Durations { lease_duration_seconds: 0, ..good }, "lease-duration"),
            (Durations { retry_period: Duration::ZERO, ..good }, "retry-period"),
            (Durations { lease_duration_seconds: 10, renew_deadline: ten, ..good }, "renew-deadline"),
            (Durations { request_timeout: Duration::ZERO, ..good }, "renew-deadline"),
            (Durations { stop_grace: Duration::ZERO, ..good }, "stop-grace"),
        ] {
            let error = Mistakes::check(|mistakes| valid("own-", durations, mistakes)).unwrap_err().to_string();
            assert!(error.contains(&format!("\n  --own-{flag}: ")), "{error}");
        }
    }
}
