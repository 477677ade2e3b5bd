//! A decision under construction.

use super::{Action, Timer};
use crate::model::{Moment, Now};

/// The actions so far, and the timer that expires first.
#[derive(Debug)]
pub(super) struct DecisionBuilder {
    pub(super) now: Now,
    pub(super) actions: Vec<Action>,
    next: (Moment, Timer),
}

impl DecisionBuilder {
    pub(super) const fn new(now: Now, latest: Moment) -> Self {
        Self { now, actions: Vec::new(), next: (latest, Timer::Requeue) }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Requests another decision at `at`, for the reason `timer`. Ignores a moment that has passed: this decision
    /// already handles what is due.
    pub(super) fn set(&mut self, timer: Timer, at: Moment) {
        if at > self.now.moment {
            self.next = self.next.min((at, timer));
        }
    }

    /// The timer that expires first, and when it does.
    pub(super) const fn next(&self) -> (Moment, Timer) {
        self.next
    }
}
