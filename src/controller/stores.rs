//! The watched objects, for reading only.
//!
//! Elections never read these stores. A decision depends only on what its election observed, in order and by the local
//! clock. A store may be ahead of the elections by the observations that still wait for the dispatcher.

use std::sync::Arc;

use hustings_client::api::{ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord};
use kube::runtime::reflector::Store;

use super::key::ObjectKey;
use super::watched::{Scope, Stored, Watched, reference};
use crate::ops::metrics;

/// The stores of all watches. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Stores {
    leases: StoresOf<ReadLease>,
    candidates: StoresOf<ReadCandidate>,
    native: StoresOf<ReadNativeCandidate>,
}

/// The stores of one kind of object, one per scope.
#[derive(Clone)]
struct StoresOf<K: Watched>(Vec<(Scope, Store<Stored<K>>)>);

impl Stores {
    /// Adds the store of a watch of Leases.
    pub(super) fn add_leases(&mut self, scope: Scope, store: Store<Stored<ReadLease>>) {
        self.leases.0.push((scope, store));
    }

    /// Adds the store of a watch of candidates.
    pub(super) fn add_candidates(&mut self, scope: Scope, store: Store<Stored<ReadCandidate>>) {
        self.candidates.0.push((scope, store));
    }

    /// Adds the store of a watch of native candidates.
    pub(super) fn add_native(&mut self, scope: Scope, store: Store<Stored<ReadNativeCandidate>>) {
        self.native.0.push((scope, store));
    }

    /// Returns a candidate of `hustings.io` as its watch last showed it.
    pub(super) fn candidate(&self, key: &ObjectKey) -> Option<Arc<Stored<ReadCandidate>>> {
        self.candidates.get(key)
    }

    /// Reads a candidate of either kind as its watch last showed it.
    pub(super) fn record<T>(
        &self,
        namespace: &Arc<str>,
        candidate: &CandidateKey,
        read: impl FnOnce(&CandidateRecord) -> T,
    ) -> Option<T> {
        let key = ObjectKey { namespace: Arc::clone(namespace), name: Arc::clone(&candidate.name) };
        match candidate.kind {
            CandidateKind::Hustings => self.candidates.get(&key).map(|stored| read(&stored.record.record)),
            CandidateKind::Native => self.native.get(&key).map(|stored| read(&stored.record)),
        }
    }

    /// The number of objects of each kind.
    pub(super) fn sizes(&self) -> [(metrics::Resource, usize); 3] {
        [
            (ReadLease::RESOURCE, self.leases.len()),
            (ReadCandidate::RESOURCE, self.candidates.len()),
            (ReadNativeCandidate::RESOURCE, self.native.len()),
        ]
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
        let sizes = stores.sizes().map(|(_, size)| size);
        assert_eq!(sizes, [0, 2, 0]);
    }
}
