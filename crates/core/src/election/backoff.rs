//! The pause after a failed request: a server that rejects a request, or does not answer it, gets no immediate retry.

use std::time::Duration;

use super::Config;
use crate::model::Moment;

/// The consecutive failures of requests about one object, and the end of the current pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Moment>,
}

impl Backoff {
    /// The end of the current pause; `None` if there is none.
    pub(super) fn until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| *until > now)
    }

    pub(super) fn fail(&mut self, now: Moment, config: &Config) {
        self.fail_up_to(config.requeue, now, config);
    }

    /// Like [`fail`](Self::fail), with a different longest pause.
    pub(super) fn fail_up_to(&mut self, longest: Duration, now: Moment, config: &Config) {
        let pause = config.backoff.saturating_mul(2_u32.saturating_pow(self.failures)).min(longest);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now.after(pause));
    }

    /// Whether the last pause ended at least `duration` ago.
    pub(super) fn is_over_for(&self, duration: Duration, now: Moment) -> bool {
        self.until.is_none_or(|until| now >= until.after(duration))
    }

    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_doubles_the_pause_up_to_the_longest() {
        let (mut backoff, config, now) = (Backoff::default(), Config::default(), Moment::from_micros(0));
        let mut pause = || {
            backoff.fail(now, &config);
            backoff.until(now).map(|until| until.since(now).as_millis())
        };
        assert_eq!([pause(), pause(), pause()], [Some(500), Some(1_000), Some(2_000)]);
        for _ in 0..40 {
            pause();
        }
        assert_eq!(pause(), Some(config.requeue.as_millis()));
    }
}
