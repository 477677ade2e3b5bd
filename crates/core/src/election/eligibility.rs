//! Whether a candidate may be elected, and if not, why.
//!
//! Only this module excludes a candidate from an election or ranks it last. Verdicts and events derive from its values.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::TransferRefusal;
use super::losses::Members;
use super::member::{Declared, Member, Response};
use super::reason::{Choice, Ineligible};
use crate::model::{
    CandidateKey, CandidateKind, Exclusion, Hold, Inadmissible, LeaseRecord, Moment, Transfer, WireTime,
};
use crate::ranking::{Contender, Criterion, Rank, Rule, with_a_say};

/// Whether a candidate may be elected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Eligibility {
    /// It may be elected.
    Eligible,
    /// It is damped: it may be elected only if no other candidate can.
    RanksLast,
    /// It may not be elected.
    Ineligible(Ineligible),
}

/// The holder whom an elected candidate would succeed.
#[derive(Clone, Debug)]
pub(super) enum Incumbent {
    /// The Lease is free, or its holder is about to lose it or to give it up. The holder does not succeed itself.
    Gone { holder: Option<Arc<str>> },
    /// The live holder keeps the Lease unless a candidate is better.
    Live {
        holder: CandidateKey,
        rank: Rank,
        is_damped: bool,
        /// An administrator excludes the holder, so every other candidate may replace it.
        is_excluded: bool,
    },
}

/// The facts that determine which candidates of one Lease are eligible.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    pub(super) rule: Rule,
    /// Why no candidate is elected or preferred over a live holder.
    pub(super) hold: Option<Hold>,
    pub(super) now: Moment,
    /// The wall clock, which ends the acts of administrators.
    pub(super) wall: WireTime,
    /// The candidate that the Lease names as holder, live or not.
    pub(super) holder: Option<CandidateKey>,
    /// The candidate that the holder is asked to hand over to.
    pub(super) preferred: Option<CandidateKey>,
    /// The request to hand over stands although its candidate is only equal to the holder.
    pub(super) request_stands: bool,
    /// The candidate that an administrator ranks first.
    pub(super) pinned: Option<CandidateKey>,
    /// To which candidate an administrator transfers the Lease.
    pub(super) transfer: Option<Transfer>,
    /// The live holder cannot be asked to hand over.
    pub(super) holder_stays: bool,
    /// The names that two candidates share, one of each kind.
    pub(super) shared_names: BTreeSet<Arc<str>>,
}

impl Conditions {
    /// What a candidate declares, or the reason why it is not admissible. Age never makes a candidate inadmissible.
    pub(super) fn admit<'m>(&self, member: &'m Member) -> Result<&'m Declared, Inadmissible> {
        let declared = member.declared.as_ref().map_err(Clone::clone)?;
        // client-go compares only the name. It would take up the other candidate's grant, and both would lead.
        if member.key.kind == CandidateKind::Hustings && self.shared_names.contains(&member.key.name) {
            return Err(Inadmissible::Namesake);
        }
        if member.lacks_renew_time() {
            return Err(Inadmissible::RenewTimeMissing);
        }
        self.rule.admits(&declared.standing).map(|()| declared)
    }

    /// Whether a candidate may be elected to succeed `incumbent`.
    pub(super) fn eligibility(&self, member: &Member, incumbent: &Incumbent) -> Eligibility {
        match self.check(member, incumbent) {
            Err(reason) => Eligibility::Ineligible(reason),
            Ok(()) if self.is_damped(member) => Eligibility::RanksLast,
            Ok(()) => Eligibility::Eligible,
        }
    }

    fn check(&self, member: &Member, incumbent: &Incumbent) -> Result<(), Ineligible> {
        let declared = self.admit(member).map_err(Ineligible::Inadmissible)?;
        if let Some(exclusion) = self.exclusion(member) {
            return Err(Ineligible::Excluded(exclusion.reason.clone()));
        }
        if member.failed_at.is_some() {
            return Err(Ineligible::Unresponsive);
        }
        if incumbent.holder() == Some(&member.key.name) {
            return Err(Ineligible::Holder);
        }
        let outranked = self.outranked(member, declared, incumbent);
        let keeps_out_damped = match incumbent {
            Incumbent::Live { is_damped, .. } => member.losses.forfeited || !is_damped || outranked.is_some(),
            Incumbent::Gone { .. } => self.hold.is_some(),
        };
        if keeps_out_damped && self.is_damped(member) {
            return Err(if member.losses.forfeited { Ineligible::Forfeited } else { Ineligible::Damped });
        }
        if let Some(hold) = &self.hold {
            return Err(Ineligible::OnHold(hold.clone()));
        }
        match (outranked, incumbent) {
            (Some(reason), _) => Err(reason),
            (None, Incumbent::Live { .. }) if self.holder_stays => Err(Ineligible::HolderStays),
            (None, _) => Ok(()),
        }
    }

    /// Why this candidate does not replace the live holder; `None` if it may.
    fn outranked(&self, member: &Member, declared: &Declared, incumbent: &Incumbent) -> Option<Ineligible> {
        let Incumbent::Live { holder, rank, is_excluded, .. } = incumbent else { return None };
        if *is_excluded || self.is_pinned(&member.key) {
            return None;
        }
        if self.is_pinned(holder) {
            return Some(Ineligible::HolderPinned);
        }
        if declared.rank.is_better_than_holder(rank, self.rule.strategy()) {
            return None;
        }
        match rank.criterion(&declared.rank, self.rule.strategy()).filter(|criterion| criterion.is_merit()) {
            Some(merit) => Some(Ineligible::Outranked(merit)),
            None => (!self.may_follow_equal(&member.key)).then_some(Ineligible::Tie),
        }
    }

    /// Whether this candidate may replace a live holder of equal merit. It may if an administrator transfers the Lease
    /// to it, or if the holder was already asked to hand over to it and that request stands among equals. The second
    /// case is a request that a transfer caused.
    fn may_follow_equal(&self, candidate: &CandidateKey) -> bool {
        self.is_transfer_to(candidate) || (self.request_stands && self.preferred.as_ref() == Some(candidate))
    }

    fn is_transfer_to(&self, candidate: &CandidateKey) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.includes(candidate))
    }

    pub(super) fn is_pinned(&self, candidate: &CandidateKey) -> bool {
        self.pinned.as_ref() == Some(candidate)
    }

    /// The exclusion of this candidate that is in force.
    fn exclusion<'m>(&self, member: &'m Member) -> Option<&'m Exclusion> {
        member.record.acts.exclusion(self.wall)
    }

    pub(super) fn is_excluded(&self, member: &Member) -> bool {
        self.exclusion(member).is_some()
    }

    /// An admissible candidate, as the order of all candidates compares it.
    pub(super) fn contender<'m>(&'m self, (member, declared): (&Member, &'m Declared)) -> Contender<'m> {
        Contender {
            strategy: self.rule.strategy(),
            rank: &declared.rank,
            is_excluded: self.is_excluded(member),
            last_loss: self.last_loss(member),
            is_pinned: self.is_pinned(&member.key),
            is_transfer_target: self.is_transfer_to(&member.key),
        }
    }

    fn is_damped(&self, member: &Member) -> bool {
        self.last_loss(member).is_some()
    }

    /// When a damped candidate last lost the Lease.
    fn last_loss(&self, member: &Member) -> Option<Moment> {
        member.losses.damping.last_loss(self.now)
    }
}

impl Incumbent {
    fn holder(&self) -> Option<&Arc<str>> {
        match self {
            Self::Gone { holder } => holder.as_ref(),
            Self::Live { holder, .. } => Some(&holder.name),
        }
    }
}

/// What follows from the conditions for all candidates of the Lease.
impl Conditions {
    /// All candidates, best first. Those that are not admissible come last.
    pub(super) fn ranked<'m>(&self, members: &'m Members) -> Vec<&'m Member> {
        let mut ranked: Vec<&Member> = members.values().map(AsRef::as_ref).collect();
        ranked.sort_by(|a, b| self.compare(a, b));
        ranked
    }

    /// All candidates, best first. Those that are not admissible come last.
    pub(super) fn ranked_mut<'m>(&self, members: &'m mut Members) -> Vec<&'m mut Member> {
        let mut ranked: Vec<&mut Member> = members.values_mut().map(AsMut::as_mut).collect();
        ranked.sort_by(|a, b| self.compare(a, b));
        ranked
    }

    /// The admissible candidates, best first.
    pub(super) fn admissible<'m>(&'m self, members: &'m Members) -> impl Iterator<Item = (&'m Member, &'m Declared)> {
        self.ranked(members).into_iter().filter_map(|member| Some((member, self.admit(member).ok()?)))
    }

    /// The candidates that may be elected to succeed `incumbent`, best first.
    pub(super) fn eligible_mut<'m>(
        &self,
        members: &'m mut Members,
        incumbent: &Incumbent,
    ) -> impl Iterator<Item = &'m mut Member> {
        let members = members.values_mut().map(AsMut::as_mut);
        let mut eligible: Vec<&mut Member> = members.filter(|member| self.check(member, incumbent).is_ok()).collect();
        eligible.sort_by(|a, b| self.compare(a, b));
        eligible.into_iter()
    }

    /// Why the holder is asked to hand over to `electee`. An equal candidate replaces it only by a transfer.
    pub(super) fn advantage(
        &self,
        members: &Members,
        electee: &CandidateKey,
        holder: &CandidateKey,
    ) -> Option<Criterion> {
        let (electee, holder) = (members.get(electee)?, members.get(holder)?);
        let (declared, held_declared) = (self.admit(electee).ok()?, self.admit(holder).ok()?);
        Some(if self.is_excluded(holder) {
            Criterion::Exclusion
        } else if self.is_pinned(&electee.key) {
            Criterion::Pin
        } else {
            let merit = declared.rank.criterion(&held_declared.rank, self.rule.strategy());
            merit.filter(|criterion| criterion.is_merit()).unwrap_or(Criterion::Transfer)
        })
    }

    /// The live holder as incumbent, if it is an admissible candidate.
    pub(super) fn incumbent(&self, members: &Members, holder: &CandidateKey) -> Option<Incumbent> {
        let member = members.get(holder)?;
        let declared = self.admit(member).ok()?;
        let is_excluded = self.is_excluded(member);
        let is_damped = is_excluded || self.is_damped(member);
        Some(Incumbent::Live { holder: holder.clone(), rank: declared.rank.clone(), is_damped, is_excluded })
    }

    /// Why `electee` is elected to a free Lease.
    pub(super) fn choice(&self, members: &Members, electee: &CandidateKey) -> Choice {
        let mut others = self.admissible(members).skip_while(|(member, _)| member.key != *electee);
        let electee = others.next();
        let next = others.find(|(member, _)| member.response == Response::Answered);
        match (electee, next) {
            (Some(electee), Some(next)) => {
                let criterion = self.contender(electee).criterion(&self.contender(next));
                criterion.map_or(Choice::OnlyLive, Choice::Better)
            }
            _ if self.admissible(members).nth(1).is_some() => Choice::OnlyLive,
            _ => Choice::Only,
        }
    }

    /// Why the holder does not hand over to this candidate.
    pub(super) fn refusal(
        &self,
        members: &Members,
        to: &Transfer,
        electee: Option<&CandidateKey>,
        incumbent: &Incumbent,
    ) -> TransferRefusal {
        let Transfer::To(name) = to else { return TransferRefusal::NoOther };
        let Some(member) = self.ranked(members).into_iter().find(|member| *member.key.name == **name) else {
            return TransferRefusal::NoSuchCandidate;
        };
        match (self.eligibility(member, incumbent), electee) {
            (Eligibility::Ineligible(Ineligible::Holder), _) => TransferRefusal::Holds,
            (Eligibility::Ineligible(why), _) => TransferRefusal::Ineligible(why),
            (_, Some(better)) => TransferRefusal::Outranked(better.clone()),
            (_, None) => TransferRefusal::Ineligible(Ineligible::Unresponsive),
        }
    }

    /// The order of all candidates, the better one first. Those that are not admissible come last.
    fn compare(&self, a: &Member, b: &Member) -> Ordering {
        match (self.admit(a), self.admit(b)) {
            (Ok(a_declared), Ok(b_declared)) => self.contender((a, a_declared)).order(&self.contender((b, b_declared))),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => a.key.cmp(&b.key),
        }
    }
}

/// The rule by which these candidates are elected, and why nobody is, if so.
pub(super) fn rule_and_hold<'m>(
    lease: Option<&LeaseRecord>,
    members: impl Iterator<Item = &'m Member> + Clone,
    wall: WireTime,
) -> (Rule, Option<Hold>) {
    let declared = deciding(members, wall);
    let rule = Rule::of(declared.map(|declared| (&declared.standing.binary_version, &declared.standing.strategy)));
    let hold = lease.and_then(|lease| lease.pause(wall)).or_else(|| rule.hold());
    (rule, hold)
}

/// The names that two candidates share, one of each kind.
pub(super) fn shared_names<'m>(members: impl Iterator<Item = &'m Member>) -> BTreeSet<Arc<str>> {
    let mut names = BTreeSet::new();
    let shared = members.filter(|member| !names.insert(&member.key.name));
    shared.map(|member| Arc::clone(&member.key.name)).collect()
}

/// The declarations that determine the strategy: those of all candidates that are not known to be Unresponsive, that the
/// controller may ping, and that have a say.
pub(super) fn deciding<'m>(
    members: impl Iterator<Item = &'m Member> + Clone,
    wall: WireTime,
) -> impl Iterator<Item = &'m Declared> {
    let members = members.filter(|member| member.failed_at.is_none() && !member.lacks_renew_time());
    let declared = members.filter_map(move |member| {
        let is_excluded = member.record.acts.exclusion(wall).is_some();
        Some((is_excluded, member.declared.as_ref().ok()?))
    });
    with_a_say(declared)
}

#[cfg(test)]
mod tests;
