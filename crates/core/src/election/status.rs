//! The verdict on each candidate, and when its status has to be written.

use std::sync::Arc;
use std::time::Duration;

use super::builder::DecisionBuilder;
use super::member::Member;
use super::{Action, CandidateVerdict, LeaseVerdict, Reason};
use crate::model::{CandidateState, Hold, Moment, RecordedStatus};
use crate::ranking::Rank;

/// The common input of all verdicts.
pub(super) struct Outlook<'a> {
    pub(super) lease: &'a LeaseVerdict,
    /// The rank of the holder, if a candidate holds the Lease.
    pub(super) holder: Option<Rank>,
    /// The place of the preferred holder in the order.
    pub(super) preferred_place: Option<usize>,
    /// Why the live holder is left alone even if a candidate is better.
    pub(super) left_alone: Option<Hold>,
    /// An election is running, so most verdicts will change in a moment.
    pub(super) electing: bool,
    /// The grant is so recent that its take-up is still to be expected.
    pub(super) grant_is_young: bool,
    /// How long a verdict must last before it is written.
    pub(super) status_rest: Duration,
}

impl Outlook<'_> {
    /// The verdict on one candidate; `place` is its place in the order.
    pub(super) fn verdict(&self, member: &Member, place: usize, now: Moment) -> CandidateVerdict {
        let rank = member.standing().is_ok().then_some(place);
        let (state, reason) = self.judge(member, place, now);
        CandidateVerdict {
            name: Arc::clone(&member.name),
            rank,
            state,
            reason,
            responsive: member.responsive,
            unresponsive_since: member.unresponsive_since,
            damping_count: member.damping.count,
            damped_until: member.damping.end(),
            forfeited: member.has_forfeited(now),
        }
    }

    /// Writes the status if it does not show the verdict. A verdict that will change in a moment is not written. The
    /// state Holder stays on record while a missing Lease counts as held for that candidate.
    pub(super) fn publish(&self, member: &mut Member, verdict: &CandidateVerdict, builder: &mut DecisionBuilder) {
        if member.shown.as_ref() == Some(verdict) || self.is_passing(verdict) {
            member.unpublished = None;
            return;
        }
        let status = verdict.status();
        if status == member.record.status {
            member.unpublished = None;
            member.shown = Some(verdict.clone());
        } else if let Some(due) = self.rests_until(member, &status, builder.now.moment) {
            builder.wake(due);
        } else if let Some(until) = member.status_rests_until(builder.now.moment) {
            builder.wake(until);
        } else {
            member.shown = Some(verdict.clone());
            member.status_sent_at = Some(builder.now.moment);
            builder.act(Action::PatchStatus { name: Arc::clone(&member.name), uid: Arc::clone(&member.uid), status });
        }
    }

    /// Until when a status waits that nobody waits for. During an election each such verdict is soon followed by
    /// another. Its write would only delay the writes that electors wait for. The state Holder waits, too: it is only
    /// needed by a process that finds the Lease deleted and never observed the term.
    fn rests_until(&self, member: &mut Member, status: &RecordedStatus, now: Moment) -> Option<Moment> {
        let can_wait = matches!(
            status.state,
            Some(
                CandidateState::Holder | CandidateState::Standby | CandidateState::Preferred | CandidateState::Unproven
            )
        ) && status.damping_count == member.record.status.damping_count;
        let since = match &member.unpublished {
            Some((unpublished, since)) if unpublished == status => *since,
            _ => now,
        };
        member.unpublished = Some((status.clone(), since));
        let due = since.after(self.status_rest);
        (can_wait && now < due).then_some(due)
    }

    fn is_passing(&self, verdict: &CandidateVerdict) -> bool {
        match verdict.reason {
            Reason::Granted => self.grant_is_young,
            Reason::Election | Reason::ForeignHolder => self.electing,
            Reason::Asked => self.electing || self.grant_is_young,
            Reason::Preferred => verdict.responsive == Some(false),
            Reason::Damped => {
                self.electing
                    && matches!(self.lease, LeaseVerdict::Unheld { .. } | LeaseVerdict::NoLiveCandidate { .. })
            }
            _ => false,
        }
    }

    fn judge(&self, member: &Member, place: usize, now: Moment) -> (CandidateState, Reason) {
        let claim = match member.standing() {
            Ok(claim) => claim,
            Err(inadmissible) => return (CandidateState::Invalid, Reason::Inadmissible(inadmissible.clone())),
        };
        if let LeaseVerdict::Held { holder, preferred, taken_up } = self.lease {
            if *holder == member.name {
                let reason = if *taken_up { Reason::Leads } else { Reason::Granted };
                return (CandidateState::Holder, reason);
            }
            if preferred.as_ref() == Some(&member.name) {
                return (CandidateState::Preferred, Reason::Preferred);
            }
        }
        if matches!(self.lease, LeaseVerdict::Reserved { .. })
            && member.record.status.state == Some(CandidateState::Holder)
        {
            return (CandidateState::Holder, Reason::Reserved);
        }
        if member.responsive == Some(false) {
            return (CandidateState::Unresponsive, Reason::Unresponsive);
        }
        if member.damping.until(now).is_some() {
            return (CandidateState::Damped, Reason::Damped);
        }
        let state = if member.responsive == Some(true) { CandidateState::Standby } else { CandidateState::Unproven };
        let reason = match (self.lease, &self.holder) {
            (LeaseVerdict::Held { .. }, Some(holder)) => {
                if let Some(hold) = &self.left_alone {
                    return (state, Reason::HolderLeftAlone(hold.clone()));
                }
                if claim.rank.is_better_than_holder(holder) {
                    match self.preferred_place {
                        Some(preferred) if preferred < place => Reason::BehindPreferred,
                        _ => Reason::Asked,
                    }
                } else {
                    holder.criterion(&claim.rank).filter(|by| by.is_merit()).map_or(Reason::Tie, Reason::Outranked)
                }
            }
            (LeaseVerdict::Foreign { .. }, _) => Reason::ForeignHolder,
            (LeaseVerdict::Reserved { .. }, _) => Reason::Reserved,
            (LeaseVerdict::OnHold { hold, .. }, _) => Reason::OnHold(hold.clone()),
            _ => Reason::Election,
        };
        (state, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::Config;
    use crate::model::{CandidateRecord, Now, WireTime};

    fn member(name: &str, version: &str) -> Member {
        let record = CandidateRecord {
            name: name.to_owned(),
            binary_version: version.to_owned(),
            emulation_version: Some(version.to_owned()),
            ..CandidateRecord::default()
        };
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };
        Member::first(record, now, &Config::default())
    }

    #[test]
    fn whoever_is_better_than_the_holder_is_asked_unless_one_that_is_better_still_is_preferred() {
        let (best, preferred, behind, holder) =
            (member("a", "1.0"), member("b", "1.1"), member("c", "1.2"), member("d", "1.3"));
        let lease = LeaseVerdict::Held { holder: "d".into(), preferred: Some("b".into()), taken_up: true };
        let outlook = Outlook {
            lease: &lease,
            holder: holder.standing().ok().map(|claim| claim.rank.clone()),
            preferred_place: Some(2),
            left_alone: None,
            electing: false,
            grant_is_young: false,
            status_rest: Duration::ZERO,
        };
        let verdict = |member, place| outlook.verdict(member, place, Moment::from_micros(0));
        assert_eq!(verdict(&best, 1).reason, Reason::Asked);
        assert_eq!(verdict(&preferred, 2).reason, Reason::Preferred);
        assert_eq!(verdict(&behind, 3).reason, Reason::BehindPreferred);
        assert_eq!(verdict(&holder, 4).reason, Reason::Leads);
        let mut failed = preferred.clone();
        failed.responsive = Some(false);
        assert!(outlook.is_passing(&verdict(&failed, 2)), "somebody else will be preferred in a moment");
    }
}
