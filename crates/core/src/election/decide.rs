//! One decision about a Lease: its state, what it needs, and the actions.

use std::sync::Arc;

use super::draft::Draft;
use super::member::Member;
use super::order::{Order, heard, in_order, rank_of};
use super::sight::Sight;
use super::status::Outlook;
use super::{
    Action, Asked, CandidateVerdict, Decision, Election, Event, Gap, LeaseVerdict, NODE_LEASES, Unheld, Write, writes,
};
use crate::model::{Hold, LeaseWrite, Moment, Now, Observed, Strategy};
use crate::ranking::Rule;

impl Election {
    /// Decides what to do now. Only the leading controller calls this, because the election assumes that the caller
    /// carries out every action.
    pub fn decide(&mut self, now: Now) -> Decision {
        self.pass(now);
        let mut draft = Draft::new(now, now.moment.after(self.config.requeue));
        if &*self.namespace == NODE_LEASES {
            return finish(draft, LeaseVerdict::OutOfBounds, Vec::new());
        }
        if matches!(self.lease.sight, Sight::Unknown | Sight::Lost { .. }) {
            if !self.members.is_empty() || matches!(self.lease.sight, Sight::Lost { .. }) {
                self.read_lease(&mut draft);
            }
            return finish(draft, LeaseVerdict::Unread, Vec::new());
        }
        self.members.values_mut().for_each(|member| settle(member, &mut draft));
        let rule = Rule::of(
            heard(self.members.values()).map(|claim| (&claim.standing.binary_version, &claim.standing.strategy)),
        );
        self.members.values_mut().for_each(|member| member.submit_to(&rule));
        let verdict = self.look(now.moment, &mut draft);

        let mut members = std::mem::take(&mut self.members);
        let mut order = in_order(members.values_mut(), now.moment);
        let (verdict, left_alone) = self.elect(verdict, rule, &mut order, &mut draft);
        self.report_ignoring(&verdict, &mut draft);
        self.collect(&mut order, &mut draft);
        let verdicts = self.judge(&verdict, left_alone, &mut order, &mut draft);
        self.report_ineffective(&mut order, &mut draft);
        self.members = members;
        finish(draft, verdict, verdicts)
    }

    /// The state of the Lease before this decision changes anything.
    fn look(&mut self, now: Moment, draft: &mut Draft) -> LeaseVerdict {
        let verdict = match &self.lease.sight {
            Sight::Unknown | Sight::Lost { .. } => LeaseVerdict::Unread,
            Sight::Missing { lease, .. } => {
                let until = lease.free_from();
                if now < until {
                    LeaseVerdict::Reserved { until }
                } else {
                    LeaseVerdict::Unheld { since: lease.found_at(), cause: Unheld::Missing }
                }
            }
            Sight::Present(observed) => self.look_at(observed, now),
        };
        match verdict {
            LeaseVerdict::Unheld { since, cause } => {
                let gap = self.gap.get_or_insert(Gap { since, cause, no_live_candidate: false });
                LeaseVerdict::Unheld { since: gap.since, cause: gap.cause }
            }
            other => {
                self.gap = None;
                if let LeaseVerdict::Reserved { until } = other {
                    draft.wake(until);
                }
                if let Some(observed) = self.lease.present() {
                    draft.wake(observed.expires_at());
                }
                other
            }
        }
    }

    fn look_at(&self, observed: &Observed, now: Moment) -> LeaseVerdict {
        let record = observed.record();
        if observed.is_expired(now) {
            let cause = match (&record.holder, record.is_open()) {
                (Some(_), true) => Unheld::GrantNotTakenUp,
                (Some(_), false) => Unheld::Lapsed,
                (None, _) => Unheld::New,
            };
            return LeaseVerdict::Unheld { since: observed.expires_at(), cause };
        }
        if record.is_given_up() || self.lease.is_own_creation() {
            let cause = if record.transitions > 0 { Unheld::Released } else { Unheld::New };
            return LeaseVerdict::Unheld { since: observed.changed_at(), cause };
        }
        let Some(holder) = record.holder.as_deref() else {
            return LeaseVerdict::Reserved { until: observed.expires_at() };
        };
        match self.members.get(holder) {
            Some(member) if member.standing().is_ok() => LeaseVerdict::Held {
                holder: Arc::clone(&member.name),
                preferred: record.preferred_holder.as_deref().map(Arc::from),
                taken_up: !record.is_open(),
            },
            _ => LeaseVerdict::Foreign { holder: holder.into() },
        }
    }

    /// Runs the election that the Lease needs, if any, and plans the write that follows. Returns the verdict, which may
    /// have become a hold or a lack of live candidates. Also returns why a live holder is left alone, if it is.
    fn elect(
        &mut self,
        verdict: LeaseVerdict,
        rule: Rule,
        order: &mut Order<'_>,
        draft: &mut Draft,
    ) -> (LeaseVerdict, Option<Hold>) {
        let left_alone = self.leaves_alone(rule);
        let silent = self.is_silent(&verdict, draft);
        let mut stands = false;
        match (&verdict, &left_alone) {
            (LeaseVerdict::Unheld { .. }, None) => self.fill(order, draft),
            (LeaseVerdict::Unheld { .. }, Some(hold)) => stands = self.hold(hold, order, draft),
            (LeaseVerdict::Held { holder, .. } | LeaseVerdict::Foreign { holder }, None) if silent => {
                self.find_successor(order, Some(holder), draft);
            }
            (LeaseVerdict::Held { holder, .. } | LeaseVerdict::Foreign { holder }, None) if self.is_leaving() => {
                self.relieve(order, holder, draft);
            }
            (LeaseVerdict::Reserved { .. }, None) if silent => self.find_successor(order, None, draft),
            (LeaseVerdict::Held { holder, taken_up: true, .. }, None) => {
                self.improve(order, holder, draft);
                self.name_strategy(Strategy::OldestEmulationVersion.as_str(), draft);
            }
            (LeaseVerdict::Held { holder, .. }, Some(hold)) => self.leave_alone(holder, hold, order, draft),
            _ => self.ballot = None,
        }
        self.look_after_label(&verdict, order, draft);
        match (verdict, &left_alone) {
            (LeaseVerdict::Unheld { since, .. }, Some(hold)) if stands => {
                (LeaseVerdict::OnHold { hold: hold.clone(), since }, left_alone)
            }
            (LeaseVerdict::Unheld { since, cause }, None)
                if self.gap.as_ref().is_some_and(|gap| gap.no_live_candidate) =>
            {
                (LeaseVerdict::NoLiveCandidate { since, cause }, None)
            }
            (verdict, _) => (verdict, left_alone),
        }
    }

    /// Why no candidate is elected, nor preferred over a live holder: elections are paused, or the candidates' strategy
    /// is not ours.
    fn leaves_alone(&self, rule: Rule) -> Option<Hold> {
        if let Some(pause @ Hold::Pause(_)) =
            self.lease.present().and_then(|observed| Hold::read(observed.record().hold.as_deref()))
        {
            return Some(pause);
        }
        match rule {
            Rule::NoCandidates | Rule::Ours => None,
            Rule::ThirdParty(strategy) => Some(Hold::ThirdPartyStrategy(strategy)),
            Rule::Disagreement => Some(Hold::Disagreement),
        }
    }

    /// Handles a Lease without the label, which the watch does not show. The controller adds the label, unless the
    /// holder is foreign. Until the label is there, the controller reads the Lease at the requeue interval.
    fn look_after_label(&mut self, verdict: &LeaseVerdict, order: &Order<'_>, draft: &mut Draft) {
        let now = draft.now.moment;
        let Some(observed) = self.lease.present() else { return };
        if observed.record().enrolled || order.is_empty() || writes_lease(draft) {
            return;
        }
        let is_foreign = matches!(verdict, LeaseVerdict::Foreign { .. });
        if !is_foreign && self.ineffective.until(Write::Enrol, now).is_none() {
            self.write_lease(writes::enrol(observed.record()), None, draft);
            return;
        }
        let due = self.lease.read_at.map_or(now, |at| at.after(self.config.requeue));
        if due <= now {
            self.read_lease(draft);
        }
        draft.wake(due);
    }

    /// Whether the record has been unchanged for so long that the controller should find its successor in advance.
    fn is_silent(&self, verdict: &LeaseVerdict, draft: &mut Draft) -> bool {
        let now = draft.now.moment;
        let ahead = self.config.window.saturating_add(self.config.early_margin);
        let (since, lasts) = match (&self.lease.sight, verdict) {
            (_, LeaseVerdict::Unheld { .. } | LeaseVerdict::OnHold { .. })
            | (Sight::Unknown | Sight::Lost { .. }, _) => return false,
            (Sight::Present(observed), _) => (observed.changed_at(), observed.lasts()),
            (Sight::Missing { lease, .. }, _) => (lease.found_at(), lease.free_from().since(lease.found_at())),
        };
        let least = match verdict {
            LeaseVerdict::Held { taken_up: false, .. } => self.config.take_up,
            _ => lasts / 2,
        };
        let due = since.after(lasts.saturating_sub(ahead).max(least));
        draft.wake(due);
        now >= due
    }

    /// Whether the holder announces that it is about to stop. A foreign elector that takes over an expired Lease keeps
    /// the annotations, because it does not know them. So under another term's session the announcement is not the
    /// holder's, and a foreign holder is left alone.
    fn is_leaving(&self) -> bool {
        let is_own_word = self.tenure.as_ref().is_some_and(|tenure| !tenure.is_forged());
        is_own_word && self.lease.present().is_some_and(|observed| observed.record().leaving_holder().is_some())
    }

    /// Publishes one event about a holder that was asked to hand over long ago and has not done so.
    fn report_ignoring(&mut self, verdict: &LeaseVerdict, draft: &mut Draft) {
        let now = draft.now.moment;
        let LeaseVerdict::Held { holder, preferred: Some(preferred), .. } = verdict else {
            self.asked = None;
            return;
        };
        let asked = match &mut self.asked {
            Some(asked) if asked.holder == *holder => asked,
            slot => slot.insert(Asked {
                holder: Arc::clone(holder),
                since: now,
                reported: false,
                preferred: Arc::clone(preferred),
                preferred_since: now,
            }),
        };
        if asked.preferred != *preferred {
            (asked.preferred, asked.preferred_since) = (Arc::clone(preferred), now);
        }
        let due = asked.since.after(self.config.ignored_after);
        draft.wake(due);
        if now >= due && !asked.reported {
            asked.reported = true;
            let (holder, preferred) = (Arc::clone(holder), Arc::clone(preferred));
            draft.act(Action::Event(Event::HolderIgnoresPreferred { holder, preferred }));
        }
    }

    /// Deletes dead candidates that no garbage collector deletes. Such a candidate is pinged once per validity. It is
    /// deleted when it has been Unresponsive for another validity.
    fn collect(&self, order: &mut Order<'_>, draft: &mut Draft) {
        let now = draft.now.moment;
        for member in order.iter_mut().filter(|member| !member.record.owned) {
            let due = member.failed_at.unwrap_or_else(|| member.checked_at()).after(self.config.validity);
            draft.wake(due);
            if due > now || member.ping.is_some() {
                continue;
            }
            let write = if member.failed_at.is_some() { Write::Delete } else { Write::Ping };
            if let Some(until) = member.rests_until(write, now) {
                draft.wake(until);
            } else if member.failed_at.is_some() {
                draft.act(Action::DeleteCandidate {
                    name: Arc::clone(&member.name),
                    uid: Arc::clone(&member.uid),
                    resource_version: member.record.resource_version,
                });
            } else {
                draft.act(member.ping(draft.now, &self.config));
                draft.wake(now.after(self.config.window));
            }
        }
    }

    fn judge(
        &self,
        verdict: &LeaseVerdict,
        left_alone: Option<Hold>,
        order: &mut Order<'_>,
        draft: &mut Draft,
    ) -> Vec<CandidateVerdict> {
        let now = draft.now.moment;
        let (holder, preferred_place) = match verdict {
            LeaseVerdict::Held { holder, preferred, .. } => (
                rank_of(order, holder).cloned(),
                order
                    .iter()
                    .position(|member| preferred.as_ref() == Some(&member.name))
                    .map(|index| index.saturating_add(1)),
            ),
            _ => (None, None),
        };
        let changed_at = self.lease.present().map(Observed::changed_at);
        let outlook = Outlook {
            lease: verdict,
            holder,
            preferred_place,
            left_alone,
            electing: self.ballot.is_some(),
            grant_is_young: changed_at.is_some_and(|at| now < at.after(self.config.take_up)),
            status_rest: self.config.status_rest,
        };
        let mut verdicts = Vec::with_capacity(order.len());
        for (index, member) in order.iter_mut().enumerate() {
            if let Some(until) = member.damping.until(now) {
                draft.wake(until);
            }
            let verdict = outlook.verdict(member, index.saturating_add(1), now);
            outlook.publish(member, &verdict, draft);
            verdicts.push(verdict);
        }
        verdicts
    }

    fn read_lease(&self, draft: &mut Draft) {
        if self.may_request(draft) {
            draft.act(Action::ReadLease);
        }
    }

    pub(super) fn write_lease(&mut self, write: LeaseWrite, event: Option<Event>, draft: &mut Draft) {
        if self.may_write(Write::of(write.purpose), draft) {
            self.written = Some(write.clone());
            draft.act(Action::WriteLease { write, event });
        }
    }

    pub(super) fn create_lease(&mut self, draft: &mut Draft) {
        if self.may_write(Write::Create, draft) {
            self.written = None;
            self.lease.creating = true;
            draft.act(Action::CreateLease);
        }
    }

    fn may_request(&self, draft: &mut Draft) -> bool {
        may_go_on(self.backoff.until(draft.now.moment), draft)
    }

    fn may_write(&self, write: Write, draft: &mut Draft) -> bool {
        let now = draft.now.moment;
        may_go_on(self.backoff.until(now).max(self.ineffective.until(write, now)), draft)
    }

    /// Publishes one event for each kind of write that succeeds without effect.
    fn report_ineffective(&mut self, order: &mut Order<'_>, draft: &mut Draft) {
        let now = draft.now.moment;
        self.ineffective.forget_unneeded(now, &self.config);
        for (write, lost) in self.ineffective.report() {
            draft.act(Action::Event(Event::WriteHasNoEffect { write, lost, candidate: None }));
        }
        for member in order {
            member.ineffective.forget_unneeded(now, &self.config);
            for (write, lost) in member.ineffective.report() {
                let candidate = Some((Arc::clone(&member.name), Arc::clone(&member.uid)));
                draft.act(Action::Event(Event::WriteHasNoEffect { write, lost, candidate }));
            }
        }
    }
}

/// Whether there is nothing to wait for. Otherwise the next decision is due when the wait is over.
fn may_go_on(until: Option<Moment>, draft: &mut Draft) -> bool {
    if let Some(until) = until {
        draft.wake(until);
    }
    until.is_none()
}

fn finish(draft: Draft, lease: LeaseVerdict, candidates: Vec<CandidateVerdict>) -> Decision {
    Decision { deadline: draft.deadline(), actions: draft.actions, lease, candidates }
}

fn settle(member: &mut Member, draft: &mut Draft) {
    if let Some(read) = member.settle_ping(draft.now) {
        draft.act(read);
    }
    if let Some(ping) = &member.ping {
        draft.wake(ping.deadline);
        if let Some(until) = member.backoff.until(draft.now.moment) {
            draft.wake(until);
        }
    }
}

pub(super) fn writes_lease(draft: &Draft) -> bool {
    draft.actions.iter().any(|action| matches!(action, Action::WriteLease { .. } | Action::CreateLease))
}
