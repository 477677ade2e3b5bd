//! Every form of a Lease beside every other one.

use super::*;
use crate::model::{History, PastTerm, RunningTerm, SessionMark, WireTime};

const NATIVE: Option<CandidateKind> = Some(CandidateKind::Native);
const HUSTINGS: Option<CandidateKind> = Some(CandidateKind::Hustings);

fn at(second: i64) -> WireTime {
    WireTime::from_micros(second * 1_000_000)
}

/// `HOLDER NUMBER SESSION RENEWED`, with `-` for none.
fn record(text: &str) -> LeaseRecord {
    let [holder, number, session, renewed] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let some = |text: &str| (text != "-").then(|| text.to_owned());
    let session = SessionMark::read(some(session).as_deref());
    let is_short = holder == "-" && session != SessionMark::Absent;
    LeaseRecord {
        uid: "u".to_owned(),
        holder: some(holder),
        duration_seconds: if is_short { 1 } else { 15 },
        acquire_time: Some(at(1)),
        renew_time: Some(at(renewed.parse().unwrap())),
        transitions: number.parse().unwrap(),
        session,
        ..LeaseRecord::default()
    }
}

/// This version as a grant by the rules of Kubernetes' controller.
fn native_grant(holder: &str, number: u32) -> LeaseRecord {
    LeaseRecord { duration_seconds: 5, renew_time: Some(at(1)), ..record(&format!("{holder} {number} - 1")) }
}

fn between(before: &LeaseRecord, after: &LeaseRecord, kind: Option<CandidateKind>) -> Step {
    Step::between(before, after, |record| kind.filter(|_| record.holder.is_some()))
}

#[test]
fn the_stage_of_a_version_depends_on_the_kind_of_its_holder() {
    use LeaseStage::{GivenUp, Granted, InTerm, Reserved};
    let native = native_grant("a", 1);
    let taken_up = LeaseRecord { duration_seconds: 15, ..native.clone() };
    let renewed = LeaseRecord { renew_time: Some(at(2)), ..native.clone() };
    let kept_mark = LeaseRecord { session: SessionMark::Open, ..renewed.clone() };
    let stamped = LeaseRecord { session: SessionMark::read(Some("s/1/15")), ..native.clone() };
    let released = LeaseRecord { duration_seconds: 1, ..record("- 1 - 1") };
    for (record, [hustings, native, unknown]) in [
        (record("a 1 open 1"), [Granted, InTerm, Granted]),
        (record("a 1 s/1/15 1"), [InTerm, InTerm, InTerm]),
        (record("a 1 - 1"), [InTerm, InTerm, InTerm]),
        (native, [InTerm, Granted, Granted]),
        (taken_up, [InTerm, InTerm, InTerm]),
        (renewed, [InTerm, InTerm, InTerm]),
        (kept_mark, [Granted, InTerm, Granted]),
        (stamped, [InTerm, Granted, InTerm]),
        (record("- 1 open 1"), [GivenUp; 3]),
        (released, [GivenUp; 3]),
        (record("- 1 - 1"), [Reserved; 3]),
        (record("- 1 s/1/15 1"), [Reserved; 3]),
    ] {
        let stages = [HUSTINGS, NATIVE, None].map(|kind| record.stage(kind));
        assert_eq!(stages, [hustings, native, unknown], "{record:?}");
    }
}

#[test]
fn each_pair_of_versions_has_one_step() {
    let expired = || Some(Ending::Expired);
    let released = || Step::Vacated(Ending::Released(Cause::Unknown));
    for (before, after, expected) in [
        ("a 1 s/1/15 1", "a 1 s/1/15 1", Step::Same),
        ("a 1 s/1/15 1", "a 1 s/1/15 2", Step::Renewed),
        ("a 1 open 1", "a 1 s/1/15 2", Step::TakenUp),
        ("a 1 s/1/15 1", "- 1 open 2", released()),
        ("a 1 s/1/15 1", "- 1 s/1/15 2", Step::Emptied),
        ("- 1 s/1/15 1", "a 1 s/1/15 2", Step::Changed),
        ("- 1 s/1/15 1", "- 1 s/1/15 2", Step::Renewed),
        ("a 1 s/1/15 1", "b 1 s/1/15 1", Step::Renamed),
        ("a 1 s/1/15 1", "b 2 s/1/15 2", Step::Claimed(expired())),
        ("a 1 s/1/15 1", "b 2 t/1/15 2", Step::Claimed(expired())),
        ("a 1 s/1/15 1", "a 2 t/1/15 2", Step::Claimed(expired())),
        ("a 1 s/1/15 1", "a 1 t/1/15 2", Step::Claimed(expired())),
        ("a 1 s/1/15 1", "a 1 - 2", Step::Changed),
        ("a 1 s/1/15 1", "b 2 open 2", Step::Granted(expired())),
        ("a 1 open 1", "b 2 open 2", Step::Granted(Some(Ending::NotTakenUp))),
        ("- 1 open 1", "b 2 open 2", Step::Granted(None)),
        ("- 1 open 1", "b 2 t/1/15 2", Step::Claimed(None)),
        ("- 1 open 1", "- 2 - 2", Step::Changed),
    ] {
        assert_eq!(between(&record(before), &record(after), HUSTINGS), expected, "{before} | {after}");
    }
    for (after, expected) in [
        ("a 1 s/1/15 1", Step::Claimed(Some(Ending::LeaseDeleted))),
        ("a 1 open 1", Step::Granted(Some(Ending::LeaseDeleted))),
        ("- 0 - 1", Step::Vacated(Ending::LeaseDeleted)),
    ] {
        let other = LeaseRecord { uid: "v".to_owned(), ..record(after) };
        assert_eq!(between(&record("a 1 s/1/15 1"), &other, HUSTINGS), expected, "another Lease: {after}");
        assert_eq!(between(&record("- 1 open 1"), &other, HUSTINGS).ended(), None, "another Lease: {after}");
    }
    let longer = LeaseRecord { duration_seconds: 30, ..record("a 1 s/1/15 2") };
    assert_eq!(between(&record("a 1 s/1/15 1"), &longer, HUSTINGS), Step::Changed);
    // Only a renewal that changes nothing else is one: the page shows the rest.
    let leaving = LeaseRecord { leaving: true, ..record("a 1 s/1/15 2") };
    assert_eq!(between(&record("a 1 s/1/15 1"), &leaving, HUSTINGS), Step::Changed);
    let held = LeaseRecord { hold: Some("x".to_owned()), ..record("a 1 s/1/15 1") };
    assert_eq!(between(&record("a 1 s/1/15 1"), &held, HUSTINGS), Step::Same);
}

#[test]
fn a_native_holder_takes_up_its_grant_and_releases_whatever_annotation_is_left() {
    let grant = native_grant("a", 1);
    let taken_up = LeaseRecord { duration_seconds: 15, renew_time: Some(at(2)), ..grant.clone() };
    assert_eq!(between(&grant, &taken_up, NATIVE), Step::TakenUp);
    assert_eq!(between(&native_grant("b", 1), &native_grant("a", 2), NATIVE), Step::Granted(Some(Ending::NotTakenUp)));
    // client-go keeps annotations, so an earlier mark may stand on the Lease of a native holder.
    let in_term = record("b 1 open 2");
    assert_eq!(between(&in_term, &native_grant("a", 2), NATIVE), Step::Granted(Some(Ending::Expired)));
    let (kept, released) = (record("a 1 s/1/15 1"), record("- 1 s/1/15 2"));
    assert_eq!(between(&kept, &released, NATIVE), Step::Vacated(Ending::Released(Cause::Unknown)));
}

#[test]
fn an_ending_is_the_recorded_one_or_else_follows_from_the_versions() {
    let asked = LeaseRecord { preferred_holder: Some("b".to_owned()), ..record("a 1 s/1/15 1") };
    let grant = record("b 2 open 2");
    assert_eq!(between(&asked, &grant, HUSTINGS).hand_over(), Some(Cause::Unknown), "as asked");
    assert_eq!(between(&asked, &record("c 2 open 2"), HUSTINGS), Step::Granted(Some(Ending::Expired)));
    let recorded = |ending| {
        let (past, next) = (PastTerm::new(1, "a", (at(1), at(2)), ending), RunningTerm::new(2, "b", at(2), None));
        LeaseRecord { history: History::new().with(&past).with_running(&next), ..grant.clone() }
    };
    for ending in [Ending::HandedOver(Cause::WorkEnded), Ending::Expired, Ending::Reclaimed] {
        let step = between(&asked, &recorded(ending.clone()), HUSTINGS);
        assert_eq!(step, Step::Granted(Some(ending)));
    }
    assert_eq!(between(&asked, &recorded(Ending::Expired), HUSTINGS).hand_over(), None, "it died while it was asked");
}
