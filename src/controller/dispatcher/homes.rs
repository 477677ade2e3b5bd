//! Which Pod each candidate, or the holder of each assisted Lease, runs in, and each label belongs to.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::controller::key::ObjectKey;

/// The Pod of each resident.
pub(in crate::controller) struct Homes<R> {
    pods: HashMap<R, ObjectKey>,
    residents: HashMap<ObjectKey, BTreeSet<R>>,
}

impl<R: Clone + Eq + Hash + Ord> Homes<R> {
    pub(in crate::controller) fn new() -> Self {
        Self { pods: HashMap::new(), residents: HashMap::new() }
    }

    /// The residents of this Pod.
    pub(in crate::controller) fn residents(&self, namespace: &Arc<str>, name: &str) -> impl Iterator<Item = &R> {
        let pod = ObjectKey { namespace: Arc::clone(namespace), name: name.into() };
        self.residents.get(&pod).into_iter().flatten()
    }

    /// Records that a resident runs in this Pod. Returns whether that is new.
    pub(in crate::controller) fn settle(&mut self, resident: &R, pod: ObjectKey) -> bool {
        if self.pods.get(resident) == Some(&pod) {
            return false;
        }
        self.leave(resident);
        self.pods.insert(resident.clone(), pod.clone());
        self.residents.entry(pod).or_default().insert(resident.clone());
        true
    }

    /// Forgets where a resident runs.
    pub(in crate::controller) fn leave(&mut self, resident: &R) {
        let Some(pod) = self.pods.remove(resident) else { return };
        if let Some(residents) = self.residents.get_mut(&pod) {
            residents.remove(resident);
            if residents.is_empty() {
                self.residents.remove(&pod);
            }
        }
    }

    #[cfg(test)]
    pub(in crate::controller) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.residents.is_empty()
    }
}
