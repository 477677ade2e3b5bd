//! The inputs of the targets under `tests` for the readers of Leases and candidates. They are any JSON, and JSON that
//! resembles such an object with an odd value in every field that is read.

use bolero::TypeGenerator;
use serde_json::{Value, json};

/// The places of a Lease that are read, as JSON pointers.
pub const LEASE_FIELDS: [&str; 17] = [
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/labels/hustings.io~1enrolled",
    "/metadata/annotations/hustings.io~1session",
    "/metadata/annotations/hustings.io~1token",
    "/metadata/annotations/hustings.io~1key",
    "/metadata/annotations/hustings.io~1preferred-holder",
    "/metadata/annotations/hustings.io~1strategy",
    "/metadata/annotations/hustings.io~1hold",
    "/metadata/annotations/hustings.io~1leaving",
    "/metadata/annotations",
    "/spec/holderIdentity",
    "/spec/leaseDurationSeconds",
    "/spec/acquireTime",
    "/spec/renewTime",
    "/spec/leaseTransitions",
    "/spec",
];

/// The places of a candidate that are read.
pub const CANDIDATE_FIELDS: [&str; 19] = [
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/creationTimestamp",
    "/metadata/ownerReferences",
    "/metadata/annotations/hustings.io~1lease-duration",
    "/metadata/annotations/hustings.io~1session",
    "/spec/binaryVersion",
    "/spec/emulationVersion",
    "/spec/strategy",
    "/spec/priority",
    "/spec/pingTime",
    "/spec/renewTime",
    "/status/state",
    "/status/dampingCount",
    "/status/dampedUntil",
    "/status/unresponsiveSince",
    "/status/conditions",
    "/status",
    "/spec",
];

/// Values with a meaning in some place.
const KNOWN: [&str; 22] = [
    "",
    "open",
    "a",
    "b",
    "true",
    "-1",
    "0",
    "1",
    "1.0.0",
    "99.0.0-a.1",
    "a/1/15",
    "a.b.c.d/3/40",
    "OldestEmulationVersion",
    "example.com/Mine",
    "disagreement",
    "Holder",
    "Damped",
    "2026-01-01T00:00:00.000000Z",
    "9999-12-31T23:59:59.999999Z",
    "18446744073709551615",
    "9223372036854775807",
    "a/18446744073709551615/4294967295",
];

/// Something odd in one place.
#[derive(Clone, Debug, TypeGenerator)]
pub struct Odd {
    place: u8,
    kind: u8,
    number: i64,
    /// The value, if it is a text.
    pub text: String,
}

/// An object that has something odd in some of its places.
pub fn object(name: &str, fields: &[&str], odd: &[Odd]) -> Value {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {}, "annotations": {} },
        "spec": {
            "leaseName": "l", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0", "holderIdentity": "a",
            "leaseDurationSeconds": 15,
        },
        "status": {},
    });
    for Odd { place, kind, number, text } in odd {
        let value = match kind % 8 {
            0 => Value::Null,
            1 => json!(number),
            2 => json!([number, text, {}]),
            3 => json!({ text.as_str(): number }),
            4 => json!(text),
            _ => json!(KNOWN[usize::from(number.to_le_bytes()[0]) % KNOWN.len()]),
        };
        put(&mut object, fields[usize::from(*place) % fields.len()], value);
    }
    object
}

/// Puts a value at the pointer's place, if that exists.
fn put(object: &mut Value, pointer: &str, value: Value) {
    let Some((parent, key)) = pointer.rsplit_once('/') else { return };
    if let Some(parent) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.insert(key.replace("~1", "/"), value);
    }
}
