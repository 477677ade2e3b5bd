//! Leases as a stock server decodes, stores and validates them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::answer::Refusal;

/// Decodes a Lease as the server does. Without the feature gate, it drops the strategy and the preferred holder.
pub(super) fn decode(mut object: Value) -> Result<Value, Refusal> {
    let mut spec = Map::new();
    let mut given = object["spec"].take();
    if !given.is_null() && !given.is_object() {
        return Err(wrong("spec"));
    }
    match given.get_mut("holderIdentity").map(Value::take) {
        None | Some(Value::Null) => {}
        Some(holder @ Value::String(_)) => drop(spec.insert("holderIdentity".to_owned(), holder)),
        Some(_) => return Err(wrong("spec.holderIdentity")),
    }
    for field in ["strategy", "preferredHolder"] {
        if !given[field].is_null() && !given[field].is_string() {
            return Err(wrong(field));
        }
    }
    for field in ["leaseDurationSeconds", "leaseTransitions"] {
        let value = &given[field];
        if value.is_null() {
            continue;
        }
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| wrong(field))?;
        spec.insert(field.to_owned(), json!(number));
    }
    for field in ["acquireTime", "renewTime"] {
        match &given[field] {
            Value::Null => {}
            Value::String(text) => {
                let time = micro_time(text).ok_or_else(|| wrong(field))?;
                spec.insert(field.to_owned(), json!(format!("{time:.6}")));
            }
            _ => return Err(wrong(field)),
        }
    }
    let mut lease = Map::new();
    for field in ["kind", "apiVersion", "metadata"] {
        if let Some(value) = object.get_mut(field) {
            lease.insert(field.to_owned(), value.take());
        }
    }
    lease.insert("spec".to_owned(), Value::Object(spec));
    Ok(Value::Object(lease))
}

/// Validates the numbers.
pub(super) fn check(object: &Value) -> Result<(), Refusal> {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|seconds| seconds <= 0) {
        return Err(Refusal::invalid("spec.leaseDurationSeconds: Invalid value: must be greater than 0"));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|transitions| transitions < 0) {
        return Err(Refusal::invalid("spec.leaseTransitions: Invalid value: must be greater than or equal to 0"));
    }
    Ok(())
}

/// Parses a `MicroTime`, which has exactly six fractional digits.
fn micro_time(text: &str) -> Option<Timestamp> {
    let (_, fraction) = text.split_once('.')?;
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    (digits == 6).then(|| text.parse().ok())?
}

fn wrong(field: &str) -> Refusal {
    Refusal::bad_request(format!("Lease in version \"v1\" cannot be handled as a Lease: {field} is of a wrong type"))
}
