//! The objects: those in `tests/testdata/hostile`, and those that a seeded generator makes from the schemas.

use hustings_client::api::{crd, names};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Lease,
    Candidate,
}

/// One object, without namespace, and without `leaseName` if it is a candidate.
#[derive(Clone, Debug)]
pub(super) struct Hostile {
    pub(super) kind: Kind,
    /// Its description, or its seed.
    pub(super) is: String,
    pub(super) object: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    is: String,
    object: Value,
}

const TIMES: [&str; 11] = [
    "9999-12-31T23:59:59.999999Z",
    "9999-12-30T22:00:00.000000Z",
    "9999-12-31T23:59:59.999999-23:59",
    "0000-01-01T00:00:00.000000Z",
    "0001-01-01T00:00:00.000000+23:59",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00.000000Z",
    "2038-01-19T03:14:08.000000Z",
    "2262-04-11T23:47:16.854776Z",
    "2026-06-01T00:00:00.000000Z",
    "2000-02-29T00:00:00.000000Z",
];

/// From the lowest to the highest.
const VERSIONS: [&str; 13] = [
    "0.0.0-0",
    "0",
    "v0",
    "0.0.1",
    "1.0.0-9007199254740993",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0+b",
    "v01.2",
    "1.9",
    "1.10",
    "99999999999999.0.0",
    "18446744073709551615.0.0",
];

const STRATEGIES: [&str; 5] =
    ["OldestEmulationVersion", "example.com/Nobodys", "a/b", "x.y-z.example.org/A.b-c_D", "OldestEmulationVersion"];

const TEXTS: [&str; 18] = [
    "",
    "a",
    "open",
    "null",
    "true",
    "-1",
    "0",
    "9223372036854775807",
    "18446744073709551615",
    "a/1/15",
    "a.b.c.d/1/4294967295",
    "/1/15",
    "\u{202e}b\u{200b}",
    "\u{0}",
    "💥\n",
    "third-party strategy x/Y",
    "disagreement",
    "{\"a\":[1]}",
];

const ANNOTATIONS: [&str; 11] = [
    names::SESSION,
    names::TOKEN,
    names::KEY,
    names::PREFERRED_HOLDER,
    names::STRATEGY,
    names::HOLD,
    names::LEAVING,
    names::REASON,
    names::LEASE_DURATION,
    names::FENCE,
    "example.com/other",
];

/// The hand-written objects of a file.
pub(super) fn by_hand(kind: Kind) -> Vec<Hostile> {
    let text = match kind {
        Kind::Lease => include_str!("../../testdata/hostile/leases.yaml"),
        Kind::Candidate => include_str!("../../testdata/hostile/candidates.yaml"),
    };
    let entries: Vec<Entry> = serde_yaml::from_str(text).unwrap();
    let object = |number: usize, Entry { is, mut object }| {
        lengthen(&mut object);
        let mut whole = plain(kind, &format!("hand-{number}"));
        merge(&mut whole, object);
        Hostile { kind, is, object: whole }
    };
    entries.into_iter().enumerate().map(|(number, entry)| object(number, entry)).collect()
}

/// `count` objects from the schema: the same ones for the same seed.
pub(super) fn generated(kind: Kind, count: usize, seed: u64) -> Vec<Hostile> {
    let mut rng = StdRng::seed_from_u64(seed);
    let schema =
        match kind {
            Kind::Lease => lease_schema(),
            Kind::Candidate => serde_json::to_value(crd()).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
                ["properties"]["spec"]
                .clone(),
        };
    (0..count)
        .map(|number| {
            let mut object = plain(kind, &name(number, &mut rng));
            merge(&mut object, json!({ "metadata": metadata(&mut rng), "spec": fields(&schema, &mut rng) }));
            Hostile { kind, is: format!("{number} of seed {seed}"), object }
        })
        .collect()
}

/// An ordinary object, before something hostile is merged into it.
fn plain(kind: Kind, name: &str) -> Value {
    match kind {
        Kind::Lease => json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": name, "labels": { names::ENROLLED_LABEL: names::ENROLLED } },
            "spec": {},
        }),
        Kind::Candidate => json!({
            "apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate",
            "metadata": { "name": name },
            "spec": { "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" },
        }),
    }
}

/// The fields of a Lease's spec, as the API's documentation has them.
fn lease_schema() -> Value {
    json!({ "properties": {
        "holderIdentity": { "type": "string" },
        "leaseDurationSeconds": { "type": "integer", "minimum": 1, "maximum": i32::MAX },
        "leaseTransitions": { "type": "integer", "minimum": 0, "maximum": i32::MAX },
        "acquireTime": { "type": "string", "format": "date-time" },
        "renewTime": { "type": "string", "format": "date-time" },
        "strategy": { "type": "string" },
        "preferredHolder": { "type": "string" },
    } })
}

/// Some of the fields, and sometimes one that no schema has.
fn fields(schema: &Value, rng: &mut StdRng) -> Value {
    let mut fields = Map::new();
    for (name, schema) in schema["properties"].as_object().unwrap() {
        if name != "leaseName" && rng.random_bool(0.7) {
            fields.insert(name.clone(), value(name, schema, rng));
        }
    }
    if schema["properties"]["emulationVersion"].is_object() {
        // No candidate may emulate a version newer than its own.
        let binary = rng.random_range(0..VERSIONS.len());
        fields.insert("binaryVersion".to_owned(), json!(VERSIONS[binary]));
        fields.insert("emulationVersion".to_owned(), json!(VERSIONS[rng.random_range(0..=binary)]));
    }
    if rng.random_bool(0.1) {
        fields.insert("unheardOf".to_owned(), json!([{ "a": pick(&TEXTS, rng) }, null, 1e308]));
    }
    Value::Object(fields)
}

fn value(name: &str, schema: &Value, rng: &mut StdRng) -> Value {
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), _) => {
            #[allow(clippy::cast_possible_truncation, reason = "the bounds of an int32")]
            let bound = |key: &str| schema[key].as_f64().unwrap() as i64;
            let (least, most) = (bound("minimum"), bound("maximum"));
            json!(pick(&[least, least + 1, 15, 3600, 3601, most - 1, most], rng))
        }
        (_, Some("date-time")) => json!(pick(&TIMES, rng)),
        _ if name == "strategy" => json!(pick(&STRATEGIES, rng)),
        _ if rng.random_bool(0.05) => json!(pick(&TEXTS, rng).repeat(10_000)),
        _ => json!(pick(&TEXTS, rng)),
    }
}

fn metadata(rng: &mut StdRng) -> Value {
    let mut annotations = Map::new();
    for annotation in ANNOTATIONS {
        if rng.random_bool(0.3) {
            annotations.insert(annotation.to_owned(), json!(pick(&TEXTS, rng)));
        }
    }
    let mut metadata = json!({ "annotations": annotations });
    if rng.random_bool(0.2) {
        let uid = "00000000-0000-0000-0000-000000000000";
        metadata["ownerReferences"] = json!([{ "apiVersion": "v1", "kind": "Pod", "name": "nowhere", "uid": uid }]);
    }
    if rng.random_bool(0.1) {
        metadata["finalizers"] = json!(["example.com/never"]);
    }
    metadata
}

/// A unique name, in one of the valid forms.
fn name(number: usize, rng: &mut StdRng) -> String {
    let tail = format!("generated-{number}");
    match rng.random_range(0..5) {
        0 => format!("{}{tail}", "0".repeat(253 - tail.len())),
        1 => format!("a.b.c.{tail}"),
        2 => format!("null.{tail}"),
        3 => format!("0-{tail}"),
        _ => tail,
    }
}

fn pick<T: Copy>(pool: &[T], rng: &mut StdRng) -> T {
    *pool.choose(rng).unwrap()
}

/// Expands a placeholder for something long.
fn lengthen(value: &mut Value) {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let times = || 0..value["times"].as_u64().unwrap();
    let long = if value["repeat"].is_string() {
        let middle = text(value, "repeat").repeat(usize::try_from(times().end).unwrap());
        json!(text(value, "before") + &middle + &text(value, "after"))
    } else if value["keys"].is_string() {
        let keys = text(value, "keys");
        times().map(|number| (format!("{keys}{number}"), json!("v"))).collect::<Map<_, _>>().into()
    } else if let Some(owners) = value["owners"].as_u64() {
        let owner = |number| json!({ "apiVersion": "v1", "kind": "Pod", "name": format!("p-{number}"), "uid": format!("u-{number}") });
        (0..owners).map(owner).collect::<Vec<_>>().into()
    } else {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(lengthen),
            Value::Array(items) => items.iter_mut().for_each(lengthen),
            _ => {}
        }
        return;
    };
    *value = long;
}

/// A merge patch (RFC 7386), as the server applies it.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    _ if value.is_null() => drop(into.remove(&key)),
                    Some(old) => merge(old, value),
                    None => drop(into.insert(key, value)),
                }
            }
        }
        (into, from) => *into = from,
    }
}
