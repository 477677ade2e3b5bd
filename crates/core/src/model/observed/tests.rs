use super::super::{SessionMark, Unparsed, WireTime};
use super::*;

fn at(seconds: i64) -> Moment {
    Moment::from_micros(seconds * 1_000_000)
}

fn held(version: u64, duration_seconds: u32) -> LeaseRecord {
    LeaseRecord {
        resource_version: version,
        holder: Some("a".to_owned()),
        duration_seconds,
        renew_time: Some(WireTime::from_micros(i64::try_from(version).unwrap())),
        session: SessionMark::read(Some(&format!("s/1/{duration_seconds}"))),
        ..LeaseRecord::default()
    }
}

#[test]
fn expiry_counts_from_the_observation_of_the_change_and_never_from_a_timestamp() {
    let mut observed = Observed::first(held(1, 20), at(100));
    assert_eq!(observed.expires_at(), at(100).after(Duration::from_millis(20_020)));
    assert!(observed.observe(held(2, 20), at(110)));
    assert!(!observed.is_expired(at(130)));
    assert!(observed.is_expired(at(131)));
}

#[test]
fn a_duration_that_was_shortened_by_hand_does_not_count() {
    let mut observed = Observed::first(held(1, 20), at(0));
    observed.observe(LeaseRecord { duration_seconds: 1, ..held(2, 20) }, at(1));
    assert_eq!(observed.lasts(), Duration::from_millis(20_020));
    observed.observe(LeaseRecord { duration_seconds: 2, session: SessionMark::Absent, ..held(3, 20) }, at(2));
    assert_eq!(observed.lasts(), Duration::from_millis(20_020));
}

#[test]
fn a_record_without_a_session_lasts_at_least_fifteen_seconds() {
    let observed = Observed::first(LeaseRecord { duration_seconds: 2, ..LeaseRecord::default() }, at(0));
    assert_eq!(observed.lasts(), Duration::from_millis(15_015));
}

#[test]
fn a_grant_lasts_as_long_as_it_declares_regardless_of_the_former_record() {
    let mut observed = Observed::first(held(1, 60), at(0));
    observed.observe(LeaseRecord { session: SessionMark::Open, duration_seconds: 5, ..held(2, 60) }, at(1));
    assert_eq!(observed.expires_at(), at(1).after(Duration::from_millis(5_005)));
    observed.observe(held(3, 15), at(2));
    assert_eq!(observed.lasts(), Duration::from_millis(15_015), "the take-up of a grant starts anew");
}

#[test]
fn a_change_of_other_metadata_is_no_sign_of_life() {
    let mut observed = Observed::first(held(1, 15), at(0));
    assert!(observed.observe(
        LeaseRecord { resource_version: 2, preferred_holder: Some("b".to_owned()), enrolled: true, ..held(1, 15) },
        at(9)
    ));
    assert_eq!(observed.changed_at(), at(0));
    assert_eq!(observed.record().resource_version, 2);
}

#[test]
fn a_version_that_is_not_newer_does_not_count() {
    let mut observed = Observed::first(held(5, 15), at(10));
    assert!(!observed.observe(held(4, 15), at(11)), "a stale replay");
    assert!(!observed.observe(held(5, 15), at(11)), "the same version is not newer");
    assert_eq!(observed.record().resource_version, 5);
}

#[test]
fn a_lease_is_free_when_it_was_given_up_or_has_expired_and_then_has_no_live_holder() {
    let mut observed = Observed::first(held(1, 15), at(0));
    let expired = observed.expires_at();
    assert_eq!((observed.is_free(at(15)), observed.live_holder(at(15))), (false, Some("a")));
    assert_eq!((observed.is_free(expired), observed.live_holder(expired)), (true, None));
    observed.observe(LeaseRecord { holder: None, session: SessionMark::Open, ..held(2, 15) }, at(1));
    assert_eq!((observed.is_free(at(1)), observed.live_holder(at(1))), (true, None));
}

#[test]
fn the_greatest_duration_is_forgotten_when_the_lease_was_free_or_open() {
    assert_eq!(lasts([(held(1, 60), 0), (held(2, 15), 59)]), 60);
    assert_eq!(lasts([(held(1, 60), 0), (held(2, 15), 61)]), 15);
    assert_eq!(lasts([(LeaseRecord { session: SessionMark::Open, ..held(1, 60) }, 0), (held(2, 15), 59)]), 15);
    let by_client_go = LeaseRecord { session: SessionMark::Absent, ..held(1, 60) };
    assert_eq!(
        lasts([(by_client_go, 0), (late_release(2, None, 0), 1), (held(3, 15), 2)]),
        15,
        "client-go released it"
    );
}

/// client-go's release form under this session.
fn late_release(version: u64, session: Option<&str>, transitions: u32) -> LeaseRecord {
    LeaseRecord {
        holder: None,
        duration_seconds: 1,
        session: SessionMark::read(session),
        transitions,
        ..held(version, 60)
    }
}

#[test]
fn a_release_by_client_go_frees_a_lease_only_if_no_other_process_may_rely_on_it() {
    let claimed =
        |version, session| LeaseRecord { session: SessionMark::read(session), ..under_session(version, "b", 15, 1) };
    let kept = Some("s/1/60");
    let stripped =
        |version, holder| LeaseRecord { session: SessionMark::Absent, ..under_session(version, holder, 15, 0) };
    for (versions, free_in) in [
        (vec![(late_release(1, None, 0), 0)], 0),
        (vec![(late_release(1, Some("open"), 0), 0)], 0),
        (vec![(late_release(1, kept, 0), 0)], 60),
        (vec![(late_release(1, Some("?"), 0), 0)], 15),
        (vec![(held(1, 60), 0), (late_release(2, kept, 0), 1)], 60),
        (vec![(held(1, 60), 0), (claimed(2, kept), 1), (late_release(3, kept, 1), 11)], 50),
        (vec![(held(1, 60), 0), (claimed(2, kept), 1), (claimed(3, kept), 50), (late_release(4, kept, 1), 62)], 0),
        (vec![(held(1, 60), 0), (stripped(2, "a"), 1), (late_release(3, None, 0), 11)], 50),
        (vec![(held(1, 60), 0), (late_release(2, None, 0), 1)], 60),
        (vec![(claimed(1, None), 0), (late_release(2, None, 1), 1)], 0),
    ] {
        let described = format!("{versions:?}");
        let mut versions = versions.into_iter();
        let (first, seen_at) = versions.next().unwrap();
        let mut observed = Observed::first(first, at(seen_at));
        let mut released_at = seen_at;
        for (record, seen_at) in versions {
            observed.observe(record, at(seen_at));
            released_at = seen_at;
        }
        assert_eq!(observed.free_from().since(at(released_at)).as_secs(), free_in, "{described}");
        assert_eq!(observed.is_free(at(released_at)), free_in == 0, "{described}");
    }
}

#[test]
fn a_record_has_changed_when_the_text_of_a_field_has() {
    let mut observed = Observed::first(held(1, 15), at(0));
    for (version, text) in [(2, "soon"), (3, "later"), (4, "later")] {
        let unparsed = Unparsed::NONE.with("renewTime", text);
        observed.observe(
            LeaseRecord { unparsed, resource_version: version, ..held(1, 15) },
            at(i64::try_from(version).unwrap()),
        );
    }
    assert_eq!(observed.changed_at(), at(3));
}

/// A version of the session `s/1/60` with an edited holder, duration and transitions.
fn under_session(version: u64, holder: &str, duration_seconds: u32, transitions: u32) -> LeaseRecord {
    LeaseRecord { holder: Some(holder.to_owned()), duration_seconds, transitions, ..held(version, 60) }
}

fn lasts(versions: impl IntoIterator<Item = (LeaseRecord, i64)>) -> u64 {
    let mut versions = versions.into_iter();
    let (first, seen_at) = versions.next().unwrap();
    let mut observed = Observed::first(first, at(seen_at));
    for (record, seen_at) in versions {
        observed.observe(record, at(seen_at));
    }
    observed.lasts().as_secs()
}

#[test]
fn a_wrong_duration_counts_until_the_next_renewal_of_the_same_term() {
    let renewed_at = |version, time| LeaseRecord { resource_version: version, ..held(time, 15) };
    let edited = LeaseRecord { duration_seconds: 900, ..renewed_at(2, 1) };
    assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1)]), 900);
    assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (renewed_at(3, 1), 2)]), 900, "undone by hand");
    assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (renewed_at(3, 2), 2)]), 15, "undone by a renewal");
    let another = SessionMark::read(Some("s/2/15"));
    let next_term = LeaseRecord { session: another, ..renewed_at(3, 2) };
    assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (next_term, 2)]), 900, "no renewal of that term");
    let another_lease = LeaseRecord { uid: "v".to_owned(), ..renewed_at(3, 2) };
    assert_eq!(lasts([(held(1, 15), 0), (edited.clone(), 1), (another_lease, 2)]), 900, "nor of that Lease");
    let another_holder = LeaseRecord { holder: Some("c".to_owned()), ..renewed_at(3, 2) };
    assert_eq!(lasts([(held(1, 15), 0), (edited, 1), (another_holder, 2)]), 900, "nor by that holder");
}

#[test]
fn a_death_counts_only_while_no_process_but_the_holder_can_rely_on_the_record() {
    let first = || under_session(1, "a", 60, 4);
    let edited = LeaseRecord { duration_seconds: 20, ..first() };
    let renewed = under_session(2, "a", 60, 4);
    let [renewed_again, renewed_last] = [3, 4].map(|version| under_session(version, "a", 60, 4));
    let claims = [under_session(2, "c", 15, 5), under_session(3, "c", 15, 5)];
    for (versions, counts) in [
        (vec![LeaseRecord { resource_version: 2, ..edited.clone() }], false),
        (vec![renewed.clone()], true),
        (vec![renewed.clone(), LeaseRecord { resource_version: 3, duration_seconds: 20, ..renewed }], true),
        (claims.to_vec(), false),
        (vec![LeaseRecord { session: SessionMark::Open, ..renewed_again.clone() }, renewed_last], true),
    ] {
        let mut observed = Observed::first(first(), at(0));
        for record in versions {
            assert!(observed.observe(record, at(1)));
        }
        assert_eq!(observed.observe_death(at(2)), counts, "{observed:?}");
    }
}

#[test]
fn a_death_after_the_record_expired_changes_nothing() {
    let mut observed = Observed::first(held(1, 15), at(0));
    observed.observe(held(2, 15), at(1));
    let expired = observed.expires_at();
    assert!(observed.observe_death(at(30)));
    assert_eq!(observed.expires_at(), expired);
}

#[test]
fn a_renewal_lasts_at_least_the_seconds_of_its_session_whatever_its_duration() {
    assert_eq!(lasts([(held(1, 60), 0), (under_session(2, "a", 1, 0), 1)]), 60);
}

#[test]
fn a_removed_session_counts_until_the_lease_is_free() {
    let shrunk = LeaseRecord { session: SessionMark::Absent, ..under_session(2, "a", 1, 0) };
    let renewed = LeaseRecord { resource_version: 3, renew_time: None, ..shrunk.clone() };
    assert_eq!(lasts([(under_session(1, "a", 1, 0), 0), (shrunk.clone(), 1), (renewed.clone(), 2)]), 60);
    assert_eq!(lasts([(under_session(1, "a", 1, 0), 0), (shrunk, 1), (renewed, 62)]), 15);
}

#[test]
fn a_former_holder_relies_on_its_session_for_one_wait_after_another_claimed_the_lease() {
    for claimed_at in [1, 100] {
        let mut observed = Observed::first(under_session(1, "a", 60, 4), at(0));
        observed.observe(under_session(2, "c", 15, 5), at(claimed_at));
        let relied_on_until = at(claimed_at).after(Duration::from_millis(60_060));
        assert_eq!(observed.expires_at(), relied_on_until);
        observed.observe(under_session(3, "c", 15, 5), at(claimed_at + 2));
        assert_eq!(observed.expires_at(), relied_on_until, "a renewal does not shorten that wait");
        observed.observe(under_session(4, "c", 15, 5), at(claimed_at + 50));
        assert_eq!(observed.lasts(), Duration::from_millis(15_015));
        observed.observe(under_session(5, "d", 20, 6), at(claimed_at + 70));
        assert_eq!(observed.lasts(), Duration::from_millis(20_020), "the next claim does not count it again");
    }
    let claims = [(40, 1), (15, 50), (15, 80)];
    let claims =
        (2..).zip(claims).map(|(version, (seconds, seen_at))| (under_session(version, "c", seconds, 5), seen_at));
    let versions = [(under_session(1, "a", 60, 4), 0)].into_iter().chain(claims);
    assert_eq!(lasts(versions), 40, "a renewal under the former session resets nothing");
}

#[test]
fn the_session_counts_while_no_other_holder_has_claimed_the_lease() {
    let former = (under_session(1, "a", 60, 4), 0);
    let edited = (under_session(2, "c", 15, 4), 1);
    assert_eq!(lasts([former.clone(), edited.clone(), (under_session(3, "c", 15, 4), 50)]), 60, "only its name");
    assert_eq!(lasts([edited, (under_session(3, "a", 15, 4), 50)]), 60, "that was undone");
    let same_holder = |version, seen_at| (under_session(version, "a", 15, 5), seen_at);
    assert_eq!(lasts([former.clone(), same_holder(2, 50)]), 60, "the holder is the same");
    assert_eq!(
        lasts([former, same_holder(2, 50), same_holder(3, 120)]),
        60,
        "it does not renew under another's session"
    );
    let claimed = (under_session(1, "c", 15, 5), 0);
    assert_eq!(lasts([claimed.clone(), (under_session(2, "c", 15, 5), 50)]), 60, "the former holder is unknown");
    assert_eq!(lasts([claimed, (under_session(2, "d", 15, 6), 50), (under_session(3, "d", 15, 6), 120)]), 15);
}

#[test]
fn no_record_lasts_longer_than_an_hour() {
    let hour = Duration::from_millis(3_603_600);
    for record in [held(1, u32::MAX), LeaseRecord { duration_seconds: 3601, ..LeaseRecord::default() }] {
        assert_eq!((record.declared_seconds(), Observed::first(record, at(0)).lasts()), (3600, hour));
    }
}

#[test]
fn the_wait_for_a_former_holder_is_forgotten_when_it_is_over() {
    let mut observed = Observed::first(under_session(1, "a", 60, 4), at(0));
    observed.observe(under_session(2, "c", 15, 5), at(1));
    let until = observed.relied_on_until().unwrap();
    for (seen_at, remembered) in [(at(2), Some(until)), (until, None)] {
        let mut renewed = observed.clone();
        renewed.observe(under_session(3, "c", 15, 5), seen_at);
        assert_eq!(renewed.relied_on_until(), remembered);
    }
}
