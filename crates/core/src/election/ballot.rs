//! One election among candidates whose liveness has to be proved: who is pinged, who is waited for, and when it closes.
//!
//! It closes as soon as its answer cannot change: the best proven candidate has nobody better who may still answer. It
//! lasts two windows at the most. The first asks the best sixteen, the second all the rest; who appears later may
//! answer in time but is not waited for beyond the window that runs.

use std::sync::Arc;

use super::draft::Draft;
use super::member::Member;
use super::{Config, Write};
use crate::model::Moment;

/// What an election is for. Another purpose is another election, with proofs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Aim {
    /// A holder for a Lease without one, or a successor found ahead.
    Fill,
    /// Somebody better than the live holder.
    Improve,
    /// Proof that those who determine the strategy are live.
    Strategy,
}

/// A running election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ballot {
    pub(super) aim: Aim,
    pub(super) started: Moment,
    second_window: Option<Moment>,
    pings: usize,
}

/// How an election stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The answer may still change.
    Open,
    /// The best live candidate, or nobody.
    Closed(Option<Arc<str>>),
}

impl Ballot {
    /// The running election for `aim`, or a new one if there is none or the answer of the old one is stale.
    pub(super) fn enter<'a>(slot: &'a mut Option<Self>, aim: Aim, now: Moment, config: &Config) -> &'a mut Self {
        let is_stale = |ballot: &Self| ballot.aim != aim || now >= ballot.started.after(config.answer_lasts());
        if slot.as_ref().is_some_and(is_stale) {
            *slot = None;
        }
        slot.get_or_insert(Self { aim, started: now, second_window: None, pings: 0 })
    }

    /// Begins anew at `now`.
    pub(super) fn restart(&mut self, now: Moment) {
        *self = Self { aim: self.aim, started: now, second_window: None, pings: 0 };
    }

    /// Looks at the candidates, best first, pings whose rank could matter, and says whether the election is closed.
    /// `incumbent` is an earlier answer, which stands until it fails.
    pub(super) fn poll<'m>(
        &mut self,
        members: impl Iterator<Item = &'m mut Member>,
        incumbent: Option<&str>,
        draft: &mut Draft,
        config: &Config,
    ) -> Standing {
        let now = draft.now.moment;
        let mut answer = None;
        let mut waiting = false;
        let mut reading = false;
        let mut unasked = Vec::new();
        let end = self.second_window.unwrap_or(self.started).after(config.window);
        for member in members {
            if !member.may_be_asked(self.started) {
                continue;
            }
            if member.is_proven_since(self.started) || incumbent == Some(&*member.name) {
                answer = Some(Arc::clone(&member.name));
                break;
            }
            match &member.ping {
                Some(ping) if ping.abandoned => {}
                Some(ping) => {
                    waiting = true;
                    reading |= ping.deadline <= now;
                }
                None => unasked.push(member),
            }
        }
        let opens_second = answer.is_none() && self.second_window.is_none() && now >= end;
        if opens_second {
            self.second_window = Some(now);
        }
        let in_time = now < end || opens_second;
        for member in unasked {
            let within_limit = self.second_window.is_some() || self.pings < config.pings_in_first_window;
            if !in_time || !within_limit {
                waiting |= in_time;
            } else if let Some(until) = member.rests_until(Write::Ping, now) {
                draft.wake(until);
                waiting = true;
            } else {
                draft.act(member.ping(draft.now, config));
                draft.wake(now.after(config.window));
                self.pings = self.pings.saturating_add(1);
                waiting = true;
            }
        }
        draft.wake(end);
        if reading || (waiting && in_time) { Standing::Open } else { Standing::Closed(answer) }
    }

    /// Pings all of `members` that have not answered since this began. Returns whether each has answered or failed, or
    /// two windows have passed: nobody that joins later, or cannot be pinged, extends an election.
    pub(super) fn poll_all<'m>(
        &mut self,
        members: impl Iterator<Item = &'m mut Member>,
        draft: &mut Draft,
        config: &Config,
    ) -> bool {
        let now = draft.now.moment;
        let second = self.started.after(config.window);
        let end = second.after(config.window);
        draft.wake(second);
        draft.wake(end);
        let mut waiting = false;
        for member in members {
            if !member.may_be_asked(self.started) || member.is_proven_since(self.started) {
                continue;
            }
            waiting |= match &member.ping {
                Some(ping) => !ping.abandoned && (now < end || ping.deadline <= now),
                None => now < end,
            };
            if let Some(until) = member.rests_until(Write::Ping, now) {
                draft.wake(until);
            } else if member.ping.is_none() && (now >= second || self.pings < config.pings_in_first_window) {
                draft.act(member.ping(draft.now, config));
                draft.wake(now.after(config.window));
                self.pings = self.pings.saturating_add(1);
            }
        }
        !waiting
    }
}
