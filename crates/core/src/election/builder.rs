//! A decision under construction.

use super::{Action, Timer};
use crate::model::{Moment, Now};

/// The actions so far, and the timer that runs out first.
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

    /// Sets a timer, which asks for another decision at `at`. A moment that has passed does not count: this decision
    /// handles what is due.
    pub(super) fn set(&mut self, timer: Timer, at: Moment) {
        if at > self.now.moment {
            self.next = self.next.min((at, timer));
        }
    }

    /// The timer that runs out first, and when it does.
    pub(super) const fn next(&self) -> (Moment, Timer) {
        self.next
    }
}
