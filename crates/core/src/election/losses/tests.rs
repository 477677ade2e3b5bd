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

/// A period that begins with this version.
fn of(record: &LeaseRecord, since: Moment) -> HoldingPeriod {
    HoldingPeriod::of(Arc::new(record.clone()), since).observing_request()
}

fn follow(
    former: impl Into<Option<HoldingPeriod>>,
    record: &LeaseRecord,
    members: &mut Members,
    seconds: i64,
) -> HoldingPeriod {
    HoldingPeriod::follow(former.into(), Arc::new(record.clone()), members, now(seconds), &Config::default()).0
}

#[test]
fn a_late_take_up_is_no_loss_and_a_grant_that_passes_to_another_is() {
    for (next, counted) in [(term("a", 1), 0), (term("b", 2), 1), (grant("a", 2), 1), (free(), 1)] {
        let mut members = members();
        let mut granted = follow(of(&free(), at(0)), &grant("a", 1), &mut members, 0);
        granted.pass(&Observed::first(grant("a", 1), at(0)), &mut members, now(6), &Config::default());
        assert_eq!((a(&mut members).losses.damping.count, a(&mut members).losses.forfeited), (1, true));
        follow(granted, &next, &mut members, 7);
        assert_eq!(a(&mut members).losses.damping.count, counted, "{next:?}");
    }
}

#[test]
fn a_grant_is_no_proof_of_life() {
    let mut members = members();
    a(&mut members).losses.forfeited = true;
    follow(of(&free(), at(0)), &grant("a", 1), &mut members, 1);
    assert!(a(&mut members).losses.forfeited && a(&mut members).response == Response::Unknown);
    follow(of(&grant("a", 1), at(1)), &term("a", 1), &mut members, 2);
    assert!(!a(&mut members).losses.forfeited && a(&mut members).response == Response::Answered);
}

#[test]
fn a_native_holder_declines_a_request_by_a_renewal_that_removes_it() {
    let mut members = native();
    let mut period = of(&native_term(0, Some("b")), at(0));
    for (seconds, preferred, declined_at) in [(1, Some("b"), None), (2, None, Some(at(2))), (3, None, Some(at(2)))] {
        period = follow(period, &native_term(seconds, preferred), &mut members, seconds);
        assert_eq!(period.declined_at(), declined_at, "at {seconds} s");
    }
}

#[test]
fn a_lapse_under_a_later_controller_counts_only_after_that_controller_has_observed_a_renewal() {
    let renewed = |micros| LeaseRecord { renew_time: Some(WireTime::from_micros(micros)), ..term("a", 1) };
    for (renewals, counted) in [(0, 0), (1, 1)] {
        let mut members = members();
        let mut period = follow(None, &renewed(0), &mut members, 0);
        for renewal in 1..=renewals {
            period = follow(period, &renewed(renewal), &mut members, renewal);
        }
        period.pass(&Observed::first(renewed(renewals), at(1)), &mut members, now(20), &Config::default());
        assert_eq!(a(&mut members).losses.damping.count, counted, "{renewals} renewals");
    }
}

/// A native candidate `a`.
fn native() -> Members {
    let record = CandidateRecord { kind: CandidateKind::Native, name: "a".to_owned(), ..CandidateRecord::default() };
    [(CandidateKey::native("a"), Box::new(Member::first(record, now(0), &Config::default())))].into()
}

/// A term of that candidate.
fn native_term(renewed: i64, preferred: Option<&str>) -> LeaseRecord {
    let mut record = LeaseRecord { session: SessionMark::Absent, duration_seconds: 15, ..grant("a", 1) };
    record.renew_time = Some(WireTime::from_micros(renewed));
    record.native.preferred_holder = preferred.map(str::to_owned);
    record
}

#[test]
fn a_native_holder_that_stops_renewing_because_it_was_asked_has_lost_nothing() {
    for (preferred, counted) in [(Some("b"), 0), (None, 1)] {
        let mut members = native();
        let record = native_term(0, preferred);
        let mut period = of(&record, at(0));
        period.pass(&Observed::first(record, at(0)), &mut members, now(16), &Config::default());
        assert_eq!(members[&CandidateKey::native("a")].losses.damping.count, counted, "{preferred:?}");
    }
}

#[test]
fn a_native_holder_resigns_by_a_release_and_not_if_a_client_empties_the_record() {
    for (duration_seconds, counted) in [(1, 1), (15, 0)] {
        let mut members = native();
        let emptied = LeaseRecord { holder: None, duration_seconds, ..native_term(1, None) };
        follow(of(&native_term(0, None), at(0)), &emptied, &mut members, 1);
        assert_eq!(members[&CandidateKey::native("a")].losses.damping.count, counted, "{duration_seconds} s");
    }
}

#[test]
fn a_term_that_lapsed_and_is_then_reclaimed_counts_once_from_the_lapse() {
    let mut members = members();
    let mut lapsed = follow(of(&grant("a", 1), at(0)), &term("a", 1), &mut members, 0);
    lapsed.pass(&Observed::first(term("a", 1), at(0)), &mut members, now(16), &Config::default());
    let reclaimed = LeaseRecord { session: SessionMark::read(Some("a.c.n.2/1/15")), ..term("a", 2) };
    follow(lapsed, &reclaimed, &mut members, 20);
    let damping = &a(&mut members).losses.damping;
    assert_eq!((damping.count, damping.until(at(20))), (1, Some(at(46))));
}

#[test]
fn an_edit_by_another_client_is_neither_a_loss_nor_a_proof_of_life() {
    let edits = [
        LeaseRecord { session: SessionMark::Absent, ..term("a", 1) },
        LeaseRecord { holder: Some("b".to_owned()), ..term("a", 1) },
        LeaseRecord { holder: None, ..term("a", 1) },
        LeaseRecord { holder: None, duration_seconds: 1, ..term("a", 1) },
    ];
    for edited in edits {
        let mut members = members();
        follow(of(&term("a", 1), at(0)), &edited, &mut members, 1);
        assert_eq!(a(&mut members).losses.damping.count, 0, "{edited:?}");
        assert_eq!(members[&CandidateKey::hustings("b")].response, Response::Unknown, "{edited:?}");
    }
}

#[test]
fn a_grant_that_a_client_extends_does_not_reset_the_damping() {
    let mut members = members();
    a(&mut members).losses.damping.add(now(0), &Config::default());
    let mut granted = of(&grant("a", 1), at(0));
    granted.pass(&Observed::first(grant("a", 1), at(60)), &mut members, now(61), &Config::default());
    assert_eq!(a(&mut members).losses.damping.count, 1);
}

#[test]
fn a_loss_that_the_leading_controller_reported_before_the_last_renewal_is_another_one() {
    for (reported, counted) in [(None, 1), (Some(0), 1), (Some(1), 0)] {
        let mut members = members();
        a(&mut members).losses.reported_at = reported.map(at);
        let mut period = of(&term("a", 1), at(0));
        period.pass(&Observed::first(term("a", 1), at(1)), &mut members, now(20), &Config::default());
        assert_eq!(a(&mut members).losses.damping.count, counted, "{reported:?}");
    }
}

#[test]
fn after_a_lapse_it_is_unknown_whether_the_holder_is_live_unless_it_is_known_to_have_failed() {
    let missed = Response::Missed { since: None };
    for (before, after) in
        [(Response::Answered, Response::Unknown), (Response::Unknown, Response::Unknown), (missed, missed)]
    {
        let mut members = members();
        a(&mut members).response = before;
        let mut period = of(&term("a", 1), at(0));
        period.pass(&Observed::first(term("a", 1), at(0)), &mut members, now(16), &Config::default());
        assert_eq!(a(&mut members).response, after, "{before:?}");
    }
}

#[test]
fn a_term_that_was_renewed_late_may_lapse_again() {
    let renewed = |seconds| LeaseRecord { renew_time: Some(WireTime::from_micros(seconds)), ..term("a", 1) };
    let mut members = members();
    let mut period = of(&renewed(0), at(0));
    for (renewed_at, lapsed_at) in [(0, 16), (20, 36)] {
        period = follow(period, &renewed(renewed_at), &mut members, renewed_at);
        assert_eq!(a(&mut members).losses.damping.count, 0, "{renewed_at} s");
        let observed = Observed::first(renewed(renewed_at), at(renewed_at));
        period.pass(&observed, &mut members, now(lapsed_at), &Config::default());
        assert_eq!(a(&mut members).losses.damping.count, 1, "{lapsed_at} s");
    }
}

#[test]
fn a_native_grant_is_no_proof_of_life_and_counts_as_not_taken_up() {
    let mut members = native();
    let granted_at = Some(WireTime::from_micros(0));
    let session = SessionMark::Absent;
    let record = LeaseRecord { session, acquire_time: granted_at, renew_time: granted_at, ..grant("a", 1) };
    let mut granted = follow(of(&free(), at(0)), &record, &mut members, 0);
    let key = CandidateKey::native("a");
    assert_eq!(members[&key].response, Response::Unknown);
    granted.pass(&Observed::first(record, at(0)), &mut members, now(16), &Config::default());
    assert!(members[&key].losses.forfeited);
}
