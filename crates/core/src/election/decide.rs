//! One decision about a Lease: its state, what it needs, and the actions.

use std::sync::Arc;

use super::builder::DecisionBuilder;
use super::lease_view::LeaseState;
use super::member::Member;
use super::order::{Order, determining_claims, in_order, rank_of};
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
        let mut builder = DecisionBuilder::new(now, now.moment.after(self.config.requeue));
        if &*self.namespace == NODE_LEASES {
            return finish(builder, LeaseVerdict::OutOfBounds, Vec::new());
        }
        if matches!(self.lease.state, LeaseState::Unknown | LeaseState::Lost { .. }) {
            if !self.members.is_empty() || matches!(self.lease.state, LeaseState::Lost { .. }) {
                self.read_lease(&mut builder);
            }
            return finish(builder, LeaseVerdict::Unread, Vec::new());
        }
        self.members.values_mut().for_each(|member| settle(member, &mut builder));
        let rule = Rule::of(
            determining_claims(self.members.values())
                .map(|claim| (&claim.standing.binary_version, &claim.standing.strategy)),
        );
        self.members.values_mut().for_each(|member| member.submit_to(&rule));
        let verdict = self.look(now.moment, &mut builder);

        let mut members = std::mem::take(&mut self.members);
        let mut order = in_order(members.values_mut(), now.moment);
        let (verdict, left_alone) = self.elect(verdict, rule, &mut order, &mut builder);
        self.report_ignoring(&verdict, &mut builder);
        self.collect(&mut order, &mut builder);
        let verdicts = self.judge(&verdict, left_alone, &mut order, &mut builder);
        self.report_ineffective(&mut order, &mut builder);
        self.members = members;
        finish(builder, verdict, verdicts)
    }

    /// The state of the Lease before this decision changes anything.
    fn look(&mut self, now: Moment, builder: &mut DecisionBuilder) -> LeaseVerdict {
        let verdict = match &self.lease.state {
            LeaseState::Unknown | LeaseState::Lost { .. } => LeaseVerdict::Unread,
            LeaseState::Missing { lease, .. } => {
                let until = lease.free_from();
                if now < until {
                    LeaseVerdict::Reserved { until }
                } else {
                    LeaseVerdict::Unheld { since: lease.found_at(), cause: Unheld::Missing }
                }
            }
            LeaseState::Present(observed) => self.look_at(observed, now),
        };
        match verdict {
            LeaseVerdict::Unheld { since, cause } => {
                let gap = self.gap.get_or_insert(Gap { since, cause, no_live_candidate: false });
                LeaseVerdict::Unheld { since: gap.since, cause: gap.cause }
            }
            other => {
                self.gap = None;
                if let LeaseVerdict::Reserved { until } = other {
                    builder.wake(until);
                }
                if let Some(observed) = self.lease.present() {
                    builder.wake(observed.expires_at());
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
        builder: &mut DecisionBuilder,
    ) -> (LeaseVerdict, Option<Hold>) {
        let left_alone = self.leaves_alone(rule);
        let silent = self.is_silent(&verdict, builder);
        let mut stands = false;
        match (&verdict, &left_alone) {
            (LeaseVerdict::Unheld { .. }, None) => self.fill(order, builder),
            (LeaseVerdict::Unheld { .. }, Some(hold)) => stands = self.hold(hold, order, builder),
            (LeaseVerdict::Held { holder, .. } | LeaseVerdict::Foreign { holder }, None) if silent => {
                self.find_successor(order, Some(holder), builder);
            }
            (LeaseVerdict::Held { holder, .. } | LeaseVerdict::Foreign { holder }, None) if self.is_leaving() => {
                self.relieve(order, holder, builder);
            }
            (LeaseVerdict::Reserved { .. }, None) if silent => self.find_successor(order, None, builder),
            (LeaseVerdict::Held { holder, taken_up: true, .. }, None) => {
                self.improve(order, holder, builder);
                self.name_strategy(Strategy::OldestEmulationVersion.as_str(), builder);
            }
            (LeaseVerdict::Held { holder, .. }, Some(hold)) => self.leave_alone(holder, hold, order, builder),
            _ => self.ballot = None,
        }
        self.look_after_label(&verdict, order, builder);
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
    fn look_after_label(&mut self, verdict: &LeaseVerdict, order: &Order<'_>, builder: &mut DecisionBuilder) {
        let now = builder.now.moment;
        let Some(observed) = self.lease.present() else { return };
        if observed.record().enrolled || order.is_empty() || writes_lease(builder) {
            return;
        }
        let is_foreign = matches!(verdict, LeaseVerdict::Foreign { .. });
        if !is_foreign && self.ineffective.until(Write::Enrol, now).is_none() {
            self.write_lease(writes::enrol(observed.record()), None, builder);
            return;
        }
        let due = self.lease.read_at.map_or(now, |at| at.after(self.config.requeue));
        if due <= now {
            self.read_lease(builder);
        }
        builder.wake(due);
    }

    /// Whether the record has been unchanged for so long that the controller should find its successor in advance.
    fn is_silent(&self, verdict: &LeaseVerdict, builder: &mut DecisionBuilder) -> bool {
        let now = builder.now.moment;
        let ahead = self.config.window.saturating_add(self.config.early_margin);
        let (since, lasts) = match (&self.lease.state, verdict) {
            (_, LeaseVerdict::Unheld { .. } | LeaseVerdict::OnHold { .. })
            | (LeaseState::Unknown | LeaseState::Lost { .. }, _) => return false,
            (LeaseState::Present(observed), _) => (observed.changed_at(), observed.lasts()),
            (LeaseState::Missing { lease, .. }, _) => (lease.found_at(), lease.free_from().since(lease.found_at())),
        };
        let least = match verdict {
            LeaseVerdict::Held { taken_up: false, .. } => self.config.take_up,
            _ => lasts / 2,
        };
        let due = since.after(lasts.saturating_sub(ahead).max(least));
        builder.wake(due);
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
    fn report_ignoring(&mut self, verdict: &LeaseVerdict, builder: &mut DecisionBuilder) {
        let now = builder.now.moment;
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
        builder.wake(due);
        if now >= due && !asked.reported {
            asked.reported = true;
            let (holder, preferred) = (Arc::clone(holder), Arc::clone(preferred));
            builder.act(Action::Event(Event::HolderIgnoresPreferred { holder, preferred }));
        }
    }

    /// Deletes dead candidates that no garbage collector deletes. Such a candidate is pinged once per validity. It is
    /// deleted when it has been Unresponsive for another validity.
    fn collect(&self, order: &mut Order<'_>, builder: &mut DecisionBuilder) {
        let now = builder.now.moment;
        for member in order.iter_mut().filter(|member| !member.record.owned) {
            let due = member.failed_at.unwrap_or_else(|| member.checked_at()).after(self.config.validity);
            builder.wake(due);
            if due > now || member.ping.is_some() {
                continue;
            }
            let write = if member.failed_at.is_some() { Write::Delete } else { Write::Ping };
            if let Some(until) = member.rests_until(write, now) {
                builder.wake(until);
            } else if member.failed_at.is_some() {
                builder.act(Action::DeleteCandidate {
                    name: Arc::clone(&member.name),
                    uid: Arc::clone(&member.uid),
                    resource_version: member.record.resource_version,
                });
            } else {
                builder.act(member.ping(builder.now, &self.config));
                builder.wake(now.after(self.config.window));
            }
        }
    }

    fn judge(
        &self,
        verdict: &LeaseVerdict,
        left_alone: Option<Hold>,
        order: &mut Order<'_>,
        builder: &mut DecisionBuilder,
    ) -> Vec<CandidateVerdict> {
        let now = builder.now.moment;
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
                builder.wake(until);
            }
            let verdict = outlook.verdict(member, index.saturating_add(1), now);
            outlook.publish(member, &verdict, builder);
            verdicts.push(verdict);
        }
        verdicts
    }

    fn read_lease(&self, builder: &mut DecisionBuilder) {
        if self.may_request(builder) {
            builder.act(Action::ReadLease);
        }
    }

    pub(super) fn write_lease(&mut self, write: LeaseWrite, event: Option<Event>, builder: &mut DecisionBuilder) {
        if self.may_write(Write::of(write.purpose), builder) {
            self.written = Some(write.clone());
            builder.act(Action::WriteLease { write, event });
        }
    }

    pub(super) fn create_lease(&mut self, builder: &mut DecisionBuilder) {
        if self.may_write(Write::Create, builder) {
            self.written = None;
            self.lease.creating = true;
            builder.act(Action::CreateLease);
        }
    }

    fn may_request(&self, builder: &mut DecisionBuilder) -> bool {
        may_go_on(self.backoff.until(builder.now.moment), builder)
    }

    fn may_write(&self, write: Write, builder: &mut DecisionBuilder) -> bool {
        let now = builder.now.moment;
        may_go_on(self.backoff.until(now).max(self.ineffective.until(write, now)), builder)
    }

    /// Publishes one event for each kind of write that succeeds without effect.
    fn report_ineffective(&mut self, order: &mut Order<'_>, builder: &mut DecisionBuilder) {
        let now = builder.now.moment;
        self.ineffective.forget_unneeded(now, &self.config);
        for (write, lost) in self.ineffective.report() {
            builder.act(Action::Event(Event::WriteHasNoEffect { write, lost, candidate: None }));
        }
        for member in order {
            member.ineffective.forget_unneeded(now, &self.config);
            for (write, lost) in member.ineffective.report() {
                let candidate = Some((Arc::clone(&member.name), Arc::clone(&member.uid)));
                builder.act(Action::Event(Event::WriteHasNoEffect { write, lost, candidate }));
            }
        }
    }
}

/// Whether there is nothing to wait for. Otherwise the next decision is due when the wait is over.
fn may_go_on(until: Option<Moment>, builder: &mut DecisionBuilder) -> bool {
    if let Some(until) = until {
        builder.wake(until);
    }
    until.is_none()
}

fn finish(builder: DecisionBuilder, lease: LeaseVerdict, candidates: Vec<CandidateVerdict>) -> Decision {
    Decision { deadline: builder.deadline(), actions: builder.actions, lease, candidates }
}

fn settle(member: &mut Member, builder: &mut DecisionBuilder) {
    if let Some(read) = member.settle_ping(builder.now) {
        builder.act(read);
    }
    if let Some(ping) = &member.ping {
        builder.wake(ping.deadline);
        if let Some(until) = member.backoff.until(builder.now.moment) {
            builder.wake(until);
        }
    }
}

pub(super) fn writes_lease(builder: &DecisionBuilder) -> bool {
    builder.actions.iter().any(|action| matches!(action, Action::WriteLease { .. } | Action::CreateLease))
}
