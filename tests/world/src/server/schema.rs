//! LeaseCandidates as their CustomResourceDefinition defines them. The installed schema itself prunes them, sets
//! defaults and validates them. Its CEL rules are implemented here a second time; a comparison with the real server
//! keeps both equal.

use std::sync::OnceLock;

use hustings_client::api::names::is_dns_subdomain;
use hustings_core::model::{Strategy, Version};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Refusal;

/// Drops every field that the schema does not name, and every null.
pub(super) fn prune(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, _| matches!(name.as_str(), "kind" | "apiVersion" | "metadata" | "spec" | "status"));
    }
    for part in ["spec", "status"] {
        if let Some(value) = object.get_mut(part) {
            prune_by(&schema()["properties"][part], value);
        }
    }
    if object["status"].is_null()
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
}

/// Sets the defaults of missing fields.
pub(super) fn default(object: &mut Value) {
    if !object["spec"].is_object() {
        return;
    }
    for (name, property) in schema()["properties"]["spec"]["properties"].as_object().into_iter().flatten() {
        if let Some(default) = property.get("default")
            && object["spec"][name].is_null()
        {
            object["spec"][name] = default.clone();
        }
    }
}

/// Checks that the schema and its rules accept the object.
pub(super) fn check(object: &Value, former: Option<&Value>) -> Result<(), Refusal> {
    for part in ["spec", "status"] {
        if let Some(value) = object.get(part) {
            check_by(&schema()["properties"][part], value, part)?;
        } else if part == "spec" {
            return Err(Refusal::invalid("spec: Required value"));
        }
    }
    check_rules(&object["spec"], former.map(|former| &former["spec"]))
}

/// The rules, with the messages of the CRD.
fn check_rules(spec: &Value, former: Option<&Value>) -> Result<(), Refusal> {
    let text = |field: &str| spec[field].as_str();
    let version = |field: &str| -> Result<Option<Version>, Refusal> {
        let Some(text) = text(field) else { return Ok(None) };
        let parsed = text.parse().map_err(|_| Refusal::invalid(format!("{field} must be a semantic version")))?;
        Ok(Some(parsed))
    };
    let lease_name = text("leaseName").unwrap_or_default();
    if !is_dns_subdomain(lease_name) {
        return Err(Refusal::invalid("leaseName must be a DNS subdomain"));
    }
    if former.is_some_and(|former| former["leaseName"] != spec["leaseName"]) {
        return Err(Refusal::invalid("leaseName is immutable"));
    }
    let strategy = Strategy::read(text("strategy")).map_err(|_| Refusal::invalid("strategy is no qualified name"))?;
    let (binary, emulation) = (version("binaryVersion")?, version("emulationVersion")?);
    match (binary, emulation) {
        (_, None) if strategy.needs_emulation_version() => {
            Err(Refusal::invalid("emulationVersion is required by this strategy"))
        }
        (Some(binary), Some(emulation)) if emulation > binary => {
            Err(Refusal::invalid("emulationVersion must not be above binaryVersion"))
        }
        _ => Ok(()),
    }
}

fn schema() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let crd = serde_json::to_value(hustings_client::api::crd()).unwrap_or_default();
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
    })
}

fn prune_by(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let properties = &schema["properties"];
            fields.retain(|name, value| {
                let property = &properties[name];
                let is_kept = property.is_object() && (!value.is_null() || property["nullable"] == json!(true));
                if is_kept {
                    prune_by(property, value);
                }
                is_kept
            });
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_by(&schema["items"], item)),
        _ => {}
    }
}

fn check_by(schema: &Value, value: &Value, path: &str) -> Result<(), Refusal> {
    let invalid = |what: &str| Err(Refusal::invalid(format!("{path}: Invalid value: {what}")));
    if value.is_null() && schema["nullable"] == json!(true) {
        return Ok(());
    }
    match (schema["type"].as_str(), value) {
        (Some("object"), Value::Object(fields)) => {
            for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(required) {
                    return Err(Refusal::invalid(format!("{path}.{required}: Required value")));
                }
            }
            for (name, value) in fields {
                check_by(&schema["properties"][name], value, &format!("{path}.{name}"))?;
            }
            Ok(())
        }
        (Some("array"), Value::Array(items)) => {
            if schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most) {
                return invalid("too many");
            }
            items.iter().try_for_each(|item| check_by(&schema["items"], item, path))
        }
        (Some("string"), Value::String(text)) => {
            let length = text.chars().count() as u64;
            if schema["minLength"].as_u64().is_some_and(|least| length < least)
                || schema["maxLength"].as_u64().is_some_and(|most| length > most)
            {
                return invalid("its length");
            }
            if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
                return invalid("unsupported");
            }
            if schema["format"] == json!("date-time") && text.parse::<Timestamp>().is_err() {
                return invalid("no date-time");
            }
            Ok(())
        }
        (Some("integer"), Value::Number(number)) => {
            let Some(number) = number.as_i64() else { return invalid("no integer") };
            let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
            #[expect(clippy::cast_precision_loss, reason = "the bounds are far below 2^53")]
            let number = number as f64;
            if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
                return invalid("out of range");
            }
            Ok(())
        }
        (Some(_), _) => invalid("wrong type"),
        (None, _) => Ok(()),
    }
}
