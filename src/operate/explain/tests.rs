//! Explanations as data files: `tests/testdata/explain/*.txt`. `REWRITE=1 cargo test -p hustings explain::` rewrites
//! them.
//!
//! The input of a case is YAML: `lease` (`metadata` and `spec`), `candidates` (`name`, `version` and more), the
//! command's observations, and the time. The defaults are those of a healthy group with default timing.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_core::model::{
    CandidateRecord, ContainerEnd, ContainerRecord, Moment, Now, Observed, PodRecord, WireTime,
};
use serde_json::{Value, json};

use super::render::render;
use super::scene::{ControllerInstallation, Controllers, HolderPod, LeaseElectionFlags, Scene};
use super::{explain, limit};
use crate::base::terminal::Styles;
use crate::operate::status::{self, Assistance};
use crate::predict::forecast::{HolderForecast, Objects, forecast};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/explain");

#[test]
fn explanations_match_their_data_files() {
    datadriven::walk(FILES, |file| {
        file.run(|case| {
            let input: Value = serde_yaml::from_str(&case.input).unwrap();
            assert_eq!(case.directive, "explain");
            let width = case.args.get("width").map_or(100, |width| width[0].parse().unwrap());
            render(&explain(&scene(&input)), width, Styles::none())
        });
    });
}

#[test]
fn control_characters_in_objects_are_escaped_and_nothing_panics() {
    let evil = "\u{1b}[31m\n\u{202e}x";
    let input = json!({
        "lease": { "metadata": { "annotations": {
            "hustings.io/hold": evil, "hustings.io/pin": evil, "hustings.io/transfer": evil, "hustings.io/reason": evil,
            "hustings.io/asked-by": evil, "hustings.io/session": evil, "hustings.io/preferred-holder": evil,
        } }, "spec": { "holderIdentity": evil, "leaseDurationSeconds": -1, "acquireTime": evil, "leaseTransitions": 5_000_000_000_i64 } },
        "candidates": [{ "name": evil, "version": evil, "message": evil, "state": evil, "exclude": evil }],
        "controllers": evil,
    });
    let text = render(&explain(&scene(&input)), 0, Styles::none());
    let strange = |character: char| character != '\n' && character.is_control() || character == '\u{202e}';
    assert!(!text.contains(strange), "{text:?}");
}

#[test]
fn one_controller_that_elects_here_is_enough() {
    let input = json!({
        "lease": { "metadata": { "annotations": { "hustings.io/session": "s/1/15", "hustings.io/token": "7" } },
            "spec": { "holderIdentity": "web-0", "leaseDurationSeconds": 15, "leaseTransitions": 1 } },
        "candidates": [{ "name": "web-0", "version": "1.0" }, { "name": "web-1", "version": "1.0" }],
    });
    let controller =
        |available| ControllerInstallation { available: Some((available, 1)), ..ControllerInstallation::default() };
    for (available, elects) in [([0, 1], true), ([1, 0], true), ([0, 0], false)] {
        let controllers = Controllers::Found(available.map(controller).into());
        let sentences = explain(&Scene { controllers, ..scene(&input) }).prospect.sentences.join(" ");
        assert_eq!(sentences.contains("the controller would grant the Lease to web-1"), elects, "{sentences}");
    }
}

#[test]
fn a_pause_that_ends_soon_is_explained_also_without_a_controller() {
    let annotations = json!({ "hustings.io/session": "s/1/15", "hustings.io/token": "7", "hustings.io/hold": "works",
        "hustings.io/hold-until": "2026-01-02T03:05:30Z" });
    let input = json!({
        "lease": { "metadata": { "annotations": annotations },
            "spec": { "holderIdentity": "web-0", "leaseDurationSeconds": 15, "leaseTransitions": 1 } },
        "candidates": [{ "name": "web-0", "version": "1.0" }, { "name": "web-1", "version": "1.0" }],
        "controllers": [],
    });
    let prospect = explain(&scene(&input)).prospect;
    let expected = "Hustings elects nobody until 2026-01-02T03:05:30Z. Elections are paused: works. To resume, remove the \
                    annotation hustings.io/hold.";
    assert_eq!((prospect.successor.as_deref(), prospect.sentences[1].as_str()), (None, expected), "{prospect:?}");
}

#[test]
fn a_strategy_on_the_lease_or_a_status_shows_that_a_controller_has_written() {
    for (annotations, state, is_seen) in [
        (json!({}), Value::Null, false),
        (json!({ "hustings.io/strategy": "OldestEmulationVersion" }), Value::Null, true),
        (json!({}), json!("Standby"), true),
    ] {
        let input = json!({
            "lease": { "metadata": { "annotations": annotations }, "spec": {} },
            "candidates": [{ "name": "web-0", "version": "1.0", "state": state }],
        });
        let sentences = explain(&scene(&input)).controllers.join(" ");
        assert_eq!(!sentences.contains("No controller has written anything"), is_seen, "{annotations} {state}");
    }
}

#[test]
fn candidates_of_both_apis_with_the_same_name_are_explained_one_by_one() {
    let input = json!({
        "lease": { "metadata": {}, "spec": {} },
        "candidates": [
            { "name": "web", "version": "1.0" },
            { "name": "web", "version": "1.1", "native": true, "pinged": "2026-01-02T03:04:30.000000Z" },
        ],
    });
    let notes = explain(&scene(&input)).candidates;
    let awaited: Vec<_> = notes.iter().map(|note| (&*note.claims, note.reason.contains("answered the ping"))).collect();
    assert_eq!(awaited, [("1.1", true), ("1.0", false)], "{notes:?}");
}

// A test of the core compares the election with the fallback of an elector.
#[test]
fn the_election_its_verdicts_status_explain_and_forecasts_have_one_order() {
    for strategy in ["OldestEmulationVersion", "hustings.io/NewestEmulationVersion"] {
        let candidate = |name: &str, version: &str, more: Value| {
            let mut candidate = json!({ "name": name, "version": version, "strategy": strategy, "state": "Standby" });
            candidate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            candidate
        };
        let damped = |until| json!({ "dampings": 6, "dampedUntil": until, "state": "Damped" });
        let annotations = json!({ "hustings.io/session": "open", "hustings.io/transfer": "transferred",
            "hustings.io/pin": "pinned until 2026-01-02T04:00:00Z" });
        let input = json!({
            "lease": { "metadata": { "annotations": annotations }, "spec": { "leaseDurationSeconds": 1 } },
            "candidates": [
                candidate("equal", "1.1", json!({})),
                candidate("later", "1.1", json!({ "created": "2026-01-01T00:00:01Z" })),
                candidate("native", "1.1", json!({ "native": true })),
                candidate("priority", "1.1", json!({ "priority": 1 })),
                candidate("newer", "1.2", json!({ "emulates": "1.1" })),
                candidate("excluded", "1.1", json!({ "exclude": "2026-01-02T04:00:00Z: drain" })),
                candidate("damped", "1.1", damped("2026-01-02T03:10:00.000000Z")),
                candidate("damped-later", "1.1", damped("2026-01-02T03:11:00.000000Z")),
                candidate("pinned", "1.1", json!({})),
                candidate("transferred", "1.1", json!({})),
            ],
        });
        let scene = scene(&input);
        let mut records: Vec<_> = scene.candidates.iter().map(|candidate| candidate.record.clone()).collect();
        let mut election = status::election(("shop", "web"), scene.observed.as_ref(), records.iter(), scene.now);
        let order: Vec<_> = election.ranking(scene.now).into_iter().map(|(key, _)| key.name.to_string()).collect();
        let observed = [(("shop".to_owned(), "web".to_owned()), scene.observed.clone().unwrap())].into();
        let leases = scene.lease.clone().into_iter().collect();
        let rows = status::rows(leases, scene.candidates.clone(), &observed, scene.now, true);
        let verdicts = election.decide(scene.now).candidates;
        let explained = explain(&scene).candidates;
        // The elected candidate leaves, and the next one follows. An excluded candidate is never elected.
        let mut elected = Vec::new();
        while let Some(name) = next(&scene, &records) {
            records.retain(|record| record.name != name);
            elected.push(name);
        }
        elected.push("excluded".to_owned());
        let lists: [Vec<String>; 4] = [
            rows[0].candidates.iter().map(|row| row.name.clone()).collect(),
            verdicts.iter().map(|verdict| verdict.candidate.name.to_string()).collect(),
            explained.iter().map(|note| note.name.clone()).collect(),
            elected,
        ];
        assert_eq!(lists, [(); 4].map(|()| order.clone()), "{strategy}");
    }
}

fn next(scene: &Scene, records: &[CandidateRecord]) -> Option<String> {
    let objects = Objects {
        key: ("shop", "web"),
        lease: scene.lease.as_ref().map(|lease| &lease.record),
        candidates: records.iter().collect(),
        unchanged_for: Duration::ZERO,
    };
    forecast(objects, HolderForecast::Lives, scene.now.wall).named
}

#[test]
fn electors_are_simulated_for_at_most_a_hundred_candidates() {
    let candidates: Vec<_> =
        (0..=100).map(|number| json!({ "name": format!("w{number}"), "version": "1.0" })).collect();
    let annotations = json!({ "hustings.io/session": "s/1/15", "hustings.io/token": "7" });
    let input = json!({
        "lease": {
            "metadata": { "annotations": annotations },
            "spec": { "holderIdentity": "w0", "leaseDurationSeconds": 15, "leaseTransitions": 1 },
        },
        "candidates": candidates,
        "controllers": [],
    });
    let sentences = explain(&scene(&input)).prospect.sentences.join(" ");
    assert!(sentences.contains("the controller would grant the Lease to w1."), "{sentences}");
}

#[test]
fn the_command_may_take_as_long_as_it_watches_and_its_reads() {
    for (watch, seconds) in [(None, 25), (Some(0), 25), (Some(3600), 3615)] {
        let watch = watch.map(Duration::from_secs);
        assert_eq!(limit(watch), Duration::from_secs(seconds), "{watch:?}");
    }
}

fn scene(input: &Value) -> Scene {
    let at = time(input["at"].as_str().unwrap_or("2026-01-02T03:05:00Z"));
    let lease = input.get("lease").map(|lease| {
        let mut lease = lease.clone();
        lease["metadata"]["name"] = json!("web");
        lease["metadata"]["namespace"] = json!("shop");
        lease["metadata"]["uid"] = json!("lease-uid");
        lease["metadata"]["resourceVersion"] = json!("900");
        let labels = &mut lease["metadata"]["labels"];
        if labels.is_null() {
            *labels = json!({ "hustings.io/enrolled": "true" });
        }
        ReadLease::from_json(lease)
    });
    let seconds = |name: &str| Duration::from_secs_f64(input[name].as_f64().unwrap_or(0.0));
    let moment = Moment::from_micros(0);
    let candidates: Vec<_> = input["candidates"].as_array().into_iter().flatten().map(candidate).collect();
    let record = lease.as_ref().map(|lease| &lease.record);
    let mut assist = record.and_then(|record| Assistance::of(("shop", "web"), record, &candidates, &[]));
    if let (Some(assist), HolderPod::Read(pod)) = (&mut assist, pod(&input["pod"])) {
        assist.identify(pod.as_ref());
    }
    Scene {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
        observed: lease.as_ref().map(|lease| Observed::first(lease.record.clone(), moment)),
        lease,
        candidates,
        assist,
        has_renewed: input["renewed"].as_bool().unwrap_or(false),
        watched_for: seconds("watched"),
        controllers: controllers(&input["controllers"]),
        pod: pod(&input["pod"]),
        now: Now { moment: moment.after(seconds("unchanged")), wall: at },
    }
}

fn candidate(input: &Value) -> ReadCandidate {
    let version = &input["version"];
    let text = |name: &str| input.get(name).cloned().unwrap_or(Value::Null);
    let mut object = json!({
        "metadata": {
            "name": input["name"], "namespace": "shop", "uid": input["name"], "resourceVersion": "800",
            "creationTimestamp": input.get("created").cloned().unwrap_or(json!("2026-01-01T00:00:00Z")),
        },
        "spec": {
            "leaseName": "web", "binaryVersion": version, "emulationVersion": input.get("emulates").unwrap_or(version),
            "strategy": text("strategy"), "priority": text("priority"), "pingTime": text("pinged"),
            "renewTime": input.get("renewed").cloned().unwrap_or(json!("2026-01-02T03:04:00.000000Z")),
        },
        "status": {
            "state": text("state"), "message": input.get("message").cloned().unwrap_or(json!("")),
            "dampingCount": input.get("dampings").cloned().unwrap_or(json!(0)), "dampedUntil": text("dampedUntil"),
            "unresponsiveSince": text("unresponsiveSince"),
        },
    });
    if let Some(exclude) = input.get("exclude") {
        object["metadata"]["annotations"] = json!({ "hustings.io/exclude": exclude, "hustings.io/asked-by": "ada" });
    }
    if let Some(pod) = input.get("pod") {
        object["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "v1", "kind": "Pod", "name": input["name"], "uid": pod }]);
    }
    if input["native"].as_bool() == Some(true) {
        return ReadNativeCandidate::from_json(object).into();
    }
    ReadCandidate::from_json(object)
}

/// Reads the controllers. A string is the reason why they are unknown. By default, one controller elects here.
fn controllers(input: &Value) -> Controllers {
    let flag = |controller: &Value, name: &str, default| controller[name].as_bool().unwrap_or(default);
    let default = json!([{ "available": 2 }]);
    match input {
        Value::String(reason) => Controllers::Unknown(reason.clone()),
        Value::Null => controllers(&default),
        found => Controllers::Found(
            found
                .as_array()
                .unwrap()
                .iter()
                .map(|controller| ControllerInstallation {
                    place: "Deployment hustings in namespace hustings-system".to_owned(),
                    available: controller["available"].as_i64().map(|count| (i32::try_from(count).unwrap(), 2)),
                    leader: controller["leader"].as_str().map(str::to_owned),
                    flags: flag(controller, "readable", true).then(|| LeaseElectionFlags {
                        elects_here: flag(controller, "electsHere", true),
                        elects_native: flag(controller, "native", false),
                        evidence: flag(controller, "evidence", false),
                        pod_selector: controller["podSelector"].as_str().map(str::to_owned),
                    }),
                })
                .collect(),
        ),
    }
}

/// Reads the state of the Pod `pod-uid` with the container `web`. An unknown word is the reason why it cannot be read.
fn pod(input: &Value) -> HolderPod {
    let end = ContainerEnd::at(time("2026-01-02T03:05:00Z"), "OOMKilled");
    let containers = [ContainerRecord::ended("web", [])].into();
    let running = PodRecord { name: "web-0".into(), uid: "pod-uid".into(), containers, ..PodRecord::default() };
    let terminated = PodRecord { containers: [ContainerRecord::ended("web", [end])].into(), ..running.clone() };
    match input.as_str() {
        None => HolderPod::Unnamed,
        Some("running") => HolderPod::Read(Some(running)),
        Some("terminated") => HolderPod::Read(Some(terminated)),
        Some("gone") => HolderPod::Read(None),
        Some(reason) => HolderPod::Unread(reason.to_owned()),
    }
}

fn time(text: &str) -> WireTime {
    WireTime::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}
