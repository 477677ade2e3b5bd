//! The times by which the command must be dead.

use std::time::Duration;

use hustings_client::{Moment, Timing};

/// How long the kernel may take to schedule this process for the kill, and to end the killed process.
const KILLING: Duration = Duration::from_millis(500);

/// The reserve for clock rates, as a divisor of the lease duration: 1 in 500, since two clocks may each be off by 1 in
/// 1000.
const CLOCK_RATES: u32 = 500;

/// How much longer than the command's grace the elector waits for the end of the work. The wrapper kills the command
/// within this time, before the elector lets the Lease expire.
pub const KILL_ALLOWANCE: Duration = Duration::from_secs(5);

/// How long a command may take to stop after Ctrl-C before it also gets the stop signal. Many programs exit at once when
/// they get a second signal, so the wait is long enough for most of them to stop. It is half of the 10 s that `docker
/// stop` waits before it kills.
const AFTER_CTRL_C: Duration = Duration::from_secs(5);

/// The longest time that a command may take to stop when the Lease is lost. It runs from the end of the validity to the
/// expiry of the Lease, less the time to kill the command. `None` if no time is left.
pub fn longest_lost_grace(timing: &Timing) -> Option<Duration> {
    let lease = timing.lease_duration();
    lease.checked_sub(timing.renew_deadline())?.checked_sub(KILLING)?.checked_sub(lease / CLOCK_RATES)
}

/// The default of `--lost-grace`: half of the time between renew deadline and lease duration, at most the longest.
pub fn default_lost_grace(timing: &Timing) -> Option<Duration> {
    let half = timing.lease_duration().saturating_sub(timing.renew_deadline()) / 2;
    Some(half.min(longest_lost_grace(timing)?))
}

/// The times of one command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) stop_grace: Duration,
    pub(super) lost_grace: Duration,
    /// The end of the validity as last reported. An earlier loss brings it forward.
    pub(super) valid_until: Moment,
    /// When the wrapper began to stop the command.
    pub(super) stopping_since: Option<Moment>,
    /// When to send the stop signal, if it is not sent yet.
    pub(super) signal_at: Option<Moment>,
}

impl Bounds {
    /// Begins to stop the command, to which a terminal may have sent SIGINT. The wrapper cannot distinguish Ctrl-C from a
    /// SIGINT that only the wrapper got, so the stop signal follows.
    pub(super) fn stop_by_terminal(&mut self, now: Moment) {
        self.stopping_since = Some(now);
        self.signal_at = Some(now.after(AFTER_CTRL_C.min(self.stop_grace / 2)));
    }

    /// When the command must be killed if no further renewal succeeds.
    pub(super) fn lost_at(&self) -> Moment {
        self.valid_until.after(self.lost_grace)
    }

    /// When the command must be killed.
    pub(super) fn kill_at(&self) -> Moment {
        let stopped = self.stopping_since.map_or(Moment::NEVER, |since| since.after(self.stop_grace));
        stopped.min(self.lost_at())
    }

    /// When the wrapper must act next.
    pub(super) fn next(&self) -> Moment {
        let act_at = if self.stopping_since.is_some() { self.kill_at() } else { self.valid_until.min(self.kill_at()) };
        self.signal_at.map_or(act_at, |signal_at| signal_at.min(act_at))
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::Durations;

    use super::*;

    fn seconds(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn timing(lease: u32, deadline_millis: u64) -> Timing {
        let renew_deadline = Duration::from_millis(deadline_millis);
        Timing::new(Durations { lease_duration_seconds: lease, renew_deadline, ..Durations::default() }).unwrap()
    }

    #[test]
    fn a_lost_lease_leaves_the_time_from_validity_to_expiry_less_the_time_to_kill() {
        assert_eq!(longest_lost_grace(&Timing::default()), Some(Duration::from_millis(4_470)));
        assert_eq!(default_lost_grace(&Timing::default()), Some(Duration::from_millis(2_500)));
        assert_eq!(longest_lost_grace(&timing(5, 4_000)), Some(Duration::from_millis(490)));
        assert_eq!(default_lost_grace(&timing(5, 4_000)), Some(Duration::from_millis(490)));
        assert_eq!(longest_lost_grace(&timing(5, 4_900)), None);
        assert_eq!(default_lost_grace(&timing(5, 4_900)), None);
    }

    #[test]
    fn a_stop_may_outlast_the_lease_only_while_renewals_succeed() {
        let mut bounds = Bounds {
            stop_grace: Duration::from_mins(1),
            lost_grace: Duration::from_secs(2),
            valid_until: seconds(10),
            stopping_since: None,
            signal_at: None,
        };
        assert_eq!((bounds.next(), bounds.kill_at()), (seconds(10), seconds(12)));
        bounds.stopping_since = Some(seconds(5));
        assert_eq!(bounds.next(), seconds(12), "unless it is renewed");
        bounds.valid_until = seconds(64);
        assert_eq!(bounds.next(), seconds(65));
    }

    #[test]
    fn after_ctrl_c_the_stop_signal_comes_well_before_the_kill() {
        for (grace, signal_at) in [(25, seconds(5)), (6, seconds(3))] {
            let mut bounds = Bounds {
                stop_grace: Duration::from_secs(grace),
                lost_grace: Duration::from_secs(2),
                valid_until: seconds(100),
                stopping_since: None,
                signal_at: None,
            };
            bounds.stop_by_terminal(seconds(0));
            assert_eq!((bounds.signal_at, bounds.next()), (Some(signal_at), signal_at));
            bounds.signal_at = None;
            assert_eq!(bounds.next(), bounds.kill_at());
        }
    }
}
