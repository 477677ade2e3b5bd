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
    /// The session of this elector instance. No other instance may ever have the same session. A session that names a
    /// [place](crate::model::SessionStamp::place) promises that this instance holds the lock of that place and Lease
    /// for as long as any part of the instance runs.
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

/// The durations of an elector. A [`Timing`] holds valid ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Durations {
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

/// [`Durations`] that satisfy every rule. Electors with such durations never lead at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timing(Durations);

/// A rule that [`Durations`] violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvalidTiming {
    /// The lease duration is 0 seconds.
    LeaseDurationZero,
    /// The lease duration is longer than [`LONGEST_LEASE_SECONDS`].
    LeaseDurationTooLong {
        /// The lease duration.
        seconds: u32,
    },
    /// The retry period is zero: the elector would never pause.
    RetryPeriodZero,
    /// The request timeout is zero: no request could succeed.
    RequestTimeoutZero,
    /// The stop grace is zero: the work would be aborted as soon as it is asked to stop, and every term would expire.
    StopGraceZero,
    /// The renew deadline is above 99 % of the lease duration: with clocks that differ in rate, two electors could
    /// lead.
    RenewDeadlineTooLong {
        /// The renew deadline.
        renew_deadline: Duration,
        /// 0.99 of the lease duration.
        most: Duration,
    },
    /// The renew deadline is not longer than the retry period with its jitter: a term could end before its first
    /// renewal. This is client-go's own rule.
    RenewDeadlineTooShort {
        /// The renew deadline.
        renew_deadline: Duration,
        /// The retry period with its full jitter.
        longest_retry_period: Duration,
    },
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

impl Default for Durations {
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

impl From<Timing> for Durations {
    fn from(Timing(durations): Timing) -> Self {
        durations
    }
}

impl Timing {
    /// Validates the durations.
    ///
    /// # Errors
    /// Returns every violated rule.
    pub fn new(durations: Durations) -> Result<Self, Vec<InvalidTiming>> {
        let Durations { lease_duration_seconds: seconds, renew_deadline, .. } = durations;
        let timing = Self(durations);
        let longest_retry_period = timing.longest_retry_period();
        let most = timing.lease_duration().saturating_mul(99) / 100;
        let broken: Vec<InvalidTiming> = [
            (seconds == 0, InvalidTiming::LeaseDurationZero),
            (seconds > LONGEST_LEASE_SECONDS, InvalidTiming::LeaseDurationTooLong { seconds }),
            (durations.retry_period.is_zero(), InvalidTiming::RetryPeriodZero),
            (durations.request_timeout.is_zero(), InvalidTiming::RequestTimeoutZero),
            (durations.stop_grace.is_zero(), InvalidTiming::StopGraceZero),
            (renew_deadline > most, InvalidTiming::RenewDeadlineTooLong { renew_deadline, most }),
            (
                renew_deadline <= longest_retry_period,
                InvalidTiming::RenewDeadlineTooShort { renew_deadline, longest_retry_period },
            ),
        ]
        .into_iter()
        .filter_map(|(broken, rule)| broken.then_some(rule))
        .collect();
        if broken.is_empty() { Ok(timing) } else { Err(broken) }
    }

    /// Returns the risks of these durations, although they are valid.
    pub fn warnings(&self) -> Vec<TimingWarning> {
        let Durations { renew_deadline, request_timeout, .. } = self.0;
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

    /// The lease duration, in whole seconds.
    pub const fn lease_duration_seconds(&self) -> u32 {
        self.0.lease_duration_seconds
    }

    /// The lease duration.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(u64::from(self.0.lease_duration_seconds))
    }

    /// The [renew deadline](Durations::renew_deadline).
    pub const fn renew_deadline(&self) -> Duration {
        self.0.renew_deadline
    }

    /// The [retry period](Durations::retry_period).
    pub const fn retry_period(&self) -> Duration {
        self.0.retry_period
    }

    /// The [request timeout](Durations::request_timeout).
    pub const fn request_timeout(&self) -> Duration {
        self.0.request_timeout
    }

    /// The [stop grace](Durations::stop_grace).
    pub const fn stop_grace(&self) -> Duration {
        self.0.stop_grace
    }

    /// Returns `wait`, extended at random by at most the jitter.
    pub fn jittered(&self, wait: Duration, Draw(draw): Draw) -> Duration {
        let most = u128::from(self.0.jitter_percent).saturating_mul(wait.as_micros()) / 100;
        let extra = most.saturating_mul(u128::from(draw)) / u128::from(u32::MAX);
        wait.saturating_add(Duration::from_micros(u64::try_from(extra).unwrap_or(u64::MAX)))
    }

    /// The retry period with its full jitter.
    pub fn longest_retry_period(&self) -> Duration {
        self.jittered(self.0.retry_period, Draw(u32::MAX))
    }
}

impl fmt::Display for InvalidTiming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseDurationZero => f.write_str("the lease duration is 0 s: use 1 s or more"),
            Self::LeaseDurationTooLong { seconds } => {
                write!(f, "the lease duration of {seconds} s is too long: use {LONGEST_LEASE_SECONDS} s or less")
            }
            Self::RetryPeriodZero => f.write_str("the retry period is 0 s: use a longer one, such as 2 s"),
            Self::RequestTimeoutZero => f.write_str("the request timeout is 0 s: use a longer one, such as 5 s"),
            Self::StopGraceZero => {
                f.write_str("the stop grace is 0 s, so no term could end gracefully: use a longer one, such as 25 s")
            }
            Self::RenewDeadlineTooLong { renew_deadline, most } => write!(
                f,
                "the renew deadline of {renew_deadline:?} is above {most:?}, which is 0.99 of the lease duration: lower \
                 it, or raise the lease duration"
            ),
            Self::RenewDeadlineTooShort { renew_deadline, longest_retry_period } => write!(
                f,
                "the renew deadline of {renew_deadline:?} is not above {longest_retry_period:?}, which is the retry \
                 period with its jitter: raise it, or lower the retry period"
            ),
        }
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
impl Config {
    /// The configuration of a coordinated elector of the Lease `l`, for tests.
    pub(in crate::elector) fn of(identity: &str) -> Self {
        Self {
            identity: identity.to_owned(),
            lease_name: "l".to_owned(),
            session: "s".to_owned(),
            mode: Mode::Coordinated,
            strategy: Strategy::OldestEmulationVersion,
            fallback: true,
            timing: Timing::default(),
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome of the default durations after `change`.
    fn with(change: impl FnOnce(&mut Durations)) -> Result<Timing, Vec<InvalidTiming>> {
        let mut durations = Durations::default();
        change(&mut durations);
        Timing::new(durations)
    }

    fn with_deadline(millis: u64) -> Result<Timing, Vec<InvalidTiming>> {
        with(|durations| durations.renew_deadline = Duration::from_millis(millis))
    }

    #[test]
    fn the_defaults_keep_every_rule() {
        assert_eq!(Timing::new(Durations::default()), Ok(Timing::default()));
    }

    #[test]
    fn the_default_stop_grace_leaves_time_for_one_request_before_kubernetes_kills_the_pod() {
        // `terminationGracePeriodSeconds` of a pod that does not set it.
        let default_of_pods = Duration::from_secs(30);
        assert!(Timing::default().stop_grace() + Timing::default().request_timeout() <= default_of_pods);
    }

    #[test]
    fn every_broken_rule_is_reported_at_once() {
        let zero = Durations {
            lease_duration_seconds: 0,
            renew_deadline: Duration::from_secs(1),
            retry_period: Duration::ZERO,
            jitter_percent: 0,
            request_timeout: Duration::ZERO,
            stop_grace: Duration::ZERO,
        };
        assert_eq!(
            Timing::new(zero),
            Err(vec![
                InvalidTiming::LeaseDurationZero,
                InvalidTiming::RetryPeriodZero,
                InvalidTiming::RequestTimeoutZero,
                InvalidTiming::StopGraceZero,
                InvalidTiming::RenewDeadlineTooLong { renew_deadline: zero.renew_deadline, most: Duration::ZERO },
            ])
        );
        let with_lease = |seconds| with(|durations| durations.lease_duration_seconds = seconds);
        assert_eq!(with_lease(3601), Err(vec![InvalidTiming::LeaseDurationTooLong { seconds: 3601 }]));
        assert_eq!(with_lease(3600).map(|timing| timing.lease_duration_seconds()), Ok(3600));
    }

    #[test]
    fn the_renew_deadline_is_bounded_on_both_sides() {
        let broken = |millis| with_deadline(millis).map_err(|broken| broken[0].to_string()).map(|_| ());
        let too_short = "the renew deadline of 2.4s is not above 2.4s, which is the retry period with its jitter: \
                         raise it, or lower the retry period";
        assert_eq!(broken(2_400), Err(too_short.to_owned()));
        assert_eq!(broken(2_401), Ok(()));
        assert_eq!(broken(14_850), Ok(()));
        let too_long = "the renew deadline of 14.851s is above 14.85s, which is 0.99 of the lease duration: lower it, \
                        or raise the lease duration";
        assert_eq!(broken(14_851), Err(too_long.to_owned()));
    }

    #[test]
    fn timings_of_client_go_and_istio_are_accepted_with_a_warning_if_one_lost_renewal_ends_the_term() {
        let with = |lease, deadline, retry| {
            let timing = with(|durations| {
                durations.lease_duration_seconds = lease;
                durations.renew_deadline = Duration::from_millis(deadline);
                durations.retry_period = Duration::from_millis(retry);
            });
            timing.unwrap()
        };
        let istio = with(30, 15_000, 7_500);
        let [warning] = istio.warnings()[..] else { panic!("{:?}", istio.warnings()) };
        let (renew_deadline, least) = (Duration::from_secs(15), Duration::from_secs(23));
        assert_eq!(warning, TimingWarning::OneLostRenewal { renew_deadline, least });
        assert_eq!(
            warning.to_string(),
            "one lost renewal may cost the term: the renew deadline of 15s is below 23s, which is two jittered retry \
             periods and a request timeout; raise it, or lower the retry period or the request timeout"
        );
        // Those of Kubernetes' components and controller-runtime, those of OpenShift, and longer ones like Istio's.
        for (timing, warns) in
            [((15, 10_000, 2_000), false), ((137, 107_000, 26_000), false), ((60, 30_000, 15_000), true)]
        {
            let (duration, deadline, retry) = timing;
            let timing = with(duration, deadline, retry);
            assert_eq!(timing.warnings().is_empty(), !warns, "{timing:?}");
        }
    }

    #[test]
    fn a_deadline_close_to_the_lease_duration_causes_a_warning() {
        let with = |millis| with_deadline(millis).unwrap().warnings();
        assert_eq!(with(9_800), []);
        assert_eq!(with(12_000), []);
        let [warning] = with(12_001)[..] else { panic!("{:?}", with(12_001)) };
        assert!(warning.to_string().contains("the renew deadline of 12.001s is above 12s"), "{warning}");
    }

    #[test]
    fn jitter_only_lengthens_and_never_overflows() {
        let timing = Timing::default();
        assert_eq!(timing.jittered(timing.retry_period(), Draw(0)), Duration::from_secs(2));
        assert_eq!(timing.jittered(timing.retry_period(), Draw(u32::MAX)), Duration::from_millis(2_400));
        let wild = Timing(Durations { jitter_percent: u32::MAX, ..Durations::default() });
        assert!(wild.jittered(Duration::MAX, Draw(u32::MAX)) >= Duration::from_secs(1));
    }
}
