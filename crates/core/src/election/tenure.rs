//! Who has had the Lease since when, and whether it was lost: what damping counts, and nothing else.
//!
//! A tenure is one grant or one term. It is told from the next by holder, session and transitions, all of which a
//! renewal leaves alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Config;
use super::damping::Damping;
use super::member::Member;
use crate::model::{LeaseRecord, Moment, Observed, SessionMark};

/// One grant or one term, as it was seen.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tenure {
    holder: Option<String>,
    session: SessionMark,
    transitions: u32,
    since: Moment,
    /// Somebody who is not the elector wrote this holder into another's term.
    forged: bool,
    /// It stood when this controller first saw the Lease, and has shown no life since.
    inherited: bool,
    /// Its holder has said that it stops.
    leaves: bool,
    /// Its holder was asked to hand over.
    was_asked: bool,
    /// It ran out.
    ended: bool,
    /// That was counted against the holder, who was damped like this before; it is taken back if the record was only
    /// late in coming.
    before: Option<(Damping, bool)>,
}

/// The candidates by name.
pub(super) type Members = BTreeMap<Arc<str>, Member>;

impl Tenure {
    fn of(record: &LeaseRecord, since: Moment) -> Self {
        Self {
            holder: record.holder.clone(),
            session: record.session.clone(),
            transitions: record.transitions,
            since,
            forged: false,
            inherited: false,
            leaves: record.leaving,
            was_asked: record.preferred_holder.is_some(),
            ended: false,
            before: None,
        }
    }

    /// Whether its holder stands in another's term, so that what else the record says is that other's.
    pub(super) const fn is_forged(&self) -> bool {
        self.forged
    }

    fn covers(&self, record: &LeaseRecord) -> bool {
        self.holder == record.holder && self.session == record.session && self.transitions == record.transitions
    }

    /// Whether somebody's term runs, and not a mere grant.
    fn is_term(&self) -> bool {
        self.holder.is_some() && self.session != SessionMark::Open
    }

    fn member<'m>(&self, members: &'m mut Members) -> Option<&'m mut Member> {
        members.get_mut(self.holder.as_deref()?)
    }

    /// Takes note that the holder is asked to hand over, which is no change of the record.
    pub(super) fn hear_of_request(&mut self, record: &LeaseRecord) {
        self.was_asked |= self.covers(record) && record.preferred_holder.is_some();
    }

    /// What has become of the tenure by `now`, before anything new is seen: it ran out, or it has lasted long enough.
    pub(super) fn pass(&mut self, observed: &Observed, members: &mut Members, now: Moment, config: &Config) {
        let term = observed.changed_at().since(self.since);
        let is_grant = !self.is_term();
        if self.forged || self.ended || !self.covers(observed.record()) {
            return;
        }
        self.ended = observed.is_expired(now);
        let Some(member) = self.member(members) else { return };
        if !is_grant {
            member.damping.reset_by(term, config);
        }
        // What another controller has counted is not counted again: an earlier one no longer calls the candidate
        // Holder, and one that leads has told of a loss since.
        let counted_by_earlier = self.inherited && !member.was_recorded_as_holder;
        let counted_by_leading = member.loss_told_at.is_some_and(|at| at >= observed.changed_at());
        if self.ended && !counted_by_earlier && !counted_by_leading {
            let before = (member.damping.clone(), member.forfeited);
            member.damping.add(now, config);
            member.forfeited |= is_grant;
            member.responsive = member.responsive.filter(|responsive| !responsive);
            self.before = Some(before);
        }
    }

    /// The tenure that `record` shows, which was seen to replace the record of the tenure `former`.
    pub(super) fn follow(
        former: Option<Self>,
        record: &LeaseRecord,
        members: &mut Members,
        now: Moment,
        config: &Config,
    ) -> Self {
        let Some(mut former) = former else { return Self { inherited: true, ..Self::of(record, now) } };
        let mut next = Self::of(record, now);
        let renewed = former.covers(record);
        let same_holder = former.holder == record.holder;
        let taken_up = same_holder && next.is_term() && !former.is_term();
        former.leaves |= renewed && record.leaving;
        if renewed || taken_up {
            former.ended = false;
            former.inherited = false;
            if let Some((damping, forfeited)) = former.before.take()
                && let Some(member) = former.member(members)
            {
                member.damping = damping;
                member.forfeited = forfeited;
            }
        }
        // Whoever stops says so or deletes its candidate first: one that stands on did not want the Lease. Unless it was
        // asked to hand over: once its work has stopped it gives up, also if the request has been withdrawn meanwhile, and
        // were that counted, a newer version would lead beside it.
        let gave_up = former.is_term() && record.holder.is_none() && record.is_open();
        let resigned = gave_up && !former.leaves && !former.was_asked;
        if resigned
            && let Some(member) = former.member(members)
            && member.loss_told_at.is_none_or(|at| at < former.since)
        {
            member.damping.add(now, config);
        }
        let stamped = record.session.stamp().is_some();
        next.forged = stamped && former.session == record.session && !same_holder;
        let reclaimed = !renewed && !former.ended && same_holder && stamped && former.session.stamp().is_some();
        if next.is_term()
            && !next.forged
            && let Some(member) = next.member(members)
        {
            member.forfeited = false;
            member.renew(now);
            if reclaimed {
                member.damping.add(now, config);
            }
        }
        if renewed { former } else { next }
    }
}
