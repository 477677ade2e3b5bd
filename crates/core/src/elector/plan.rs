//! A decision under construction: actions, the next deadline, and the numbers of requests.

use std::time::Duration;

use super::config::{Draw, Timing};
use super::messages::{Action, AttemptId, Note};
use crate::model::Moment;

/// How often the retry period is doubled at most.
const MOST_DOUBLINGS: u32 = 5;

/// The longest wait after doubling, before its jitter.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A pending request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) id: AttemptId,
    pub(super) sent: Moment,
    /// When its outcome counts as unknown.
    pub(super) until: Moment,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) notes: Vec<Note>,
    pub(super) deadline: Option<Moment>,
    pub(super) last_attempt: u64,
    /// Until then the elector sends no request.
    pub(super) asks_from: Moment,
    timing: Timing,
    now: Moment,
    draw: Draw,
}

impl Plan {
    pub(super) const fn new(timing: Timing, now: Moment, draw: Draw, last_attempt: u64, notes: Vec<Note>) -> Self {
        Self { actions: Vec::new(), notes, deadline: None, last_attempt, asks_from: now, timing, now, draw }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Numbers a request that is sent now, and sets its deadline.
    pub(super) fn request(&mut self) -> Request {
        self.last_attempt = self.last_attempt.saturating_add(1);
        let until = self.now.after(self.timing.request_timeout);
        Request { id: AttemptId(self.last_attempt), sent: self.now, until }
    }

    /// When something that is done now may be repeated.
    pub(super) fn retry_at(&self) -> Moment {
        self.retry_after(0)
    }

    /// Like [`retry_at`](Self::retry_at), after this many consecutive writes without effect. Each doubles the wait.
    pub(super) fn retry_after(&self, unkept: u32) -> Moment {
        let wait = self.timing.retry_period.saturating_mul(1 << unkept.min(MOST_DOUBLINGS));
        let wait = wait.min(LONGEST_WAIT.max(self.timing.retry_period));
        self.now.after(self.timing.jittered(wait, self.draw))
    }

    /// When the elector asks by itself if it observes nothing from now on.
    pub(super) fn poll_at(&self) -> Moment {
        self.now.after(self.timing.jittered(self.timing.retry_period.saturating_mul(2), self.draw))
    }

    /// Asks for another decision at `moment`. A moment that has passed does not count: what was due is done, or waits
    /// for something else.
    pub(super) fn wake_at(&mut self, moment: Moment) {
        if moment > self.now {
            self.deadline = Some(self.deadline.map_or(moment, |deadline| deadline.min(moment)));
        }
    }
}
