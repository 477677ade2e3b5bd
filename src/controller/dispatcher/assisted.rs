//! The Pods in which the holders of assisted Leases run.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::Dispatcher;
use crate::controller::key::{LeaseKey, ObjectKey};

/// The Pod of the holder of each assisted Lease.
#[derive(Default)]
pub(super) struct AssistedHolders {
    pods: HashMap<LeaseKey, ObjectKey>,
    leases: HashMap<ObjectKey, BTreeSet<LeaseKey>>,
}

impl AssistedHolders {
    /// The Leases whose holders run in this Pod.
    pub(super) fn leases(&self, namespace: &Arc<str>, name: &str) -> impl Iterator<Item = LeaseKey> {
        let pod = ObjectKey { namespace: Arc::clone(namespace), name: name.into() };
        self.leases.get(&pod).cloned().unwrap_or_default().into_iter()
    }

    /// Records in which Pod the holder of a Lease runs. Returns whether that is new.
    fn settle(&mut self, lease: &LeaseKey, pod: ObjectKey) -> bool {
        if self.pods.get(lease) == Some(&pod) {
            return false;
        }
        self.leave(lease);
        self.pods.insert(lease.clone(), pod.clone());
        self.leases.entry(pod).or_default().insert(lease.clone());
        true
    }

    /// Forgets in which Pod the holder of a Lease runs.
    pub(super) fn leave(&mut self, lease: &LeaseKey) {
        let Some(pod) = self.pods.remove(lease) else { return };
        if let Some(leases) = self.leases.get_mut(&pod) {
            leases.remove(lease);
            if leases.is_empty() {
                self.leases.remove(&pod);
            }
        }
    }
}

impl Dispatcher {
    /// Finds the Pod of the holder of an assisted Lease, and lets its election observe the Pod.
    pub(super) fn follow_assisted(&mut self, lease: &LeaseKey) {
        let (Some(pods), Some(election)) = (&mut self.pods, self.elections.get(lease)) else { return };
        let Some((namespace, name)) = election.assisted_pod() else {
            pods.assisted.leave(lease);
            return;
        };
        let is_new = pods.assisted.settle(lease, ObjectKey { namespace: namespace.into(), name: (&*name).into() });
        if let Some(pod) = pods.find(namespace, &name, |_| true).filter(|_| is_new) {
            self.show_pod(lease, &pod);
        }
    }
}
