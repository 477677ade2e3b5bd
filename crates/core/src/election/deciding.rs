//! One decision about a Lease: its steps in order, and the requests that it makes.

mod electee;
mod strategy;
mod upkeep;

use self::upkeep::settle;
use super::eligibility::Conditions;
use super::ineffective::Part;
use super::plan::Plan;
use super::{Action, Decision, Election, Event, LeaseVerdict, NODE_LEASES, Timer, Write};
use crate::model::{CandidateKey, LeaseWrite, Moment, Now, Presence, Request};

impl Election {
    /// Decides what to do now. Only the leading controller calls this, because the election assumes that the caller
    /// carries out every action.
    pub fn decide(&mut self, now: Now) -> Decision {
        self.pass(now);
        self.second_controller.observe_decision(now.moment, &self.config);
        let mut plan = Plan::new(now, ());
        plan.wake_at(Timer::Requeue, now.moment.after(self.config.requeue));
        if &*self.namespace == NODE_LEASES {
            return Decision::of(plan, LeaseVerdict::OutOfBounds);
        }
        if matches!(self.lease.view.presence(), Presence::Unknown | Presence::Lost { .. }) {
            if !self.is_over(now) {
                self.read_lease(&mut plan);
            }
            return Decision::of(plan, LeaseVerdict::Unread);
        }
        let missed = self.members.values_mut().filter_map(|member| settle(member, &mut plan)).collect();
        let conditions = self.conditions(now);
        let verdict = self.lease_verdict(&conditions, &mut plan);

        let verdict = self.elect(verdict, &conditions, &mut plan);
        self.report_acts(&mut plan);
        self.follow_request(&verdict, &mut plan);
        self.collect(&mut plan);
        self.withdraw_pings(&mut plan);
        let verdicts = self.judge(&verdict, &conditions, &mut plan);
        self.report_ineffective(&mut plan);
        self.report_second_controller(&mut plan);
        Decision { missed, candidates: verdicts, ..Decision::of(plan, verdict) }
    }

    /// Runs the election that the Lease needs, if any, and plans the write that follows. Returns the verdict, which may
    /// have become a hold or a lack of live candidates.
    fn elect(&mut self, verdict: LeaseVerdict, conditions: &Conditions, plan: &mut Plan) -> LeaseVerdict {
        let hold = conditions.hold.clone();
        let silent = self.is_silent(&verdict, plan);
        let mut hold_is_recorded = false;
        match (&verdict, &hold) {
            (LeaseVerdict::Unheld { .. }, None) => self.fill(conditions, plan),
            (LeaseVerdict::Unheld { .. }, Some(hold)) => hold_is_recorded = self.hold(hold, conditions, plan),
            (_, None) if silent => self.find_successor(conditions, verdict.holder(), plan),
            (
                LeaseVerdict::Held { holder: CandidateKey { name: holder, .. }, .. } | LeaseVerdict::Foreign { holder },
                None,
            ) if self.is_leaving() => {
                self.relieve(conditions, holder, plan);
            }
            (LeaseVerdict::Held { holder, taken_up: true, .. }, None) => {
                self.improve(conditions, holder, plan);
                self.name_strategy(conditions.rule.strategy().as_str(), plan);
            }
            (LeaseVerdict::Held { holder, .. }, Some(hold)) => self.leave_alone(holder, hold, conditions, plan),
            _ => self.inquiry = None,
        }
        self.assist(conditions, plan);
        self.end_acts(&verdict, conditions, plan);
        self.remove_mark(&verdict, plan);
        self.maintain_label(&verdict, plan);
        match (verdict, hold) {
            (LeaseVerdict::Unheld { since, .. }, Some(hold)) if hold_is_recorded => {
                LeaseVerdict::OnHold { hold, since }
            }
            (LeaseVerdict::Unheld { since, cause }, None)
                if self.unheld_period.as_ref().is_some_and(|period| period.no_live_candidate) =>
            {
                LeaseVerdict::NoLiveCandidate { since, cause }
            }
            (verdict, _) => verdict,
        }
    }

    /// Whether the record has been unchanged for so long that the controller should find its successor in advance.
    fn is_silent(&self, verdict: &LeaseVerdict, plan: &mut Plan) -> bool {
        let now = plan.now.moment;
        let ahead = self.config.window.saturating_add(self.config.early_margin);
        let (since, lasts) = match (self.lease.view.presence(), verdict) {
            (_, LeaseVerdict::Unheld { .. } | LeaseVerdict::OnHold { .. })
            | (Presence::Unknown | Presence::Lost { .. }, _) => return false,
            (Presence::Present(observed), _) => (observed.changed_at(), observed.lasts()),
            (Presence::Missing(lease), _) => (lease.found_at(), lease.free_from().since(lease.found_at())),
        };
        let least = match verdict {
            LeaseVerdict::Held { taken_up: false, .. } => self.config.take_up,
            _ => lasts / 2,
        };
        let due = since.after(lasts.saturating_sub(ahead).max(least));
        plan.wake_at(Timer::EarlyPings, due);
        now >= due
    }

    /// Whether the holder announces that it is about to stop. A successor that is found in advance leads sooner
    /// (`graceful_stop.txt`).
    ///
    /// A foreign elector that takes over an expired Lease keeps the annotations, because it does not know them. So the
    /// announcement counts only if the session on the Lease belongs to the holder's own term.
    pub(super) fn is_leaving(&self) -> bool {
        let is_own_announcement = self.holding_period.as_ref().is_some_and(|period| !period.is_forged());
        is_own_announcement && self.lease.view.record().is_some_and(|record| record.leaving_holder().is_some())
    }

    fn read_lease(&self, plan: &mut Plan) {
        if may_go_on(self.backoff.until(plan.now.moment), plan) {
            plan.act(Request::read_lease(&*self.name));
        }
    }

    pub(super) fn write_lease(&mut self, write: LeaseWrite, event: Option<Event>, plan: &mut Plan) {
        let Some(record) = self.lease.view.record() else { return };
        let parts = Part::of(&write, record);
        if self.may_write(Write::of(write.purpose), &parts, plan) {
            self.written = Some((write.clone(), parts));
            plan.act(Action::Send { request: Request::write_lease(&*self.name, write), event });
        }
    }

    fn create_lease(&mut self, plan: &mut Plan) {
        if self.may_write(Write::Create, &[Part::lease()], plan) {
            self.written = None;
            plan.act(Request::create_lease(&*self.name));
        }
    }

    /// Whether this write waits because it has had no effect. If so, schedules the next decision for the end of the wait.
    fn is_paused(&self, write: &LeaseWrite, plan: &mut Plan) -> bool {
        let parts = self.lease.view.record().map_or_else(Vec::new, |record| Part::of(write, record));
        !may_go_on(self.ineffective.until(Write::of(write.purpose), &parts, plan.now.moment), plan)
    }

    fn may_write(&self, write: Write, parts: &[Part], plan: &mut Plan) -> bool {
        let now = plan.now.moment;
        may_go_on(self.backoff.until(now).max(self.ineffective.until(write, parts, now)), plan)
    }
}

/// Whether there is nothing to wait for. If there is, schedules the next decision for the end of the wait.
fn may_go_on(until: Option<Moment>, plan: &mut Plan) -> bool {
    if let Some(until) = until {
        plan.wake_at(Timer::Retry, until);
    }
    until.is_none()
}
