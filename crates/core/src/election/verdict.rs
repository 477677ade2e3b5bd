//! The verdicts of a decision: the state of the Lease, and for each candidate whether it leads, and why.

use std::sync::Arc;
use std::time::Duration;

use super::builder::DecisionBuilder;
use super::eligibility::{Candidates, Eligibility, Seat, Terms};
use super::losses::candidate_named;
use super::member::Member;
use super::state::UnheldPeriod;
use super::{Election, Evidence, Ineligible, Reason, Timer};
use crate::model::{
    CandidateKey, CandidateKind, CandidateState, Cause, Ending, Hold, LeaseRecord, Moment, Observed, Presence,
    SessionMark, WireTime,
};

/// The state of a Lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseVerdict {
    /// The Lease is in `kube-node-lease`, where Hustings changes nothing.
    OutOfBounds,
    /// The state is unknown until the Lease has been read live.
    Unread,
    /// A candidate holds it.
    Held {
        /// The holder.
        holder: CandidateKey,
        /// The preferred holder, if the holder was asked to hand over.
        preferred: Option<CandidateKey>,
        /// Whether the holder's term has begun; if not, this is a grant or a hand-over.
        taken_up: bool,
    },
    /// The holder has no admissible candidate. It is left alone.
    Foreign {
        /// The holder.
        holder: Arc<str>,
    },
    /// The Lease has no holder, but counts as held. Either another client created it and has not used it yet, or it was
    /// deleted and its holder may still rely on it.
    Reserved {
        /// Until when.
        until: Moment,
    },
    /// The Lease has no holder.
    Unheld {
        /// Since when, by the local clock.
        since: Moment,
        /// Why it has none.
        cause: Unheld,
    },
    /// The Lease has no holder, and the last election found no admissible and live candidate.
    NoLiveCandidate {
        /// Since when it has had no holder, by the local clock.
        since: Moment,
        /// Why it has none.
        cause: Unheld,
    },
    /// The Lease deliberately has no holder.
    OnHold {
        /// Why.
        hold: Hold,
        /// Since when it has had no holder.
        since: Moment,
    },
}

/// Why a Lease has no holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unheld {
    /// The Lease does not exist.
    Missing,
    /// It was created or is empty, and no earlier holder is known.
    New,
    /// The last holder released it.
    Released,
    /// It was released because the connection of the holder's program closed.
    ConnectionClosed,
    /// It was released because the holder's work panicked.
    Panicked,
    /// It was released because the holder's work ended by itself.
    WorkEnded,
    /// The holder stopped renewing.
    Lapsed,
    /// The holder was silent, and evidence proved it dead.
    ProvenDead(Evidence),
    /// The electee did not take up its grant.
    GrantNotTakenUp,
}

/// The verdict on a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CandidateVerdict {
    /// Its kind and name.
    pub candidate: CandidateKey,
    /// Its place in the order, from 1; `None` if it is not admissible.
    pub rank: Option<usize>,
    /// Its state.
    pub state: CandidateState,
    /// Why it does or does not lead.
    pub reason: Reason,
    /// Whether it answered its last ping; `None` if that is unknown.
    pub responsive: Option<bool>,
    /// When it was found unresponsive.
    pub unresponsive_since: Option<WireTime>,
    /// Grants not taken up, expired terms and reclaims since its last full term.
    pub damping_count: u32,
    /// The end of its last damping, by the wall clock.
    pub damped_until: Option<WireTime>,
    /// Whether it is damped and did not take up its last grant. It is then not preferred over a live holder.
    pub forfeited: bool,
}

/// The common input of all verdicts.
pub(super) struct LeaseContext<'a> {
    pub(super) lease: &'a LeaseVerdict,
    pub(super) terms: &'a Terms,
    pub(super) seat: Seat,
    /// The place of the preferred holder in the order.
    pub(super) preferred_place: Option<usize>,
    /// An election is running, so most verdicts will change in a moment.
    pub(super) electing: bool,
    /// The grant is so recent that its electee may still take it up.
    pub(super) grant_is_young: bool,
    /// How long a verdict must last before it is written.
    pub(super) status_rest: Duration,
}

impl LeaseVerdict {
    /// The name of the holder, if the Lease has one.
    pub(super) const fn holder(&self) -> Option<&Arc<str>> {
        match self {
            Self::Held { holder: CandidateKey { name, .. }, .. } | Self::Foreign { holder: name } => Some(name),
            _ => None,
        }
    }

    /// The verdict as metrics and `hustings status` name it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::OutOfBounds => "out-of-bounds",
            Self::Unread => "unread",
            Self::Held { .. } => "held",
            Self::Foreign { .. } => "foreign",
            Self::Reserved { .. } => "reserved",
            Self::Unheld { .. } => "unheld",
            Self::NoLiveCandidate { .. } => "no-candidate",
            Self::OnHold { .. } => "hold",
        }
    }
}

impl Election {
    /// The state of the Lease before this decision changes anything.
    pub(super) fn lease_verdict(&mut self, terms: &Terms, builder: &mut DecisionBuilder) -> LeaseVerdict {
        let now = terms.now;
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
            Presence::Present(observed) => self.present_verdict(observed, terms),
        };
        match verdict {
            LeaseVerdict::Unheld { since, cause } => {
                let period = self.unheld_period.get_or_insert(UnheldPeriod { since, cause, no_live_candidate: false });
                LeaseVerdict::Unheld { since: period.since, cause: period.cause }
            }
            other => {
                self.unheld_period = None;
                if let LeaseVerdict::Reserved { until } = other {
                    builder.set(Timer::Expiry, until);
                }
                if let Some(observed) = self.lease.view.present() {
                    builder.set(Timer::Expiry, observed.expires_at());
                }
                other
            }
        }
    }

    /// How the last term ended; `None` if it is only known that the Lease expired or was given up.
    pub(super) fn known_end(&self) -> Option<Ending> {
        let record = self.lease.view.record()?;
        if record.holder.is_some() {
            return self.evidence().map(|(evidence, _)| Ending::ProvenDead(evidence));
        }
        let ending = self.lease.view.history().newest(record.transitions)?.ending;
        matches!(ending, Ending::Released(cause) if cause.is_end_of_work()).then_some(ending)
    }

    fn present_verdict(&self, observed: &Observed, terms: &Terms) -> LeaseVerdict {
        let record = observed.record();
        if observed.is_expired(terms.now) {
            let cause = match (&record.holder, self.is_grant(record), self.evidence()) {
                (Some(_), true, _) => Unheld::GrantNotTakenUp,
                (Some(_), false, Some((evidence, _))) => Unheld::ProvenDead(evidence),
                (Some(_), false, None) => Unheld::Lapsed,
                (None, ..) => Unheld::New,
            };
            return LeaseVerdict::Unheld { since: observed.expires_at(), cause };
        }
        if record.is_given_up() || self.lease.view.is_own_creation() {
            let cause = match self.known_end() {
                _ if record.transitions == 0 => Unheld::New,
                Some(Ending::Released(Cause::ConnectionClosed)) => Unheld::ConnectionClosed,
                Some(Ending::Released(Cause::Panicked)) => Unheld::Panicked,
                Some(Ending::Released(Cause::WorkEnded)) => Unheld::WorkEnded,
                _ => Unheld::Released,
            };
            return LeaseVerdict::Unheld { since: observed.changed_at(), cause };
        }
        let Some(holder) = record.holder.as_deref() else {
            return LeaseVerdict::Reserved { until: observed.expires_at() };
        };
        match self.holder_of(record).and_then(|key| self.members.get(&key)) {
            Some(member) if terms.admit(member).is_ok() => LeaseVerdict::Held {
                holder: member.key.clone(),
                preferred: self.preferred_of(record, member.key.kind),
                taken_up: !self.is_grant(record),
            },
            _ => LeaseVerdict::Foreign { holder: holder.into() },
        }
    }

    /// The candidate that this record names as holder.
    pub(super) fn holder_of(&self, record: &LeaseRecord) -> Option<CandidateKey> {
        Some(candidate_named(record.holder.as_deref()?, &record.session, &self.members))
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

    /// Whether this version of the Lease is a grant or a hand-over that was not taken up yet.
    pub fn is_grant(&self, record: &LeaseRecord) -> bool {
        match self.holder_of(record).map(|holder| holder.kind) {
            Some(CandidateKind::Native) => record.is_native_grant(),
            Some(CandidateKind::Hustings) | None => record.is_open(),
        }
    }

    pub(super) fn judge(
        &self,
        verdict: &LeaseVerdict,
        candidates: &mut Candidates<'_>,
        builder: &mut DecisionBuilder,
    ) -> Vec<CandidateVerdict> {
        let now = builder.now.moment;
        let (seat, preferred) = match verdict {
            LeaseVerdict::Held { holder, preferred, .. } => (candidates.seat_of(holder), preferred.as_ref()),
            _ => (None, None),
        };
        let Candidates { members, terms } = candidates;
        let preferred_place =
            members.iter().position(|member| preferred == Some(&member.key)).map(|index| index.saturating_add(1));
        let changed_at = self.lease.view.present().map(Observed::changed_at);
        let context = LeaseContext {
            lease: verdict,
            terms,
            seat: seat.unwrap_or(Seat::Vacant { holder: None }),
            preferred_place,
            electing: self.ballot.is_some(),
            grant_is_young: changed_at.is_some_and(|at| now < at.after(self.config.take_up)),
            status_rest: self.config.status_rest,
        };
        let mut verdicts = Vec::with_capacity(members.len());
        for (index, member) in members.iter_mut().enumerate() {
            if let Some(until) = member.damping.until(now) {
                builder.set(Timer::DampingEnd, until);
            }
            let verdict = context.verdict(member, index.saturating_add(1));
            context.publish(member, &verdict, builder);
            verdicts.push(verdict);
        }
        verdicts
    }
}

impl LeaseContext<'_> {
    /// The verdict on one candidate; `place` is its place in the order.
    fn verdict(&self, member: &Member, place: usize) -> CandidateVerdict {
        let rank = self.terms.admit(member).is_ok().then_some(place);
        let (state, reason) = self.judge(member, place);
        CandidateVerdict {
            candidate: member.key.clone(),
            rank,
            state,
            reason,
            responsive: member.responsive,
            unresponsive_since: member.unresponsive_since,
            damping_count: member.damping.count,
            damped_until: member.damping.end(),
            forfeited: member.has_forfeited(self.terms.now),
        }
    }

    fn judge(&self, member: &Member, place: usize) -> (CandidateState, Reason) {
        let eligibility = self.terms.eligibility(member, &self.seat);
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
        if member.responsive == Some(false) {
            return (CandidateState::Unresponsive, Reason::Ineligible(Ineligible::Unresponsive));
        }
        let state = if member.responsive == Some(true) { CandidateState::Standby } else { CandidateState::Unproven };
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
