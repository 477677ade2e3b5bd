//! Leases on the wire: how they are read, created and written.
//!
//! A stock apiserver drops `spec.strategy` and `spec.preferredHolder` in silence, so annotations are what counts; the
//! native fields are a copy for others. Every write is a merge patch that carries the resourceVersion it is conditional
//! on: a stale one is answered by 409, a patch never creates, and fields that nobody here knows survive it.

use std::borrow::Cow;

use hustings_core::model::{LeaseRecord, LeaseWrite, SessionMark, SessionStamp, Set};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::names;
use super::reading::{annotation, annotation_text, cut, metadata, resource_version, text, time, unsigned};
use super::timestamp::MicroTime;

/// A `coordination.k8s.io/v1` Lease as it was read. Deserialising it never fails, so that watches of it never stop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadLease {
    /// The object's metadata, without `managedFields`.
    pub metadata: ObjectMeta,
    /// What the election knows of it.
    pub record: LeaseRecord,
    /// Its native fields of KEP-4355, which are shown and never obeyed.
    pub native: NativeFields,
}

/// `spec.strategy` and `spec.preferredHolder`, which a server keeps only with its feature gate on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativeFields {
    /// `spec.strategy`.
    pub strategy: Option<String>,
    /// `spec.preferredHolder`.
    pub preferred_holder: Option<String>,
}

impl ReadLease {
    /// Reads a Lease; any JSON has a reading.
    pub fn from_json(mut object: Value) -> Self {
        let metadata = metadata(&mut object);
        let spec = &object["spec"];
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
            token: annotation(&metadata, names::TOKEN),
            preferred_holder: annotation_text(&metadata, names::PREFERRED_HOLDER).map(cut),
            strategy: annotation_text(&metadata, names::STRATEGY).map(cut),
            hold: annotation_text(&metadata, names::HOLD).map(cut),
            key: annotation(&metadata, names::KEY),
            leaving: annotation_text(&metadata, names::LEAVING) == Some(names::LEAVES),
            enrolled: metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(names::ENROLLED_LABEL))
                .is_some_and(|value| value == names::ENROLLED),
        };
        let native = NativeFields { strategy: some("strategy"), preferred_holder: some("preferredHolder") };
        Self { metadata, record, native }
    }

    /// Annotation `hustings.io/reason`: one sentence on the last election.
    pub fn reason(&self) -> Option<&str> {
        annotation_text(&self.metadata, names::REASON)
    }

    /// Whether the server kept the native copies that `write`, whose answer this is, has set; `None` if it set none.
    pub fn keeps_native_fields(&self, write: &LeaseWrite) -> Option<bool> {
        match (&write.strategy, &write.preferred_holder) {
            (Set::To(strategy), _) => Some(self.native.strategy.as_ref() == Some(strategy)),
            (_, Set::To(preferred)) if self.record.strategy.is_some() => {
                Some(self.native.preferred_holder.as_ref() == Some(preferred))
            }
            _ => None,
        }
    }
}

/// The Lease as it is created, by anybody: empty, with its full duration and without the mark `open`. Whoever gets the
/// answer claims or grants it by a second, conditional write; to everybody else it is held until it expires.
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
            "leaseDurationSeconds": names::CREATED_DURATION_SECONDS,
            "leaseTransitions": 0,
        },
    })
}

/// The merge patch by which `write` changes the version `current`, on which it is conditional.
pub fn lease_patch(write: &LeaseWrite, current: &LeaseRecord) -> Value {
    let mut annotations = Map::new();
    set(&mut annotations, names::SESSION, &write.session, |mark| match mark {
        SessionMark::Absent => Value::Null,
        mark => json!(mark.to_string()),
    });
    set(&mut annotations, names::TOKEN, &write.token, |token| json!(token.to_string()));
    set(&mut annotations, names::PREFERRED_HOLDER, &write.preferred_holder, |holder| json!(holder));
    set(&mut annotations, names::STRATEGY, &write.strategy, |strategy| json!(strategy));
    set(&mut annotations, names::HOLD, &write.hold, |hold| json!(hold));
    set(&mut annotations, names::KEY, &write.key, |key| json!(key.to_string()));
    set(&mut annotations, names::LEAVING, &write.leaving, |()| json!(names::LEAVES));
    set(&mut annotations, names::REASON, &write.reason, |reason| json!(reason));

    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), json!(write.resource_version.to_string()));
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if write.enrol {
        metadata.insert("labels".to_owned(), json!({ names::ENROLLED_LABEL: names::ENROLLED }));
    }

    let mut patch = Map::new();
    patch.insert("metadata".to_owned(), Value::Object(metadata));
    let spec = spec_patch(write, current);
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    Value::Object(patch)
}

/// The mark, of whose session as much is kept as of any text. It is read first: how long it lasts stands at its end.
fn session_mark(text: Option<&str>) -> SessionMark {
    match SessionMark::read(text) {
        SessionMark::Term(stamp) => SessionMark::Term(SessionStamp { session: cut(&stamp.session), ..stamp }),
        SessionMark::Unreadable(text) => SessionMark::Unreadable(cut(&text)),
        mark @ (SessionMark::Absent | SessionMark::Open) => mark,
    }
}

fn spec_patch(write: &LeaseWrite, current: &LeaseRecord) -> Map<String, Value> {
    let mut spec = Map::new();
    match &write.holder {
        Set::Keep => {}
        Set::To(holder) => drop(spec.insert("holderIdentity".to_owned(), json!(holder))),
        Set::Remove => drop(spec.insert("holderIdentity".to_owned(), json!(""))),
    }
    // The server takes int32, and no duration below 1.
    set(&mut spec, "leaseDurationSeconds", &write.duration_seconds, |seconds| json!(int32(*seconds).max(1)));
    set(&mut spec, "acquireTime", &write.acquire_time, |time| json!(MicroTime(*time)));
    set(&mut spec, "renewTime", &write.renew_time, |time| json!(MicroTime(*time)));
    set(&mut spec, "leaseTransitions", &write.transitions, |count| json!(int32(*count)));
    copy_to_native(&mut spec, write, current);
    spec
}

/// The native copies. A server with the gate on ends itself over a strategy beside a null holder, and refuses a
/// preferred holder without a strategy; and upstream's controller takes a Lease with a strategy for one of its own, so
/// that none is made up here.
fn copy_to_native(spec: &mut Map<String, Value>, write: &LeaseWrite, current: &LeaseRecord) {
    let strategy = match &write.strategy {
        Set::Keep => current.strategy.as_ref(),
        Set::To(strategy) => Some(strategy),
        Set::Remove => None,
    };
    set(spec, "strategy", &write.strategy, |strategy| json!(strategy));
    match (&write.preferred_holder, strategy) {
        (Set::To(holder), Some(strategy)) => {
            spec.insert("strategy".to_owned(), json!(strategy));
            spec.insert("preferredHolder".to_owned(), json!(holder));
        }
        (Set::Keep, Some(_)) => {}
        // Without a strategy the native field may not stand.
        (Set::Keep | Set::To(_), None) if write.strategy != Set::Remove => {}
        (Set::Keep | Set::To(_) | Set::Remove, _) => {
            spec.insert("preferredHolder".to_owned(), Value::Null);
        }
    }
    let names_strategy = spec.get("strategy").is_some_and(Value::is_string);
    if names_strategy && current.holder.is_none() && write.holder == Set::Keep {
        // The holder that stands may be null.
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

impl<'de> Deserialize<'de> for ReadLease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_json)
    }
}

impl kube::Resource for ReadLease {
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
mod tests {
    use hustings_core::model::{Purpose, WireTime};

    use super::*;

    fn lease() -> Value {
        json!({
            "metadata": {
                "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "labels": { "hustings.io/enrolled": "true" },
                "annotations": {
                    "hustings.io/session": "s/1/15", "hustings.io/token": "6", "hustings.io/key": "-3",
                    "hustings.io/preferred-holder": "b", "hustings.io/strategy": "OldestEmulationVersion",
                    "hustings.io/leaving": "true",
                },
            },
            "spec": {
                "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 2,
                "acquireTime": "1970-01-01T00:00:01.000000Z", "renewTime": "1970-01-01T00:00:02.000000Z",
            },
        })
    }

    #[test]
    fn a_lease_is_read() {
        let record = ReadLease::from_json(lease()).record;
        let expected = LeaseRecord {
            uid: "u".to_owned(),
            resource_version: 7,
            holder: Some("a".to_owned()),
            duration_seconds: 15,
            acquire_time: Some(WireTime::from_micros(1_000_000)),
            renew_time: Some(WireTime::from_micros(2_000_000)),
            transitions: 2,
            session: SessionMark::read(Some("s/1/15")),
            token: Some(6),
            preferred_holder: Some("b".to_owned()),
            strategy: Some("OldestEmulationVersion".to_owned()),
            hold: None,
            key: Some(-3),
            leaving: true,
            enrolled: true,
        };
        assert_eq!(record, expected);
    }

    #[test]
    fn a_lease_of_any_content_is_read() {
        let absurd = json!({
            "metadata": {
                "name": "l", "resourceVersion": "x",
                "managedFields": [{ "time": "9999-12-31T23:59:59Z" }],
                "annotations": { "hustings.io/token": "-1", "hustings.io/key": "high", "hustings.io/session": "" },
            },
            "spec": {
                "holderIdentity": "", "leaseDurationSeconds": -5, "leaseTransitions": -2_147_483_648_i64,
                "acquireTime": "9999-12-31T23:59:59Z", "renewTime": "9999-12-31T23:59:59.999999Z",
            },
        });
        let read: ReadLease = serde_json::from_value(absurd).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("l"));
        assert_eq!((read.record.holder, read.record.duration_seconds, read.record.transitions), (None, 0, 0));
        assert_eq!(read.record.renew_time, Some(WireTime::MAX));
        assert_eq!(read.record.session, SessionMark::Unreadable(String::new()), "an empty mark is not open");
        assert_eq!((read.record.token, read.record.key), (None, None));
        for value in [json!(null), json!([]), json!({ "metadata": 3, "spec": "x" }), json!({})] {
            assert_eq!(ReadLease::from_json(value), ReadLease::default());
        }
    }

    #[test]
    fn no_more_of_a_text_is_kept_than_anybody_is_known_by() {
        let long = "\u{301}".repeat(500_000);
        let read = ReadLease::from_json(json!({
            "metadata": { "annotations": {
                "hustings.io/session": format!("{long}/3/40"), "hustings.io/hold": long, "hustings.io/strategy": long,
                "hustings.io/preferred-holder": long,
            } },
            "spec": { "holderIdentity": long, "strategy": long, "preferredHolder": long },
        }));
        let record = read.record;
        let stamp = record.session.stamp().unwrap();
        assert_eq!((stamp.term, stamp.seconds), (3, 40), "its numbers stand at its end");
        let texts = [record.holder, record.preferred_holder, record.strategy, record.hold, read.native.strategy];
        for text in texts.iter().flatten().chain([&stamp.session, &read.native.preferred_holder.unwrap()]) {
            assert_eq!(text.len(), 1024);
        }
        let session = json!({ "metadata": { "annotations": { "hustings.io/session": long } } });
        assert_eq!(ReadLease::from_json(session).record.session.to_string().len(), 1024);
    }

    #[test]
    fn metadata_that_do_not_parse_still_identify_the_object() {
        let read = ReadLease::from_json(json!({ "metadata": { "name": "l", "uid": "u", "generation": "x" } }));
        assert_eq!((read.metadata.name.as_deref(), read.record.uid.as_str()), (Some("l"), "u"));
    }

    #[test]
    fn a_patch_holds_what_is_set_and_the_version_that_it_is_conditional_on() {
        let current = ReadLease::from_json(lease()).record;
        let mut write = LeaseWrite::new(Purpose::Renew, &current);
        write.renew_time = Set::To(WireTime::from_micros(3_000_000));
        assert_eq!(
            lease_patch(&write, &current),
            json!({
                "metadata": { "resourceVersion": "7" },
                "spec": { "renewTime": "1970-01-01T00:00:03.000000Z" },
            })
        );
    }

    #[test]
    fn a_release_empties_the_holder_and_never_nulls_it() {
        let current = ReadLease::from_json(lease()).record;
        let mut write = LeaseWrite::new(Purpose::Release, &current);
        write.holder = Set::Remove;
        write.duration_seconds = Set::To(0);
        write.session = Set::To(SessionMark::Open);
        write.preferred_holder = Set::Remove;
        write.leaving = Set::Remove;
        assert_eq!(
            lease_patch(&write, &current),
            json!({
                "metadata": {
                    "resourceVersion": "7",
                    "annotations": {
                        "hustings.io/session": "open",
                        "hustings.io/preferred-holder": null,
                        "hustings.io/leaving": null,
                    },
                },
                "spec": { "holderIdentity": "", "leaseDurationSeconds": 1, "preferredHolder": null },
            })
        );
    }

    #[test]
    fn native_copies_never_stand_beside_a_null_holder_or_without_a_strategy() {
        let mut current = LeaseRecord { resource_version: 7, enrolled: true, ..LeaseRecord::default() };
        let mut write = LeaseWrite::new(Purpose::Hold, &current);
        write.strategy = Set::To("example.com/Mine".to_owned());
        let spec = &lease_patch(&write, &current)["spec"];
        assert_eq!(spec, &json!({ "strategy": "example.com/Mine", "holderIdentity": "" }));

        current.holder = Some("a".to_owned());
        let mut write = LeaseWrite::new(Purpose::Prefer, &current);
        write.preferred_holder = Set::To("b".to_owned());
        assert_eq!(lease_patch(&write, &current).get("spec"), None, "nobody named a strategy");
        current.strategy = Some("OldestEmulationVersion".to_owned());
        let spec = &lease_patch(&write, &current)["spec"];
        assert_eq!(spec, &json!({ "strategy": "OldestEmulationVersion", "preferredHolder": "b" }));
        write.strategy = Set::Remove;
        let spec = &lease_patch(&write, &current)["spec"];
        assert_eq!(spec, &json!({ "strategy": null, "preferredHolder": null }));
    }

    #[test]
    fn the_answer_tells_whether_native_fields_stick() {
        let mut answer = lease();
        let current = ReadLease::from_json(answer.clone()).record;
        let mut write = LeaseWrite::new(Purpose::Prefer, &current);
        assert_eq!(ReadLease::from_json(answer.clone()).keeps_native_fields(&write), None);
        write.preferred_holder = Set::To("b".to_owned());
        assert_eq!(ReadLease::from_json(answer.clone()).keeps_native_fields(&write), Some(false));
        answer["spec"]["preferredHolder"] = json!("b");
        assert_eq!(ReadLease::from_json(answer).keeps_native_fields(&write), Some(true));
    }
}
