//! The requests of one sequence, in a form that fits any server. Only the server knows which version is current.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// How many requests a sequence has.
const LENGTH: usize = 50;

/// Requests a list of any available version.
const ANY_VERSION: &str = "resourceVersion=0";

const NAMES: [&str; 3] = ["a", "b", "c.l"];

/// One sequence.
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

/// The kinds whose answers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lease,
    Candidate,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Get {
        kind: Kind,
        name: &'static str,
        query: &'static str,
    },
    List {
        kind: Kind,
        query: &'static str,
    },
    Create {
        kind: Kind,
        name: &'static str,
        object: Value,
        dry_run: bool,
    },
    Patch {
        kind: Kind,
        name: &'static str,
        status: bool,
        patch: Value,
        version: Stated,
        uid: Stated,
    },
    Put {
        kind: Kind,
        name: &'static str,
        object: Value,
        version: Stated,
        uid: Stated,
    },
    Delete {
        kind: Kind,
        name: &'static str,
        version: Stated,
        uid: Stated,
    },
    /// Everything that changed since the beginning.
    Watch {
        kind: Kind,
        query: &'static str,
    },
}

/// The version or uid that a request states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stated {
    Nothing,
    Right,
    Stale,
}

impl Step {
    /// Whether a cache serves the answer, which may lack the latest writes.
    pub(crate) fn may_be_old(&self) -> bool {
        matches!(self, Self::Get { query: ANY_VERSION, .. } | Self::List { query: ANY_VERSION, .. })
    }
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut steps: Vec<_> = (0..LENGTH).map(|_| step(&mut rng)).collect();
        for kind in [Kind::Lease, Kind::Candidate] {
            // Shows when a watch has sent everything.
            steps.push(last(kind));
            steps.push(Step::Watch { kind, query: "" });
            steps.push(Step::Watch { kind, query: "&labelSelector=hustings.io%2Fenrolled%3Dtrue" });
        }
        Self { steps }
    }
}

fn step(rng: &mut StdRng) -> Step {
    let kind = if rng.random_bool(0.5) { Kind::Lease } else { Kind::Candidate };
    let name = pick(rng, &NAMES);
    match rng.random_range(0..100) {
        0..10 => Step::Get { kind, name, query: if rng.random_bool(0.3) { ANY_VERSION } else { "" } },
        10..18 => Step::List { kind, query: query(rng, kind) },
        18..42 => Step::Create { kind, name, object: object(rng, kind), dry_run: rng.random_bool(0.1) },
        42..74 => {
            let status = kind == Kind::Candidate && rng.random_bool(0.3);
            let patch = if status { status_patch(rng) } else { patch(rng, kind) };
            Step::Patch { kind, name, status, patch, version: stated(rng), uid: stated(rng) }
        }
        74..88 => Step::Put { kind, name, object: object(rng, kind), version: stated(rng), uid: stated(rng) },
        _ => Step::Delete { kind, name, version: stated(rng), uid: stated(rng) },
    }
}

fn query(rng: &mut StdRng, kind: Kind) -> &'static str {
    let of_both = [
        "",
        "fieldSelector=metadata.name%3Da",
        "fieldSelector=metadata.namespace%21%3Dkube-node-lease",
        "labelSelector=hustings.io%2Fenrolled%3Dtrue",
        "labelSelector=x%21%3Dy",
        ANY_VERSION,
    ];
    let of_candidates = ["fieldSelector=spec.leaseName%3Dl", "fieldSelector=spec.leaseName%3Dother"];
    match kind {
        Kind::Candidate if rng.random_bool(0.3) => pick(rng, &of_candidates),
        _ => pick(rng, &of_both),
    }
}

fn stated(rng: &mut StdRng) -> Stated {
    pick(rng, &[Stated::Nothing, Stated::Nothing, Stated::Right, Stated::Right, Stated::Stale])
}

fn object(rng: &mut StdRng, kind: Kind) -> Value {
    let mut object = json!({ "metadata": metadata(rng) });
    let spec = match kind {
        Kind::Lease => lease_spec(rng),
        Kind::Candidate => candidate_spec(rng),
    };
    if rng.random_bool(0.95) {
        object["spec"] = spec;
    }
    if rng.random_bool(0.2) {
        object["status"] = json!({ "state": "Holder" });
    }
    if rng.random_bool(0.1) {
        object["unknown"] = json!({ "field": 1 });
    }
    object
}

fn patch(rng: &mut StdRng, kind: Kind) -> Value {
    let mut patch = json!({});
    if rng.random_bool(0.5) {
        patch["metadata"] = metadata(rng);
    }
    let mut spec = match kind {
        Kind::Lease => lease_spec(rng),
        Kind::Candidate => candidate_spec(rng),
    };
    if let Some(fields) = spec.as_object_mut() {
        let is_native = |field: &str| matches!(field, "strategy" | "preferredHolder");
        fields.retain(|field, value| rng.random_bool(0.4) && (value.is_null() || !is_native(field)));
    }
    if rng.random_bool(0.8) {
        patch["spec"] = spec;
    }
    if rng.random_bool(0.1) {
        patch["status"] = json!({ "state": "Standby" });
    }
    patch
}

fn status_patch(rng: &mut StdRng) -> Value {
    let state = pick(rng, &["Holder", "Standby", "Unproven", "Nonsense"]);
    let mut patch = json!({ "status": { "state": state, "message": "m" } });
    if rng.random_bool(0.3) {
        patch["status"]["dampingCount"] = pick(rng, &[json!(0), json!(2), json!(-1), Value::Null]);
    }
    if rng.random_bool(0.2) {
        patch["status"]["dampedUntil"] = pick(rng, &[json!("2026-01-01T00:00:00.000001Z"), json!("now"), Value::Null]);
    }
    if rng.random_bool(0.2) {
        patch["spec"] = json!({ "priority": 9 });
    }
    patch
}

fn metadata(rng: &mut StdRng) -> Value {
    let mut metadata = json!({});
    if rng.random_bool(0.5) {
        let value = pick(rng, &[json!("true"), json!("false"), Value::Null]);
        metadata["labels"] = json!({ "hustings.io/enrolled": value });
    }
    if rng.random_bool(0.05) {
        metadata["labels"] = json!({ "x": "not a value!" });
    }
    if rng.random_bool(0.5) {
        let value = pick(rng, &[json!("open"), json!("s/1/15"), json!(""), Value::Null]);
        metadata["annotations"] = json!({ "hustings.io/session": value, "hustings.io/token": "7" });
    }
    metadata
}

fn lease_spec(rng: &mut StdRng) -> Value {
    let mut spec = json!({
        "holderIdentity": pick(rng, &[json!("a"), json!("b"), json!(""), Value::Null]),
        "leaseDurationSeconds": pick(rng, &[json!(15), json!(1), json!(15), json!(3600), Value::Null]),
        "renewTime": pick(rng, &[json!("2026-01-01T00:00:00.000000Z"), json!("2026-01-01T00:00:01.500000Z"), Value::Null]),
        "acquireTime": pick(rng, &[json!("2026-01-01T00:00:00.000001Z"), json!("2026-01-01T02:00:00.000000+02:00")]),
        "leaseTransitions": pick(rng, &[json!(0), json!(3), Value::Null]),
        "strategy": pick(rng, &[json!("OldestEmulationVersion"), Value::Null]),
        "preferredHolder": pick(rng, &[json!("b"), Value::Null]),
    });
    // A dropped field still counts as managed, so a write that changes only such a field creates a version. The model
    // has no managed fields: here such a write always changes something else as well.
    if !spec["strategy"].is_null() || !spec["preferredHolder"].is_null() {
        spec["renewTime"] = json!(format!("2026-01-02T00:00:00.{:06}Z", rng.random_range(0..1_000_000)));
    }
    if rng.random_bool(0.1) {
        spec["leaseDurationSeconds"] = pick(rng, &[json!(0), json!(-1), json!("15"), json!(1_i64 << 40)]);
    }
    if rng.random_bool(0.05) {
        spec["renewTime"] =
            pick(rng, &[json!("yesterday"), json!(7), json!("2026-01-01T00:00:01.5Z"), json!("2026-01-01T00:00:01Z")]);
    }
    if rng.random_bool(0.05) {
        spec["leaseTransitions"] = json!(-1);
    }
    if rng.random_bool(0.05) {
        spec["holderIdentity"] = json!(7);
    }
    spec
}

fn candidate_spec(rng: &mut StdRng) -> Value {
    let mut spec = json!({
        "leaseName": pick(rng, &[json!("l"), json!("l"), json!("l"), json!("other")]),
        "binaryVersion": pick(rng, &[json!("1.31"), json!("v1.31.0"), json!("1.32.0-alpha.1")]),
        "emulationVersion": pick(rng, &[json!("1.31"), json!("1.30.0+build"), json!("1.31.0-alpha.0")]),
        "priority": pick(rng, &[json!(0), json!(5), Value::Null]),
        "strategy": pick(rng, &[json!("OldestEmulationVersion"), json!("example.com/Newest"), Value::Null]),
        "renewTime": pick(rng, &[json!("2026-01-01T00:00:00.000000Z"), json!("2026-01-01T00:00:01Z"), Value::Null]),
        "pingTime": pick(rng, &[json!("2026-01-01T00:00:02.000000Z"), Value::Null]),
    });
    if rng.random_bool(0.2) {
        let (field, value) = pick(
            rng,
            &[
                ("binaryVersion", json!("nonsense")),
                ("binaryVersion", json!("")),
                ("emulationVersion", json!("9.0")),
                ("emulationVersion", Value::Null),
                ("leaseName", json!("Not_A_Name")),
                ("leaseName", Value::Null),
                ("priority", json!(-1)),
                ("priority", json!("1")),
                ("priority", json!(1_i64 << 40)),
                ("strategy", json!("Unqualified")),
                ("renewTime", json!("yesterday")),
                ("unknown", json!(true)),
            ],
        );
        spec[field] = value;
    }
    spec
}

/// The creation that ends every watch.
fn last(kind: Kind) -> Step {
    let spec = match kind {
        Kind::Lease => json!({ "leaseDurationSeconds": 15 }),
        Kind::Candidate => json!({ "leaseName": "l", "binaryVersion": "1.0", "emulationVersion": "1.0" }),
    };
    let object = json!({ "metadata": { "labels": { "hustings.io/enrolled": "true" } }, "spec": spec });
    Step::Create { kind, name: "zz-last", object, dry_run: false }
}

fn pick<T: Clone>(rng: &mut StdRng, all: &[T]) -> T {
    all.choose(rng).expect("there are some").clone()
}
