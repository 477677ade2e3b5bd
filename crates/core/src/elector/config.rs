//! The configuration of one elector, and the rules for its durations.

use std::fmt;
use std::time::Duration;

pub use crate::model::LONGEST_LEASE_SECONDS;
use crate::model::{Nomination, Pod, Strategy};

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
    pub mode: ElectorMode,
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElectorMode {
    /// A controller elects among candidates: the elector keeps its candidate and takes up grants.
    Coordinated(Box<CandidateConfig>),
    /// There are no candidates: an elector claims the Lease when it finds it free.
    Direct,
}

/// What a coordinated elector declares about itself in its candidate, beside its identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateConfig {
    /// `spec.binaryVersion`.
    pub binary_version: String,
    /// `spec.emulationVersion`.
    pub emulation_version: Option<String>,
    /// `spec.strategy`; `None` for the default strategy.
    pub strategy: Option<Strategy>,
    /// `spec.priority` with which the candidate is created.
    pub priority: Option<i32>,
    /// The owner.
    pub pod: Option<Pod>,
    /// Whether the candidates elect among themselves when no controller does.
    pub fallback: bool,
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
    /// How long a request may take before its outcome counts as unknown. See
    /// [`with_fitting_request_timeout`](Self::with_fitting_request_timeout).
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

impl Durations {
    /// These durations with a request timeout of at most the default that fits the renew deadline. A request that hangs
    /// leaves time for another one before the deadline. A write that begins when the next renewal is due ends before it.
    #[must_use]
    pub fn with_fitting_request_timeout(self) -> Self {
        let most = (self.renew_deadline / 2).min(Timing(self).longest_write());
        let request_timeout = most.clamp(Duration::from_millis(1), Self::default().request_timeout);
        Self { request_timeout, ..self }
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

    /// How long a write of the work may take so that a leader whose renewals fail can still end it within its term.
    pub fn longest_write(&self) -> Duration {
        self.renew_deadline().saturating_sub(self.longest_retry_period())
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

impl Config {
    /// What the elector declares about itself; `None` in direct mode.
    pub fn candidate(&self) -> Option<&CandidateConfig> {
        match &self.mode {
            ElectorMode::Coordinated(candidate) => Some(candidate),
            ElectorMode::Direct => None,
        }
    }

    /// The candidate that the elector creates; `None` in direct mode.
    pub fn nomination(&self) -> Option<Nomination> {
        let CandidateConfig { binary_version, emulation_version, strategy, priority, pod, .. } = self.candidate()?;
        Some(Nomination {
            name: self.identity.clone(),
            lease_name: self.lease_name.clone(),
            binary_version: binary_version.clone(),
            emulation_version: emulation_version.clone(),
            strategy: strategy.as_ref().map(|strategy| strategy.as_str().to_owned()),
            priority: *priority,
            lease_duration_seconds: self.timing.lease_duration_seconds(),
            session: self.session.clone(),
            pod: pod.clone(),
        })
    }
}

#[cfg(test)]
impl Config {
    /// The configuration of a coordinated elector of the Lease `l`, for tests.
    pub(in crate::elector) fn of(identity: &str) -> Self {
        Self {
            identity: identity.to_owned(),
            lease_name: "l".to_owned(),
            session: "s".to_owned(),
            mode: ElectorMode::Coordinated(Box::new(CandidateConfig {
                binary_version: "1.0".to_owned(),
                emulation_version: Some("1.0".to_owned()),
                strategy: None,
                priority: None,
                pod: None,
                fallback: true,
            })),
            timing: Timing::default(),
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
        }
    }
}

#[cfg(test)]
mod tests;
