use super::super::{CandidateState, PastTerm, RecordedStatus, SessionMark, WireTime, reliance};
use super::*;

fn at(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn version(resource_version: u64) -> LeaseRecord {
    LeaseRecord { resource_version, holder: Some("a".to_owned()), duration_seconds: 20, ..LeaseRecord::default() }
}

fn given_up(resource_version: u64) -> LeaseRecord {
    LeaseRecord { holder: None, duration_seconds: 1, session: SessionMark::Open, ..version(resource_version) }
}

fn created(resource_version: u64) -> LeaseRecord {
    LeaseRecord { resource_version, ..LeaseRecord::as_created() }
}

/// A view of version 5, observed at 1 s.
fn present() -> LeaseView {
    let mut view = LeaseView::new();
    assert!(view.observe(version(5), None, at(1)));
    view
}

/// A view of a Lease that was found missing at 1 s by a read sent at 0 s.
fn missing() -> LeaseView {
    let mut view = LeaseView::new();
    assert!(view.observe_missing(at(0), at(1)));
    view
}

fn waits(view: &LeaseView) -> i64 {
    let Presence::Missing(lease) = view.presence() else { panic!("the Lease is missing") };
    (lease.free_from().as_micros() - lease.found_at().as_micros()) / 1_000_000
}

#[test]
fn a_version_from_a_watch_counts_only_if_it_is_newer() {
    let mut view = present();
    assert!(!view.observe(version(5), None, at(2)) && !view.observe(version(4), None, at(2)));
    assert!(view.observe(version(6), None, at(2)));
    assert_eq!(view.version(), Some(6));
    assert!(LeaseView::new().observe(version(0), None, at(1)), "the first one always counts");
}

#[test]
fn an_older_answer_counts_unless_something_was_observed_since_its_request() {
    let mut view = present();
    assert!(!view.observe(version(4), Some(at(0)), at(3)) && !view.observe(version(4), Some(at(1)), at(3)));
    assert!(view.observe(version(5), Some(at(0)), at(3)), "the version is known already");
    assert!(view.observe(version(4), Some(at(2)), at(3)));
    assert!(!view.observe(version(3), Some(at(3)), at(4)), "version 4 arrived when that request was sent");
}

#[test]
fn evidence_counts_after_a_gap_once_a_renewal_was_observed() {
    let renewed = |resource_version, micros| LeaseRecord {
        session: SessionMark::read(Some("s/1/20")),
        renew_time: Some(WireTime::from_micros(micros)),
        ..version(resource_version)
    };
    let mut view = LeaseView::new();
    view.observe(renewed(5, 1), None, at(1));
    assert!(!view.observe_death(at(1)), "an earlier holder may rely on the Lease");
    view.observe(renewed(6, 2), None, at(2));
    view.observe_lost(at(3));
    assert!(!view.observe_death(at(3)));
    view.observe(renewed(6, 2), Some(at(4)), at(5));
    assert!(!view.observe_death(at(5)), "another holder may have come and gone meanwhile");
    view.observe(renewed(7, 3), None, at(6));
    assert!(view.observe_death(at(6)));
    assert_eq!(view.free_from(), Some(at(6)));
    view.observe_lost(at(7));
    view.observe(renewed(7, 3), Some(at(8)), at(9));
    assert_eq!(view.free_from(), Some(at(9).after(reliance(20))), "the proof counts no more");
}

#[test]
fn an_older_version_does_not_bring_a_missing_lease_back() {
    let mut view = present();
    assert!(view.observe_missing(at(2), at(3)) && view.is_missing());
    assert!(!view.observe(version(5), None, at(4)) && !view.observe(version(5), Some(at(2)), at(4)));
    assert!(view.clone().observe(version(6), None, at(4)));
    assert!(!view.observe(version(5), Some(at(3)), at(4)), "that request was sent when the Lease was found missing");
    let mut again = view.clone();
    assert!(again.observe(version(5), Some(at(4)), at(5)));
    assert!(!again.observe_missing(at(5), at(6)), "a version arrived when that request was sent");
    assert!(view.observe_missing(at(9), at(10)));
    assert!(!view.observe(version(5), Some(at(4)), at(11)), "a later answer showed that the Lease is missing");
}

#[test]
fn a_lease_is_missing_unless_a_version_was_observed_since_the_request() {
    let mut view = present();
    assert!(!view.observe_missing(at(0), at(2)) && !view.observe_missing(at(1), at(2)));
    assert!(view.present().is_some());
    assert!(view.observe_missing(at(2), at(2)) && view.is_missing());
}

#[test]
fn a_read_sent_before_the_watch_lost_the_lease_does_not_count() {
    let mut view = present();
    view.observe_lost(at(3));
    assert!(!view.observe(version(5), Some(at(2)), at(4)) && !view.observe(version(5), None, at(4)));
    assert!(!view.observe_missing(at(2), at(4)));
    assert!(view.present().is_none() && view.last().is_some() && view.free_from().is_none());
    assert!(view.clone().observe(version(6), None, at(4)), "a newer version exists");
    assert!(view.clone().observe_missing(at(3), at(4)));
    assert!(view.observe(version(5), Some(at(3)), at(4)));
    assert_eq!(view.present().unwrap().changed_at(), at(4), "its expiry counts from that read");
}

#[test]
fn a_lease_that_was_ever_observed_held_counts_as_held_when_it_is_missing() {
    let mut view = LeaseView::new();
    view.observe(given_up(4), None, at(0));
    assert!(view.clone().observe_missing(at(1), at(2)));
    let mut never_held = view.clone();
    never_held.observe_missing(at(1), at(2));
    assert_eq!(waits(&never_held), 0);
    view.observe(version(5), None, at(1));
    view.observe(given_up(6), None, at(2));
    view.observe_missing(at(3), at(3));
    assert_eq!(waits(&view), 15, "a claim after the release may have gone unobserved");
}

#[test]
fn a_creation_is_free_for_its_creator_until_the_next_version() {
    let mut view = missing();
    assert!(view.observe(created(6), None, at(2)));
    assert!(!view.is_own_creation(), "another process may have created it");
    assert!(view.observe_created(created(6), at(1), at(3)));
    assert_eq!((view.is_own_creation(), view.free_from()), (true, Some(at(2))));
    view.observe(created(7), None, at(4));
    assert_eq!((view.is_own_creation(), view.free_from()), (false, Some(view.present().unwrap().expires_at())));
}

#[test]
fn a_creation_is_not_free_if_another_version_or_a_holder_was_observed_before_its_answer() {
    let mut view = missing();
    view.observe(version(5), None, at(2));
    assert!(view.observe_created(created(6), at(1), at(3)) && !view.is_own_creation());
    let mut view = missing();
    view.observe(created(6), None, at(2));
    view.observe_lost(at(3));
    assert!(!view.observe_created(created(6), at(1), at(4)) && !view.is_own_creation(), "its watch lost the Lease");
    let mut view = missing();
    view.observe_candidate(&CandidateRecord {
        status: RecordedStatus { state: Some(CandidateState::Holder), ..RecordedStatus::default() },
        ..CandidateRecord::default()
    });
    assert!(view.observe_created(created(6), at(1), at(3)) && !view.is_own_creation());
}

#[test]
fn an_own_creation_that_goes_missing_was_not_held_unless_it_had_expired() {
    for (missing_at, waited) in [(17, 0), (18, 15)] {
        let mut view = missing();
        view.observe_created(created(6), at(1), at(2));
        assert!(view.observe_missing(at(3), at(missing_at)));
        assert_eq!(waits(&view), waited, "{missing_at} s");
    }
}

#[test]
fn a_duration_counts_only_if_the_last_version_or_an_existing_candidate_declares_it() {
    let declares = |seconds| CandidateRecord { lease_duration_seconds: Some(seconds), ..CandidateRecord::default() };
    let mut view = LeaseView::new();
    view.observe(LeaseRecord { duration_seconds: 3000, ..version(5) }, None, at(0));
    view.observe(LeaseRecord { session: SessionMark::Open, ..version(6) }, None, at(1));
    view.observe_missing(at(2), at(2));
    assert_eq!(waits(&view), 20, "an earlier holder declared more");
    assert_eq!(view.free_from_with(&[declares(40), declares(30)]), Some(at(2).after(reliance(40))));
    view.observe_candidate(&declares(40));
    assert_eq!(waits(&view), 40);
}

#[test]
fn candidates_that_do_not_hold_a_created_lease_do_not_end_its_wait() {
    let mut view = missing();
    view.observe(created(6), None, at(2));
    assert_eq!(view.free_from_with(&[CandidateRecord::default()]), Some(at(2).after(reliance(15))));
    assert_eq!(present().free_from_with(&[CandidateRecord::default()]), present().free_from());
}

/// The history that the process would record after these versions.
fn history(versions: impl IntoIterator<Item = LeaseRecord>) -> Vec<String> {
    let mut view = LeaseView::new();
    for (record, second) in versions.into_iter().zip(1..) {
        view.observe(record, None, at(second));
    }
    let shown = |PastTerm { number, holder, until, ending, .. }| {
        format!("{number} {holder} to {}: {ending}", until.as_micros() / 1_000_000)
    };
    view.history().terms().map(shown).collect()
}

fn term(resource_version: u64, holder: &str, transitions: u32) -> LeaseRecord {
    let renew_time = Some(WireTime::from_micros(i64::try_from(resource_version).unwrap() * 1_000_000));
    LeaseRecord { holder: Some(holder.to_owned()), transitions, renew_time, ..version(resource_version) }
}

#[test]
fn a_term_whose_end_no_process_records_is_added_to_the_history() {
    let released = LeaseRecord { transitions: 1, renew_time: term(6, "a", 1).renew_time, ..given_up(6) };
    assert_eq!(history([term(5, "a", 1), released.clone()]), ["1 a to 6: released"]);
    let preferring = LeaseRecord { preferred_holder: Some("b".to_owned()), ..term(6, "a", 1) };
    let handed_over = LeaseRecord { session: SessionMark::Open, ..term(7, "b", 2) };
    let claimed = term(7, "b", 2);
    assert_eq!(history([term(5, "a", 1), preferring.clone(), handed_over.clone()]), ["1 a to 7: handed over"]);
    assert_eq!(history([term(5, "a", 1), preferring, claimed]), ["1 a to 6: expired"], "it claimed the Lease");
    assert_eq!(
        history([term(5, "a", 1), handed_over.clone()]),
        ["1 a to 5: expired"],
        "a controller granted the Lease"
    );
    assert_eq!(
        history([term(5, "a", 1), term(6, "b", 2), term(7, "c", 3)]),
        ["2 b to 6: expired", "1 a to 5: expired"]
    );
    assert_eq!(history([handed_over, term(8, "c", 3)]), ["2 b to 7: not taken up"]);
    let another = LeaseRecord { uid: "another".to_owned(), ..term(6, "b", 1) };
    assert_eq!(history([term(5, "a", 1), another]), ["1 a to 5: lease deleted"]);
    assert_eq!(history([released]), [""; 0], "its holder is unknown");
}

#[test]
fn a_renewal_and_a_take_up_end_no_term() {
    let grant = LeaseRecord { session: SessionMark::Open, ..term(5, "a", 1) };
    assert_eq!(history([grant, term(6, "a", 1), term(7, "a", 1)]), [""; 0]);
}

#[test]
fn a_recorded_history_replaces_what_the_process_knows() {
    let known = History::read("1 a from 1970-01-01T00:00:03.020Z to 1970-01-01T00:00:04.020Z: expired");
    let recorded =
        |resource_version, number| LeaseRecord { history: known.clone(), ..term(resource_version, "b", number) };
    assert_eq!(history([term(5, "a", 1), recorded(6, 2)]), ["1 a to 4: expired"]);
    assert_eq!(history([recorded(6, 2), recorded(7, 3)]), ["2 b to 6: expired", "1 a to 4: expired"]);
    assert_eq!(history([recorded(6, 2), term(7, "b", 2)]), [""; 0], "a person may delete it");
    let restored = LeaseRecord { uid: "another".to_owned(), ..recorded(7, 2) };
    assert_eq!(history([recorded(6, 2), restored]), ["1 a to 4: expired"], "another Lease brings its history with it");
}

#[test]
fn the_history_outlives_the_lease() {
    let mut view = LeaseView::new();
    view.observe(term(5, "a", 1), None, at(1));
    view.observe_missing(at(2), at(3));
    view.observe_missing(at(4), at(5));
    view.observe(created(9), None, at(6));
    let terms: Vec<_> = view.history().terms().map(|term| (term.number, term.ending)).collect();
    assert_eq!(terms, [(1, Ending::LeaseDeleted)]);
}
