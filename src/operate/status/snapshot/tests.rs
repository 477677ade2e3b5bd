//! Tests of the ranking and of the states that the objects alone show.

use hustings_core::model::Moment;
use serde_json::json;

use super::*;

#[test]
fn a_free_lease_without_a_live_candidate_has_a_state_of_its_own() {
    let candidate = |state: &str| {
        ReadCandidate::from_json(json!({ "metadata": { "name": "a", "namespace": "n" },
            "spec": { "leaseName": "l", "binaryVersion": "1.0.0" }, "status": { "state": state } }))
    };
    let dead = [candidate("Unresponsive"), candidate("Invalid")];
    let one_lives = [candidate("Unresponsive"), candidate("Standby")];
    let unknown = [candidate("")];
    for state in [LeaseState::Unheld, LeaseState::Expired, LeaseState::Missing] {
        assert_eq!(or_no_candidate(state, &dead), LeaseState::NoCandidate, "{state:?}");
        for candidates in [one_lives.as_slice(), &unknown, &[]] {
            assert_eq!(or_no_candidate(state, candidates), state);
        }
    }
    for state in [LeaseState::Held, LeaseState::Granted, LeaseState::Hold] {
        assert_eq!(or_no_candidate(state, &dead), state);
    }
}

#[test]
fn candidates_have_the_order_of_the_election() {
    let until = "2026-01-02T04:00:00Z";
    let candidate = |name: &str, version: &str, status: serde_json::Value, exclude: Option<&str>| {
        ReadCandidate::from_json(json!({
            "metadata": { "name": name, "namespace": "n", "annotations": { "hustings.io/exclude": exclude } },
            "spec": { "leaseName": "l", "binaryVersion": version, "emulationVersion": version }, "status": status }))
    };
    let stands = |name, version| candidate(name, version, json!({ "state": "Standby" }), None);
    let damped = json!({ "state": "Damped", "dampingCount": 1, "dampedUntil": "2026-01-02T03:00:20Z" });
    let candidates = vec![
        candidate("excluded", "1.29.0", json!({}), Some(until)),
        candidate("damped", "1.30.0", damped, None),
        stands("new", "1.32.0"),
        stands("old", "1.31.0"),
        stands("pinned", "1.33.0"),
        stands("malformed", "x"),
    ];
    let wall = WireTime::from_micros("2026-01-02T03:00:00Z".parse::<jiff::Timestamp>().unwrap().as_microsecond());
    let now = Now { moment: Moment::from_micros(0), wall };
    let lease = ReadLease::from_json(json!({
        "metadata": { "name": "l", "namespace": "n", "resourceVersion": "1",
            "annotations": { "hustings.io/pin": format!("pinned until {until}") } },
        "spec": {} }));
    let observed = Observed::first(lease.record.clone(), now.moment);
    let election = election(("n", "l"), Some(&observed), candidates.iter().map(|candidate| &candidate.record), now);
    let verdicts = election.clone().decide(now).candidates;
    let elected: Vec<_> = verdicts.iter().map(|verdict| (verdict.rank, &*verdict.candidate.name)).collect();
    let rows = ranked(("n", "l"), Some(&observed), candidates, now);
    let shown: Vec<_> = rows.iter().map(|row| (row.rank, row.name.as_str())).collect();
    assert_eq!(shown, elected);
    let expected = ["pinned", "old", "new", "damped", "excluded", "malformed"];
    assert_eq!(shown.iter().map(|(_, name)| *name).collect::<Vec<_>>(), expected);
    assert_eq!(shown.last().unwrap().0, None, "it is not admissible");
}

#[test]
fn the_lease_decides_who_holds_it_while_a_status_lags() {
    let candidate = |state: &str| {
        ReadCandidate::from_json(json!({ "metadata": { "name": "a", "namespace": "n" },
            "spec": { "leaseName": "l", "binaryVersion": "1.0.0" },
            "status": { "state": state, "message": "As recorded." } }))
    };
    for (recorded, holder, lease, expected, message) in [
        ("Standby", Some("a"), LeaseState::Held, "Holder", "Holds the Lease."),
        ("Preferred", Some("a"), LeaseState::Granted, "Holder", ""),
        ("Holder", Some("a"), LeaseState::Held, "Holder", "As recorded."),
        ("Holder", Some("a"), LeaseState::Expired, "Holder", "As recorded."),
        ("Unresponsive", Some("a"), LeaseState::Expired, "Unresponsive", "As recorded."),
        ("Holder", Some("b"), LeaseState::Held, "Unproven", "Held the Lease before"),
        ("Holder", None, LeaseState::Unheld, "Unproven", "Held the Lease before"),
        ("Standby", Some("b"), LeaseState::Held, "Standby", "As recorded."),
        ("Invalid", Some("a"), LeaseState::Held, "Invalid", "As recorded."),
    ] {
        let mut candidates = [candidate(recorded)];
        follow_holder(&mut candidates, holder, lease);
        let status = &candidates[0].record.status;
        assert_eq!(status.state.map(CandidateState::as_str), Some(expected), "{recorded} {lease:?}");
        assert!(status.message.starts_with(message), "{recorded} {lease:?}: {}", status.message);
    }
}

#[test]
fn a_status_from_before_the_term_does_not_demote_its_holder() {
    let candidate = |state: &str| -> ReadCandidate {
        let leading = json!({ "type": "Leading", "status": "False", "reason": "r", "message": "m",
            "lastTransitionTime": "2026-01-02T03:04:05Z" });
        let object = json!({ "apiVersion": "hustings.io/v1", "kind": "LeaseCandidate",
            "metadata": { "name": "a", "namespace": "n" },
            "spec": { "leaseName": "l", "binaryVersion": "1.0.0" },
            "status": { "state": state, "conditions": [leading] } });
        serde_json::from_value(object).unwrap()
    };
    let time = |text: &str| Some(WireTime::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond()));
    let (before, after) = (time("2026-01-02T03:04:00Z"), time("2026-01-02T03:05:00Z"));
    let same = time("2026-01-02T03:04:05Z");
    for state in ["Damped", "Unresponsive"] {
        assert!(is_demoted(&candidate(state), before), "{state}: the holder of then is dead");
        assert!(is_demoted(&candidate(state), same), "{state}: nothing shows that it has come back");
        assert!(is_demoted(&candidate(state), None), "{state}");
        assert!(!is_demoted(&candidate(state), after), "{state}: it has come back");
    }
    assert!(!is_demoted(&candidate("Holder"), before));
}

#[test]
fn a_lease_on_hold_whose_holder_has_died_is_on_hold() {
    let key = || ("n".to_owned(), "l".to_owned());
    for (hold, expected) in [(Some("works"), LeaseState::Hold), (None, LeaseState::Expired)] {
        let annotations = json!({ "hustings.io/session": "s/1/15", "hustings.io/hold": hold });
        let lease =
            ReadLease::from_json(json!({ "metadata": { "name": "l", "namespace": "n", "annotations": annotations },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15 } }));
        let at = |seconds: i64| Moment::from_micros(seconds * 1_000_000);
        let observed = Observed::first(lease.record.clone(), at(0));
        let state = |seconds| {
            let now = Now { moment: at(seconds), wall: WireTime::from_micros(0) };
            row(key(), &lease, &observed, now, false, Vec::new()).state
        };
        assert_eq!((state(1), state(16)), (LeaseState::Held, expected));
    }
}

#[test]
fn a_grant_to_a_damped_candidate_is_a_grant_and_its_term_an_expired_one() {
    for (session, expected) in [("open", LeaseState::Granted), ("s/1/15", LeaseState::Expired)] {
        let lease = ReadLease::from_json(json!({
            "metadata": { "name": "l", "namespace": "n", "annotations": { "hustings.io/session": session } },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15 },
        }));
        let candidate = ReadCandidate::from_json(json!({ "metadata": { "name": "a", "namespace": "n" },
            "spec": { "leaseName": "l", "binaryVersion": "1.0.0" }, "status": { "state": "Damped" } }));
        let now = Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) };
        let observed = Observed::first(lease.record.clone(), now.moment);
        let rows =
            rows(vec![lease], vec![candidate], &[(("n".to_owned(), "l".to_owned()), observed)].into(), now, false);
        assert_eq!(rows[0].state, expected, "{session}");
    }
}
