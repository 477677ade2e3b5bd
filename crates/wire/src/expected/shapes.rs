//! The parts of requests and answers by which an answer is recognised.

use std::borrow::Cow;

use serde::Deserialize;

use crate::api::ObjectParts;

/// The parts of an answer by which it is recognised.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) metadata: AnswerMetadata<'a>,
    #[serde(borrow)]
    pub(super) items: Option<Vec<Head<'a>>>,
    /// Of a list of resources.
    #[serde(borrow)]
    pub(super) group_version: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct AnswerMetadata<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) namespace: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) uid: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) resource_version: Cow<'a, str>,
}

/// A Status about an object.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AnswerReport {
    pub(super) status: String,
    pub(super) details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Details {
    pub(super) name: String,
    pub(super) uid: String,
}

/// An event of a watch.
#[derive(Deserialize)]
pub(super) struct Event<'a, T> {
    #[serde(borrow, rename = "type")]
    pub(super) type_: Cow<'a, str>,
    pub(super) object: T,
}

/// The parts of a request by which its answer is recognised.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Sent {
    pub(super) kind: String,
    pub(super) metadata: SentMetadata,
    pub(super) preconditions: SentMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SentMetadata {
    pub(super) name: Option<String>,
    pub(super) generate_name: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

impl<'a> Head<'a> {
    pub(super) fn of(ObjectParts { kind, api_version, metadata, .. }: &'a ObjectParts) -> Self {
        let text = |text: &'a Option<String>| Cow::Borrowed(text.as_deref().unwrap_or_default());
        let metadata = AnswerMetadata {
            name: text(&metadata.name),
            namespace: text(&metadata.namespace),
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
        };
        Self { kind: kind.into(), api_version: api_version.into(), metadata, ..Self::default() }
    }
}

impl SentMetadata {
    pub(super) fn is_named(&self) -> bool {
        self.name.is_some() || self.generate_name.is_some()
    }
}
