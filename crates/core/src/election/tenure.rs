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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tenure {
    holder: Option<String>,
    session: SessionMark,
    transitions: u32,
    since: Moment,
    /// Somebody who is not the elector wrote this holder into another's term.
    forged: bool,
    /// Its end has been counted against the holder, who was damped like this before; taken back if the record was only
    /// late in coming.
    lost: Option<(Damping, bool)>,
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
            lost: None,
        }
    }

    pub(super) fn covers(&self, record: &LeaseRecord) -> bool {
        self.holder == record.holder && self.session == record.session && self.transitions == record.transitions
    }

    fn member<'m>(&self, members: &'m mut Members) -> Option<&'m mut Member> {
        members.get_mut(self.holder.as_deref()?)
    }

    /// What has become of the tenure by `now`, before anything new is seen: it ran out, or it has lasted long enough.
    pub(super) fn pass(&mut self, observed: &Observed, members: &mut Members, now: Moment, config: &Config) {
        let term = observed.changed_at().since(self.since);
        let is_grant = self.session == SessionMark::Open;
        if self.forged || self.lost.is_some() || !self.covers(observed.record()) {
            return;
        }
        let Some(member) = self.member(members) else { return };
        if !is_grant {
            member.damping.reset_by(term, config);
        }
        if observed.is_expired(now) {
            let before = (member.damping.clone(), member.forfeited);
            member.damping.add(now, config);
            member.forfeited |= is_grant;
            member.responsive = member.responsive.filter(|responsive| !responsive);
            self.lost = Some(before);
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
        let Some(mut former) = former else { return Self::of(record, now) };
        let renewed = former.covers(record);
        let taken_up = former.session == SessionMark::Open
            && former.holder.is_some()
            && former.holder == record.holder
            && record.session.stamp().is_some();
        if (renewed || taken_up)
            && let Some((damping, forfeited)) = former.lost.take()
            && let Some(member) = former.member(members)
        {
            member.damping = damping;
            member.forfeited = forfeited;
        }
        if renewed {
            if record.session != SessionMark::Open
                && let Some(member) = former.member(members)
            {
                member.renew(now);
            }
            return former;
        }
        let mut next = Self::of(record, now);
        let same_term = record.session.stamp().is_some() && former.session == record.session;
        next.forged = same_term && former.holder != record.holder;
        let reclaimed = !same_term
            && former.lost.is_none()
            && former.holder == record.holder
            && former.session.stamp().is_some()
            && record.session.stamp().is_some();
        if let Some(member) = next.member(members)
            && !next.forged
            && record.session.stamp().is_some()
        {
            member.forfeited = false;
            member.renew(now);
            if reclaimed {
                member.damping.add(now, config);
            }
        }
        next
    }
}
