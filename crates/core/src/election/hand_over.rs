//! The request to a live holder to hand over: its state, its cause, its withdrawal, and what follows if it is ignored.
//!
//! A request keeps its cause, which the line of the running term in the history of the Lease records. So a controller
//! that has just begun to lead knows it, too. A request stands as long as its cause: one made because of priority or
//! versions, a pin or an exclusion is withdrawn when none of them favours the preferred holder any more. One made by a
//! transfer stands.

use std::sync::Arc;

use super::eligibility::Conditions;
use super::losses::HoldingPeriod;
use super::member::Member;
use super::plan::Plan;
use super::{Action, Config, Election, Event, LeaseVerdict, Timer, TransferRefusal, writes};
use crate::model::{CandidateKey, Cause, LeaseRecord, Moment};
use crate::ranking::Criterion;

/// A holder that was asked to hand over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HandOverRequest {
    holder: CandidateKey,
    since: Moment,
    reported: bool,
    preferred: CandidateKey,
    /// Since when the request names this preferred holder.
    preferred_since: Moment,
}

impl HandOverRequest {
    /// From when on the holder counts as one that ignores the request.
    fn ignored_from(&self, config: &Config) -> Moment {
        self.since.after(config.ignored_after)
    }
}

/// Whether the request on this Lease stands although its preferred holder is only equal to the holder. A request without
/// a known cause stands, since a transfer may have made it.
pub(super) fn stands_among_equals(record: &LeaseRecord) -> bool {
    let cause = record.running_term().and_then(|term| term.request);
    !matches!(cause, Some(Cause::BetterCandidate | Cause::Pin | Cause::Exclusion))
}

/// Whether the preferred holder has to be pinged once more, since the holder has not handed over. Sets the timer. The
/// wait before a ping is the time from `unchanged_since` to the ping before, so the intervals double.
pub(super) fn must_ping_again(preferred: &Member, unchanged_since: Moment, plan: &mut Plan, config: &Config) -> bool {
    if !preferred.ping.is_idle() {
        return false;
    }
    let now = plan.now.moment;
    let wait = |at: Moment| at.since(unchanged_since).clamp(config.window, config.validity);
    let due = preferred.last_ping_at.map_or(now, |at| at.after(wait(at)));
    plan.wake_at(Timer::RepeatedPing, due);
    due <= now
}

impl Election {
    /// Since when the holder has been asked to hand over, as of the last decision.
    pub fn preferred_since(&self) -> Option<Moment> {
        self.request.as_ref().map(|request| request.since)
    }

    /// Whether the holder has ignored the request to hand over for too long.
    pub fn ignores_request(&self, now: Moment) -> bool {
        self.request.as_ref().is_some_and(|request| now >= request.ignored_from(&self.config))
    }

    /// Whether a native holder cannot be asked to hand over: the server or the holder has just dropped the request.
    pub(super) fn holder_stays(&self, now: Moment) -> bool {
        let declined_at = self.holding_period.as_ref().and_then(HoldingPeriod::declined_at);
        let dropped_at = self.keeps_native_fields.and_then(|(keeps, at)| (!keeps).then_some(at));
        declined_at.max(dropped_at).is_some_and(|at| now < at.after(self.config.declined_rest))
    }

    /// Whether the server is known to keep the native fields of a Lease.
    pub(super) fn may_keep_request(&self) -> bool {
        let shows_strategy = || self.lease.view.record().is_some_and(|record| record.native.strategy.is_some());
        self.keeps_native_fields.map_or_else(shows_strategy, |(keeps, _)| keeps)
    }

    /// Asks the live holder to hand over.
    pub(super) fn prefer(
        &mut self,
        holder: &Arc<str>,
        electee: &CandidateKey,
        criterion: Option<Criterion>,
        conditions: &Conditions,
        plan: &mut Plan,
    ) {
        let Some(observed) = self.lease.view.present() else { return };
        let lease = (observed.record(), self.lease.view.history());
        let (write, event) = writes::prefer(lease, holder, electee, criterion, conditions.rule.strategy());
        self.write_lease(write, Some(event), plan);
    }

    /// Withdraws the request to hand over, and reports why. Publishes no event if the request did not reach the holder:
    /// a native holder does not read the annotation.
    pub(super) fn withdraw_request(&mut self, why: TransferRefusal, conditions: &Conditions, plan: &mut Plan) {
        let Some(record) = self.lease.view.record() else { return };
        let holder = record.holder.as_deref().unwrap_or_default().into();
        let event = conditions.preferred.clone().map(|preferred| Event::Withdrawn { holder, preferred, why });
        let write = writes::unprefer(record, self.lease.view.history(), event.as_ref());
        self.write_lease(write, event, plan);
    }

    /// Since when nothing relevant to the current request to hand over has changed: the holder's term, the preferred
    /// holder, and what both declare, and their processes.
    ///
    /// The wait before the next ping of the preferred holder is the time from that change to its last ping. So the
    /// intervals double, and a holder that never hands over costs few writes.
    pub(super) fn request_unchanged_since(&self, conditions: &Conditions, now: Moment) -> Moment {
        let Conditions { holder, preferred, .. } = conditions;
        let is_current = |asked: &&HandOverRequest| {
            (Some(&asked.holder), Some(&asked.preferred)) == (holder.as_ref(), preferred.as_ref())
        };
        let Some(asked) = self.request.as_ref().filter(is_current) else { return now };
        let term = self.holding_period.as_ref().map(|period| period.since);
        self.members
            .values()
            .filter(|member| member.key == asked.holder || member.key == asked.preferred)
            .map(|member| member.declared_at)
            .chain(term)
            .fold(asked.preferred_since, Moment::max)
    }

    /// Follows the request after the election, and publishes one event about a holder that ignores it for too long.
    pub(super) fn follow_request(&mut self, verdict: &LeaseVerdict, plan: &mut Plan) {
        let now = plan.now.moment;
        let LeaseVerdict::Held { holder, preferred: Some(preferred), .. } = verdict else {
            self.request = None;
            return;
        };
        let asked = match &mut self.request {
            Some(asked) if asked.holder == *holder => asked,
            slot => slot.insert(HandOverRequest {
                holder: holder.clone(),
                since: now,
                reported: false,
                preferred: preferred.clone(),
                preferred_since: now,
            }),
        };
        if asked.preferred != *preferred {
            (asked.preferred, asked.preferred_since) = (preferred.clone(), now);
        }
        let due = asked.ignored_from(&self.config);
        plan.wake_at(Timer::IgnoredRequest, due);
        if now >= due && !asked.reported {
            asked.reported = true;
            let (holder, preferred) = (holder.clone(), preferred.clone());
            plan.act(Action::Event(Event::HolderIgnoresPreferred { holder, preferred }));
        }
    }
}
