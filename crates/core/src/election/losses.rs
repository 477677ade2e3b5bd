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

    /// Whether this is a term, not only a grant.
    fn is_term(&self, members: &Members) -> bool {
        let is_grant = if self.is_native(members) { self.native_grant } else { self.session == SessionMark::Open };
        self.holder.is_some() && !is_grant
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
        let hands_over = !is_grant && self.was_asked && self.is_native(members);
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
        let released = record.is_open() || (record.is_given_up() && former.is_native(members));
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
mod tests {
    use super::*;
    use crate::model::{CandidateRecord, WireTime};

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn now(seconds: i64) -> Now {
        Now { moment: at(seconds), wall: WireTime::from_micros(seconds * 1_000_000) }
    }

    fn members() -> Members {
        let member = |name: &str| {
            let record = CandidateRecord { name: name.to_owned(), ..CandidateRecord::default() };
            Box::new(Member::first(record, now(0), &Config::default()))
        };
        ["a", "b"].map(|name| (CandidateKey::hustings(name), member(name))).into()
    }

    fn a(members: &mut Members) -> &mut Member {
        members.get_mut(&CandidateKey::hustings("a")).unwrap()
    }

    fn free() -> LeaseRecord {
        LeaseRecord { session: SessionMark::Open, duration_seconds: 1, ..LeaseRecord::default() }
    }

    fn grant(holder: &str, transitions: u32) -> LeaseRecord {
        LeaseRecord { holder: Some(holder.to_owned()), duration_seconds: 5, transitions, ..free() }
    }

    fn term(holder: &str, transitions: u32) -> LeaseRecord {
        let session = SessionMark::read(Some(&format!("{holder}.c.n.1/1/15")));
        LeaseRecord { session, duration_seconds: 15, ..grant(holder, transitions) }
    }

    fn follow(former: HoldingPeriod, record: &LeaseRecord, members: &mut Members, seconds: i64) -> HoldingPeriod {
        HoldingPeriod::follow(Some(former), record, members, now(seconds), &Config::default())
    }

    #[test]
    fn a_late_take_up_is_no_loss_and_a_grant_that_passes_to_another_is() {
        for (next, counted) in [(term("a", 1), 0), (term("b", 2), 1), (grant("a", 2), 1), (free(), 1)] {
            let mut members = members();
            let mut granted = follow(HoldingPeriod::of(&free(), at(0)), &grant("a", 1), &mut members, 0);
            granted.pass(&Observed::first(grant("a", 1), at(0)), &mut members, now(6), &Config::default());
            assert_eq!((a(&mut members).damping.count, a(&mut members).forfeited), (1, true));
            follow(granted, &next, &mut members, 7);
            assert_eq!(a(&mut members).damping.count, counted, "{next:?}");
        }
    }

    #[test]
    fn a_grant_is_no_proof_of_life() {
        let mut members = members();
        a(&mut members).forfeited = true;
        follow(HoldingPeriod::of(&free(), at(0)), &grant("a", 1), &mut members, 1);
        assert!(a(&mut members).forfeited && a(&mut members).responsive.is_none());
        follow(HoldingPeriod::of(&grant("a", 1), at(1)), &term("a", 1), &mut members, 2);
        assert!(!a(&mut members).forfeited && a(&mut members).responsive == Some(true));
    }

    #[test]
    fn a_native_holder_declines_a_request_by_a_renewal_that_removes_it() {
        let key = CandidateKey::native("a");
        let record =
            CandidateRecord { kind: CandidateKind::Native, name: "a".to_owned(), ..CandidateRecord::default() };
        let member = Box::new(Member::first(record, now(0), &Config::default()));
        let mut members = Members::from([(key, member)]);
        let renewed = |seconds: i64, preferred: Option<&str>| {
            let mut record = LeaseRecord { session: SessionMark::Absent, duration_seconds: 15, ..grant("a", 1) };
            record.renew_time = Some(WireTime::from_micros(seconds));
            record.native.preferred_holder = preferred.map(str::to_owned);
            record
        };
        let mut period = HoldingPeriod::of(&renewed(0, None), at(0));
        period.observe_request(&renewed(0, Some("b")));
        for (seconds, preferred, declined_at) in [(1, Some("b"), None), (2, None, Some(at(2))), (3, None, Some(at(2)))]
        {
            let record = renewed(seconds, preferred);
            period = follow(period, &record, &mut members, seconds);
            period.observe_request(&record);
            assert_eq!(period.declined_at(), declined_at, "at {seconds} s");
        }
    }

    #[test]
    fn a_lapse_under_a_later_controller_counts_only_after_that_controller_has_observed_a_renewal() {
        let renewed = |micros| LeaseRecord { renew_time: Some(WireTime::from_micros(micros)), ..term("a", 1) };
        for (renewals, counted) in [(0, 0), (1, 1)] {
            let mut members = members();
            let mut period = HoldingPeriod::follow(None, &renewed(0), &mut members, now(0), &Config::default());
            for renewal in 1..=renewals {
                period = follow(period, &renewed(renewal), &mut members, renewal);
            }
            period.pass(&Observed::first(renewed(renewals), at(1)), &mut members, now(20), &Config::default());
            assert_eq!(a(&mut members).damping.count, counted, "{renewals} renewals");
        }
    }
}
