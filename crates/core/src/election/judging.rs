//! How an election reaches its verdicts: the state of the Lease, and for each candidate whether it leads, and why.

use super::eligibility::{Conditions, Eligibility, Incumbent};
use super::losses::{candidate_named, holder_of, kind_of};
use super::member::{Member, Response};
use super::observing::UnheldPeriod;
use super::plan::Plan;
use super::{CandidateVerdict, Config, Election, Ineligible, LeaseVerdict, Reason, Timer};
use crate::model::{
    CandidateKey, CandidateKind, CandidateState, Cause, Ending, LeaseRecord, LeaseStage, Moment, Observed, Presence,
    SessionMark, Unheld,
};

/// The common input of all verdicts.
pub(super) struct LeaseContext<'a> {
    pub(super) lease: &'a LeaseVerdict,
    pub(super) conditions: &'a Conditions,
    pub(super) incumbent: Incumbent,
    /// The place of the preferred holder in the order.
    pub(super) preferred_place: Option<usize>,
    /// An election is running, so most verdicts will change in a moment.
    pub(super) electing: bool,
    /// The grant is so recent that its electee may still take it up.
    pub(super) grant_is_young: bool,
    pub(super) config: &'a Config,
}

impl Election {
    /// The state of the Lease before this decision changes anything.
    pub(super) fn lease_verdict(&mut self, conditions: &Conditions, plan: &mut Plan) -> LeaseVerdict {
        let now = conditions.now;
        let verdict = match self.lease.view.presence() {
            Presence::Unknown | Presence::Lost { .. } => LeaseVerdict::Unread,
            Presence::Missing(lease) => {
                let until = lease.free_from();
                if now < until {
                    LeaseVerdict::Reserved { until }
                } else {
                    LeaseVerdict::Unheld { since: lease.found_at(), cause: Unheld::Missing }
                }
            }
            Presence::Present(observed) => self.present_verdict(observed, conditions),
        };
        match verdict {
            LeaseVerdict::Unheld { since, cause } => {
                let period = self.unheld_period.get_or_insert(UnheldPeriod { since, cause, no_live_candidate: false });
                LeaseVerdict::Unheld { since: period.since, cause: period.cause.clone() }
            }
            other => {
                self.unheld_period = None;
                if let LeaseVerdict::Reserved { until } = other {
                    plan.wake_at(Timer::Expiry, until);
                }
                if let Some(observed) = self.lease.view.present() {
                    plan.wake_at(Timer::Expiry, observed.expires_at());
                }
                other
            }
        }
    }

    /// How the last grant or term of a Lease without a live holder ended, if it had any.
    pub(super) fn last_end(&self, observed: &Observed, now: Moment) -> Ending {
        let record = observed.record();
        if record.holder.is_some() {
            let lapse = record.lapse(kind_of(record, &self.members));
            return self.evidence().map_or(lapse, |(evidence, _)| Ending::ProvenDead(evidence));
        }
        // Otherwise client-go has emptied the Lease in the term of another holder.
        if !observed.is_given_up(now) {
            return Ending::Expired;
        }
        let recorded = self.lease.view.history().newest(record.transitions).map(|term| term.ending);
        let is_release = |ending: &Ending| matches!(ending, Ending::Released(_) | Ending::ProvenDead(_));
        recorded.filter(is_release).unwrap_or(Ending::Released(Cause::Unknown))
    }

    fn present_verdict(&self, observed: &Observed, conditions: &Conditions) -> LeaseVerdict {
        let record = observed.record();
        let end = || Unheld::Ended(self.last_end(observed, conditions.now));
        let ended = |had_holder| if had_holder { end() } else { Unheld::New };
        if observed.is_expired(conditions.now) {
            let had_holder = record.holder.is_some() || record.session.stamp().is_some();
            return LeaseVerdict::Unheld { since: observed.expires_at(), cause: ended(had_holder) };
        }
        if observed.is_free(conditions.now) || self.lease.view.is_own_creation() {
            // client-go does not count its first holder.
            let had_holder = record.transitions > 0 || record.acquire_time.is_some();
            return LeaseVerdict::Unheld { since: observed.changed_at(), cause: ended(had_holder) };
        }
        let Some(holder) = record.holder.as_deref() else {
            return LeaseVerdict::Reserved { until: observed.free_from() };
        };
        match self.holder_of(record).and_then(|key| self.members.get(&key)) {
            Some(member) if conditions.admit(member).is_ok() => LeaseVerdict::Held {
                holder: member.key.clone(),
                preferred: self.preferred_of(record, member.key.kind),
                taken_up: self.stage() != Some(LeaseStage::Granted),
            },
            _ if self.is_assisted() => LeaseVerdict::Assisted {
                holder: holder.into(),
                unprovable: self.unprovable(),
                hold: conditions.hold.clone(),
            },
            _ => LeaseVerdict::Foreign { holder: holder.into() },
        }
    }

    /// The candidate that this record names as holder.
    pub(super) fn holder_of(&self, record: &LeaseRecord) -> Option<CandidateKey> {
        holder_of(record, &self.members)
    }

    /// The candidate that a holder of this kind is asked to hand over to. A native holder reads only the native field,
    /// and every other holder only the annotation.
    pub(super) fn preferred_of(&self, record: &LeaseRecord, holder: CandidateKind) -> Option<CandidateKey> {
        let preferred = match holder {
            CandidateKind::Hustings => &record.preferred_holder,
            CandidateKind::Native => &record.native.preferred_holder,
        };
        preferred.as_deref().map(|name| self.candidate_of(name))
    }

    /// The candidate that the Lease means by this name, in a field other than that of the holder.
    pub(super) fn candidate_of(&self, name: &str) -> CandidateKey {
        candidate_named(name, &SessionMark::Absent, &self.members)
    }

    /// What the newest observed version of the Lease is; `None` if the Lease is missing or was never observed.
    pub fn stage(&self) -> Option<LeaseStage> {
        let record = self.lease.view.record()?;
        Some(record.stage(kind_of(record, &self.members)))
    }

    pub(super) fn judge(
        &mut self,
        verdict: &LeaseVerdict,
        conditions: &Conditions,
        plan: &mut Plan,
    ) -> Vec<CandidateVerdict> {
        let now = plan.now.moment;
        let (incumbent, preferred) = match verdict {
            LeaseVerdict::Held { holder, preferred, .. } => {
                (conditions.incumbent(&self.members, holder), preferred.as_ref())
            }
            _ => (None, None),
        };
        let members = conditions.ranked_mut(&mut self.members);
        let preferred_place =
            members.iter().position(|member| preferred == Some(&member.key)).map(|index| index.saturating_add(1));
        let changed_at = self.lease.view.present().map(Observed::changed_at);
        let context = LeaseContext {
            lease: verdict,
            conditions,
            incumbent: incumbent.unwrap_or(Incumbent::Gone { holder: None }),
            preferred_place,
            electing: self.inquiry.is_some(),
            grant_is_young: changed_at.is_some_and(|at| now < at.after(self.config.take_up)),
            config: &self.config,
        };
        let mut verdicts = Vec::with_capacity(members.len());
        for (index, member) in members.into_iter().enumerate() {
            if let Some(until) = member.losses.damping.until(now) {
                plan.wake_at(Timer::DampingEnd, until);
            }
            let verdict = context.verdict(member, index.saturating_add(1));
            context.publish(member, &verdict, plan);
            verdicts.push(verdict);
        }
        verdicts
    }
}

impl LeaseContext<'_> {
    /// The verdict on one candidate; `place` is its place in the order.
    fn verdict(&self, member: &Member, place: usize) -> CandidateVerdict {
        let rank = self.conditions.admit(member).is_ok().then_some(place);
        let (state, reason) = self.judge(member, place);
        CandidateVerdict {
            candidate: member.key.clone(),
            rank,
            state,
            reason,
            responsive: member.response.answered(),
            answered_early: member.answered_early,
            unresponsive_since: member.response.missed_since(),
            damping_count: member.losses.damping.count,
            damped_until: member.losses.damping.end(),
            forfeited: member.has_forfeited(self.conditions.now),
        }
    }

    fn judge(&self, member: &Member, place: usize) -> (CandidateState, Reason) {
        let eligibility = self.conditions.eligibility(member, &self.incumbent);
        if let Eligibility::Ineligible(reason @ Ineligible::Inadmissible(_)) = eligibility {
            return (CandidateState::Invalid, Reason::Ineligible(reason));
        }
        if let LeaseVerdict::Held { holder, preferred, taken_up } = self.lease {
            if *holder == member.key {
                let reason = if *taken_up { Reason::Leads } else { Reason::Granted };
                return (CandidateState::Holder, reason);
            }
            if preferred.as_ref() == Some(&member.key) {
                return (CandidateState::Preferred, Reason::Preferred);
            }
        }
        if matches!(self.lease, LeaseVerdict::Reserved { .. })
            && member.record.status.state == Some(CandidateState::Holder)
        {
            return (CandidateState::Holder, Reason::Reserved);
        }
        // An earlier controller may have recorded that. This controller pings the candidate anyway.
        if member.response.answered() == Some(false) {
            return (CandidateState::Unresponsive, Reason::Ineligible(Ineligible::Unresponsive));
        }
        let state =
            if member.response == Response::Answered { CandidateState::Standby } else { CandidateState::Unproven };
        let reason = match (self.lease, eligibility) {
            (_, Eligibility::RanksLast) => return (CandidateState::Damped, Reason::RanksLast),
            (_, Eligibility::Ineligible(reason @ (Ineligible::Damped | Ineligible::Forfeited))) => {
                return (CandidateState::Damped, Reason::Ineligible(reason));
            }
            (LeaseVerdict::Held { .. }, Eligibility::Eligible) => match self.preferred_place {
                Some(preferred) if preferred < place => Reason::BehindPreferred,
                _ => Reason::Asked,
            },
            (LeaseVerdict::Held { .. }, Eligibility::Ineligible(Ineligible::OnHold(hold))) => {
                Reason::HolderLeftAlone(hold)
            }
            (LeaseVerdict::Held { .. }, Eligibility::Ineligible(reason))
            | (_, Eligibility::Ineligible(reason @ Ineligible::Excluded(_))) => Reason::Ineligible(reason),
            (LeaseVerdict::Foreign { .. }, _) => Reason::ForeignHolder,
            (LeaseVerdict::Reserved { .. }, _) => Reason::Reserved,
            (LeaseVerdict::OnHold { hold, .. }, _) => Reason::OnHold(hold.clone()),
            _ => Reason::Election,
        };
        (state, reason)
    }
}

#[cfg(test)]
mod tests;
