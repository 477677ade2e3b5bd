//! When the status of a candidate is written.
//!
//! A status is for people. No decision waits for its write. During an election, the controller does not write a status
//! that will soon change.

use std::sync::Arc;

use super::acts::report_exclusion;
use super::judging::LeaseContext;
use super::member::Member;
use super::plan::Plan;
use super::{Action, CandidateVerdict, Event, Ineligible, LeaseVerdict, Reason, Timer};
use crate::model::{CandidateKind, CandidateState, Moment, RecordedStatus, Truth};

impl LeaseContext<'_> {
    /// Writes the status if it does not show the verdict. A verdict that will change in a moment is not written. The
    /// state Holder stays on record while a missing Lease counts as held for that candidate.
    pub(super) fn publish(&self, member: &mut Member, verdict: &CandidateVerdict, plan: &mut Plan) {
        report_inadmissible(member, verdict, plan);
        report_exclusion(member, plan);
        // A native candidate has no status.
        if member.key.kind == CandidateKind::Native {
            return;
        }
        let now = plan.now.moment;
        member.observe_decision(now, self.config);
        if member.statuses.shown.as_ref() == Some(verdict) || self.is_passing(verdict) {
            member.statuses.unpublished = None;
            return;
        }
        let status = verdict.status();
        member.observe_verdict(&status, now, self.config);
        if status == member.record.status {
            member.statuses.shown = Some(verdict.clone());
        } else if let Some(due) = self.rests_until(member, &status, now) {
            plan.wake_at(Timer::StatusRest, due);
        } else if let Some(until) = member.status_rests_until(&status, now) {
            plan.wake_at(Timer::Retry, until);
        } else {
            member.statuses.shown = Some(verdict.clone());
            member.observe_status_sent(&status, now);
            plan.act(Action::PatchStatus { candidate: member.key.clone(), uid: Arc::clone(&member.uid), status });
        }
    }

    /// Until when the write of a status waits if no process needs it soon; `None` if it must not wait. During an
    /// election, another verdict soon replaces this one, and writing it would delay the writes that electors wait for.
    /// The state Holder waits, too. It matters only to a process that never observed the term and finds the Lease
    /// deleted.
    fn rests_until(&self, member: &mut Member, status: &RecordedStatus, now: Moment) -> Option<Moment> {
        let can_wait = matches!(
            status.state,
            Some(
                CandidateState::Holder | CandidateState::Standby | CandidateState::Preferred | CandidateState::Unproven
            )
        ) && status.damping_count == member.record.status.damping_count;
        let since = match &member.statuses.unpublished {
            Some((unpublished, since)) if unpublished == status => *since,
            _ => now,
        };
        member.statuses.unpublished = Some((status.clone(), since));
        let due = since.after(self.config.status_rest);
        (can_wait && now < due).then_some(due)
    }

    pub(super) fn is_passing(&self, verdict: &CandidateVerdict) -> bool {
        match verdict.reason {
            Reason::Granted => self.grant_is_young,
            Reason::Election | Reason::ForeignHolder | Reason::Asked => self.electing,
            Reason::Preferred => verdict.responsive == Some(false),
            Reason::RanksLast | Reason::Ineligible(Ineligible::Damped | Ineligible::Forfeited) => {
                self.electing
                    && matches!(self.lease, LeaseVerdict::Unheld { .. } | LeaseVerdict::NoLiveCandidate { .. })
            }
            _ => false,
        }
    }
}

/// Publishes an event when a candidate becomes inadmissible. A controller that has restarted does not repeat the event
/// that a recorded status implies.
fn report_inadmissible(member: &mut Member, verdict: &CandidateVerdict, plan: &mut Plan) {
    let why = match &verdict.reason {
        Reason::Ineligible(Ineligible::Inadmissible(why)) => Some(why),
        _ => None,
    };
    if member.reported.inadmissible.as_ref() == why {
        return;
    }
    member.reported.inadmissible = why.cloned();
    if let Some(why) = why
        && member.record.status.admissible.status != Truth::False
    {
        let candidate = (member.key.clone(), Arc::clone(&member.uid));
        plan.act(Action::Event(Event::Inadmissible { candidate, why: why.clone() }));
    }
}
