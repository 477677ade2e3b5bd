//! Waits that double.

use std::time::Duration;

/// `first`, doubled this many times, and at most `longest`.
pub(crate) fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(times)).min(longest)
}
