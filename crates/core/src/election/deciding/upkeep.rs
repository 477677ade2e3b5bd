//! The parts of a decision that are not the election: the label of the Lease, dead candidates, and reports.

use std::sync::Arc;

use crate::election::ineffective::Part;
use crate::election::member::Member;
use crate::election::plan::Plan;
use crate::election::{Action, Election, Event, LeaseVerdict, Timer, Write, writes};
use crate::model::{CandidateKey, CandidateKind, Request};

impl Election {
    /// Handles a Lease without the label, which the watch does not show. Adds the label, unless the holder is foreign.
    /// Until the label is there, reads the Lease at the requeue interval.
    pub(super) fn maintain_label(&mut self, verdict: &LeaseVerdict, plan: &mut Plan) {
        let now = plan.now.moment;
        let Some(observed) = self.lease.view.present() else { return };
        if observed.record().enrolled || self.members.is_empty() || plan.writes_lease() {
            return;
        }
        let is_foreign = matches!(verdict, LeaseVerdict::Foreign { .. });
        if !is_foreign && self.ineffective.until(Write::Enrol, &[Part::label()], now).is_none() {
            self.write_lease(writes::enrol(observed.record()), None, plan);
        }
        let due = self.lease.read_at.map_or(now, |at| at.after(self.config.requeue));
        if due <= now {
            self.read_lease(plan);
        }
        plan.wake_at(Timer::UnlabelledLease, due);
    }

    /// Removes the mark `open` from a Lease that a native candidate holds. A `hustings.io` holder writes the mark when
    /// it hands over, and client-go keeps it.
    pub(super) fn remove_mark(&mut self, verdict: &LeaseVerdict, plan: &mut Plan) {
        let LeaseVerdict::Held { holder: CandidateKey { kind: CandidateKind::Native, .. }, .. } = verdict else {
            return;
        };
        if let Some(record) = self.lease.view.record()
            && record.is_open()
            && !plan.writes_lease()
        {
            self.write_lease(writes::unmark(record), None, plan);
        }
    }

    /// Deletes dead candidates that no garbage collector deletes. Such a candidate is pinged once per validity. It is
    /// deleted when it has been Unresponsive for another validity.
    pub(super) fn collect(&mut self, plan: &mut Plan) {
        let now = plan.now.moment;
        for member in self.members.values_mut().filter(|member| !member.record.owned) {
            let dead_since = member.dead_since();
            let due = dead_since.unwrap_or_else(|| member.checked_at()).after(self.config.validity);
            plan.wake_at(Timer::Validity, due);
            // The validity may be as short as the window of a ping. Another ping would start the window again.
            if due > now || !member.ping.is_idle() {
                continue;
            }
            let write = if dead_since.is_some() { Write::Delete } else { Write::Ping };
            if let Some(until) = member.rests_until(write, now) {
                plan.wake_at(Timer::Retry, until);
            } else if dead_since.is_some() {
                plan.act(Request::DeleteCandidate {
                    candidate: member.key.clone(),
                    uid: member.uid.to_string(),
                    resource_version: Some(member.record.resource_version),
                });
            } else {
                plan.act(member.ping(plan.now, &self.config));
            }
        }
    }

    /// Publishes one event for each kind of write that succeeds without effect.
    pub(super) fn report_ineffective(&mut self, plan: &mut Plan) {
        let now = plan.now.moment;
        self.ineffective.forget_unneeded(now, &self.config);
        for (write, why) in self.ineffective.report() {
            plan.act(Action::Event(Event::WriteHasNoEffect { write, why, candidate: None }));
        }
        for member in self.members.values_mut() {
            member.ineffective.forget_unneeded(now, &self.config);
            for (write, why) in member.ineffective.report() {
                let candidate = Some((member.key.clone(), Arc::clone(&member.uid)));
                plan.act(Action::Event(Event::WriteHasNoEffect { write, why, candidate }));
            }
        }
    }

    /// Withdraws the pings that client-go answers again and again. A candidate that this decision pings keeps its ping.
    pub(super) fn withdraw_pings(&mut self, plan: &mut Plan) {
        let now = plan.now.moment;
        plan.actions.extend(self.members.values_mut().filter_map(|member| member.withdraw_ping(now)).map(Action::from));
    }
}

/// Settles the ping of a candidate whose window has ended, and sets the timer for the end of the window. The next decision
/// after a ping follows its outcome, so it comes before that end. Returns the candidate if it has just missed the ping.
pub(super) fn settle(member: &mut Member, plan: &mut Plan) -> Option<CandidateKey> {
    let had_failed = member.failed_at.is_some();
    plan.actions.extend(member.settle_ping(plan.now).map(Action::from));
    if let Some(deadline) = member.ping.deadline() {
        plan.wake_at(Timer::PingWindow, deadline);
        if let Some(until) = member.backoff.until(plan.now.moment) {
            plan.wake_at(Timer::Retry, until);
        }
    }
    (!had_failed && member.failed_at.is_some()).then(|| member.key.clone())
}
