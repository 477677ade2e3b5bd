//! The timers of one decision. The earliest one is the deadline of the decision.

use crate::model::Moment;

/// The timers that one decision sets. `T` names each of them.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    now: Moment,
    next: Option<(Moment, T)>,
}

impl<T: Copy> Timers<T> {
    pub(crate) const fn new(now: Moment) -> Self {
        Self { now, next: None }
    }

    /// Requests another decision at `moment`, for the reason `timer`. Ignores a moment that has passed: this decision
    /// has done what was due, or waits for something else.
    pub(crate) fn set(&mut self, timer: T, moment: Moment) {
        if moment > self.now && self.next.is_none_or(|(next, _)| moment < next) {
            self.next = Some((moment, timer));
        }
    }

    /// The deadline, and the timer that expires then.
    pub(crate) const fn next(&self) -> Option<(Moment, T)> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_timer_that_has_not_passed_is_the_deadline() {
        let at = Moment::from_micros;
        let mut timers = Timers::new(at(10));
        assert_eq!(timers.next(), None);
        for (timer, moment) in [("passed", 10), ("late", 30), ("early", 20), ("same", 20), ("later", 25)] {
            timers.set(timer, at(moment));
        }
        assert_eq!(timers.next(), Some((at(20), "early")));
    }
}
