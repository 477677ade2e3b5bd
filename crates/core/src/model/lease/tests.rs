use super::*;

#[test]
fn a_displayed_session_mark_parses_to_the_same_mark() {
    for text in ["open", "pod.abc.4026.17ff/3/15", "x/0/0", "garbage", "a/b/c", "a/b/1/15", "/1/15", "1/15", ""] {
        assert_eq!(SessionMark::read(Some(text)).to_string(), text);
    }
    let mark = SessionMark::read(Some("pod.abc.4026.17ff/3/15"));
    assert_eq!(
        mark.stamp().map(|stamp| (stamp.session.as_str(), stamp.term, stamp.seconds)),
        Some(("pod.abc.4026.17ff", 3, 15))
    );
    for text in ["a/-1/15", "/1/15"] {
        assert_eq!(SessionMark::read(Some(text)).stamp(), None, "{text:?}");
    }
}

#[test]
fn only_a_session_of_four_parts_names_a_place() {
    assert_eq!(SessionStamp::place("pod.web.4026.17ff"), Some("pod.web.4026"));
    for session in ["", "17ff", "a.b.c", "a.b.c.", "a..c.d", ".b.c.d", "a.b.c.d.e"] {
        assert_eq!(SessionStamp::place(session), None, "{session:?}");
    }
}

#[test]
fn an_empty_record_without_the_mark_is_not_given_up() {
    let mut record = LeaseRecord { duration_seconds: 15, ..LeaseRecord::default() };
    assert!(!record.is_given_up());
    record.duration_seconds = 1;
    assert!(record.is_given_up());
    record.duration_seconds = 15;
    record.session = SessionMark::Open;
    assert!(record.is_given_up());
    record.holder = Some("a".to_owned());
    assert!(!record.is_given_up());
}

#[test]
fn a_short_term_without_a_renewal_is_no_grant() {
    let now = Some(WireTime::from_micros(1_000));
    let record = |session| LeaseRecord {
        holder: Some("a".to_owned()),
        duration_seconds: 4,
        acquire_time: now,
        renew_time: now,
        session: SessionMark::read(session),
        ..LeaseRecord::default()
    };
    let endings = [Some("s/1/4"), Some("open"), None].map(|session| record(session).lapse(None));
    assert_eq!(endings, [Ending::Expired, Ending::NotTakenUp, Ending::NotTakenUp]);
}

#[test]
fn a_range_that_reaches_the_latest_representable_time_has_no_end() {
    let ends = |renewed| LeaseRecord { renew_time: Some(renewed), ..LeaseRecord::as_created() }.range_end();
    let second = Duration::from_secs(1);
    let before = |micros| WireTime::from_micros(WireTime::MAX.as_micros() - micros);
    assert_eq!(ends(WireTime::MAX), None);
    assert_eq!(ends(before(15_000_000)), None, "it would end at the latest time");
    assert_eq!(ends(before(16_000_000)).map(|end| end.after(second)), Some(WireTime::MAX));
    let open =
        |renewed| LeaseRecord { session: SessionMark::Open, renew_time: Some(renewed), ..LeaseRecord::default() };
    assert_eq!(open(WireTime::MAX).range_end(), None);
    assert_eq!(open(before(1)).range_end(), Some(before(1)));
}

#[test]
fn a_renewal_changes_nothing_but_the_renew_time_and_the_duration() {
    let time = |micros| Some(WireTime::from_micros(micros));
    let held = LeaseRecord {
        uid: "u".to_owned(),
        holder: Some("a".to_owned()),
        duration_seconds: 15,
        acquire_time: time(1),
        renew_time: time(2),
        transitions: 3,
        session: SessionMark::read(Some("s/1/15")),
        ..LeaseRecord::default()
    };
    let renewed = LeaseRecord { renew_time: time(3), duration_seconds: 20, ..held.clone() };
    assert!(held.is_renewed_by(&renewed));
    for (other, why) in [
        (LeaseRecord { renew_time: time(2), ..renewed.clone() }, "the renew time"),
        (LeaseRecord { uid: "v".to_owned(), ..renewed.clone() }, "the Lease"),
        (LeaseRecord { holder: Some("b".to_owned()), ..renewed.clone() }, "the holder"),
        (LeaseRecord { session: SessionMark::read(Some("s/2/15")), ..renewed.clone() }, "the term"),
        (LeaseRecord { acquire_time: time(2), ..renewed.clone() }, "the acquire time"),
        (LeaseRecord { transitions: 4, ..renewed.clone() }, "the transitions"),
    ] {
        assert!(!held.is_renewed_by(&other), "{why}");
    }
    let plain = |record: LeaseRecord| LeaseRecord { session: SessionMark::Absent, ..record };
    assert!(!plain(held).is_renewed_by(&plain(renewed)), "another kind of elector");
}

#[test]
fn the_token_of_a_term_is_its_version_or_one_more_than_the_former_token() {
    for (resource_version, token, next) in
        [(0, None, 0), (7, None, 7), (7, Some(6), 7), (7, Some(7), 8), (7, Some(u64::MAX), u64::MAX)]
    {
        let record = LeaseRecord { resource_version, token, ..LeaseRecord::default() };
        assert_eq!(record.next_token(), next, "{token:?}");
    }
}

#[test]
fn a_grant_without_a_controller_removes_the_marks_of_the_former_term() {
    let wall = WireTime::from_micros(9_000_000);
    let mut record = LeaseRecord {
        holder: Some("a".to_owned()),
        duration_seconds: 1,
        // By the clock of another machine.
        renew_time: Some(WireTime::from_micros(12_000_000)),
        transitions: 3,
        preferred_holder: Some("b".to_owned()),
        hold: Some("disagreement".to_owned()),
        leaving: true,
        token: Some(5),
        session: SessionMark::Open,
        ..LeaseRecord::default()
    };
    record.grant_to("b", wall);
    let granted = LeaseRecord {
        holder: Some("b".to_owned()),
        duration_seconds: GRANT_DURATION_SECONDS,
        acquire_time: Some(wall),
        renew_time: Some(WireTime::from_micros(12_000_001)),
        transitions: 4,
        token: Some(5),
        session: SessionMark::Open,
        enrolled: true,
        ..LeaseRecord::default()
    };
    assert_eq!(record, granted);
}

#[test]
fn a_record_is_the_same_while_no_field_of_its_term_changes() {
    let time = |micros| Some(WireTime::from_micros(micros));
    let record = LeaseRecord { resource_version: 1, ..LeaseRecord::as_created() };
    let other_metadata = LeaseRecord { resource_version: 2, preferred_holder: Some("b".to_owned()), ..record.clone() };
    assert!(record.is_same_record(&other_metadata));
    for (changed, field) in [
        (LeaseRecord { uid: "v".to_owned(), ..record.clone() }, "uid"),
        (LeaseRecord { holder: Some("a".to_owned()), ..record.clone() }, "holder"),
        (LeaseRecord { duration_seconds: 16, ..record.clone() }, "duration"),
        (LeaseRecord { acquire_time: time(1), ..record.clone() }, "acquire time"),
        (LeaseRecord { renew_time: time(1), ..record.clone() }, "renew time"),
        (LeaseRecord { transitions: 1, ..record.clone() }, "transitions"),
        (LeaseRecord { session: SessionMark::Open, ..record.clone() }, "session"),
    ] {
        assert!(!record.is_same_record(&changed), "{field}");
    }
}

#[test]
fn a_record_that_is_open_or_given_up_declares_no_more_than_its_own_duration() {
    let renewed = WireTime::from_micros(1_000_000);
    let record = |session, holder: Option<&str>, duration_seconds| LeaseRecord {
        holder: holder.map(str::to_owned),
        duration_seconds,
        renew_time: Some(renewed),
        session,
        ..LeaseRecord::default()
    };
    let until = |seconds| Some(renewed.after(Duration::from_secs(seconds)));
    for (record, declares, range_end) in [
        (record(SessionMark::Open, Some("a"), 0), 0, until(0)),
        (record(SessionMark::Open, None, 1), 1, until(0)),
        (record(SessionMark::Absent, None, 1), 15, until(0)),
        (record(SessionMark::Absent, None, 2), 15, until(15)),
        (record(SessionMark::Absent, Some("a"), 1), 15, until(15)),
    ] {
        assert_eq!((record.declared_seconds(), record.range_end()), (declares, range_end), "{record:?}");
    }
}
