//! Which candidate a decision elects: to a free Lease, to one that will soon be free, or instead of a live holder.

use std::sync::Arc;

use crate::election::eligibility::{Conditions, Incumbent};
use crate::election::inquiry::{Inquiry, InquiryPurpose, InquiryResult};
use crate::election::member::Member;
use crate::election::plan::Plan;
use crate::election::{Action, Election, Event, Timer, hand_over, writes};
use crate::model::{CandidateKey, CandidateKind, Transfer};
use crate::ranking::Criterion;

impl Election {
    /// The Lease will soon be free: finds the candidate that would be elected. Grants nothing yet.
    pub(super) fn find_successor(&mut self, conditions: &Conditions, holder: Option<&Arc<str>>, plan: &mut Plan) {
        let inquiry = Inquiry::enter(&mut self.inquiry, InquiryPurpose::Fill, plan.now.moment, &self.config);
        let incumbent = Incumbent::Gone { holder: holder.cloned() };
        inquiry.poll(conditions.eligible_mut(&mut self.members, &incumbent), None, plan, &self.config);
    }

    /// The Lease is free: elects a holder.
    pub(super) fn fill(&mut self, conditions: &Conditions, plan: &mut Plan) {
        let now = plan.now.moment;
        let inquiry = Inquiry::enter(&mut self.inquiry, InquiryPurpose::Fill, now, &self.config);
        let incumbent = Incumbent::Gone { holder: None };
        let outcome = inquiry.poll(conditions.eligible_mut(&mut self.members, &incumbent), None, plan, &self.config);
        let electee = match outcome {
            InquiryResult::Open => return,
            InquiryResult::Closed(None) => {
                self.inquiry = None;
                self.report_no_live_candidate(conditions, plan);
                return;
            }
            InquiryResult::Closed(Some(electee)) => electee,
        };
        if let Some(period) = &mut self.unheld_period {
            period.no_live_candidate = false;
        }
        let first = conditions.eligible_mut(&mut self.members, &incumbent).map(|member| member.first_seen).min();
        let settled = first.map_or(now, |first| first.after(self.config.settling));
        if now < settled {
            plan.wake_at(Timer::Settling, settled);
            return;
        }
        match self.lease.view.present() {
            None => self.create_lease(plan),
            Some(observed) => {
                let lease = (observed.record(), self.lease.view.history());
                let why = (conditions.choice(&self.members, &electee), self.last_end(observed, now));
                let (write, event) =
                    writes::grant(lease, &electee, why, conditions.rule.strategy(), plan.now, &self.config);
                self.write_lease(write, Some(event), plan);
                if plan.writes_lease() {
                    self.conclude_transfer(Some(&electee), &incumbent, conditions, plan);
                }
            }
        }
    }

    /// The election found no candidate. One event reports that, until a live candidate is found or the Lease is held
    /// again. A Lease without candidates needs no report; its component may be scaled to zero.
    fn report_no_live_candidate(&mut self, conditions: &Conditions, plan: &mut Plan) {
        let Some(period) = &mut self.unheld_period else { return };
        let was_reported = std::mem::replace(&mut period.no_live_candidate, !self.members.is_empty());
        if period.no_live_candidate && !was_reported {
            let admissible = conditions.admissible(&self.members).count();
            let excluded =
                conditions.admissible(&self.members).filter(|(member, _)| conditions.is_excluded(member)).count();
            let inadmissible = self.members.len().saturating_sub(admissible);
            let silent = admissible.saturating_sub(excluded);
            plan.act(Action::Event(Event::NoLiveCandidate { silent, inadmissible, excluded }));
        }
    }

    /// The holder is live: asks it to hand over to a live candidate that is better by merit. Withdraws the request when
    /// there is none.
    pub(super) fn improve(&mut self, conditions: &Conditions, holder: &CandidateKey, plan: &mut Plan) {
        let Some(incumbent) = conditions.incumbent(&self.members, holder) else { return };
        let InquiryResult::Closed(electee) = self.find_preferred(InquiryPurpose::Improve, &incumbent, conditions, plan)
        else {
            return;
        };
        if let Some(electee) = electee.as_ref().filter(|electee| conditions.preferred.as_ref() != Some(electee)) {
            // The answer to this write shows whether the server keeps the request that would follow.
            if holder.kind == CandidateKind::Native && !self.may_keep_request() {
                if let Some(record) = self.lease.view.record() {
                    let write = writes::name_strategy(record, conditions.rule.strategy().as_str());
                    self.write_lease(write, None, plan);
                }
                return;
            }
            let criterion = conditions.advantage(&self.members, electee, holder).unwrap_or(Criterion::EmulationVersion);
            self.prefer(&holder.to_string().into(), electee, Some(criterion), conditions, plan);
            if !plan.writes_lease() {
                return;
            }
        }
        self.conclude_transfer(electee.as_ref(), &incumbent, conditions, plan);
    }

    /// The holder is about to stop: asks it to hand over to the best live candidate. If the holder does not wait, the
    /// same proofs of life serve the grant that follows.
    pub(super) fn relieve(&mut self, conditions: &Conditions, holder: &Arc<str>, plan: &mut Plan) {
        let incumbent = Incumbent::Gone { holder: Some(Arc::clone(holder)) };
        let InquiryResult::Closed(electee) = self.find_preferred(InquiryPurpose::Fill, &incumbent, conditions, plan)
        else {
            return;
        };
        if let Some(electee) = electee.as_ref().filter(|electee| conditions.preferred.as_ref() != Some(electee)) {
            self.prefer(holder, electee, None, conditions, plan);
            if !plan.writes_lease() {
                return;
            }
        }
        self.conclude_transfer(electee.as_ref(), &incumbent, conditions, plan);
    }

    /// Runs the election of a preferred holder among the eligible candidates. Withdraws the request when none is left.
    /// Returns the result, which the Lease may already name.
    fn find_preferred(
        &mut self,
        purpose: InquiryPurpose,
        incumbent: &Incumbent,
        conditions: &Conditions,
        plan: &mut Plan,
    ) -> InquiryResult {
        let now = plan.now.moment;
        let Some(record) = self.lease.view.record() else { return InquiryResult::Open };
        let preferred = conditions.preferred.clone();
        let is_asked = preferred.is_some() || record.preferred_holder.is_some();
        let unchanged_since = self.request_unchanged_since(conditions, now);
        let best = conditions.eligible_mut(&mut self.members, incumbent).next().map(|member| member.key.clone());
        // A request that another client reverts is repeated after a pause. Until then, no proof of life is needed.
        if let Some(best) = best
            && preferred.as_ref() != Some(&best)
            && self.is_paused(&writes::request(record, &best), plan)
        {
            self.inquiry = None;
            return InquiryResult::Open;
        }
        let mut contenders: Vec<&mut Member> = conditions.eligible_mut(&mut self.members, incumbent).collect();
        let inquiry = Inquiry::enter(&mut self.inquiry, purpose, now, &self.config);
        if let Some(asked) = contenders.iter_mut().find(|member| Some(&member.key) == preferred.as_ref())
            && hand_over::must_ping_again(asked, unchanged_since, plan, &self.config)
        {
            inquiry.restart(now);
            plan.act(asked.ping(plan.now, &self.config));
        }
        let outcome = inquiry.poll(contenders.into_iter(), preferred.as_ref(), plan, &self.config);
        if outcome == InquiryResult::Closed(None) {
            self.inquiry = None;
            if is_asked {
                let to = preferred.map_or(Transfer::Any, |preferred| Transfer::To(preferred.name.to_string()));
                self.withdraw_request(conditions.refusal(&self.members, &to, None, incumbent), conditions, plan);
            }
        }
        outcome
    }
}
