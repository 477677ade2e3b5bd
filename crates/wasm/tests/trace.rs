//! The trace that every host replays: `clients/go/testdata/trace.jsonl.gz`. `REWRITE=1 cargo test -p hustings-wasm` makes
//! it anew.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "trace/controller.rs"]
mod controller;
#[path = "trace/server.rs"]
mod server;
#[path = "trace/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use hustings_wasm::Module;
use serde_json::{Value, json};

use crate::world::{CANDIDATES, SECOND, World};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases";

/// The most bytes of the file.
const MOST_BYTES: u64 = 2 << 20;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../clients/go/testdata/trace.jsonl.gz")
}

/// Elections with a controller: crashes, hand-overs, conflicts, lost answers and steps of clocks.
fn coordinated(world: &mut World) {
    let version = |version: &str| json!({ "coordinated": { "binaryVersion": version } });
    world.control(Some("web"));
    let hosts = ["1.1.0", "1.0.0", "1.2.0"].map(|of| world.start("web", &format!("web-{of}"), &version(of)));
    world.run(30);
    assert_eq!(world.leader(), Some(hosts[1]), "the lowest version leads");
    world.crash(hosts[1]);
    world.run(40);
    assert_eq!(world.leader(), Some(hosts[0]));
    world.hosts[hosts[0]].wall_offset = -3_600 * SECOND;
    world.trouble = 15;
    let again = world.start("web", "web-1.0.0", &version("1.0.0"));
    world.run(90);
    world.trouble = 0;
    world.run(60);
    assert_eq!(world.leader(), Some(again), "the holder has handed over to the lower version");
    world.report(again, json!({ "event": "resign" }));
    world.run(30);
    world.hosts[hosts[2]].wall_offset = 3_600 * SECOND;
    world.edit(&format!("{LEASES}/web"), &json!({ "spec": { "holderIdentity": "somebody" } }));
    world.run(60);
    world.delete(&format!("{LEASES}/web"));
    world.run(60);
    world.edit(&format!("{CANDIDATES}/web-1.2.0"), &json!({ "spec": { "binaryVersion": "0.9.0" } }));
    world.delete(&format!("{CANDIDATES}/web-1.1.0"));
    // Without a controller, the candidates elect among themselves.
    world.control(None);
    let leader = world.leader().unwrap();
    world.hosts[leader].work_takes = 40 * SECOND;
    world.report(leader, json!({ "event": "stop", "cause": "work-ended" }));
    world.run(120);
    assert!(world.leader().is_some_and(|next| next != leader));
    for host in [hosts[0], hosts[2], again] {
        world.report(host, json!({ "event": "stop" }));
    }
    world.run(60);
}

/// Elections without candidates: keys, a heartbeat that stops, and a range that fails open.
fn direct(world: &mut World) {
    let settings = |key: &str| {
        json!({
            "direct": { "key": key }, "heartbeat": true, "failOpen": { "atMostUs": 60 * SECOND },
            "leaseDurationSeconds": 6, "renewDeadlineUs": 4 * SECOND, "retryPeriodUs": SECOND, "keepOnStop": key == "3",
        })
    };
    let hosts = [1, 2, 3].map(|key| world.start("direct", &format!("host-{key}"), &settings(&key.to_string())));
    world.run(40);
    assert_eq!(world.leader(), Some(hosts[2]), "the highest key leads");
    world.hosts[hosts[2]].silent_since = Some(40 * SECOND);
    world.run(20);
    assert_eq!(world.leader(), Some(hosts[1]), "no renewal without a heartbeat");
    world.trouble = 30;
    world.report(hosts[0], json!({ "event": "key", "key": "9223372036854775807" }));
    world.run(60);
    world.trouble = 0;
    world.run(20);
    assert_eq!(world.leader(), Some(hosts[0]));
    world.report(hosts[0], json!({ "event": "stop", "cause": "panicked" }));
    world.run(20);
}

fn record() -> Vec<Value> {
    let (mut first, mut second) = (World::new(1), World::new(2));
    coordinated(&mut first);
    // A host replays both in one instance.
    second.module = std::mem::take(&mut first.module);
    direct(&mut second);
    assert!(second.leader().is_some());
    let codes: BTreeSet<&str> = first.notes.keys().chain(second.notes.keys()).map(String::as_str).collect();
    let expected = [
        "asked",
        "began",
        "gave-up",
        "hand-over-asked",
        "lost",
        "request-failed",
        "resigned",
        "stopped",
        "watch-failed",
        "no-controller",
        "outcome-unknown",
        "conflict",
        "candidate-edited",
        "work-did-not-stop",
    ];
    for code in expected {
        assert!(codes.contains(code), "nothing in the trace causes {code}: {codes:?}");
    }
    first.trace.into_iter().chain(second.trace).collect()
}

#[test]
fn the_recorded_trace_is_what_the_module_answers() {
    let calls = record();
    let lines: String = calls.iter().map(|call| call.to_string() + "\n").collect();
    if std::env::var_os("REWRITE").is_some() {
        fs::create_dir_all(file().parent().unwrap()).unwrap();
        let mut gzip = GzBuilder::new().write(File::create(file()).unwrap(), Compression::best());
        std::io::Write::write_all(&mut gzip, lines.as_bytes()).unwrap();
        gzip.finish().unwrap();
    }
    let mut recorded = String::new();
    GzDecoder::new(File::open(file()).unwrap()).read_to_string(&mut recorded).unwrap();
    assert!(fs::metadata(file()).unwrap().len() <= MOST_BYTES);
    assert!(recorded == lines, "the trace is out of date: run `REWRITE=1 cargo test -p hustings-wasm`");
}

/// The calls of the recorded trace.
fn recorded() -> Vec<Value> {
    let mut recorded = String::new();
    GzDecoder::new(File::open(file()).unwrap()).read_to_string(&mut recorded).unwrap();
    recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Makes a call, and returns the answer; nothing for a call without one.
fn make(module: &mut Module, call: &Value) -> Option<String> {
    let text = |name: &str| call[name].as_str().unwrap().as_bytes();
    let int = |name: &str| call[name].as_i64().unwrap();
    let elector = call["elector"].as_u64().and_then(|elector| u32::try_from(elector).ok()).unwrap_or_default();
    match call["call"].as_str().unwrap() {
        "new" => Some(module.create(int("momentUs"), int("wallUs"), text("config"))),
        "step" => {
            let draw = u32::try_from(int("draw")).unwrap();
            Some(module.step(elector, int("momentUs"), int("wallUs"), draw, text("head"), text("body")))
        }
        _ => {
            module.forget(elector);
            None
        }
    }
}

#[test]
fn a_replay_of_the_trace_finds_no_difference() {
    let mut module = Module::default();
    for (number, call) in recorded().iter().enumerate() {
        let answer = make(&mut module, call);
        assert_eq!(answer.as_deref(), call["answer"].as_str(), "line {}", number + 1);
    }
}

#[test]
fn no_change_of_a_call_causes_a_trap() {
    let calls = recorded();
    let (mut errors, mut random) = (0, world::Random(1));
    for _ in 0..4 {
        let mut module = Module::default();
        for call in &calls {
            let mut call = call.clone();
            if call["call"] == "step" && random.below(8) == 0 {
                change(&mut call, &mut random);
            }
            let answer = make(&mut module, &call).unwrap_or_else(|| "{}".to_owned());
            let answer: Value = serde_json::from_str(&answer).unwrap();
            errors += usize::from(answer.get("error").is_some());
        }
    }
    assert!(errors > 100, "the changes are noticed: {errors}");
}

/// Changes something in a step.
fn change(call: &mut Value, random: &mut world::Random) {
    let field = ["head", "body"][usize::from(random.below(2) == 0)];
    let mut text = call[field].as_str().unwrap().as_bytes().to_vec();
    match random.below(6) {
        0 => call["momentUs"] = json!(random.next() >> 8),
        1 => call["wallUs"] = json!(random.next() >> (1 + random.below(40))),
        2 => call["elector"] = json!(random.below(12)),
        3 => text.truncate(usize::try_from(random.below(200)).unwrap()),
        4 => text = text.iter().rev().copied().collect(),
        _ => {
            for _ in 0..=random.below(3) {
                let place = usize::try_from(random.below(1 + text.len() as u64)).unwrap();
                let digit = b'0' + u8::try_from(random.below(10)).unwrap();
                text.splice(place..text.len().min(place + 1), [digit]);
            }
        }
    }
    call[field] = json!(String::from_utf8_lossy(&text));
}
