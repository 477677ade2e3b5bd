//! Which candidate holds the Lease, since when, and which candidates lost it: the facts that damping counts.
//!
//! [`Step`] says what happened between two versions of the Lease, and so where one period ends and the next one begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Config;
use super::damping::Damping;
use super::member::{Member, Response};
use crate::model::{CandidateKey, CandidateKind, LeaseRecord, LeaseStage, Moment, Now, Observed, SessionMark, Step};

/// One grant or one term, as observed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HoldingPeriod {
    /// Its newest version; of a term that client-go has emptied by a late release, the version before that.
    record: Arc<LeaseRecord>,
    /// The uid of the holder's candidate. A later candidate of the same name has not lost anything yet.
    candidate: Option<Arc<str>>,
    pub(super) since: Moment,
    origin: Origin,
    /// Its holder has announced that it stops, so its release is no resignation: see `resignation.txt`.
    leaves: bool,
    /// Its holder was asked to hand over.
    was_asked: bool,
    /// A renewal removed the native preferred holder at this time. A native holder that does so is a client-go elector
    /// that never hands over.
    declined_at: Option<Moment>,
    course: Course,
}

/// How a period began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// This controller has observed its beginning, a renewal or the take-up.
    Observed,
    /// It began before this controller first observed the Lease.
    Inherited,
    /// A writer other than the elector named its holder during another holder's term. `holder_edited.txt` shows how that
    /// term's record would harm the new holder.
    Forged,
}

/// Whether a period goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Course {
    Running,
    /// It expired. If that was counted against the holder, this is its damping before. It is restored if the renewal or
    /// take-up was only late.
    Expired {
        damping_before: Option<Damping>,
    },
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
    fn of(record: Arc<LeaseRecord>, since: Moment) -> Self {
        Self {
            candidate: None,
            since,
            origin: Origin::Observed,
            leaves: record.leaving,
            was_asked: false,
            declined_at: None,
            course: Course::Running,
            record,
        }
    }

    /// Whether another writer named its holder during another holder's term. The other fields of the record then belong
    /// to that term.
    pub(super) const fn is_forged(&self) -> bool {
        matches!(self.origin, Origin::Forged)
    }

    /// When its native holder last removed the request to hand over.
    pub(super) const fn declined_at(&self) -> Option<Moment> {
        self.declined_at
    }

    /// What its record is.
    pub(super) fn stage(&self, members: &Members) -> LeaseStage {
        self.record.stage(kind_of(&self.record, members))
    }

    fn is_native(&self, members: &Members) -> bool {
        kind_of(&self.record, members) == Some(CandidateKind::Native)
    }

    fn member<'m>(&self, members: &'m mut Members) -> Option<&'m mut Member> {
        let member = members.get_mut(&holder_of(&self.record, members)?)?;
        self.candidate.as_ref().is_none_or(|uid| *uid == member.uid).then_some(member)
    }

    /// Accounts for the time until `now`, before a new observation: the period may have expired, or lasted long enough
    /// to reset the damping.
    pub(super) fn pass(&mut self, observed: &Observed, members: &mut Members, now: Now, config: &Config) {
        let term = observed.changed_at().since(self.since);
        let is_grant = self.stage(members) == LeaseStage::Granted;
        // A coordinated client-go elector that is asked to hand over stops renewing.
        let hands_over = self.was_asked && self.is_native(members);
        if self.is_forged() || self.course != Course::Running {
            return;
        }
        let has_expired = observed.is_expired(now.moment);
        if has_expired {
            self.course = Course::Expired { damping_before: None };
        }
        let Some(member) = self.member(members) else { return };
        self.candidate.get_or_insert_with(|| Arc::clone(&member.uid));
        if !is_grant {
            member.losses.damping.reset_by(term, config);
        }
        // A loss that another controller has counted is not counted again. If an earlier controller counted it, the
        // status did not show the candidate as Holder (`restart_after_lapse.txt`). If the leading controller counted
        // it, it has reported a loss since the record last changed (`standby_counts_once.txt`).
        let counted_by_earlier = self.origin == Origin::Inherited && !member.losses.was_recorded_as_holder;
        let counted_by_leading = member.losses.reported_at.is_some_and(|at| at >= observed.changed_at());
        if has_expired && !hands_over && !counted_by_earlier && !counted_by_leading {
            self.course = Course::Expired { damping_before: Some(member.losses.damping.clone()) };
            member.losses.damping.add(now, config);
            member.losses.forfeited |= is_grant;
            if member.response == Response::Answered {
                member.response = Response::Unknown;
            }
        }
    }

    /// The period of `record`, which replaced the record of the period `former`, and what happened in between.
    pub(super) fn follow(
        former: Option<Self>,
        record: Arc<LeaseRecord>,
        members: &mut Members,
        now: Now,
        config: &Config,
    ) -> (Self, Option<Step>) {
        let Some(mut former) = former else {
            let period = Self { origin: Origin::Inherited, ..Self::of(record, now.moment) };
            return (period.observing_request(), None);
        };
        let step = Step::between(&former.record, &record, |record| kind_of(record, members));
        if step == Step::Emptied {
            // The term goes on: its holder may write its name back.
            return (former, Some(step));
        }
        if step != Step::Same {
            former.leaves |= record.leaving;
            if former.record.native.preferred_holder.is_some() && record.native.preferred_holder.is_none() {
                former.declined_at = Some(now.moment);
            }
        }
        let period = match step {
            Step::Same => Self { record, ..former },
            Step::Renewed | Step::Changed => {
                former.stays(members);
                former.record = record;
                former.leads(members, now);
                former
            }
            _ => former.succeeded_by(record, &step, members, now, config),
        };
        (period.observing_request(), Some(step))
    }

    /// The period after this one.
    fn succeeded_by(
        mut self,
        record: Arc<LeaseRecord>,
        step: &Step,
        members: &mut Members,
        now: Now,
        config: &Config,
    ) -> Self {
        let mut next = Self::of(record, now.moment);
        // A holder that stops announces that, or deletes its candidate first. A holder that keeps its candidate has
        // resigned, unless it was asked to hand over. A holder that was asked gives the Lease up once its work has
        // stopped, even if the request has been withdrawn in between. If that counted as a loss, a newer version would
        // lead although the older one still stands.
        let is_release = next.record.is_open() || (next.record.has_release_form() && self.is_native(members));
        let resigned = matches!(step, Step::Vacated(_))
            && is_release
            && self.stage(members) == LeaseStage::InTerm
            && !self.leaves
            && !self.was_asked;
        let (session, former_session) = (next.record.session.stamp(), self.record.session.stamp());
        let has_same_holder = self.record.holder == next.record.holder;
        if session.is_some() && session == former_session && !has_same_holder {
            next.origin = Origin::Forged;
        }
        let reclaimed = matches!(step, Step::Claimed(_))
            && self.course == Course::Running
            && has_same_holder
            && session.is_some()
            && former_session.is_some()
            && session != former_session;
        if *step == Step::TakenUp {
            self.stays(members);
        }
        if resigned && let Some(member) = self.member(members) {
            member.losses.damping.add(now, config);
        }
        if !next.is_forged() {
            next.leads(members, now);
            if reclaimed && let Some(member) = next.member(members) {
                member.losses.damping.add(now, config);
            }
        }
        next
    }

    /// Its holder lives. In a term, that proves its candidate live, even a later one of that name.
    fn leads(&self, members: &mut Members, now: Now) {
        if self.stage(members) == LeaseStage::InTerm
            && let Some(holder) = holder_of(&self.record, members)
            && let Some(member) = members.get_mut(&holder)
        {
            member.losses.forfeited = false;
            member.renew(now.moment);
        }
    }

    /// Its holder has renewed, or has taken up its grant. If that was only late, it has lost nothing.
    fn stays(&mut self, members: &mut Members) {
        if self.origin == Origin::Inherited {
            self.origin = Origin::Observed;
        }
        if let Course::Expired { damping_before: Some(damping) } = std::mem::replace(&mut self.course, Course::Running)
            && let Some(member) = self.member(members)
        {
            member.losses.damping = damping;
        }
    }

    /// Notes that the holder has been asked to hand over. Later versions of the period may no longer show that.
    fn observing_request(mut self) -> Self {
        let LeaseRecord { native, preferred_holder, .. } = &*self.record;
        self.was_asked |= native.preferred_holder.is_some() || preferred_holder.is_some();
        self
    }
}

/// The candidate that this record names as its holder.
pub(super) fn holder_of(record: &LeaseRecord, members: &Members) -> Option<CandidateKey> {
    Some(candidate_named(record.holder.as_deref()?, &record.session, members))
}

/// The kind of that candidate.
pub(super) fn kind_of(record: &LeaseRecord, members: &Members) -> Option<CandidateKind> {
    Some(holder_of(record, members)?.kind)
}

#[cfg(test)]
mod tests;
