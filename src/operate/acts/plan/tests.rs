use std::time::Duration;

use hustings_client::api::ReadLease;
use serde_json::{Value, json};

use super::super::config::ActExpiry;
use super::*;

const WALL: WireTime = WireTime::from_micros(1_767_225_600_000_000);
const HOUR: ActExpiry = ActExpiry::After(Duration::from_hours(1));
const ADA: ActRequest<'static> = ActRequest { user: Some("ada"), reason: Some("works") };

fn candidate(name: &str, lease: &str, version: &str) -> ReadCandidate {
    ReadCandidate::from_json(json!({
        "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "5" },
        "spec": { "leaseName": lease, "binaryVersion": version, "emulationVersion": version },
    }))
}

fn scene(annotations: &Value) -> ActScene {
    let mut all = json!({ "hustings.io/session": "s/1/15", "hustings.io/token": "7" });
    all.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
    let lease = json!({
        "metadata": { "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "9", "annotations": all,
            "labels": { "hustings.io/enrolled": "true" } },
        "spec": { "holderIdentity": "web-0", "leaseDurationSeconds": 15, "leaseTransitions": 1 },
    });
    let of_lease = |name, version| candidate(name, "l", version);
    ActScene {
        lease: ReadLease::from_json(lease),
        candidates: vec![of_lease("web-0", "1.32"), of_lease("web-1", "1.32"), of_lease("web-2", "1.33")],
        elsewhere: vec![candidate("db-0", "db", "1.32")],
        own_leases: Vec::new(),
    }
}

fn direct(annotations: &Value) -> ActScene {
    ActScene { candidates: Vec::new(), elsewhere: Vec::new(), ..scene(annotations) }
}

fn transfer(to: &str) -> LeaseAct {
    LeaseAct::Transfer(Transfer::read(to))
}

fn pin(candidate: &str) -> LeaseAct {
    LeaseAct::Pin { candidate: candidate.to_owned(), end: HOUR }
}

#[test]
fn each_act_changes_its_own_annotations_on_the_version_that_was_read() {
    let plain = scene(&json!({}));
    let paused = plan(&plain, &LeaseAct::Pause(Some(HOUR)), ADA, WALL).unwrap();
    let end = WALL.after(Duration::from_hours(1));
    assert_eq!((paused.write.hold, paused.write.hold_until), (Set::To("works".to_owned()), Set::To(end)));
    assert_eq!((paused.write.asked_by, paused.write.resource_version), (Set::To("ada".to_owned()), 9));
    assert_eq!(paused.sentence, "elections are paused until 2026-01-01T01:00:00Z: works");
    let ends = scene(&json!({ "hustings.io/hold": "works", "hustings.io/hold-until": "2026-01-01T01:00:00Z" }));
    let endless = plan(&ends, &LeaseAct::Pause(None), ADA, WALL).unwrap();
    assert_eq!(
        (endless.write.hold_until, endless.until),
        (Set::Remove, None),
        "the former end is not that of this pause"
    );
    let resumed = plan(&ends, &LeaseAct::Resume, ADA, WALL).unwrap();
    assert_eq!((resumed.write.hold, resumed.write.hold_until), (Set::Remove, Set::Remove));
    let moved = plan(&plain, &transfer("web-1"), ADA, WALL).unwrap();
    assert_eq!(moved.write.transfer, Set::To(Transfer::To("web-1".to_owned())));
    assert_eq!((moved.write.asked_by, moved.write.hold), (Set::To("ada: works".to_owned()), Set::Keep));
    assert_eq!(moved.forecast.named.as_deref(), Some("web-1"));
    let pinned = plan(&plain, &pin("web-2"), ADA, WALL).unwrap();
    assert_eq!((pinned.until, pinned.forecast.named.as_deref()), (Some(end), Some("web-2")));
    let stands = scene(&json!({ "hustings.io/pin": "web-2 until 2027-01-01T00:00:00Z" }));
    assert_eq!(plan(&stands, &LeaseAct::Unpin, ADA, WALL).unwrap().write.pin, Set::Remove);
    let again = plan(&stands, &pin("web-1"), ADA, WALL).unwrap();
    assert_eq!(again.replaces.as_deref(), Some("pin to web-2 until 2027-01-01T00:00:00Z"));
    let paused = scene(&json!({ "hustings.io/pin": "web-2 until 2027-01-01T00:00:00Z", "hustings.io/hold": "works" }));
    assert_eq!(plan(&paused, &pin("web-1"), ADA, WALL).unwrap().replaces, again.replaces, "the pause stays");
}

#[test]
fn a_lease_with_candidates_may_be_paused_before_its_first_election() {
    let mut first = scene(&json!({}));
    let lease = json!({
        "metadata": { "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "9" },
        "spec": { "holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 1 },
    });
    first.lease = ReadLease::from_json(lease);
    assert!(plan(&first, &LeaseAct::Pause(None), ADA, WALL).is_ok());
    first.candidates.clear();
    assert!(plan(&first, &LeaseAct::Pause(None), ADA, WALL).is_err());
}

#[test]
fn an_act_that_makes_no_sense_is_refused_with_a_hint() {
    let plain = || scene(&json!({}));
    let excluded = || {
        let mut scene = plain();
        let exclude = json!({ "hustings.io/exclude": "2027-01-01T00:00:00Z: drain\u{1b}[2J" });
        let annotations = serde_json::from_value(exclude).unwrap();
        scene.candidates[1].metadata.annotations = Some(annotations);
        let metadata = serde_json::to_value(&scene.candidates[1].metadata).unwrap();
        let spec = json!({ "leaseName": "l", "binaryVersion": "1.32", "emulationVersion": "1.32" });
        scene.candidates[1] = ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec }));
        scene
    };
    let keys = || direct(&json!({ "hustings.io/key": "3" }));
    let cases = vec![
        (plain(), LeaseAct::Resume, "are not paused", "status"),
        (scene(&json!({ "hustings.io/hold": "disagreement" })), LeaseAct::Resume, "no administrator", "status"),
        (plain(), LeaseAct::Unpin, "no pin", "status"),
        (plain(), pin("wbe-1"), "no candidate \"wbe-1\"", "did you mean \"web-1\""),
        (plain(), pin("db-0"), "is a candidate of the Lease \"db\"", "web-0"),
        (plain(), transfer("web-0"), "it holds the Lease", "nothing"),
        (plain(), transfer("web-2"), "older emulation version", "hustings pin LEASE --to web-2"),
        (
            scene(&json!({ "hustings.io/hold": "works\u{1b}[2J" })),
            transfer("web-1"),
            r"works\u{1b}[2J",
            "hustings resume",
        ),
        (
            scene(&json!({ "hustings.io/pin": "web-0 until 2027-01-01T00:00:00Z" })),
            transfer("web-1"),
            "pinned the Lease to the holder",
            "hustings unpin",
        ),
        (excluded(), transfer("web-1"), r"excludes this candidate: drain\u{1b}[2J", "hustings include web-1"),
        (excluded(), pin("web-1"), r"drain\u{1b}[2J", "hustings include web-1"),
        (direct(&json!({})), pin("web-1"), "no candidates", "hustings transfer"),
        (direct(&json!({})), transfer("any"), "no list of replicas", "--to"),
        (direct(&json!({})), LeaseAct::Pause(Some(HOUR)), "direct mode", "without --for"),
        (keys(), transfer("web-1"), "preference keys", "keys"),
        (plain(), LeaseAct::Pause(Some(ActExpiry::After(Duration::ZERO))), "--for 0s ends at once", "such as 30m"),
    ];
    for (scene, act, message, hint) in cases {
        let error = plan(&scene, &act, ADA, WALL).expect_err(message);
        let shown = (error.to_string(), error.hint().to_owned());
        assert!(shown.0.contains(message) && shown.1.contains(hint), "{act:?}: {shown:?}");
        assert_eq!(error.exit_code(), Some(3));
    }
}

#[test]
fn a_pause_is_for_a_lease_of_hustings_even_without_candidates() {
    let lease = |enrolled: &str, token: &str| {
        let metadata = json!({ "name": "l", "namespace": "n", "resourceVersion": "9",
            "labels": { "hustings.io/enrolled": enrolled }, "annotations": { "hustings.io/token": token } });
        let spec = json!({ "holderIdentity": "a", "leaseDurationSeconds": 15 });
        let lease = ReadLease::from_json(json!({ "metadata": metadata, "spec": spec }));
        ActScene { lease, candidates: Vec::new(), elsewhere: Vec::new(), own_leases: Vec::new() }
    };
    for (scene, is_direct, refusal) in [
        (lease("true", "none"), false, None),
        (lease("false", "7"), true, None),
        (lease("false", "none"), false, Some("is not part of any Hustings election")),
    ] {
        assert_eq!(scene.is_direct(), is_direct, "{scene:?}");
        let paused = plan(&scene, &LeaseAct::Pause(None), ADA, WALL).map_err(|error| error.to_string());
        assert_eq!(paused.is_ok(), refusal.is_none(), "{paused:?}");
        assert!(refusal.is_none_or(|refusal| paused.unwrap_err().contains(refusal)));
    }
    let of_another_kind = plan(&lease("false", "none"), &pin("a"), ADA, WALL).unwrap_err();
    assert!(of_another_kind.hint().contains("shows the Leases with candidates"), "{}", of_another_kind.hint());
}

#[test]
fn in_direct_mode_a_transfer_asks_the_holder_itself() {
    let planned = plan(&direct(&json!({})), &transfer("web-1"), ADA, WALL).unwrap();
    assert_eq!(planned.write.preferred_holder, Set::To("web-1".to_owned()));
    assert_eq!((planned.write.transfer, planned.write.purpose), (Set::Keep, Purpose::Prefer));
}

#[test]
fn the_acts_that_stand_on_a_lease_are_named() {
    let stands = scene(&json!({
        "hustings.io/hold": "works", "hustings.io/hold-until": "2026-01-01T01:00:00Z",
        "hustings.io/pin": "noon", "hustings.io/asked-by": "bob",
    }));
    let expected = "hold \"works\" until 2026-01-01T01:00:00Z, pin \"noon\", asked by bob";
    assert_eq!(standing(&stands.lease.record), expected);
    assert_eq!(standing(&LeaseRecord::default()), "no act");
}
