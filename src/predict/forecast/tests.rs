use hustings_client::api::ReadCandidate;
use hustings_core::model::{ContainerEnd, ContainerRecord, LeaseActs, Pod, SessionMark, Transfer};
use serde_json::json;

use super::*;

fn candidate(name: &str, version: &str, state: &str) -> ReadCandidate {
    ReadCandidate::from_json(json!({
        "metadata": { "name": name, "namespace": "n", "uid": name, "resourceVersion": "5" },
        "spec": { "leaseName": "l", "binaryVersion": version, "emulationVersion": version },
        "status": { "state": state },
    }))
}

fn held(transfer: &str) -> LeaseRecord {
    LeaseRecord {
        uid: "l".to_owned(),
        resource_version: 9,
        holder: Some("a".to_owned()),
        session: SessionMark::read(Some("s/1/15")),
        transitions: 1,
        strategy: Some("OldestEmulationVersion".to_owned()),
        acts: LeaseActs { transfer: Some(Transfer::read(transfer)), ..LeaseActs::default() },
        ..LeaseRecord::as_created()
    }
}

fn objects_forecast(lease: &LeaseRecord, candidates: &[ReadCandidate], holder: HolderForecast) -> Forecast {
    let candidates = candidates.iter().map(|candidate| &candidate.record).collect();
    let objects = Objects { key: ("n", "l"), lease: Some(lease), candidates, unchanged_for: Duration::ZERO };
    forecast(objects, holder, WireTime::from_micros(1))
}

fn predict(transfer: &str) -> Forecast {
    let candidates = [
        candidate("a", "1.32", "Holder"),
        candidate("b", "1.32", "Standby"),
        candidate("worse", "1.33", "Standby"),
        candidate("dead", "1.32", "Unresponsive"),
    ];
    objects_forecast(&held(transfer), &candidates, HolderForecast::Lives)
}

#[test]
fn a_transfer_names_the_candidate_that_the_controller_would_prefer() {
    for transfer in ["b", "any"] {
        let predicted = predict(transfer);
        assert_eq!((predicted.named.as_deref(), predicted.refusal()), (Some("b"), None), "{transfer}");
    }
}

#[test]
fn a_holder_that_declares_no_duration_does_not_renew_for_ever() {
    let session = SessionMark::read(Some("s/1/0"));
    let lease = LeaseRecord { duration_seconds: 0, session, acts: LeaseActs::default(), ..held("") };
    let predicted = objects_forecast(&lease, &[], HolderForecast::Lives);
    assert_eq!((predicted.named, predicted.named_after), (None, HORIZON));
}

#[test]
fn a_transfer_that_the_controller_would_refuse_has_a_reason() {
    for (to, expected) in [
        ("worse", "The holder has an older emulation version."),
        ("dead", "Did not answer a ping"),
        ("nobody", "the Lease has no candidate of this name."),
        ("a", "it holds the Lease."),
    ] {
        let predicted = predict(to);
        let refusal = predicted.refusal().map(ToString::to_string).unwrap_or_default();
        assert!(refusal.starts_with(expected), "{to}: {refusal}");
        assert_eq!(predicted.named, None, "{to}");
    }
}

#[test]
fn the_best_live_candidate_succeeds_a_dead_holder_once_the_lease_has_expired() {
    let candidates = [
        candidate("a", "1.32", "Holder"),
        candidate("dead", "1.32", "Unresponsive"),
        candidate("b", "1.32", "Standby"),
        candidate("worse", "1.33", "Standby"),
    ];
    let lease = LeaseRecord { renew_time: Some(WireTime::from_micros(9_000_000)), ..held("any") };
    let lease = LeaseRecord { acts: LeaseActs::default(), ..lease };
    let predicted = objects_forecast(&lease, &candidates, HolderForecast::Dies { pod: None });
    assert_eq!(predicted.named.as_deref(), Some("b"));
    assert_eq!(predicted.named_after, Duration::from_millis(15_015));
    let pings = ["b", "worse"].map(|name| (Duration::from_millis(9_015), name.to_owned()));
    assert_eq!(predicted.pings, pings, "the others are known to be dead");
    assert_eq!(predicted.doubt, None, "no Pod is known");
}

#[test]
fn a_holder_whose_container_has_terminated_is_succeeded_at_once() {
    let session = SessionMark::read(Some("pod.web.4026.17ff/1/15"));
    let time = |seconds: i64| Some(WireTime::from_micros(seconds * 1_000_000));
    let lease = LeaseRecord { acquire_time: time(50), renew_time: time(99), session, ..held("") };
    let lease = LeaseRecord { acts: LeaseActs::default(), ..lease };
    let mut candidates = [candidate("a", "1.32", "Holder"), candidate("b", "1.32", "Standby")];
    candidates[0].record.pod = Some(Pod { name: "a".to_owned(), uid: "pod".to_owned() });
    let running = PodRecord { uid: "pod".into(), ..PodRecord::default() };
    let predicted = objects_forecast(&lease, &candidates, HolderForecast::Dies { pod: Some(running.clone()) });
    assert_eq!((predicted.doubt, predicted.named_after), (Some(Doubt::NotTerminated), Duration::from_millis(15_015)));
    let end = ContainerEnd { finished_at: time(100), ..ContainerEnd::default() };
    let dead = PodRecord { containers: [ContainerRecord::ended("web", [end])].into(), ..running };
    let predicted = objects_forecast(&lease, &candidates, HolderForecast::Dies { pod: Some(dead) });
    assert_eq!(predicted.named.as_deref(), Some("b"));
    assert_eq!(predicted.named_after, Duration::ZERO);
}
