//! Writes: each one is subject to the server's preconditions, and is executed completely or not at all.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::answer::Refusal;
use super::call::Call;
use super::kind::Kind;
use super::refusals::TAKEN_BACK;
use super::store::{Store, Version};
use super::{lease, metadata, schema};

/// Creates an object.
pub(super) fn create(store: &mut Store, call: &Call) -> Result<Version, Refusal> {
    let mut object = decoded(call, call.body.clone())?;
    let name = metadata::name(&object).map(str::to_owned);
    metadata::check_request(call, &object)?;
    let Some(name) = name else {
        return Err(Refusal::invalid("metadata.name: Required value: name or generateName is required"));
    };
    if metadata::resource_version(&object).is_some_and(|version| version != "0") {
        return Err(Refusal::bad_request("resourceVersion should not be set on objects to be created"));
    }
    if call.kind.is_custom() {
        drop(object.as_object_mut().and_then(|fields| fields.remove("status")));
        schema::default(&mut object);
        object["metadata"]["generation"] = json!(1);
    }
    apply_policy(store, call, &mut object, None);
    metadata::check(&object)?;
    check(call, &object, None)?;
    let key = call.key(&name);
    if store.find(&key).is_some() {
        return Err(Refusal::already_exists(call, &name));
    }
    object["metadata"]["uid"] = json!(store.new_uid());
    object["metadata"]["creationTimestamp"] = json!(store.timestamp());
    object["metadata"]["namespace"] = json!(key.namespace);
    Ok(if call.dry_run { object.into() } else { store.put(key, Some(object)) })
}

/// Replaces an object, or creates it if the kind allows that.
pub(super) fn update(store: &mut Store, call: &Call, name: &str) -> Result<(StatusCode, Version), Refusal> {
    let object = decoded(call, call.body.clone())?;
    metadata::check_request(call, &object)?;
    if metadata::name(&object).is_some_and(|other| other != name) {
        return Err(Refusal::bad_request("the name of the object does not match the name on the URL"));
    }
    let Some(current) = store.find(&call.key(name)).cloned() else {
        if !call.kind.allows_create_on_update() || call.is_status {
            return Err(Refusal::not_found(call, name));
        }
        if object["metadata"]["uid"].is_string() {
            return Err(Refusal::conflict(call, name, "Precondition failed: there is no such object"));
        }
        let mut creation = object;
        creation["metadata"]["name"] = json!(name);
        // The version in the request is ignored: there is no object to compare it with.
        set(&mut creation["metadata"], "resourceVersion", None);
        let creation = Call { body: creation, method: Method::POST, name: None, ..call.clone() };
        return create(store, &creation).map(|version| (StatusCode::CREATED, version));
    };
    replace(store, call, name, &current, object).map(|version| (StatusCode::OK, version))
}

/// Changes an object by a merge patch.
pub(super) fn patch(store: &mut Store, call: &Call, name: &str) -> Result<Version, Refusal> {
    let current = store.get(call, name)?.clone();
    if !call.body.is_object() {
        return Err(Refusal::bad_request("a merge patch must be an object"));
    }
    let mut object = current.object().clone();
    json_patch::merge(&mut object, &call.body);
    let object = decoded(call, object).map_err(Refusal::of_patch)?;
    metadata::check_request(call, &object)?;
    if metadata::name(&object) != Some(name) {
        return Err(Refusal::bad_request("the name of the object does not match the name on the URL"));
    }
    replace(store, call, name, &current, object)
}

fn replace(
    store: &mut Store,
    call: &Call,
    name: &str,
    current: &Version,
    mut object: Value,
) -> Result<Version, Refusal> {
    let former = current.object();
    let is_other =
        object["metadata"]["uid"].as_str().is_some_and(|uid| Some(uid) != former["metadata"]["uid"].as_str());
    if is_other && call.method == Method::PUT {
        return Err(Refusal::conflict(call, name, "Precondition failed: UID in precondition does not match"));
    }
    let given = metadata::resource_version(&object).filter(|version| *version != "0");
    match given {
        Some(given) if Some(given) != metadata::resource_version(former) => {
            let message = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Refusal::conflict(call, name, message));
        }
        None if !call.kind.allows_unconditional_update() => {
            return Err(Refusal::invalid(
                "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update",
            ));
        }
        _ => {}
    }
    // A status write ignores the uid that the patch names.
    if is_other && !call.is_status {
        return Err(Refusal::invalid("metadata.uid: Invalid value: field is immutable"));
    }
    if call.is_status {
        let status = object.get("status").cloned();
        object = former.clone();
        set(&mut object, "status", status);
    } else if call.kind == Kind::LeaseCandidate {
        set(&mut object, "status", former.get("status").cloned());
    }
    for field in ["uid", "creationTimestamp", "namespace", "generation", "resourceVersion"] {
        let former = former["metadata"].get(field);
        if object["metadata"].get(field) != former {
            set(&mut object["metadata"], field, former.cloned());
        }
    }
    apply_policy(store, call, &mut object, Some(former));
    if call.kind.is_custom() {
        schema::default(&mut object);
        if object["spec"] != former["spec"] {
            let generation = former["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
    }
    metadata::check(&object)?;
    check(call, &object, Some(former))?;
    // A write that changes nothing creates no version.
    if object == *former {
        return Ok(current.clone());
    }
    if call.dry_run {
        return Ok(object.into());
    }
    if metadata::is_leaving(&object) {
        // The last finalizer of an object that is being deleted is gone.
        return Ok(store.put(call.key(name), None));
    }
    Ok(store.put(call.key(name), Some(object)))
}

fn apply_policy(store: &mut Store, call: &Call, object: &mut Value, former: Option<&Value>) {
    if store.policy.is_some_and(|policy| policy.apply(call.kind, object, former)) {
        store.refusals.count(TAKEN_BACK);
    }
}

/// Deletes an object, if the preconditions hold.
pub(super) fn delete(store: &mut Store, call: &Call, name: &str) -> Result<Value, Refusal> {
    let current = store.get(call, name)?.clone();
    let object = current.object();
    let wanted = &call.body["preconditions"];
    for field in ["uid", "resourceVersion"] {
        let found = object["metadata"][field].as_str();
        if let Some(wanted) = wanted[field].as_str()
            && Some(wanted) != found
        {
            let message = format!("the {field} in the precondition ({wanted}) does not match the {field} in record");
            return Err(Refusal::conflict(call, name, &message));
        }
    }
    if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
        let mut leaving = object.clone();
        if leaving["metadata"]["deletionTimestamp"].is_null() {
            leaving["metadata"]["deletionTimestamp"] = json!(store.timestamp());
            leaving["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            return Ok(store.put(call.key(name), Some(leaving)).object().clone());
        }
        return Ok(leaving);
    }
    let uid = object["metadata"]["uid"].clone();
    if !call.dry_run {
        store.put(call.key(name), None);
    }
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": { "name": name, "uid": uid },
    }))
}

/// The object, reduced to the fields that its kind has.
fn decoded(call: &Call, mut object: Value) -> Result<Value, Refusal> {
    if !object.is_object() {
        return Err(Refusal::bad_request("the body is not an object"));
    }
    match call.kind {
        Kind::Lease => lease::decode(&mut object)?,
        Kind::LeaseCandidate => schema::prune(&mut object),
        Kind::Event | Kind::ConfigMap | Kind::Pod | Kind::AccessReview => {}
    }
    for (field, expected) in [("kind", call.kind.name()), ("apiVersion", call.kind.api_version())] {
        match object[field].as_str() {
            None if !call.kind.is_custom() || call.method != Method::POST => object[field] = json!(expected),
            Some(given) if given == expected => {}
            _ => return Err(Refusal::bad_request(format!("{field} is not {expected}"))),
        }
    }
    metadata::decode(&mut object)?;
    Ok(object)
}

fn check(call: &Call, object: &Value, former: Option<&Value>) -> Result<(), Refusal> {
    match call.kind {
        Kind::Lease => lease::check(object),
        Kind::LeaseCandidate => schema::check(object, former),
        Kind::Event | Kind::ConfigMap | Kind::Pod | Kind::AccessReview => Ok(()),
    }
}

pub(super) fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let Some(fields) = object.as_object_mut() else { return };
    match value {
        Some(value) => drop(fields.insert(field.to_owned(), value)),
        None => drop(fields.remove(field)),
    }
}
