//! Leases on which this controller elects nobody, because elections are paused or the strategy is a third party's.

use crate::election::eligibility::{Conditions, deciding};
use crate::election::inquiry::{Inquiry, InquiryPurpose};
use crate::election::member::Member;
use crate::election::plan::Plan;
use crate::election::{Action, Election, Event, TransferRefusal, writes};
use crate::model::{CandidateKey, Hold};

impl Election {
    /// The Lease is free, but elections are paused or the strategy is not ours. Records that on the Lease, once the
    /// candidates that determine the strategy have proved themselves live. Returns whether the Lease already records
    /// it.
    pub(super) fn hold(&mut self, hold: &Hold, conditions: &Conditions, plan: &mut Plan) -> bool {
        // An administrator wrote the pause, so the Lease already records it.
        if matches!(hold, Hold::Pause(_)) {
            self.inquiry = None;
            return true;
        }
        let own_creation = self.lease.view.is_own_creation();
        let write = self.lease.view.record().map(|record| writes::hold(record, hold, own_creation));
        let is_recorded = matches!(write, Some(None));
        let is_paused = write.iter().flatten().any(|(write, _)| self.is_paused(write, plan));
        if self.ping_determining(is_recorded || is_paused, None, conditions, plan) {
            match write {
                None => self.create_lease(plan),
                Some(Some((write, event))) => self.write_lease(write, Some(event), plan),
                Some(None) => {}
            }
        }
        is_recorded
    }

    /// The holder is live and left alone. Pings the candidates that determine the strategy. Withdraws a request to hand
    /// over, because no election maintains it any more. Under a third party's strategy the request stays, because the
    /// third party may have made it.
    pub(super) fn leave_alone(&mut self, holder: &CandidateKey, hold: &Hold, conditions: &Conditions, plan: &mut Plan) {
        if !matches!(hold, Hold::ThirdPartyStrategy(_))
            && let Some(record) = self.lease.view.record()
            && (record.preferred_holder.is_some() || conditions.preferred.is_some())
        {
            self.withdraw_request(TransferRefusal::OnHold(hold.clone()), conditions, plan);
            if let Some(to) = conditions.transfer.clone().filter(|_| plan.writes_lease()) {
                // That write removes the transfer.
                plan.act(Action::Event(Event::TransferRefused { to, why: TransferRefusal::OnHold(hold.clone()) }));
            }
        }
        if matches!(hold, Hold::Pause(_)) {
            self.inquiry = None;
        } else if self.ping_determining(true, Some(holder), conditions, plan)
            && let Hold::ThirdPartyStrategy(strategy) = hold
        {
            self.name_strategy(strategy, plan);
        }
    }

    /// Pings the candidates whose versions determine the strategy, and all others that ask for a strategy other than
    /// ours, except the live `holder`. A dead candidate must not determine the strategy, and a dozen dead ones of
    /// different versions must not cost one window each. Once the answer is `settled`, they are pinged once per
    /// validity.
    ///
    /// Returns whether the answer is known, or the wait for it is over.
    fn ping_determining(
        &mut self,
        settled: bool,
        holder: Option<&CandidateKey>,
        conditions: &Conditions,
        plan: &mut Plan,
    ) -> bool {
        let now = plan.now.moment;
        let deciding = deciding(self.members.values().map(AsRef::as_ref), plan.now.wall);
        let highest = deciding.map(|declared| &declared.standing.binary_version).max().cloned();
        let inquiry = match &mut self.inquiry {
            Some(inquiry) if inquiry.purpose == InquiryPurpose::Strategy => inquiry,
            slot => Inquiry::enter(slot, InquiryPurpose::Strategy, now, &self.config),
        };
        let lasts = if settled { self.config.validity } else { self.config.answer_lasts() };
        if now >= inquiry.started.after(lasts) {
            inquiry.restart(now);
        }
        let takes_part = |member: &Member| {
            member.declared.as_ref().is_ok_and(|declared| {
                declared.dissents() || Some(&declared.standing.binary_version) == highest.as_ref()
            })
        };
        let ranked = conditions.ranked_mut(&mut self.members).into_iter();
        let voters = ranked
            .filter(|member| conditions.admit(member).is_ok() && Some(&member.key) != holder && takes_part(member));
        inquiry.poll_all(voters, plan, &self.config)
    }

    /// Writes the strategy of a held Lease that names none or a different one: electors follow the strategy on the
    /// Lease.
    pub(super) fn name_strategy(&mut self, strategy: &str, plan: &mut Plan) {
        if let Some(record) = self.lease.view.record()
            && record.strategy.as_deref() != Some(strategy)
            && !plan.writes_lease()
        {
            self.write_lease(writes::name_strategy(record, strategy), None, plan);
        }
    }
}
