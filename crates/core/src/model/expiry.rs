//! How long the holder of a Lease may rely on it: the figures that every watcher of a Lease shares.
//!
//! The controller, the elector and the fallback use no other figures. If one of them waited for a shorter time than
//! another, it could grant or claim a Lease that its holder still relies on.

use std::time::Duration;

/// The shortest duration, in seconds, of a record that is not open and names no session: the default of Kubernetes' own
/// components. A missing Lease that was held also counts as held for at least this long.
pub const UNDECLARED_DURATION_SECONDS: u32 = 15;

/// The duration, in seconds, of a Lease that was given up. client-go releases a Lease in this form, too.
pub const GIVEN_UP_SECONDS: u32 = 1;

/// The longest lease, in seconds. No elector relies on a Lease for longer without renewing it. So no process waits
/// longer for a holder, whatever a Lease or a candidate declares.
pub const LONGEST_LEASE_SECONDS: u32 = 3600;

/// The duration, in seconds, that a record declares: its own, but at least `least`.
pub(super) fn declared(duration_seconds: u32, least: u32) -> u32 {
    duration_seconds.max(least).min(LONGEST_LEASE_SECONDS)
}

/// How long other processes wait for a holder that relies on its Lease for `seconds`: at most an hour, plus the
/// [drift allowance](drift_allowance).
pub fn reliance(seconds: u32) -> Duration {
    let duration = Duration::from_secs(u64::from(seconds.min(LONGEST_LEASE_SECONDS)));
    duration.saturating_add(drift_allowance(duration))
}

/// The margin for two clocks that differ in rate by up to 1 in 1000. Add it to a wait, or subtract it from a validity.
pub fn drift_allowance(duration: Duration) -> Duration {
    Duration::from_micros(u64::try_from(duration.as_micros().div_ceil(1000)).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_holder_is_a_thousandth_longer_than_declared_and_at_most_that_of_an_hour() {
        let hour = Duration::from_millis(3_603_600);
        let waits = [(0, Duration::ZERO), (15, Duration::from_millis(15_015)), (3600, hour), (u32::MAX, hour)];
        for (seconds, wait) in waits {
            assert_eq!(reliance(seconds), wait, "{seconds} s");
        }
    }

    #[test]
    fn a_record_declares_at_least_the_least_duration_and_at_most_an_hour() {
        for (seconds, expected) in [(0, 15), (16, 16), (3600, 3600), (3601, 3600)] {
            assert_eq!(declared(seconds, 15), expected, "{seconds} s");
        }
    }
}
