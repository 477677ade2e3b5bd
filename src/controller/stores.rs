//! The watched objects, for reading only.
//!
//! Elections never read these stores. A decision depends only on what its election observed, in order and by the local
//! clock. A store may be ahead of the elections by the observations that still wait for the dispatcher.

use std::borrow::Cow;
use std::sync::Arc;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::CandidateRecord;
use kube::Resource;
use kube::runtime::reflector::{Lookup, ObjectRef, Store};

use super::key::ObjectKey;
use super::status::Transitions;
use super::watch::{Scope, Watched};
use crate::ops::metrics;

/// The stores of all watches. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Stores {
    leases: StoresOf<ReadLease>,
    candidates: StoresOf<ReadCandidate>,
}

/// The stores of one kind of object, one per scope.
#[derive(Clone)]
struct StoresOf<K: Watched>(Vec<(Scope, Store<Stored<K>>)>);

/// An object in a store: its key and its record only, since the whole object may take a megabyte.
#[derive(Clone, Debug)]
pub(super) struct Stored<K: Watched> {
    /// Namespace and name.
    pub(super) key: ObjectKey,
    /// The fields that Hustings reads.
    pub(super) record: K::Record,
}

/// The part of a candidate that a store keeps.
#[derive(Clone, Debug)]
pub(super) struct StoredCandidate {
    /// The fields that the election observes.
    pub(super) record: CandidateRecord,
    /// The transition times of its status.
    pub(super) transitions: Transitions,
}

impl Stores {
    /// Adds the store of a watch of Leases.
    pub(super) fn add_leases(&mut self, scope: Scope, store: Store<Stored<ReadLease>>) {
        self.leases.0.push((scope, store));
    }

    /// Adds the store of a watch of candidates.
    pub(super) fn add_candidates(&mut self, scope: Scope, store: Store<Stored<ReadCandidate>>) {
        self.candidates.0.push((scope, store));
    }

    /// Returns a candidate as its watch last showed it.
    pub(super) fn candidate(&self, key: &ObjectKey) -> Option<Arc<Stored<ReadCandidate>>> {
        self.candidates.get(key)
    }

    /// The number of objects of each kind.
    pub(super) fn sizes(&self) -> [(metrics::Resource, usize); 2] {
        [(ReadLease::RESOURCE, self.leases.len()), (ReadCandidate::RESOURCE, self.candidates.len())]
    }
}

impl<K: Watched> StoresOf<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<Stored<K>>> {
        let (_, store) = self.0.iter().find(|(scope, _)| scope.contains(&key.namespace))?;
        store.get(&reference(key))
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(_, store)| store.len()).sum()
    }
}

impl<K: Watched> Default for StoresOf<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Watched> Stored<K> {
    /// The part of `object` to keep; `None` if it has no name or namespace, since a reflector cannot store it then.
    pub(super) fn of(object: K) -> Option<Self> {
        let metadata = object.meta();
        let key =
            ObjectKey { namespace: metadata.namespace.as_deref()?.into(), name: metadata.name.as_deref()?.into() };
        Some(Self { key, record: object.record() })
    }
}

/// The reflector's key of an object.
pub(super) fn reference<K: Watched>(key: &ObjectKey) -> ObjectRef<Stored<K>> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

impl<K: Watched> Lookup for Stored<K> {
    type DynamicType = ();

    fn kind((): &()) -> Cow<'_, str> {
        <K as Resource>::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        <K as Resource>::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        <K as Resource>::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        <K as Resource>::plural(&())
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(&self.key.name))
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(&self.key.namespace))
    }

    // The identity of a key has neither of them, and yet every key would keep a copy.
    fn resource_version(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn uid(&self) -> Option<Cow<'_, str>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_from_the_store_of_its_namespace() {
        let mut stores = Stores::default();
        for namespace in ["m", "n"] {
            let metadata = json!({ "namespace": namespace, "name": "a", "uid": format!("uid-{namespace}") });
            let mut writer = Writer::default();
            let candidate = ReadCandidate::from_json(json!({ "metadata": metadata }));
            writer.apply_watcher_event(&Event::Apply(Stored::of(candidate).unwrap()));
            stores.add_candidates(Scope::Namespace(namespace.to_owned()), writer.as_reader());
        }
        let uid = |namespace: &str, name: &str| {
            let key = ObjectKey { namespace: namespace.into(), name: name.into() };
            stores.candidate(&key).map(|candidate| candidate.record.record.uid.clone())
        };
        assert_eq!(uid("n", "a").as_deref(), Some("uid-n"));
        assert_eq!((uid("n", "b"), uid("o", "a")), (None, None));
        assert_eq!(stores.sizes(), [(metrics::Resource::Leases, 0), (metrics::Resource::Candidates, 2)]);
    }
}
