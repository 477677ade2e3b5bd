//! A decision under construction: actions, the next deadline, and the numbers of requests.

use std::time::Duration;

use super::config::{Draw, Timing};
use super::messages::{Action, AttemptId, Note};
use super::timers::Timer;
use crate::model::{Moment, Request};

/// The maximum number of times that the retry period is doubled.
const MOST_DOUBLINGS: u32 = 5;

/// The longest wait after doubling, before its jitter.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A pending request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PlannedRequest {
    pub(super) id: AttemptId,
    pub(super) sent: Moment,
    /// When its outcome counts as unknown.
    pub(super) until: Moment,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) notes: Vec<Note>,
    /// The timer that expires first, and when it does.
    pub(super) next: Option<(Moment, Timer)>,
    pub(super) last_attempt: u64,
    /// The elector sends no request before this moment.
    pub(super) requests_from: Moment,
    timing: Timing,
    now: Moment,
    draw: Draw,
}

impl Plan {
    pub(super) const fn new(timing: Timing, now: Moment, draw: Draw, last_attempt: u64, notes: Vec<Note>) -> Self {
        Self { actions: Vec::new(), notes, next: None, last_attempt, requests_from: now, timing, now, draw }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Sends a request now under a new number, and awaits its answer.
    pub(super) fn send(&mut self, request: Request) -> PlannedRequest {
        self.last_attempt = self.last_attempt.saturating_add(1);
        let attempt = AttemptId(self.last_attempt);
        self.act(Action::Send { attempt, request });
        let until = self.now.after(self.timing.request_timeout());
        let planned = PlannedRequest { id: attempt, sent: self.now, until };
        self.await_answer(&planned);
        planned
    }

    pub(super) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Waits until a pending request is answered, or its outcome counts as unknown.
    pub(super) fn await_answer(&mut self, request: &PlannedRequest) {
        self.wake_at(Timer::RequestTimeout, request.until);
    }

    /// Whether a request that is due at `due` may be sent now. If not, sets `timer`.
    pub(super) fn may_request(&mut self, timer: Timer, due: Moment) -> bool {
        let timer = if due < self.requests_from { Timer::FailurePause } else { timer };
        let due = due.max(self.requests_from);
        self.wake_at(timer, due);
        due <= self.now
    }

    /// When a request that is sent now may be repeated.
    pub(super) fn retry_at(&self) -> Moment {
        self.retry_after(0)
    }

    /// Like [`retry_at`](Self::retry_at), after this many consecutive writes without effect. Each doubles the wait.
    pub(super) fn retry_after(&self, reverted: u32) -> Moment {
        let wait = self.timing.retry_period().saturating_mul(1 << reverted.min(MOST_DOUBLINGS));
        let wait = wait.min(LONGEST_WAIT.max(self.timing.retry_period()));
        self.now.after(self.timing.jittered(wait, self.draw))
    }

    /// When the elector reads the Lease if it observes nothing from now on.
    pub(super) fn poll_at(&self) -> Moment {
        self.now.after(self.timing.jittered(self.timing.retry_period().saturating_mul(2), self.draw))
    }

    /// Requests another decision at `moment`, for the reason `timer`. Ignores a moment that has passed: this decision
    /// has done what was due, or waits for something else.
    pub(super) fn wake_at(&mut self, timer: Timer, moment: Moment) {
        if moment > self.now && self.next.is_none_or(|(next, _)| moment < next) {
            self.next = Some((moment, timer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elector::Durations;

    #[test]
    fn the_earliest_timer_that_has_not_passed_is_the_deadline() {
        let at = Moment::from_micros;
        let mut plan = Plan::new(Timing::default(), at(10), Draw(0), 0, Vec::new());
        for (timer, moment) in
            [(Timer::Write, 10), (Timer::Validity, 30), (Timer::Renewal, 20), (Timer::Read, 20), (Timer::Poll, 25)]
        {
            plan.wake_at(timer, at(moment));
        }
        assert_eq!(plan.next, Some((at(20), Timer::Renewal)));
    }

    #[test]
    fn each_write_without_effect_doubles_the_wait_up_to_half_a_minute() {
        let plan = Plan::new(Timing::default(), Moment::from_micros(0), Draw(0), 0, Vec::new());
        for (reverted, seconds) in [(0, 2), (1, 4), (3, 16), (4, 30), (u32::MAX, 30)] {
            assert_eq!(plan.retry_after(reverted), Moment::from_micros(seconds * 1_000_000), "{reverted}");
        }
        let brief = Durations { retry_period: Duration::from_millis(100), ..Durations::default() };
        let plan = Plan::new(Timing::new(brief).unwrap(), Moment::from_micros(0), Draw(0), 0, Vec::new());
        assert_eq!(plan.retry_after(9), Moment::from_micros(3_200_000), "at most five times");
    }
}
