//! `metadata`, which all kinds share.

use hustings_client::api::names::is_dns_subdomain;
use serde_json::{Value, json};

use super::answer::Refusal;
use super::call::Call;

/// The fields that the server keeps, and their types.
const FIELDS: [(&str, Type); 12] = [
    ("name", Type::Text),
    ("generateName", Type::Text),
    ("namespace", Type::Text),
    ("uid", Type::Text),
    ("resourceVersion", Type::Text),
    ("generation", Type::Number),
    ("creationTimestamp", Type::Text),
    ("deletionTimestamp", Type::Text),
    ("deletionGracePeriodSeconds", Type::Number),
    ("labels", Type::Texts),
    ("annotations", Type::Texts),
    ("finalizers", Type::List),
];

/// The limit for the total size of an object's annotations.
const MOST_ANNOTATION_BYTES: usize = 256 * 1024;

#[derive(Clone, Copy)]
enum Type {
    Text,
    Number,
    Texts,
    List,
}

pub(super) fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str().filter(|name| !name.is_empty())
}

pub(super) fn resource_version(object: &Value) -> Option<&str> {
    object["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty())
}

/// Whether it is being deleted and has no finalizer left.
pub(super) fn is_leaving(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["deletionTimestamp"].is_string() && metadata["finalizers"].as_array().is_none_or(Vec::is_empty)
}

/// Drops unknown fields, and rejects fields of the wrong type.
pub(super) fn decode(object: &mut Value) -> Result<(), Refusal> {
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    let Some(fields) = object["metadata"].as_object_mut() else {
        return Err(Refusal::bad_request("metadata is not an object"));
    };
    let mut refusal = None;
    fields.retain(|field, value| {
        let Some((_, kind)) = FIELDS.iter().find(|(name, _)| name == field) else {
            return field == "ownerReferences" && value.is_array();
        };
        accept(field, *kind, value).unwrap_or_else(|error| refusal.replace(error).is_none())
    });
    refusal.map_or(Ok(()), Err)
}

/// Whether the value is stored: an empty one is not.
fn accept(field: &str, kind: Type, value: &mut Value) -> Result<bool, Refusal> {
    match (kind, value) {
        (_, Value::Null) => Ok(false),
        (Type::Text, Value::String(text)) => Ok(!text.is_empty()),
        (Type::Number, Value::Number(_)) => Ok(true),
        (Type::List, Value::Array(list)) => Ok(!list.is_empty()),
        (Type::Texts, Value::Object(texts)) => {
            for text in texts.values_mut().filter(|text| !text.is_string()) {
                if !text.is_null() {
                    return Err(Refusal::bad_request(format!("metadata.{field}: not a string")));
                }
                // Go decodes null into a string as the empty string.
                *text = json!("");
            }
            Ok(!texts.is_empty())
        }
        _ => Err(Refusal::bad_request(format!("metadata.{field}: wrong type"))),
    }
}

/// Checks that the object matches the path of the request.
pub(super) fn check_request(call: &Call, object: &Value) -> Result<(), Refusal> {
    match (object["metadata"]["namespace"].as_str(), &call.namespace) {
        (Some(given), Some(requested)) if given != requested => Err(Refusal::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        _ => Ok(()),
    }
}

/// Validates names, labels and annotations.
pub(super) fn check(object: &Value) -> Result<(), Refusal> {
    let metadata = &object["metadata"];
    if !name(object).is_some_and(is_dns_subdomain) {
        return Err(Refusal::invalid("metadata.name: Invalid value: a lowercase RFC 1123 subdomain is required"));
    }
    for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
        if !is_qualified_name(key) || !value.as_str().is_some_and(is_label_value) {
            return Err(Refusal::invalid(format!("metadata.labels: Invalid value: {key:?}")));
        }
    }
    let annotations = metadata["annotations"].as_object();
    for key in annotations.into_iter().flatten().map(|(key, _)| key) {
        if !is_qualified_name(&key.to_lowercase()) {
            return Err(Refusal::invalid(format!("metadata.annotations: Invalid value: {key:?}")));
        }
    }
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations.into_iter().flatten().map(size).sum::<usize>() > MOST_ANNOTATION_BYTES {
        return Err(Refusal::invalid("metadata.annotations: Too long: may not be more than 262144 bytes"));
    }
    Ok(())
}

/// `[prefix/]name`, the form of label and annotation keys.
fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_simple_name(name),
        None => is_simple_name(text),
    }
}

fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_simple_name(text)
}

fn is_simple_name(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    bytes.len() <= 63 && is_end(bytes.first()) && is_end(bytes.last()) && bytes.iter().all(is_inner)
}
