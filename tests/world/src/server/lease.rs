//! Leases as a stock server decodes, stores and validates them.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Refusal;

/// The fields of the spec that the server keeps.
const KEPT: [&str; 5] = ["holderIdentity", "leaseDurationSeconds", "leaseTransitions", "acquireTime", "renewTime"];

/// Decodes a Lease as the server does. Without the feature gate, it drops the strategy and the preferred holder.
pub(super) fn decode(object: &mut Value) -> Result<(), Refusal> {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|field, _| matches!(field.as_str(), "kind" | "apiVersion" | "metadata" | "spec"));
    }
    if object["spec"].is_null() {
        object["spec"] = json!({});
    }
    let Some(spec) = object["spec"].as_object_mut() else { return Err(wrong("spec")) };
    for field in ["holderIdentity", "strategy", "preferredHolder"] {
        if !matches!(spec.get(field), None | Some(Value::Null | Value::String(_))) {
            return Err(wrong(field));
        }
    }
    for field in ["leaseDurationSeconds", "leaseTransitions"] {
        let Some(value) = spec.get_mut(field).filter(|value| !value.is_null()) else { continue };
        let number = value.as_i64().and_then(|number| i32::try_from(number).ok()).ok_or_else(|| wrong(field))?;
        *value = json!(number);
    }
    for field in ["acquireTime", "renewTime"] {
        let Some(value) = spec.get_mut(field).filter(|value| !value.is_null()) else { continue };
        let time = value.as_str().and_then(micro_time).ok_or_else(|| wrong(field))?;
        *value = json!(format!("{time:.6}"));
    }
    spec.retain(|field, value| !value.is_null() && KEPT.contains(&field.as_str()));
    Ok(())
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
