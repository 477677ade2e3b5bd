//! Doubling pauses: after a failed request, and after a write that has no effect. A server that rejects a request, or
//! does not answer it, gets no immediate retry.

use std::time::Duration;

use super::Config;
use crate::backoff::doubled;
use crate::model::Moment;

/// The consecutive failures of requests about one object, and the current pause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    failures: u32,
    pause: Duration,
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
        let pause = doubled(config.backoff, self.failures, longest);
        self.failures = self.failures.saturating_add(1);
        self.pause = pause;
        self.until = Some(now.after(pause));
    }

    /// How often in a row it failed.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether the last pause ended at least `duration` ago.
    pub(super) fn is_over_for(&self, duration: Duration, now: Moment) -> bool {
        self.until.is_none_or(|until| now >= until.after(duration))
    }

    /// Whether the last failure is so long ago that the next one is not related to it: after the pause, the same time has
    /// passed again, and at least `least`.
    pub(super) fn is_settled(&self, least: Duration, now: Moment) -> bool {
        self.is_over_for(self.pause.max(least), now)
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
