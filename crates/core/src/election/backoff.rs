//! The pause after a failed request: a server that refuses, or does not answer, is not asked at once again.

use super::Config;
use crate::model::Moment;

/// How often requests about one object failed in a row, and until when there are no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Moment>,
}

impl Backoff {
    /// Until when to wait, if there is a reason to.
    pub(super) fn until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| *until > now)
    }

    pub(super) fn fail(&mut self, now: Moment, config: &Config) {
        let pause = config.backoff.saturating_mul(1_u32 << self.failures.min(16)).min(config.requeue);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(now.after(pause));
    }

    pub(super) fn succeed(&mut self) {
        *self = Self::default();
    }
}
