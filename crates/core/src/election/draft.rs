//! A decision in the making.

use super::Action;
use crate::model::{Moment, Now};

/// The actions found so far, and the earliest moment at which there is more to do.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) now: Now,
    pub(super) actions: Vec<Action>,
    deadline: Moment,
}

impl Draft {
    pub(super) const fn new(now: Now, latest: Moment) -> Self {
        Self { now, actions: Vec::new(), deadline: latest }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// There is something to do at `at`. What is due already is being done by this decision.
    pub(super) fn wake(&mut self, at: Moment) {
        if at > self.now.moment {
            self.deadline = self.deadline.min(at);
        }
    }

    pub(super) const fn deadline(&self) -> Moment {
        self.deadline
    }
}
