//! The configuration of one elector, and the rules for its durations.

use std::fmt;
use std::time::Duration;

pub use crate::model::LONGEST_LEASE_SECONDS;
use crate::model::Strategy;

/// The configuration of one elector instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The identity under which the elector holds the Lease, which is also the name of its candidate.
    pub identity: String,
    /// `metadata.name` of the Lease.
    pub lease_name: String,
    /// The session of this elector instance. No other instance ever has the same. A session that names a
    /// [place](crate::model::SessionStamp::place) promises that this instance holds the lock of that place and Lease,
    /// as long as anything of it lives.
    pub session: String,
    /// How this elector gets the right to lead.
    pub mode: Mode,
    /// The candidate's strategy. Ignored in direct mode.
    pub strategy: Strategy,
    /// Whether the candidates elect among themselves when no controller does. Ignored in direct mode.
    pub fallback: bool,
    /// Durations and periods.
    pub timing: Timing,
    /// Whether the time range continues after its end while no other replica is known to have taken over.
    pub fail_open: FailOpen,
    /// Whether an elector that stops lets the Lease expire instead of releasing it.
    pub keeps_on_stop: bool,
}

/// How long the time range of a term continues after its end while no other replica is known to have taken over. This
/// does not affect whether the elector leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FailOpen {
    /// Not at all.
    #[default]
    Off,
    /// At most this long.
    Bounded(Duration),
    /// Until another replica is known to have taken over.
    Unbounded,
}

/// How an elector gets the right to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A controller elects among candidates: the elector keeps its candidate and takes up grants.
    Coordinated,
    /// There are no candidates: an elector claims the Lease when it finds it free.
    Direct,
}

/// The durations of an elector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long other electors wait after the last sign of life, in whole seconds as on the wire.
    pub lease_duration_seconds: u32,
    /// How long this elector relies on its last successful write, counted from the sending of that write.
    pub renew_deadline: Duration,
    /// How often the holder renews.
    pub retry_period: Duration,
    /// The longest random extension of a wait, in percent of the wait.
    pub jitter_percent: u32,
    /// How long a request may take before its outcome counts as unknown.
    pub request_timeout: Duration,
    /// How long the work of a term may take to stop. The default is 25 s: Kubernetes kills a pod 30 s after asking it
    /// to stop, and the elector must release the Lease before that.
    pub stop_grace: Duration,
}

/// A rule that a [`Timing`] breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidTiming {
    /// The lease duration is 0 seconds.
    LeaseDurationZero,
    /// The lease duration is longer than an hour.
    LeaseDurationTooLong,
    /// The retry period is zero: the elector would never pause.
    RetryPeriodZero,
    /// The request timeout is zero: no request could succeed.
    RequestTimeoutZero,
    /// The stop grace is zero: the work would be aborted as soon as it is asked to stop, and every term would expire.
    StopGraceZero,
    /// The renew deadline is above 99 % of the lease duration: with clocks that differ in rate, two electors could
    /// lead.
    RenewDeadlineTooLong,
    /// The renew deadline is not longer than the retry period with its jitter: a term could end before its first
    /// renewal. This is client-go's own rule.
    RenewDeadlineTooShort,
}

/// A risk of a valid [`Timing`] that its user may not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimingWarning {
    /// A lost renewal and the wait for its answer leave no time to renew again before the renew deadline.
    OneLostRenewal {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The lowest renew deadline with which one lost renewal never costs the term.
        least: Duration,
    },
    /// The renew deadline is close to the lease duration: two electors may lead if the rates of their clocks differ by
    /// more than 1 in 1000. Up to 0.8 of the lease duration, clocks may be slewed by up to 1 in 12, which is chrony's
    /// default limit.
    ClocksMustNotBeSlewed {
        /// The renew deadline.
        renew_deadline: Duration,
        /// 0.8 of the lease duration.
        most: Duration,
    },
}

/// A uniformly random number over the whole of `u32`. The caller draws it; the elector derives jitter from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Draw(pub u32);

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration_seconds: 15,
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            jitter_percent: 20,
            request_timeout: Duration::from_secs(5),
            stop_grace: Duration::from_secs(25),
        }
    }
}

impl Timing {
    /// Checks every rule. Returns all broken rules at once.
    pub fn validate(&self) -> Result<(), Vec<InvalidTiming>> {
        let longest_deadline = self.lease_duration().saturating_mul(99) / 100;
        let broken: Vec<InvalidTiming> = [
            (self.lease_duration_seconds == 0, InvalidTiming::LeaseDurationZero),
            (self.lease_duration_seconds > LONGEST_LEASE_SECONDS, InvalidTiming::LeaseDurationTooLong),
            (self.retry_period.is_zero(), InvalidTiming::RetryPeriodZero),
            (self.request_timeout.is_zero(), InvalidTiming::RequestTimeoutZero),
            (self.stop_grace.is_zero(), InvalidTiming::StopGraceZero),
            (self.renew_deadline > longest_deadline, InvalidTiming::RenewDeadlineTooLong),
            (self.renew_deadline <= self.longest_retry_period(), InvalidTiming::RenewDeadlineTooShort),
        ]
        .into_iter()
        .filter_map(|(broken, rule)| broken.then_some(rule))
        .collect();
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }

    /// Returns the warnings for a valid timing.
    pub fn warnings(&self) -> Vec<TimingWarning> {
        let Self { renew_deadline, request_timeout, .. } = *self;
        let least = self.longest_retry_period().saturating_mul(2).saturating_add(request_timeout);
        let most = self.lease_duration().saturating_mul(80) / 100;
        [
            (renew_deadline < least).then_some(TimingWarning::OneLostRenewal { renew_deadline, least }),
            (renew_deadline > most).then_some(TimingWarning::ClocksMustNotBeSlewed { renew_deadline, most }),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The lease duration.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_duration_seconds))
    }

    /// Returns `wait`, extended at random by at most the jitter.
    pub fn jittered(&self, wait: Duration, Draw(draw): Draw) -> Duration {
        let most = u128::from(self.jitter_percent).saturating_mul(wait.as_micros()) / 100;
        let extra = most.saturating_mul(u128::from(draw)) / u128::from(u32::MAX);
        wait.saturating_add(Duration::from_micros(u64::try_from(extra).unwrap_or(u64::MAX)))
    }

    /// The retry period with its full jitter.
    pub fn longest_retry_period(&self) -> Duration {
        self.jittered(self.retry_period, Draw(u32::MAX))
    }
}

impl fmt::Display for InvalidTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LeaseDurationZero => "the lease duration must be at least 1 s",
            Self::LeaseDurationTooLong => "the lease duration must be at most 1 h",
            Self::RetryPeriodZero => "the retry period must be above 0",
            Self::RequestTimeoutZero => "the request timeout must be above 0",
            Self::StopGraceZero => "the stop grace must be above 0: otherwise no term could end gracefully",
            Self::RenewDeadlineTooLong => "the renew deadline must be at most 0.99 of the lease duration",
            Self::RenewDeadlineTooShort => {
                "the renew deadline must be longer than the retry period with its jitter (1.2 times the retry period)"
            }
        })
    }
}

impl fmt::Display for TimingWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneLostRenewal { renew_deadline, least } => write!(
                f,
                "one lost renewal may cost the term: the renew deadline of {renew_deadline:?} is below {least:?}, which is \
                 two jittered retry periods and a request timeout; raise it, or lower the retry period or the request \
                 timeout"
            ),
            Self::ClocksMustNotBeSlewed { renew_deadline, most } => write!(
                f,
                "the renew deadline of {renew_deadline:?} is above {most:?}, which is 0.8 of the lease duration: two \
                 electors may lead if a time daemon slews a clock by more than 1 in 1000; limit the slew rate (chrony: \
                 maxslewrate 1000), or lower the renew deadline"
            ),
        }
    }
}

impl std::error::Error for InvalidTiming {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_keep_every_rule() {
        assert_eq!(Timing::default().validate(), Ok(()));
    }

    #[test]
    fn work_that_uses_its_whole_default_grace_leaves_a_request_before_kubernetes_kills_the_pod() {
        // `terminationGracePeriodSeconds` of a pod that does not set it.
        let default_of_pods = Duration::from_secs(30);
        assert!(Timing::default().stop_grace + Timing::default().request_timeout <= default_of_pods);
    }

    #[test]
    fn every_broken_rule_is_reported_at_once() {
        let zero = Timing {
            lease_duration_seconds: 0,
            renew_deadline: Duration::from_secs(1),
            retry_period: Duration::ZERO,
            jitter_percent: 0,
            request_timeout: Duration::ZERO,
            stop_grace: Duration::ZERO,
        };
        assert_eq!(
            zero.validate(),
            Err(vec![
                InvalidTiming::LeaseDurationZero,
                InvalidTiming::RetryPeriodZero,
                InvalidTiming::RequestTimeoutZero,
                InvalidTiming::StopGraceZero,
                InvalidTiming::RenewDeadlineTooLong,
            ])
        );
        let long = Timing { lease_duration_seconds: 3601, ..Timing::default() };
        assert_eq!(long.validate(), Err(vec![InvalidTiming::LeaseDurationTooLong]));
        assert_eq!(Timing { lease_duration_seconds: 3600, ..long }.validate(), Ok(()));
        assert_eq!(InvalidTiming::LeaseDurationTooLong.to_string(), "the lease duration must be at most 1 h");
    }

    #[test]
    fn the_renew_deadline_is_bounded_on_both_sides() {
        let with = |millis| Timing { renew_deadline: Duration::from_millis(millis), ..Timing::default() }.validate();
        assert_eq!(with(2_400), Err(vec![InvalidTiming::RenewDeadlineTooShort]));
        assert_eq!(with(2_401), Ok(()));
        assert_eq!(with(14_850), Ok(()));
        assert_eq!(with(14_851), Err(vec![InvalidTiming::RenewDeadlineTooLong]));
    }

    #[test]
    fn timings_of_client_go_and_istio_are_accepted_with_a_warning_if_one_lost_renewal_ends_the_term() {
        let with = |lease, deadline, retry| Timing {
            lease_duration_seconds: lease,
            renew_deadline: Duration::from_millis(deadline),
            retry_period: Duration::from_millis(retry),
            ..Timing::default()
        };
        let istio = with(30, 15_000, 7_500);
        assert_eq!(istio.validate(), Ok(()));
        let [warning] = istio.warnings()[..] else { panic!("{:?}", istio.warnings()) };
        let (renew_deadline, least) = (Duration::from_secs(15), Duration::from_secs(23));
        assert_eq!(warning, TimingWarning::OneLostRenewal { renew_deadline, least });
        assert!(warning.to_string().contains("the renew deadline of 15s is below 23s"), "{warning}");
        // Those of Kubernetes' components and controller-runtime, those of OpenShift, and longer ones like Istio's.
        for (timing, warns) in
            [((15, 10_000, 2_000), false), ((137, 107_000, 26_000), false), ((60, 30_000, 15_000), true)]
        {
            let (duration, deadline, retry) = timing;
            let timing = with(duration, deadline, retry);
            assert_eq!((timing.validate(), timing.warnings().is_empty()), (Ok(()), !warns), "{timing:?}");
        }
    }

    #[test]
    fn a_deadline_close_to_the_lease_duration_causes_a_warning() {
        let with = |millis| Timing { renew_deadline: Duration::from_millis(millis), ..Timing::default() }.warnings();
        assert_eq!(with(9_800), []);
        assert_eq!(with(12_000), []);
        let [warning] = with(12_001)[..] else { panic!("{:?}", with(12_001)) };
        assert!(warning.to_string().contains("the renew deadline of 12.001s is above 12s"), "{warning}");
    }

    #[test]
    fn jitter_only_lengthens_and_never_overflows() {
        let timing = Timing::default();
        assert_eq!(timing.jittered(timing.retry_period, Draw(0)), Duration::from_secs(2));
        assert_eq!(timing.jittered(timing.retry_period, Draw(u32::MAX)), Duration::from_millis(2_400));
        let wild = Timing { jitter_percent: u32::MAX, ..timing };
        assert!(wild.jittered(Duration::MAX, Draw(u32::MAX)) >= Duration::from_secs(1));
    }
}
