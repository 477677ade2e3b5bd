//! Simulated upgrades as data files: `tests/testdata/rollout/*.txt`. `REWRITE=1 cargo test -p hustings rollout::`
//! rewrites them.
//!
//! The arguments of a case are the flags of the command. The input, if any, is a Lease and its candidates in YAML.

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::WireTime;
use serde_json::{Value, json};

use super::{Config, render, simulate, upgrade};
use crate::base::terminal::Styles;
use crate::cli::{Mistakes, Task, parse};
use crate::predict::simulation::cluster;
use crate::predict::simulation::crash::after_crash;
use crate::predict::simulation::group::Group;

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/rollout");

const WALL: WireTime = WireTime::from_micros(1_767_323_100_000_000); // 2026-01-02T03:05:00Z

#[test]
fn simulated_upgrades_match_their_data_files() {
    datadriven::walk(FILES, |file| {
        file.run(|case| {
            let mut words: Vec<String> = ["hustings", "rollout"].map(str::to_owned).into();
            let mut args: Vec<_> = case.args.iter().collect();
            args.sort();
            for (name, values) in args {
                match &values[..] {
                    [] => words.push(format!("--{name}")),
                    values => words.push(format!("--{name}={}", values[0])),
                }
            }
            let input: Value = serde_yaml::from_str(&case.input).unwrap();
            if input.is_object() {
                words.push("web".to_owned());
            }
            let Task::Rollout(flags) = parse(words.iter().map(Into::into)).unwrap().task else { unreachable!() };
            let config = Mistakes::check(|mistakes| flags.read(mistakes)).unwrap();
            let group = config.lease.is_some().then(|| {
                let lease = input.get("lease").cloned().map(|mut lease| {
                    lease["metadata"]["name"] = json!("web");
                    ReadLease::from_json(lease)
                });
                let candidates: Vec<_> = input["candidates"].as_array().into_iter().flatten().map(candidate).collect();
                cluster::group("web", lease.as_ref(), &candidates)
            });
            let group = match group.transpose() {
                Ok(group) => group,
                Err(error) => return format!("error: {error}\nhint: {}\n", error.hint()),
            };
            let outcome = simulate(&config, group, WALL).unwrap();
            assert_eq!(case.directive, "rollout");
            render::render(&outcome, Styles::none())
        });
    });
}

fn candidate(input: &Value) -> ReadCandidate {
    let mut object = json!({
        "metadata": {
            "name": input["name"], "namespace": "shop", "uid": input["name"], "resourceVersion": "800",
            "creationTimestamp": input.get("created").cloned().unwrap_or(json!("2026-01-01T00:00:00Z")),
        },
        "spec": {
            "leaseName": "web", "binaryVersion": input["version"], "emulationVersion": input["version"],
            "strategy": input.get("strategy").cloned().unwrap_or(Value::Null),
            "priority": input.get("priority").cloned().unwrap_or(json!(0)),
        },
        "status": { "state": input.get("state").cloned().unwrap_or(json!("Standby")) },
    });
    if let Some(exclude) = input.get("exclude") {
        object["metadata"]["annotations"] = json!({ "hustings.io/exclude": exclude });
    }
    ReadCandidate::from_json(object)
}

#[test]
fn a_hundred_replicas_are_simulated_and_no_more() {
    let read = |replicas: &str| {
        let line = format!("hustings rollout --from=1.35 --to=1.36 --replicas={replicas}");
        let Task::Rollout(flags) = parse(line.split(' ').map(Into::into)).unwrap().task else { unreachable!() };
        Mistakes::check(|mistakes| flags.read(mistakes)).unwrap()
    };
    assert_eq!(upgrade(&read("100"), None, WALL).unwrap().group.replicas.len(), 100);
    let beyond = Config { replicas: Some(101), ..read("100") };
    let error = upgrade(&beyond, None, WALL).err().unwrap();
    assert_eq!(error.hint(), "pass --replicas 100, or fewer");
}

#[test]
fn a_flag_precedes_the_duration_of_the_lease() {
    let line = "hustings rollout --from=1.35 --to=1.36";
    let Task::Rollout(flags) = parse(line.split(' ').map(Into::into)).unwrap().task else { unreachable!() };
    let config = Mistakes::check(|mistakes| flags.read(mistakes)).unwrap();
    for (lease_seconds, expected) in [(None, 15), (Some(30), 30)] {
        let group = Group { lease_seconds: Some(15), ..Group::default() };
        let upgrade = upgrade(&Config { lease_seconds, ..config.clone() }, Some(group), WALL).unwrap().group;
        assert_eq!(upgrade.lease_seconds, Some(expected));
    }
}

#[test]
fn a_group_has_the_duration_and_the_pause_of_its_lease_but_no_transfer_to_a_replica() {
    let candidates = ["a", "b"].map(|name| {
        let mut read = candidate(&json!({ "name": name, "version": "1.35.0" }));
        read.record.lease_duration_seconds = Some(20);
        read
    });
    for (session, hold, transfer, expected) in [
        ("s/1/30", "works", "any", (Some(30), Some("works"), true)),
        ("open", "disagreement", "b", (Some(20), None, false)),
    ] {
        let annotations =
            json!({ "hustings.io/session": session, "hustings.io/hold": hold, "hustings.io/transfer": transfer });
        let lease = ReadLease::from_json(json!({
            "metadata": { "name": "web", "annotations": annotations },
            "spec": { "holderIdentity": "a", "leaseDurationSeconds": 30 },
        }));
        let group = cluster::group("web", Some(&lease), &candidates).unwrap();
        assert_eq!((group.lease_seconds, group.hold.as_deref(), group.acts.transfer.is_some()), expected, "{session}");
    }
}

#[test]
fn the_death_of_a_holder_with_a_long_lease_has_a_successor_after_the_lease() {
    let lease = json!({
        "metadata": { "name": "web", "annotations": { "hustings.io/session": "s/1/300", "hustings.io/token": "7" } },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 300, "leaseTransitions": 1 },
    });
    let candidates = ["a", "b"].map(|name| candidate(&json!({ "name": name, "version": "1.35.0" })));
    let (successor, after) = after_crash("web", &ReadLease::from_json(lease), &candidates, WALL).unwrap();
    assert_eq!(successor, "b");
    assert!((290..330).contains(&after.as_secs()), "{after:?}");
}

#[test]
fn the_death_of_no_holder_has_no_successor() {
    let free = json!({ "metadata": { "name": "web" }, "spec": { "holderIdentity": "", "leaseDurationSeconds": 15 } });
    let candidates = ["a", "b"].map(|name| candidate(&json!({ "name": name, "version": "1.35.0" })));
    assert_eq!(after_crash("web", &ReadLease::from_json(free), &candidates, WALL), None);
}
