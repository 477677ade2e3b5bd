//! A decision under construction, of an election or of an elector.

use crate::model::{Moment, Now};

/// The actions so far, and the timer that expires first.
#[derive(Debug)]
pub(crate) struct Plan<Action, Timer, Context = ()> {
    pub(crate) now: Now,
    pub(crate) actions: Vec<Action>,
    /// The timer that expires first, and when it does.
    pub(crate) next: Option<(Moment, Timer)>,
    /// What else the decision needs.
    pub(crate) context: Context,
}

impl<Action, Timer: Copy + Ord, Context> Plan<Action, Timer, Context> {
    pub(crate) const fn new(now: Now, context: Context) -> Self {
        Self { now, actions: Vec::new(), next: None, context }
    }

    pub(crate) fn act(&mut self, action: impl Into<Action>) {
        self.actions.push(action.into());
    }

    /// Requests another decision at `moment`, for the reason `timer`. Ignores a moment that has passed: this decision
    /// has done what was due, or waits for something else.
    pub(crate) fn wake_at(&mut self, timer: Timer, moment: Moment) {
        if moment > self.now.moment && self.next.is_none_or(|next| (moment, timer) < next) {
            self.next = Some((moment, timer));
        }
    }
}
