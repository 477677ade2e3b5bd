//! The watched objects, for everything that only reads them.
//!
//! No decision reads a store. A decision depends only on what its election has observed, in order and by the local
//! clock. A store may be ahead of the elections by the events that still wait for the dispatcher. Both share one copy of
//! each object's content.

use std::borrow::Cow;
use std::sync::Arc;

use hustings_client::api::{ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord, LeaseRecord};
use kube::runtime::reflector::{Lookup, ObjectRef, Store};

use super::key::{LeaseKey, ObjectKey};
use super::status::Transitions;
use super::watched::{Scope, WatchedCandidate, WatchedKind};

/// An object in a store: its key and the part that the controller keeps. A whole object may take a megabyte.
#[derive(Clone, Debug)]
pub(super) struct Stored<K: WatchedKind> {
    /// Namespace and name.
    pub(super) key: ObjectKey,
    /// The part that the controller keeps.
    pub(super) content: K::Content,
}

/// The stores of all watches. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Stores {
    leases: StoresOf<ReadLease>,
    candidates: StoresOf<ReadCandidate>,
    native: StoresOf<ReadNativeCandidate>,
}

/// The stores of one kind, one for each scope.
#[derive(Clone)]
struct StoresOf<K: WatchedKind>(Vec<(Scope, Store<Stored<K>>)>);

impl<K: WatchedKind> Stored<K> {
    /// The part of `object` to keep; `None` if the object has no name, which a reflector could not store.
    pub(super) fn of(object: K) -> Option<Self> {
        Some(Self { key: ObjectKey::of(&object)?, content: object.content() })
    }

    /// The reflector's key of the object.
    pub(super) fn reference(key: &ObjectKey) -> ObjectRef<Self> {
        ObjectRef::new(&key.name).within(&key.namespace)
    }
}

impl Stores {
    /// Adds the store of a watch of Leases.
    pub(super) fn add_leases(&mut self, scope: &Scope, store: Store<Stored<ReadLease>>) {
        self.leases.0.push((scope.clone(), store));
    }

    /// Adds the store of a watch of candidates of `hustings.io`.
    pub(super) fn add_candidates(&mut self, scope: &Scope, store: Store<Stored<ReadCandidate>>) {
        self.candidates.0.push((scope.clone(), store));
    }

    /// Adds the store of a watch of native candidates.
    pub(super) fn add_native(&mut self, scope: &Scope, store: Store<Stored<ReadNativeCandidate>>) {
        self.native.0.push((scope.clone(), store));
    }

    /// A Lease as its watch last showed it.
    pub(super) fn lease(&self, key: &LeaseKey) -> Option<Arc<LeaseRecord>> {
        self.leases.get(key.object())
    }

    /// A candidate as its watch last showed it.
    pub(super) fn candidate(&self, namespace: &Arc<str>, candidate: &CandidateKey) -> Option<Arc<CandidateRecord>> {
        self.watched(namespace, candidate).map(|watched| watched.record)
    }

    /// The transition times of a candidate's status, as its watch last showed them.
    pub(super) fn transitions(&self, namespace: &Arc<str>, candidate: &CandidateKey) -> Transitions {
        self.watched(namespace, candidate).map(|watched| watched.transitions).unwrap_or_default()
    }

    fn watched(&self, namespace: &Arc<str>, candidate: &CandidateKey) -> Option<WatchedCandidate> {
        let key = ObjectKey { namespace: Arc::clone(namespace), name: Arc::clone(&candidate.name) };
        match candidate.kind {
            CandidateKind::Hustings => self.candidates.get(&key),
            CandidateKind::Native => self.native.get(&key),
        }
    }
}

impl<K: WatchedKind> StoresOf<K> {
    fn get(&self, key: &ObjectKey) -> Option<K::Content> {
        let (_, store) = self.0.iter().find(|(scope, _)| scope.contains(&key.namespace))?;
        Some(store.get(&Stored::reference(key))?.content.clone())
    }
}

impl<K: WatchedKind> Default for StoresOf<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: WatchedKind> Lookup for Stored<K> {
    type DynamicType = ();

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&K::DynamicType::default()).into_owned().into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&K::DynamicType::default()).into_owned().into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&K::DynamicType::default()).into_owned().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&K::DynamicType::default()).into_owned().into()
    }

    fn name(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(&self.key.name))
    }

    fn namespace(&self) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(&self.key.namespace))
    }

    // Every key in a store would keep a copy of these, although they do not identify the object.
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
    fn an_object_is_read_from_the_store_of_its_namespace_and_kind() {
        let mut stores = Stores::default();
        for namespace in ["m", "n"] {
            let metadata = json!({ "namespace": namespace, "name": "a", "uid": format!("uid-{namespace}") });
            let candidate = ReadCandidate::from_json(json!({ "metadata": metadata }));
            let mut writer = Writer::default();
            writer.apply_watcher_event(&Event::Apply(Stored::of(candidate).unwrap()));
            stores.add_candidates(&Scope::Namespace(namespace.to_owned()), writer.as_reader());
        }
        let uid = |namespace: &str, kind| {
            let candidate = stores.candidate(&namespace.into(), &CandidateKey { kind, name: "a".into() });
            candidate.map(|candidate| candidate.uid.clone())
        };
        assert_eq!(uid("n", CandidateKind::Hustings).as_deref(), Some("uid-n"));
        assert_eq!(uid("m", CandidateKind::Hustings).as_deref(), Some("uid-m"));
        assert_eq!((uid("n", CandidateKind::Native), uid("o", CandidateKind::Hustings)), (None, None));
    }
}
