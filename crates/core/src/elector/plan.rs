//! A decision under construction: actions, the next deadline, and the numbers of requests.

use std::time::Duration;

use super::config::{Draw, Timing};
use super::timers::Timer;
use super::{Action, AttemptId, Note};
use crate::backoff::doubled;
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

pub(super) type Plan = crate::plan::Plan<Action, Timer, Sending>;

/// What an elector needs to send requests and to report.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) notes: Vec<Note>,
    pub(super) last_attempt: u64,
    /// The elector sends no request before this moment.
    pub(super) requests_from: Moment,
    pub(super) timing: Timing,
    pub(super) draw: Draw,
}

impl Plan {
    /// Sends a request now under a new number, and awaits its answer.
    pub(super) fn send(&mut self, request: Request) -> PlannedRequest {
        self.context.last_attempt = self.context.last_attempt.saturating_add(1);
        let attempt = AttemptId(self.context.last_attempt);
        self.act(Action::Send { attempt, request });
        let until = self.now.moment.after(self.context.timing.request_timeout());
        let planned = PlannedRequest { id: attempt, sent: self.now.moment, until };
        self.await_answer(&planned);
        planned
    }

    pub(super) fn note(&mut self, note: Note) {
        self.context.notes.push(note);
    }

    /// Waits until a pending request is answered, or its outcome counts as unknown.
    pub(super) fn await_answer(&mut self, request: &PlannedRequest) {
        self.wake_at(Timer::RequestTimeout, request.until);
    }

    /// Whether a request that is due at `due` may be sent now. If not, sets `timer`.
    pub(super) fn may_request(&mut self, timer: Timer, due: Moment) -> bool {
        let timer = if due < self.context.requests_from { Timer::FailurePause } else { timer };
        let due = due.max(self.context.requests_from);
        self.wake_at(timer, due);
        due <= self.now.moment
    }

    /// When a request that is sent now may be repeated.
    pub(super) fn retry_at(&self) -> Moment {
        self.retry_after(0)
    }

    /// Like [`retry_at`](Self::retry_at), after this many consecutive writes without effect. Each doubles the wait.
    pub(super) fn retry_after(&self, reverted: u32) -> Moment {
        let first = self.context.timing.retry_period();
        let wait = doubled(first, reverted.min(MOST_DOUBLINGS), LONGEST_WAIT.max(first));
        self.now.moment.after(self.context.timing.jittered(wait, self.context.draw))
    }

    /// When the elector reads the Lease if it observes nothing from now on.
    pub(super) fn poll_at(&self) -> Moment {
        self.now.moment.after(
            self.context.timing.jittered(self.context.timing.retry_period().saturating_mul(2), self.context.draw),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elector::Durations;
    use crate::model::{Now, WireTime};

    impl Plan {
        /// A plan without jitter.
        pub(in crate::elector) fn of(timing: Timing, now: Now, last_attempt: u64) -> Self {
            let requests_from = now.moment;
            Self::new(now, Sending { notes: Vec::new(), last_attempt, requests_from, timing, draw: Draw(0) })
        }
    }

    #[test]
    fn the_earliest_timer_that_has_not_passed_is_the_deadline() {
        let at = Moment::from_micros;
        let mut plan = Plan::of(Timing::default(), Now { moment: at(10), wall: WireTime::MIN }, 0);
        for (timer, moment) in
            [(Timer::Write, 10), (Timer::Validity, 30), (Timer::Renewal, 20), (Timer::Read, 20), (Timer::Poll, 25)]
        {
            plan.wake_at(timer, at(moment));
        }
        assert_eq!(plan.next, Some((at(20), Timer::Renewal)));
    }

    #[test]
    fn each_write_without_effect_doubles_the_wait_up_to_half_a_minute() {
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::MIN };
        let plan = Plan::of(Timing::default(), now, 0);
        for (reverted, seconds) in [(0, 2), (1, 4), (3, 16), (4, 30), (u32::MAX, 30)] {
            assert_eq!(plan.retry_after(reverted), Moment::from_micros(seconds * 1_000_000), "{reverted}");
        }
        let brief = Durations { retry_period: Duration::from_millis(100), ..Durations::default() };
        let plan = Plan::of(Timing::new(brief).unwrap(), now, 0);
        assert_eq!(plan.retry_after(9), Moment::from_micros(3_200_000), "at most five times");
    }
}
