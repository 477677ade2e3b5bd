//! Total readings: whatever an object holds, something definite is read from it.
//!
//! One malformed object must never stop a watch, so objects are taken apart as JSON rather than deserialised into types
//! that refuse what they do not know.

use hustings_core::model::WireTime;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::timestamp::MicroTime;

/// How much of a text is kept, in bytes. The identity of a Lease's holder may have a megabyte, and is remembered for
/// every Lease; nothing that anybody is to be known by is as long as this.
const LONGEST_TEXT: usize = 1024;

/// As much of a text as is kept.
pub(super) fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or(text).to_owned()
}

/// The text in `field`, where there is one.
pub(super) fn text<'a>(spec: &'a Value, field: &str) -> Option<&'a str> {
    spec.get(field).and_then(Value::as_str)
}

/// The text in `field`, empty where there is none.
pub(super) fn owned(spec: &Value, field: &str) -> String {
    cut(text(spec, field).unwrap_or_default())
}

/// The timestamp in `field`; what is no timestamp is read as the latest one.
pub(super) fn time(spec: &Value, field: &str) -> Option<WireTime> {
    match spec.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(MicroTime::read(text).0),
        Some(_) => Some(WireTime::MAX),
    }
}

/// The number in `field`, moved into range; 0 where there is none.
pub(super) fn unsigned(spec: &Value, field: &str) -> u32 {
    let number = spec.get(field).and_then(Value::as_i64).unwrap_or(0);
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// The number in `field`, moved into range; 0 where there is none.
pub(super) fn signed(spec: &Value, field: &str) -> i32 {
    let number = spec.get(field).and_then(Value::as_i64).unwrap_or(0);
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// The annotation `name`, parsed; `None` where it does not parse.
pub(super) fn annotation<T: std::str::FromStr>(metadata: &ObjectMeta, name: &str) -> Option<T> {
    annotation_text(metadata, name)?.parse().ok()
}

/// The annotation `name`; an empty one is as good as none.
pub(super) fn annotation_text<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    let text = metadata.annotations.as_ref()?.get(name)?;
    Some(text.as_str()).filter(|text| !text.is_empty())
}

/// `metadata.resourceVersion` as the integer that it is; 0 where it is none.
pub(super) fn resource_version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// The object's metadata without `managedFields`, which nobody here reads and anybody may fill. Metadata that do not
/// parse, which no server sends, are reduced to what identifies the object.
pub(super) fn metadata(object: &mut Value) -> ObjectMeta {
    let mut metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(fields) = metadata.as_object_mut() {
        fields.remove("managedFields");
    }
    let identity = ["name", "namespace", "uid", "resourceVersion"]
        .map(|field| metadata.get(field).and_then(Value::as_str).map(str::to_owned));
    serde_json::from_value(metadata).unwrap_or_else(|_| {
        let [name, namespace, uid, resource_version] = identity;
        ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }
    })
}
