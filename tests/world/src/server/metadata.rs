//! `metadata`, which all kinds share.

use hustings_client::api::names::is_dns_subdomain;
use serde_json::{Map, Value, json};

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
    let given = object["metadata"].take();
    let mut kept = Map::new();
    if let Value::Object(mut given) = given {
        for (field, kind) in FIELDS {
            let Some(value) = given.remove(field) else { continue };
            if let Some(value) = accept(field, kind, value)? {
                kept.insert(field.to_owned(), value);
            }
        }
        if let Some(owners @ Value::Array(_)) = given.remove("ownerReferences") {
            kept.insert("ownerReferences".to_owned(), owners);
        }
    } else if !given.is_null() {
        return Err(Refusal::bad_request("metadata is not an object"));
    }
    object["metadata"] = Value::Object(kept);
    Ok(())
}

/// The value as it is stored; `None` if it is empty.
fn accept(field: &str, kind: Type, value: Value) -> Result<Option<Value>, Refusal> {
    Ok(match (kind, value) {
        (_, Value::Null) => None,
        (Type::Text, value @ Value::String(_)) => Some(value).filter(|value| *value != json!("")),
        (Type::Number, value @ Value::Number(_)) => Some(value),
        (Type::List, Value::Array(list)) => (!list.is_empty()).then_some(Value::Array(list)),
        (Type::Texts, Value::Object(texts)) => {
            let mut kept = Map::new();
            for (name, text) in texts {
                match text {
                    Value::String(_) => drop(kept.insert(name, text)),
                    // Go decodes null into a string as the empty string.
                    Value::Null => drop(kept.insert(name, json!(""))),
                    _ => return Err(Refusal::bad_request(format!("metadata.{field}: not a string"))),
                }
            }
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        _ => return Err(Refusal::bad_request(format!("metadata.{field}: wrong type"))),
    })
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
