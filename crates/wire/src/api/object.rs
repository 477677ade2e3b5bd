//! The parts of an object that this library reads, without a tree of the rest.
//!
//! A watch deserialises every version of every object, and most of a real object is `managedFields`. The rule that must
//! hold: any JSON is accepted, and a value of a wrong type counts as missing.

use std::fmt;
use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The parts of an object. A missing one is empty.
#[derive(Debug, Default)]
pub struct ObjectParts {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The metadata without `managedFields`, which any client can fill.
    pub(crate) metadata: ObjectMeta,
    pub(super) spec: Value,
    pub(super) status: Value,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum ObjectPart {
    ApiVersion,
    Kind,
    Metadata,
    Spec,
    Status,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum MetadataField {
    Annotations,
    CreationTimestamp,
    DeletionGracePeriodSeconds,
    DeletionTimestamp,
    Finalizers,
    GenerateName,
    Generation,
    Labels,
    Name,
    Namespace,
    OwnerReferences,
    ResourceVersion,
    Uid,
    #[serde(other)]
    Other,
}

/// A value whose fields are read one by one.
trait Fields: Default {
    /// Reads the next field. Returns whether there was one.
    fn read_next<'de, M: MapAccess<'de>>(&mut self, map: &mut M) -> Result<bool, M::Error>;
}

/// Visits any value. One without fields counts as missing.
struct AnyValue<T>(PhantomData<T>);

/// Metadata, read field by field.
#[derive(Default)]
struct Metadata(ObjectMeta);

impl ObjectParts {
    /// Reads an object. Accepts any JSON.
    pub(super) fn from_json(object: Value) -> Self {
        Self::deserialize(object).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for ObjectParts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue(PhantomData))
    }
}

impl Fields for ObjectParts {
    fn read_next<'de, M: MapAccess<'de>>(&mut self, map: &mut M) -> Result<bool, M::Error> {
        let Some(part) = map.next_key()? else { return Ok(false) };
        match part {
            ObjectPart::ApiVersion => self.api_version = value(map)?.unwrap_or_default(),
            ObjectPart::Kind => self.kind = value(map)?.unwrap_or_default(),
            ObjectPart::Metadata => self.metadata = map.next_value::<Metadata>()?.0,
            ObjectPart::Spec => self.spec = map.next_value()?,
            ObjectPart::Status => self.status = map.next_value()?,
            ObjectPart::Other => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(true)
    }
}

impl Fields for Metadata {
    fn read_next<'de, M: MapAccess<'de>>(&mut self, map: &mut M) -> Result<bool, M::Error> {
        let Some(field) = map.next_key()? else { return Ok(false) };
        let metadata = &mut self.0;
        match field {
            MetadataField::Annotations => metadata.annotations = value(map)?,
            MetadataField::CreationTimestamp => metadata.creation_timestamp = time(map)?,
            MetadataField::DeletionGracePeriodSeconds => metadata.deletion_grace_period_seconds = value(map)?,
            MetadataField::DeletionTimestamp => metadata.deletion_timestamp = time(map)?,
            MetadataField::Finalizers => metadata.finalizers = value(map)?,
            MetadataField::GenerateName => metadata.generate_name = value(map)?,
            MetadataField::Generation => metadata.generation = value(map)?,
            MetadataField::Labels => metadata.labels = value(map)?,
            MetadataField::Name => metadata.name = value(map)?,
            MetadataField::Namespace => metadata.namespace = value(map)?,
            MetadataField::OwnerReferences => metadata.owner_references = value(map)?,
            MetadataField::ResourceVersion => metadata.resource_version = value(map)?,
            MetadataField::Uid => metadata.uid = value(map)?,
            MetadataField::Other => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(true)
    }
}

/// The next value of `map`; `None` if it has another type.
fn value<'de, T: DeserializeOwned, M: MapAccess<'de>>(map: &mut M) -> Result<Option<T>, M::Error> {
    map.next_value().map(|value: Value| serde_json::from_value(value).ok())
}

/// The next value of `map`, a time. The deserializer of [`Time`] would add a second parser, of 50 kB, to the WebAssembly
/// module.
fn time<'de, M: MapAccess<'de>>(map: &mut M) -> Result<Option<Time>, M::Error> {
    Ok(value::<String, M>(map)?.and_then(|text| text.parse::<Timestamp>().ok()).map(Time))
}

impl<'de, T: Fields> Visitor<'de> for AnyValue<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
        let mut object = T::default();
        while object.read_next(&mut map)? {}
        Ok(object)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<T, S::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_json_is_accepted_as_an_object_and_as_metadata() {
        for odd in [json!(null), json!(true), json!(-1), json!(1), json!(0.5), json!("x"), json!([1, [2]]), json!({})] {
            let texts = [odd.to_string(), format!(r#"{{"metadata":{odd},"kind":{odd}}}"#)];
            for text in texts {
                let object: ObjectParts = serde_json::from_str(&text).unwrap();
                assert_eq!(object.metadata, ObjectMeta::default(), "{text}");
                assert_eq!(object.spec, Value::Null, "{text}");
            }
        }
    }

    #[test]
    fn a_field_of_a_wrong_type_counts_as_missing_and_the_others_are_read() {
        let good = json!({
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generateName": "g", "generation": 3,
            "labels": { "l": "1" }, "annotations": { "a": "1" }, "finalizers": ["f"], "deletionGracePeriodSeconds": 0,
            "creationTimestamp": "1970-01-01T00:00:05Z", "deletionTimestamp": "1970-01-01T00:00:06Z",
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "q" }],
        });
        let all: ObjectMeta = serde_json::from_value(good.clone()).unwrap();
        assert_eq!(ObjectParts::from_json(json!({ "metadata": good })).metadata, all);
        for field in good.as_object().unwrap().keys() {
            let (mut wrong, mut without) = (good.clone(), good.clone());
            wrong[field] = json!({ "x": [1] });
            without.as_object_mut().unwrap().remove(field);
            let expected: ObjectMeta = serde_json::from_value(without).unwrap();
            assert_eq!(ObjectParts::from_json(json!({ "metadata": wrong })).metadata, expected, "{field}");
        }
    }

    #[test]
    fn managed_fields_are_not_kept() {
        let metadata = json!({ "name": "a", "managedFields": [{ "manager": "m" }] });
        assert_eq!(ObjectParts::from_json(json!({ "metadata": metadata })).metadata.managed_fields, None);
    }
}
