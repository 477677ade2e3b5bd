//! A decision under construction.

use super::Action;
use crate::model::{Moment, Now};

/// The actions so far, and the earliest moment at which there is more to do.
#[derive(Debug)]
pub(super) struct DecisionBuilder {
    pub(super) now: Now,
    pub(super) actions: Vec<Action>,
    deadline: Moment,
}

impl DecisionBuilder {
    pub(super) const fn new(now: Now, latest: Moment) -> Self {
        Self { now, actions: Vec::new(), deadline: latest }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Asks for another decision at `at`. A moment that has passed does not count: this decision handles what is due.
    pub(super) fn wake(&mut self, at: Moment) {
        if at > self.now.moment {
            self.deadline = self.deadline.min(at);
        }
    }

    pub(super) const fn deadline(&self) -> Moment {
        self.deadline
    }
}
