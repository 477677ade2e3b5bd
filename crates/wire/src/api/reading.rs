//! Reading that cannot fail: it accepts every object, whatever it contains.
//!
//! One malformed object must never stop a watch. So objects are read as JSON, not deserialised into types that reject
//! unknown content.

use hustings_core::model::{Unparsed, WireTime};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::timestamp::MicroTime;

/// How much of a text is kept, in bytes. The identity of a holder may be a megabyte long, and the controller keeps one
/// for every Lease. No meaningful text is longer than this.
const LONGEST_TEXT: usize = 1024;

/// The part of a text that is kept.
pub(super) fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or(text).to_owned()
}

/// The text in `field`, if there is one.
pub(super) fn text<'a>(spec: &'a Value, field: &str) -> Option<&'a str> {
    spec.get(field).and_then(Value::as_str)
}

/// The text in `field`; empty if there is none.
pub(super) fn owned(spec: &Value, field: &str) -> String {
    cut(text(spec, field).unwrap_or_default())
}

/// The timestamp in `field`. A value that is not a timestamp counts as [`WireTime::MAX`].
pub(super) fn time(spec: &Value, field: &str) -> Option<WireTime> {
    match spec.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(MicroTime::read(text).0),
        Some(_) => Some(WireTime::MAX),
    }
}

/// The number in `field`, clamped to the range of the type; 0 if there is none.
pub(super) fn unsigned(spec: &Value, field: &str) -> u32 {
    let number = spec.get(field).and_then(Value::as_i64).unwrap_or(0);
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// The number in `field`, clamped to the range of the type; 0 if there is none.
pub(super) fn signed(spec: &Value, field: &str) -> i32 {
    let number = spec.get(field).and_then(Value::as_i64).unwrap_or(0);
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Adds `field` to the fields that a record does not represent exactly, unless its text is `shown`.
pub(super) fn note_unparsed<T>(unparsed: Unparsed, spec: &Value, field: &str, shown: &T) -> Unparsed
where
    T: ?Sized,
    Value: PartialEq<T>,
{
    match spec.get(field) {
        None | Some(Value::Null) => unparsed,
        Some(value) if *value == *shown => unparsed,
        Some(Value::String(text)) => unparsed.with(field, text),
        Some(value) => unparsed.with(field, &value.to_string()),
    }
}

/// Like [`note_unparsed`], for a timestamp that was read as `time`.
pub(super) fn note_unparsed_time(unparsed: Unparsed, spec: &Value, field: &str, time: Option<WireTime>) -> Unparsed {
    note_unparsed(unparsed, spec, field, &time.map(|time| MicroTime(time).to_string()).unwrap_or_default())
}

/// The annotation `name`, parsed; `None` if it does not parse.
pub(super) fn annotation<T: std::str::FromStr>(metadata: &ObjectMeta, name: &str) -> Option<T> {
    annotation_text(metadata, name)?.parse().ok()
}

/// The annotation `name`; `None` if it is missing or empty.
pub(super) fn annotation_text<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let text = metadata.annotations.as_ref()?.get(name)?;
    Some(text.as_str()).filter(|text| !text.is_empty())
}

/// `metadata.resourceVersion` as an integer; 0 if it is not one.
pub(super) fn resource_version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_out_of_range_becomes_the_nearest_one() {
        let spec = json!({ "low": -99_999_999_999_i64, "high": 99_999_999_999_i64, "zero": 0, "text": "x" });
        let signed = ["low", "high", "zero", "text", "none"].map(|field| signed(&spec, field));
        assert_eq!(signed, [i32::MIN, i32::MAX, 0, 0, 0]);
        let unsigned = ["low", "high", "zero"].map(|field| unsigned(&spec, field));
        assert_eq!(unsigned, [0, u32::MAX, 0]);
    }
}
