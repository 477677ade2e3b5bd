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
    let record = CandidateRecord { kind: CandidateKind::Native, name: "a".to_owned(), ..CandidateRecord::default() };
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
    for (seconds, preferred, declined_at) in [(1, Some("b"), None), (2, None, Some(at(2))), (3, None, Some(at(2)))] {
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
