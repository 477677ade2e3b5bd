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
        let pause = config.backoff.saturating_mul(1_u32 << self.failures.min(16)).min(longest);
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
