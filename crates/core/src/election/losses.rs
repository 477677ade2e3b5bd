//! Which candidate holds the Lease, since when, and which candidates lost it: the facts that damping counts.
//!
//! A period is one grant or one term. Holder, session and transitions distinguish it from the next one; a renewal
//! changes none of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Config;
use super::damping::Damping;
use super::member::Member;
use crate::model::{CandidateKey, CandidateKind, LeaseRecord, Moment, Now, Observed, SessionMark};

/// One grant or one term, as observed.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HoldingPeriod {
    holder: Option<String>,
    /// The uid of the holder's candidate. A later candidate of the same name has not lost anything yet.
    candidate: Option<Arc<str>>,
    session: SessionMark,
    transitions: u32,
    pub(super) since: Moment,
    /// A writer other than the elector named this holder during another holder's term. `holder_edited.txt` shows how
    /// that term's record would harm the new holder.
    forged: bool,
    /// It began before this controller first observed the Lease, and has not been renewed or taken up since.
    inherited: bool,
    /// Its holder has announced that it stops, so its release is no resignation: see `resignation.txt`.
    leaves: bool,
    /// Its holder was asked to hand over.
    was_asked: bool,
    /// It is a grant to a native candidate.
    native_grant: bool,
    /// The native field names a preferred holder.
    asks: bool,
    /// A renewal removed the native preferred holder at this time. A native holder that does so is a client-go elector
    /// that never hands over.
    declined_at: Option<Moment>,
    /// It expired.
    ended: bool,
    /// The holder's damping before the expiry was counted against it. It is restored if the renewal or take-up was only
    /// late.
    before: Option<Damping>,
}

/// All candidates of the Lease. Each member is boxed: a node of the map reserves room for eleven entries, and most
/// Leases have two or three candidates.
pub(super) type Members = BTreeMap<CandidateKey, Box<Member>>;

/// The candidate that a record with this session means by `name`. Only the electors of `hustings.io` write sessions.
pub(super) fn candidate_named(name: &str, session: &SessionMark, members: &Members) -> CandidateKey {
    let (hustings, native) = (CandidateKey::hustings(name), CandidateKey::native(name));
    let is_native = members.contains_key(&native) && (session.stamp().is_none() || !members.contains_key(&hustings));
    if is_native { native } else { hustings }
}

impl HoldingPeriod {
    fn of(record: &LeaseRecord, since: Moment) -> Self {
        Self {
            holder: record.holder.clone(),
            candidate: None,
            session: record.session.clone(),
            transitions: record.transitions,
            since,
            forged: false,
            inherited: false,
            leaves: record.leaving,
            was_asked: false,
            native_grant: record.is_native_grant(),
            asks: false,
            declined_at: None,
            ended: false,
            before: None,
        }
    }

    /// Whether another writer named its holder during another holder's term. The other fields of the record then belong
    /// to that term.
    pub(super) const fn is_forged(&self) -> bool {
        self.forged
    }

    /// When its native holder last removed the request to hand over.
    pub(super) const fn declined_at(&self) -> Option<Moment> {
        self.declined_at
    }

    /// Whether this is the period of `record`. A native holder writes no session, so a session that it left in place
    /// does not count.
    fn covers(&self, record: &LeaseRecord, members: &Members) -> bool {
        let is_same = if self.is_native(members) {
            self.native_grant == record.is_native_grant()
        } else {
            self.session == record.session
        };
        is_same && self.holder == record.holder && self.transitions == record.transitions
    }

    fn is_native(&self, members: &Members) -> bool {
        self.key(members).is_some_and(|key| key.kind == CandidateKind::Native)
    }

    /// Whether the holder, if there is one, is in its term and has not only a grant.
    pub(super) fn is_term(&self, members: &Members) -> bool {
        let is_grant = if self.is_native(members) { self.native_grant } else { self.session == SessionMark::Open };
        !is_grant
    }

    fn key(&self, members: &Members) -> Option<CandidateKey> {
        Some(candidate_named(self.holder.as_deref()?, &self.session, members))
    }

    fn member<'m>(&self, members: &'m mut Members) -> Option<&'m mut Member> {
        let member = members.get_mut(&self.key(members)?)?;
        self.candidate.as_ref().is_none_or(|uid| *uid == member.uid).then_some(member)
    }

    /// Records whether the holder is asked to hand over. That does not change the record, so the period stays the same.
    pub(super) fn observe_request(&mut self, record: &LeaseRecord) {
        self.asks = record.native.preferred_holder.is_some();
        self.was_asked |= self.asks || record.preferred_holder.is_some();
    }

    /// Accounts for the time until `now`, before a new observation: the period may have expired, or lasted long enough
    /// to reset the damping.
    pub(super) fn pass(&mut self, observed: &Observed, members: &mut Members, now: Now, config: &Config) {
        let term = observed.changed_at().since(self.since);
        let is_grant = !self.is_term(members);
        // A coordinated client-go elector that is asked to hand over stops renewing.
        let hands_over = self.was_asked && self.is_native(members);
        if self.forged || self.ended {
            return;
        }
        self.ended = observed.is_expired(now.moment);
        let Some(member) = self.member(members) else { return };
        self.candidate.get_or_insert_with(|| Arc::clone(&member.uid));
        if !is_grant {
            member.damping.reset_by(term, config);
        }
        // A loss that another controller has counted is not counted again. If an earlier controller counted it, the
        // status did not show the candidate as Holder (`restart_after_lapse.txt`). If the leading controller counted
        // it, it has reported a loss since the record last changed (`standby_counts_once.txt`).
        let counted_by_earlier = self.inherited && !member.was_recorded_as_holder;
        let counted_by_leading = member.loss_reported_at.is_some_and(|at| at >= observed.changed_at());
        if self.ended && !hands_over && !counted_by_earlier && !counted_by_leading {
            self.before = Some(member.damping.clone());
            member.damping.add(now, config);
            member.forfeited |= is_grant;
            member.responsive = member.responsive.filter(|responsive| !responsive);
        }
    }

    /// The period of `record`, which replaced the record of the period `former`.
    pub(super) fn follow(
        former: Option<Self>,
        record: &LeaseRecord,
        members: &mut Members,
        now: Now,
        config: &Config,
    ) -> Self {
        let Some(mut former) = former else { return Self { inherited: true, ..Self::of(record, now.moment) } };
        // The term goes on: its holder may write its name back.
        let is_late_release = record.has_release_form() && record.session.stamp().is_some();
        if is_late_release
            && !former.is_native(members)
            && (&former.session, former.transitions) == (&record.session, record.transitions)
        {
            return former;
        }
        let mut next = Self::of(record, now.moment);
        let renewed = former.covers(record, members);
        let same_holder = former.holder == record.holder;
        let taken_up = same_holder && next.is_term(members) && !former.is_term(members);
        former.leaves |= record.leaving;
        if former.asks && record.native.preferred_holder.is_none() {
            former.declined_at = Some(now.moment);
        }
        if renewed || taken_up {
            former.ended = false;
            former.inherited = false;
            if let Some(damping) = former.before.take()
                && let Some(member) = former.member(members)
            {
                member.damping = damping;
            }
        }
        // A holder that stops announces that, or deletes its candidate first. A holder that keeps its candidate has
        // resigned, unless it was asked to hand over. A holder that was asked gives the Lease up once its work has
        // stopped, even if the request has been withdrawn in between. If that counted as a loss, a newer version would
        // lead although the older one still stands.
        let released = record.is_open() || (record.has_release_form() && former.is_native(members));
        let gave_up = former.is_term(members) && record.holder.is_none() && released;
        let resigned = gave_up && !former.leaves && !former.was_asked;
        if resigned && let Some(member) = former.member(members) {
            member.damping.add(now, config);
        }
        let stamped = record.session.stamp().is_some();
        next.forged = stamped && former.session == record.session && !same_holder;
        let reclaimed = !renewed && !former.ended && same_holder && stamped && former.session.stamp().is_some();
        if next.is_term(members)
            && !next.forged
            && let Some(member) = next.member(members)
        {
            member.forfeited = false;
            member.renew(now.moment);
            if reclaimed {
                member.damping.add(now, config);
            }
        }
        if renewed { former } else { next }
    }
}

#[cfg(test)]
mod tests;
