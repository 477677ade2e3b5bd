//! Reading Leases, and patches of Leases.

use hustings_core::model::{LeaseActs, Pin, Purpose, Transfer, WireTime};

use super::*;

fn lease() -> Value {
    json!({
        "metadata": {
            "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "labels": { "hustings.io/enrolled": "true" },
            "annotations": {
                "hustings.io/session": "s/1/15", "hustings.io/token": "6", "hustings.io/key": "-3",
                "hustings.io/preferred-holder": "b", "hustings.io/strategy": "OldestEmulationVersion",
                "hustings.io/leaving": "true",
                "hustings.io/history": "1 b from 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z: expired",
            },
        },
        "spec": {
            "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 2,
            "acquireTime": "1970-01-01T00:00:01.000000Z", "renewTime": "1970-01-01T00:00:02.000000Z",
        },
    })
}

#[test]
fn a_lease_is_read() {
    let record = ReadLease::from_json(lease()).record;
    let expected = LeaseRecord {
        uid: "u".to_owned(),
        resource_version: 7,
        holder: Some("a".to_owned()),
        duration_seconds: 15,
        acquire_time: Some(WireTime::from_micros(1_000_000)),
        renew_time: Some(WireTime::from_micros(2_000_000)),
        transitions: 2,
        session: SessionMark::read(Some("s/1/15")),
        unparsed: Unparsed::NONE,
        token: Some(6),
        preferred_holder: Some("b".to_owned()),
        strategy: Some("OldestEmulationVersion".to_owned()),
        hold: None,
        acts: LeaseActs::default(),
        key: Some(-3),
        leaving: true,
        history: History::read("1 b from 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z: expired"),
        enrolled: true,
        native: NativeFields::default(),
    };
    assert_eq!(record, expected);
}

#[test]
fn a_record_has_changed_when_the_text_of_one_of_its_fields_has() {
    let read = |field: &str, value: Value| {
        let mut object = lease();
        let place = if field == names::SESSION { &mut object["metadata"]["annotations"] } else { &mut object["spec"] };
        place[field] = value;
        ReadLease::from_json(object).record
    };
    let long = |end: &str| format!("{}{end}", "x".repeat(2_000));
    for (field, former, next) in [
        ("renewTime", json!("soon"), json!("later")),
        ("renewTime", json!("2023-13-01T00:00:00Z"), json!("2023-14-01T00:00:00Z")),
        ("renewTime", json!("1970-01-01 00:00:02"), json!("1970-01-01 00:00:04")),
        ("renewTime", json!("1970-01-01T00:00:02.0000001Z"), json!("1970-01-01T00:00:02.0000002Z")),
        ("renewTime", json!("20000-01-01T00:00:00Z"), json!("20001-01-01T00:00:00Z")),
        ("renewTime", json!(1), json!(2)),
        ("renewTime", json!({ "seconds": 1 }), json!({ "seconds": 2 })),
        ("acquireTime", json!("soon"), json!("later")),
        ("leaseDurationSeconds", json!(-1), json!(-2)),
        ("leaseDurationSeconds", json!("15"), json!("16")),
        ("leaseTransitions", json!(2.5), json!(2.25)),
        ("leaseTransitions", json!(99_999_999_999_i64), json!(99_999_999_998_i64)),
        ("holderIdentity", json!(1), json!(2)),
        ("holderIdentity", json!(long("a")), json!(long("b"))),
        (names::SESSION, json!(format!("{}/1/15", long("a"))), json!(format!("{}/1/15", long("b")))),
        (names::SESSION, json!("s/01/15"), json!("s/1/15")),
    ] {
        let (former, next) = (read(field, former), read(field, next));
        assert!(!former.is_same_record(&next), "{field}: {former:?}");
        assert!(former.is_same_record(&former.clone()));
    }
    let whole = read("renewTime", json!("1970-01-01T00:00:02.000000Z"));
    assert_eq!(whole.unparsed, Unparsed::NONE, "the form in which a server answers is represented exactly");
    assert!(read("holderIdentity", Value::Null).is_same_record(&read("holderIdentity", json!(""))));
}

#[test]
fn a_lease_of_any_content_is_read() {
    let absurd = json!({
        "metadata": {
            "name": "l", "resourceVersion": "x",
            "managedFields": [{ "time": "9999-12-31T23:59:59Z" }],
            "annotations": {
                "hustings.io/token": "-1", "hustings.io/key": "high", "hustings.io/session": "",
                "hustings.io/hold": "", "hustings.io/preferred-holder": "",
            },
        },
        "spec": {
            "holderIdentity": "", "leaseDurationSeconds": -5, "leaseTransitions": -2_147_483_648_i64,
            "acquireTime": "9999-12-31T23:59:59Z", "renewTime": "9999-12-31T23:59:59.999999Z",
        },
    });
    let read: ReadLease = serde_json::from_value(absurd).unwrap();
    assert_eq!(read.metadata.name.as_deref(), Some("l"));
    assert_eq!((read.record.holder, read.record.duration_seconds, read.record.transitions), (None, 0, 0));
    assert_eq!(read.record.renew_time, Some(WireTime::MAX));
    assert_eq!(read.record.session, SessionMark::Unreadable(String::new()), "an empty mark is not open");
    assert_eq!((read.record.token, read.record.key), (None, None));
    assert_eq!((read.record.hold, read.record.preferred_holder), (None, None), "an empty text is no text");
    for value in [json!(null), json!([]), json!({ "metadata": 3, "spec": "x" }), json!({})] {
        assert_eq!(ReadLease::from_json(value), ReadLease::default());
    }
}

#[test]
fn texts_are_cut_to_a_kilobyte() {
    let long = "\u{301}".repeat(500_000);
    let read = ReadLease::from_json(json!({
        "metadata": { "annotations": {
            "hustings.io/session": format!("{long}/3/40"), "hustings.io/hold": long, "hustings.io/strategy": long,
            "hustings.io/preferred-holder": long,
        } },
        "spec": { "holderIdentity": long, "strategy": long, "preferredHolder": long },
    }));
    let record = read.record;
    let stamp = record.session.stamp().unwrap();
    assert_eq!((stamp.term, stamp.seconds), (3, 40), "the numbers at the end are not cut off");
    let texts = [record.holder, record.preferred_holder, record.strategy, record.hold, record.native.strategy];
    for text in texts.iter().flatten().chain([&stamp.session, &record.native.preferred_holder.unwrap()]) {
        assert_eq!(text.len(), 1024);
    }
    let session = json!({ "metadata": { "annotations": { "hustings.io/session": long } } });
    assert_eq!(ReadLease::from_json(session).record.session.to_string().len(), 1024);
}

#[test]
fn metadata_that_does_not_parse_still_identifies_the_object() {
    let read = ReadLease::from_json(json!({ "metadata": { "name": "l", "uid": "u", "generation": "x" } }));
    assert_eq!((read.metadata.name.as_deref(), read.record.uid.as_str()), (Some("l"), "u"));
}

#[test]
fn a_patch_contains_only_the_fields_that_are_set_and_the_version() {
    let current = ReadLease::from_json(lease()).record;
    let mut write = LeaseWrite::new(Purpose::Renew, &current);
    write.renew_time = Set::To(WireTime::from_micros(3_000_000));
    assert_eq!(
        lease_patch(&write),
        json!({
            "metadata": { "resourceVersion": "7" },
            "spec": { "renewTime": "1970-01-01T00:00:03.000000Z" },
        })
    );
}

#[test]
fn numbers_of_a_patch_are_clamped_to_what_the_server_accepts() {
    let current = ReadLease::from_json(lease()).record;
    for (number, duration, transitions) in [(0, 1, 0), (7, 7, 7), (u32::MAX, i32::MAX, i32::MAX)] {
        let mut write = LeaseWrite::new(Purpose::Renew, &current);
        (write.duration_seconds, write.transitions) = (Set::To(number), Set::To(number));
        let spec = json!({ "leaseDurationSeconds": duration, "leaseTransitions": transitions });
        assert_eq!(lease_patch(&write)["spec"], spec);
    }
}

#[test]
fn a_patch_sets_every_field() {
    let current = ReadLease::from_json(lease()).record;
    let history = "1 b from 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z: expired";
    let write = LeaseWrite {
        holder: Set::To("c".to_owned()),
        duration_seconds: Set::To(5),
        acquire_time: Set::To(WireTime::from_micros(4_000_000)),
        renew_time: Set::To(WireTime::from_micros(5_000_000)),
        transitions: Set::To(3),
        session: Set::To(SessionMark::read(Some("t/3/15"))),
        token: Set::To(8),
        preferred_holder: Set::To("d".to_owned()),
        strategy: Set::To("OldestEmulationVersion".to_owned()),
        hold: Set::To("works".to_owned()),
        hold_until: Set::To(WireTime::from_micros(6_000_000)),
        transfer: Set::To(Transfer::Any),
        pin: Set::To(Pin { candidate: "e".to_owned(), until: WireTime::from_micros(7_000_000) }),
        asked_by: Set::To("ada".to_owned()),
        key: Set::To(-4),
        leaving: Set::To(()),
        reason: Set::To("Why.".to_owned()),
        history: Set::To(History::read(history)),
        enrol: Set::To(()),
        ..LeaseWrite::new(Purpose::Grant, &current)
    };
    let patch = lease_patch(&write);
    let annotations = json!({
        "hustings.io/session": "t/3/15", "hustings.io/token": "8", "hustings.io/preferred-holder": "d",
        "hustings.io/strategy": "OldestEmulationVersion", "hustings.io/hold": "works",
        "hustings.io/hold-until": "1970-01-01T00:00:06Z", "hustings.io/transfer": "any",
        "hustings.io/pin": "e until 1970-01-01T00:00:07Z", "hustings.io/asked-by": "ada", "hustings.io/key": "-4",
        "hustings.io/leaving": "true", "hustings.io/reason": "Why.", "hustings.io/history": history,
    });
    let metadata =
        json!({ "resourceVersion": "7", "annotations": annotations, "labels": { "hustings.io/enrolled": "true" } });
    assert_eq!(patch["metadata"], metadata);
    let spec = &patch["spec"];
    for (field, expected) in [
        ("holderIdentity", json!("c")),
        ("leaseDurationSeconds", json!(5)),
        ("leaseTransitions", json!(3)),
        ("acquireTime", json!("1970-01-01T00:00:04.000000Z")),
        ("renewTime", json!("1970-01-01T00:00:05.000000Z")),
    ] {
        assert_eq!(spec[field], expected, "{field}");
    }
}

#[test]
fn an_empty_history_is_removed() {
    let current = ReadLease::from_json(lease()).record;
    let patched = |history| {
        let write = LeaseWrite { history: Set::To(history), ..LeaseWrite::new(Purpose::Grant, &current) };
        lease_patch(&write)["metadata"]["annotations"].clone()
    };
    assert_eq!(patched(History::new()), json!({ "hustings.io/history": null }));
    assert_eq!(patched(History::read("x")), json!({ "hustings.io/history": "x" }));
}

#[test]
fn a_label_or_an_announcement_with_another_value_does_not_count() {
    for (value, counts) in [("true", true), ("false", false), ("yes", false)] {
        let labels = json!({ "hustings.io/enrolled": value });
        let annotations = json!({ "hustings.io/leaving": value });
        let record =
            ReadLease::from_json(json!({ "metadata": { "labels": labels, "annotations": annotations } })).record;
        assert_eq!((record.enrolled, record.leaving), (counts, counts), "{value}");
    }
}

#[test]
fn an_absent_session_in_a_write_removes_the_annotation() {
    let current = ReadLease::from_json(lease()).record;
    let write = LeaseWrite { session: Set::To(SessionMark::Absent), ..LeaseWrite::new(Purpose::Grant, &current) };
    let annotations = lease_patch(&write)["metadata"]["annotations"].take();
    assert_eq!(annotations, json!({ "hustings.io/session": null }));
}

#[test]
fn an_enrolling_write_sets_the_label_and_changes_nothing_else() {
    let current = ReadLease::from_json(lease()).record;
    let write = LeaseWrite { enrol: Set::To(()), ..LeaseWrite::new(Purpose::Enrol, &current) };
    let labels = json!({ "hustings.io/enrolled": "true" });
    assert_eq!(lease_patch(&write), json!({ "metadata": { "resourceVersion": "7", "labels": labels } }));
}

#[test]
fn a_lease_is_created_empty_and_counts_as_held() {
    let created = empty_lease("n", "l");
    assert_eq!(created["metadata"]["labels"], json!({ "hustings.io/enrolled": "true" }));
    let expected = json!({ "holderIdentity": "", "leaseDurationSeconds": 15, "leaseTransitions": 0 });
    assert_eq!(created["spec"], expected);
    let record = ReadLease::from_json(created).record;
    assert_eq!(record.session, SessionMark::Absent, "without the mark `open` it is not free");
}

#[test]
fn a_release_empties_the_holder_and_never_nulls_it() {
    let current = ReadLease::from_json(lease()).record;
    let mut write = LeaseWrite::new(Purpose::Release, &current);
    write.holder = Set::Remove;
    write.duration_seconds = Set::To(0);
    write.session = Set::To(SessionMark::Open);
    write.preferred_holder = Set::Remove;
    write.leaving = Set::Remove;
    assert_eq!(
        lease_patch(&write),
        json!({
            "metadata": {
                "resourceVersion": "7",
                "annotations": {
                    "hustings.io/session": "open",
                    "hustings.io/preferred-holder": null,
                    "hustings.io/leaving": null,
                },
            },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "preferredHolder": null },
        })
    );
}

#[test]
fn native_copies_are_never_written_with_a_null_holder_or_without_a_strategy() {
    let mut current = LeaseRecord { resource_version: 7, enrolled: true, ..LeaseRecord::default() };
    let mut write = LeaseWrite::new(Purpose::Hold, &current);
    assert_eq!(lease_patch(&write).get("spec"), None, "without a strategy the holder may stay null");
    write.strategy = Set::To("example.com/Mine".to_owned());
    let spec = &lease_patch(&write)["spec"];
    assert_eq!(spec, &json!({ "strategy": "example.com/Mine", "holderIdentity": "" }));

    current.holder = Some("a".to_owned());
    let write = LeaseWrite { preferred_holder: Set::To("b".to_owned()), ..LeaseWrite::new(Purpose::Prefer, &current) };
    assert_eq!(lease_patch(&write).get("spec"), None, "there is no strategy");
    current.strategy = Some("OldestEmulationVersion".to_owned());
    let mut write =
        LeaseWrite { preferred_holder: write.preferred_holder, ..LeaseWrite::new(Purpose::Prefer, &current) };
    let spec = &lease_patch(&write)["spec"];
    assert_eq!(spec, &json!({ "strategy": "OldestEmulationVersion", "preferredHolder": "b" }));
    write.strategy = Set::Remove;
    let spec = &lease_patch(&write)["spec"];
    assert_eq!(spec, &json!({ "strategy": null, "preferredHolder": null }));
}

#[test]
fn the_answer_shows_whether_the_server_keeps_native_fields() {
    let kept =
        |write: &LeaseWrite, answer: &Value| write.native_fields_kept_in(&ReadLease::from_json(answer.clone()).record);
    let mut answer = lease();
    let current = ReadLease::from_json(answer.clone()).record;
    let mut write = LeaseWrite::new(Purpose::Prefer, &current);
    assert_eq!(kept(&write, &answer), None);
    write.preferred_holder = Set::To("b".to_owned());
    assert_eq!(kept(&write, &answer), Some(false));
    // A server that drops both fields keeps a strategy that was there before.
    write.strategy = Set::To("Example".to_owned());
    answer["spec"]["strategy"] = json!("Example");
    assert_eq!(kept(&write, &answer), Some(false));
    answer["spec"]["preferredHolder"] = json!("b");
    assert_eq!(kept(&write, &answer), Some(true));
    let mut strategy_alone = LeaseWrite { preferred_holder: Set::Keep, ..write.clone() };
    assert_eq!(kept(&strategy_alone, &answer), Some(true));
    strategy_alone.strategy = Set::To("Another".to_owned());
    assert_eq!(kept(&strategy_alone, &answer), Some(false));
    // Without a strategy, the preferred holder has no native copy.
    write.strategy = Set::Keep;
    answer["metadata"]["annotations"]["hustings.io/strategy"] = json!(null);
    assert_eq!(kept(&write, &answer), None);
}

#[test]
fn a_lease_has_its_kind_its_metadata_and_the_reason_of_its_last_election() {
    use kube_core::Resource as _;
    let mut object = lease();
    object["metadata"]["annotations"]["hustings.io/reason"] = json!("Why.");
    let read = ReadLease::from_json(object);
    assert_eq!((&*ReadLease::kind(&()), read.meta().name.as_deref()), ("Lease", Some("l")));
    assert_eq!((read.reason(), ReadLease::from_json(lease()).reason()), (Some("Why."), None));
}

#[test]
fn a_write_of_the_strategy_empties_a_holder_that_may_be_null_and_a_grant_names_the_electee() {
    let free = LeaseRecord { holder: None, ..ReadLease::from_json(lease()).record };
    let strategy = || Set::To("OldestEmulationVersion".to_owned());
    for (holder, expected) in [(Set::Keep, json!("")), (Set::To("c".to_owned()), json!("c"))] {
        let write = LeaseWrite { holder, strategy: strategy(), ..LeaseWrite::new(Purpose::Grant, &free) };
        assert_eq!(lease_patch(&write)["spec"]["holderIdentity"], expected);
    }
}
