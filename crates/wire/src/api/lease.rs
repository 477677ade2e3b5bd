//! Leases on the wire: reading, creating and writing them.
//!
//! A stock apiserver silently drops `spec.strategy` and `spec.preferredHolder`. So the annotations are authoritative,
//! and the native fields are a copy for other programs.
//!
//! Every write is a merge patch that contains the resourceVersion on which it is conditional. The server answers 409 to
//! a patch with an outdated version. A patch never creates an object, and keeps the fields that this library does not
//! know.

use std::borrow::Cow;

use hustings_core::model::{History, LeaseRecord, LeaseWrite, NativeFields, SessionMark, SessionStamp, Set, Unparsed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::acts::{lease_acts, pin_text};
use super::names;
use super::object::ObjectParts;
use super::reading::{
    annotation, annotation_text, cut, note_unparsed, note_unparsed_time, resource_version, text, time, unsigned,
};
use super::timestamp::MicroTime;

/// A `coordination.k8s.io/v1` Lease as read from the server. Deserialising never fails, so that a watch never stops.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadLease {
    /// The object's metadata, without `managedFields`.
    pub metadata: ObjectMeta,
    /// The fields that the election uses.
    pub record: LeaseRecord,
}

impl ReadLease {
    /// Reads a Lease. Accepts any JSON.
    pub fn from_json(object: Value) -> Self {
        ObjectParts::from_json(object).into()
    }

    /// Annotation `hustings.io/reason`: one sentence on the last election.
    pub fn reason(&self) -> Option<&str> {
        annotation_text(&self.metadata, names::REASON)
    }
}

/// Returns the Lease as every writer creates it: empty, with its full duration and without the mark `open`. The writer
/// that gets the answer claims or grants the Lease by a second, conditional write. For every other process, the Lease
/// counts as held until it expires.
pub fn empty_lease(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": { names::ENROLLED_LABEL: names::ENROLLED },
        },
        "spec": {
            "holderIdentity": "",
            "leaseDurationSeconds": LeaseRecord::as_created().duration_seconds,
            "leaseTransitions": 0,
        },
    })
}

/// Returns the merge patch for `write`.
pub fn lease_patch(write: &LeaseWrite) -> Value {
    let mut annotations = Map::new();
    set(&mut annotations, names::SESSION, &write.session, |mark| match mark {
        SessionMark::Absent => Value::Null,
        mark => json!(mark.to_string()),
    });
    set(&mut annotations, names::TOKEN, &write.token, |token| json!(token.to_string()));
    set(&mut annotations, names::PREFERRED_HOLDER, &write.preferred_holder, |holder| json!(holder));
    set(&mut annotations, names::STRATEGY, &write.strategy, |strategy| json!(strategy));
    set(&mut annotations, names::HOLD, &write.hold, |hold| json!(hold));
    set(&mut annotations, names::HOLD_UNTIL, &write.hold_until, |until| json!(until.to_string()));
    set(&mut annotations, names::TRANSFER, &write.transfer, |transfer| json!(transfer.as_str()));
    set(&mut annotations, names::PIN, &write.pin, |pin| json!(pin_text(pin)));
    set(&mut annotations, names::ASSIST, &write.assist, |options| json!(options.to_string()));
    set(&mut annotations, names::ASKED_BY, &write.asked_by, |name| json!(name));
    set(&mut annotations, names::KEY, &write.key, |key| json!(key.to_string()));
    set(&mut annotations, names::LEAVING, &write.leaving, |()| json!(names::LEAVES));
    set(&mut annotations, names::REASON, &write.reason, |reason| json!(reason));
    set(&mut annotations, names::HISTORY, &write.history, |history| match history.as_str() {
        "" => Value::Null,
        text => json!(text),
    });

    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), json!(write.resource_version.to_string()));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    let mut labels = Map::new();
    set(&mut labels, names::ENROLLED_LABEL, &write.enrol, |()| json!(names::ENROLLED));
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }

    let mut patch = Map::new();
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    let spec = spec_patch(write);
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    Value::Object(patch)
}

/// The text that the record does not represent exactly, of the fields whose change is a sign of life.
fn unparsed(spec: &Value, session: Option<&str>, record: &LeaseRecord) -> Unparsed {
    let unparsed = note_unparsed(Unparsed::NONE, spec, "holderIdentity", record.holder.as_deref().unwrap_or(""));
    let unparsed = note_unparsed(unparsed, spec, "leaseDurationSeconds", &record.duration_seconds);
    let unparsed = note_unparsed_time(unparsed, spec, "acquireTime", record.acquire_time);
    let unparsed = note_unparsed_time(unparsed, spec, "renewTime", record.renew_time);
    let unparsed = note_unparsed(unparsed, spec, "leaseTransitions", &record.transitions);
    let session = session.filter(|text| *text != record.session.to_string());
    session.map_or(unparsed, |text| unparsed.with(names::SESSION, text))
}

/// The mark, with its session cut like any other text. The mark is parsed before it is cut, because its duration is at
/// its end.
fn session_mark(text: Option<&str>) -> SessionMark {
    match SessionMark::read(text) {
        SessionMark::Term(stamp) => SessionMark::Term(SessionStamp { session: cut(&stamp.session), ..stamp }),
        SessionMark::Unreadable(text) => SessionMark::Unreadable(cut(&text)),
        mark @ (SessionMark::Absent | SessionMark::Open) => mark,
    }
}

fn spec_patch(write: &LeaseWrite) -> Map<String, Value> {
    let mut spec = Map::new();
    match &write.holder {
        Set::Keep => {}
        Set::To(holder) => drop(spec.insert("holderIdentity".to_owned(), json!(holder))),
        Set::Remove => drop(spec.insert("holderIdentity".to_owned(), json!(""))),
    }
    // The server accepts int32, and no duration below 1.
    set(&mut spec, "leaseDurationSeconds", &write.duration_seconds, |seconds| json!(int32(*seconds).max(1)));
    set(&mut spec, "acquireTime", &write.acquire_time, |time| json!(MicroTime(*time)));
    set(&mut spec, "renewTime", &write.renew_time, |time| json!(MicroTime(*time)));
    set(&mut spec, "leaseTransitions", &write.transitions, |count| json!(int32(*count)));
    copy_to_native(&mut spec, write);
    spec
}

/// Writes the native copies. A server with the feature gate on rejects a preferred holder without a strategy. It
/// crashes when it elects for a Lease with a null holder. So this function never writes a copy to a Lease whose holder
/// stays null. It never invents a strategy: without one, it does not copy the preferred holder.
fn copy_to_native(spec: &mut Map<String, Value>, write: &LeaseWrite) {
    let strategy = write.strategy.applied_to(write.former_strategy.as_ref());
    set(spec, "strategy", &write.strategy, |strategy| json!(strategy));
    match (&write.preferred_holder, strategy) {
        (Set::To(holder), Some(strategy)) => {
            spec.insert("strategy".to_owned(), json!(strategy));
            spec.insert("preferredHolder".to_owned(), json!(holder));
        }
        (Set::Keep, Some(_)) => {}
        // Without a strategy, the native field must not be set.
        (Set::Keep | Set::To(_), None) if write.strategy != Set::Remove => {}
        (Set::Keep | Set::To(_) | Set::Remove, _) => {
            spec.insert("preferredHolder".to_owned(), Value::Null);
        }
    }
    let names_strategy = spec.get("strategy").is_some_and(Value::is_string);
    if names_strategy && write.was_empty && write.holder == Set::Keep {
        spec.insert("holderIdentity".to_owned(), json!(""));
    }
}

fn set<T>(fields: &mut Map<String, Value>, name: &str, set: &Set<T>, value: impl FnOnce(&T) -> Value) {
    match set {
        Set::Keep => {}
        Set::To(to) => drop(fields.insert(name.to_owned(), value(to))),
        Set::Remove => drop(fields.insert(name.to_owned(), Value::Null)),
    }
}

fn int32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

impl From<ObjectParts> for ReadLease {
    fn from(ObjectParts { metadata, spec, .. }: ObjectParts) -> Self {
        let spec = &spec;
        let some = |field| text(spec, field).filter(|text| !text.is_empty()).map(cut);
        let session = metadata.annotations.as_ref().and_then(|all| all.get(names::SESSION));
        let record = LeaseRecord {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: resource_version(&metadata),
            holder: some("holderIdentity"),
            duration_seconds: unsigned(spec, "leaseDurationSeconds"),
            acquire_time: time(spec, "acquireTime"),
            renew_time: time(spec, "renewTime"),
            transitions: unsigned(spec, "leaseTransitions"),
            session: session_mark(session.map(String::as_str)),
            unparsed: Unparsed::NONE,
            token: annotation(&metadata, names::TOKEN),
            preferred_holder: annotation_text(&metadata, names::PREFERRED_HOLDER).map(cut),
            strategy: annotation_text(&metadata, names::STRATEGY).map(cut),
            hold: annotation_text(&metadata, names::HOLD).map(cut),
            acts: lease_acts(&metadata),
            key: annotation(&metadata, names::KEY),
            leaving: annotation_text(&metadata, names::LEAVING) == Some(names::LEAVES),
            history: annotation_text(&metadata, names::HISTORY).map(History::read).unwrap_or_default(),
            enrolled: metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(names::ENROLLED_LABEL))
                .is_some_and(|value| value == names::ENROLLED),
            native: NativeFields { strategy: some("strategy"), preferred_holder: some("preferredHolder") },
        };
        let unparsed = unparsed(spec, session.map(String::as_str), &record);
        Self { record: LeaseRecord { unparsed, ..record }, metadata }
    }
}

impl<'de> Deserialize<'de> for ReadLease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ObjectParts::deserialize(deserializer).map(Self::from)
    }
}

impl kube_core::Resource for ReadLease {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Lease".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "coordination.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "leases".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests;
