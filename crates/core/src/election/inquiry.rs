//! The pings of one election among candidates that must prove themselves live: which candidates it pings and waits for,
//! and when it closes.
//!
//! An election closes as soon as its result cannot change: when no better candidate than the best proven one can still
//! answer. It lasts at most two windows. The first window pings the best sixteen candidates, the second all the others.
//! A candidate that appears later may answer in time, but the election does not wait for it beyond the current window.

use super::member::Member;
use super::plan::Plan;
use super::{Config, Timer, Write};
use crate::model::{CandidateKey, Moment};

/// The purpose of an election. Each purpose has its own election, with its own proofs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum InquiryPurpose {
    /// A holder for a free Lease, or a successor found in advance.
    Fill,
    /// A candidate better than the live holder.
    Improve,
    /// Proof that the candidates that determine the strategy are live.
    Strategy,
}

/// A running election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Inquiry {
    pub(super) purpose: InquiryPurpose,
    pub(super) started: Moment,
    second_window: Option<Moment>,
    pings: usize,
}

/// The result of an election so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InquiryResult {
    /// The result may still change.
    Open,
    /// The best live candidate; `None` if there is none.
    Closed(Option<CandidateKey>),
}

impl Inquiry {
    /// The running election for `purpose`. Starts a new one if there is none, or if the result of the old one is stale.
    pub(super) fn enter<'a>(
        slot: &'a mut Option<Self>,
        purpose: InquiryPurpose,
        now: Moment,
        config: &Config,
    ) -> &'a mut Self {
        let is_stale =
            |inquiry: &Self| inquiry.purpose != purpose || now >= inquiry.started.after(config.answer_lasts());
        if slot.as_ref().is_some_and(is_stale) {
            *slot = None;
        }
        slot.get_or_insert(Self::started(purpose, now))
    }

    const fn started(purpose: InquiryPurpose, started: Moment) -> Self {
        Self { purpose, started, second_window: None, pings: 0 }
    }

    /// Starts over at `now`.
    pub(super) fn restart(&mut self, now: Moment) {
        *self = Self::started(self.purpose, now);
    }

    /// Goes through the candidates, best first, and pings those that could still win. Returns the result so far.
    /// `earlier` is an earlier result, which stays valid until that candidate fails.
    pub(super) fn poll<'m>(
        &mut self,
        members: impl Iterator<Item = &'m mut Member>,
        earlier: Option<&CandidateKey>,
        plan: &mut Plan,
        config: &Config,
    ) -> InquiryResult {
        let now = plan.now.moment;
        let mut answer = None;
        let mut waiting = false;
        let mut reading = false;
        let mut unasked = Vec::new();
        let end = self.second_window.unwrap_or(self.started).after(config.window);
        for member in members {
            if !member.may_be_pinged(self.started) {
                continue;
            }
            if member.is_proven_since(self.started) || earlier == Some(&member.key) {
                answer = Some(member.key.clone());
                break;
            }
            match member.ping.deadline() {
                Some(_) if member.ping.is_abandoned() => {}
                Some(deadline) => {
                    waiting = true;
                    reading |= deadline <= now;
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
                plan.wake_at(Timer::Retry, until);
                waiting = true;
            } else {
                plan.act(member.ping(plan.now, config));
                plan.wake_at(Timer::PingWindow, now.after(config.window));
                self.pings = self.pings.saturating_add(1);
                waiting = true;
            }
        }
        plan.wake_at(Timer::ElectionWindow, end);
        if reading || (waiting && in_time) { InquiryResult::Open } else { InquiryResult::Closed(answer) }
    }

    /// Pings all of `members` that have not answered since this election began. Returns whether each has answered or
    /// failed, or two windows have passed. A candidate that joins later, or that cannot be pinged, does not extend the
    /// election.
    pub(super) fn poll_all<'m>(
        &mut self,
        members: impl Iterator<Item = &'m mut Member>,
        plan: &mut Plan,
        config: &Config,
    ) -> bool {
        let now = plan.now.moment;
        let second = self.started.after(config.window);
        let end = second.after(config.window);
        plan.wake_at(Timer::ElectionWindow, second);
        plan.wake_at(Timer::ElectionWindow, end);
        let mut waiting = false;
        for member in members {
            if !member.may_be_pinged(self.started) || member.is_proven_since(self.started) {
                continue;
            }
            waiting |= match member.ping.deadline() {
                Some(deadline) => !member.ping.is_abandoned() && (now < end || deadline <= now),
                None => now < end,
            };
            if let Some(until) = member.rests_until(Write::Ping, now) {
                plan.wake_at(Timer::Retry, until);
            } else if member.ping.is_idle() && (now >= second || self.pings < config.pings_in_first_window) {
                plan.act(member.ping(plan.now, config));
                self.pings = self.pings.saturating_add(1);
            }
        }
        !waiting
    }
}
