//! The keys of objects. Every event carries a clone, so cloning is cheap.

use std::fmt;
use std::sync::Arc;

use hustings_core::model::CandidateKey;
use kube::Resource;

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectKey {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
}

/// Namespace, kind and name of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct MemberKey {
    pub(super) namespace: Arc<str>,
    pub(super) candidate: CandidateKey,
}

/// Namespace and name of a Lease, whether it exists or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LeaseKey(ObjectKey);

impl ObjectKey {
    /// The key of this object; `None` if it has no name. The namespace of a Node is empty.
    pub(super) fn of(object: &impl Resource) -> Option<Self> {
        let metadata = object.meta();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Some(Self { namespace: namespace.into(), name: metadata.name.as_deref()?.into() })
    }
}

impl LeaseKey {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self(ObjectKey { namespace: namespace.into(), name: name.into() })
    }

    pub(super) const fn object(&self) -> &ObjectKey {
        &self.0
    }

    pub(super) fn namespace(&self) -> &Arc<str> {
        &self.0.namespace
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.0.name
    }
}

impl From<ObjectKey> for LeaseKey {
    fn from(key: ObjectKey) -> Self {
        Self(key)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl fmt::Display for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.candidate)
    }
}

impl fmt::Display for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    #[test]
    fn an_object_without_a_name_has_no_key_and_one_without_a_namespace_has_none_in_its_key() {
        let key = |namespace: Option<&str>, name: Option<&str>| {
            let [namespace, name] = [namespace, name].map(|text| text.map(str::to_owned));
            let metadata = ObjectMeta { namespace, name, ..ObjectMeta::default() };
            ObjectKey::of(&Pod { metadata, ..Pod::default() }).map(|key| key.to_string())
        };
        assert_eq!(key(Some("n"), Some("a")).as_deref(), Some("n/a"));
        assert_eq!((key(None, Some("a")).as_deref(), key(Some("n"), None)), (Some("/a"), None));
    }
}
