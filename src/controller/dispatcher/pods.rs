//! The Pods that may prove holders dead: the newest version of each.
//!
//! A Pod may change before the watches show the candidate that runs in it, or its Lease. So the dispatcher keeps every
//! Pod that exists in the watched namespaces. It keeps the last version of a deleted one for a while, if that may prove
//! something. A Pod that a new list lacks proves nothing, and is dropped.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use hustings_core::election::Observation;
use hustings_core::model::{CandidateRecord, NodeRecord, PodRecord};
use tokio::time::Instant;

use super::Dispatcher;
use super::homes::Homes;
use crate::controller::key::{LeaseKey, MemberKey, ObjectKey};
use crate::controller::watched::{Scope, WatchedPod};

/// For how long to keep the last version of a deleted Pod. A watch that does not answer ends within a minute.
const REMOVED_FOR: Duration = Duration::from_mins(2);

/// The most deleted Pods that are kept.
const MOST_REMOVED: usize = 1024;

/// The number of shared texts after which the unused ones are dropped for the first time.
const FEW_TEXTS: usize = 1024;

/// Pods, and the Nodes that prove something.
pub(super) struct Pods {
    scopes: HashMap<Scope, ScopePods>,
    /// The last versions of deleted Pods with their namespaces, oldest first.
    removed: VecDeque<(Instant, Arc<str>, Arc<PodRecord>)>,
    texts: SharedTexts,
    pub(super) candidates: Homes<MemberKey>,
    /// The holders of assisted Leases.
    pub(super) assisted: Homes<LeaseKey>,
    /// By name. Other Nodes are not kept.
    nodes: BTreeMap<String, NodeRecord>,
}

/// The Pods of one watch.
#[derive(Default)]
struct ScopePods {
    known: PodsByNamespace,
    /// The list in progress.
    listing: Option<PodsByNamespace>,
    /// Whether a list was ever complete.
    is_listed: bool,
}

type PodsByNamespace = HashMap<Arc<str>, HashSet<PodByName>>;

/// A Pod, which its name identifies in its namespace. A set of these takes less memory than a map.
struct PodByName(Arc<PodRecord>);

/// Texts that many Pods have in common.
struct SharedTexts {
    texts: HashSet<Arc<str>>,
    /// The number of texts after which the unused ones are dropped.
    sweep_at: usize,
}

impl Pods {
    /// No Pods of these scopes are known.
    pub(super) fn new(scopes: &[Scope]) -> Self {
        Self {
            scopes: scopes.iter().map(|scope| (scope.clone(), ScopePods::default())).collect(),
            removed: VecDeque::new(),
            texts: SharedTexts { texts: HashSet::new(), sweep_at: FEW_TEXTS },
            candidates: Homes::new(),
            assisted: Homes::new(),
            nodes: BTreeMap::new(),
        }
    }

    /// The number of Pods.
    pub(super) fn len(&self) -> usize {
        self.scopes.values().flat_map(|scope| scope.known.values()).map(HashSet::len).sum()
    }

    /// Whether a list will show the Pods of this namespace. No list does if the namespace is not watched.
    pub(super) fn awaits_list_of(&self, namespace: &str) -> bool {
        self.scopes.iter().any(|(scope, pods)| scope.contains(namespace) && !pods.is_listed)
    }

    /// Keeps a version of a Pod.
    pub(super) fn put(&mut self, namespace: &Arc<str>, mut pod: PodRecord) -> Arc<PodRecord> {
        self.texts.share(&mut pod);
        match self.scope(namespace) {
            Some(scope) => scope.put(namespace, pod),
            None => Arc::new(pod),
        }
    }

    /// A Pod was deleted.
    fn remove(&mut self, namespace: &Arc<str>, pod: PodRecord) -> Arc<PodRecord> {
        if let Some(scope) = self.scope(namespace)
            && let Some(pods) = scope.known.get_mut(namespace)
        {
            pods.remove(&*pod.name);
            if pods.is_empty() {
                scope.known.remove(namespace);
            }
        }
        let pod = Arc::new(pod);
        if pod.may_prove() {
            self.removed.push_back((Instant::now(), Arc::clone(namespace), Arc::clone(&pod)));
            self.expire();
        }
        pod
    }

    /// Drops the oldest deleted Pods.
    pub(super) fn expire(&mut self) {
        let too_many = self.removed.len().saturating_sub(MOST_REMOVED);
        self.removed.drain(..too_many);
        while self.removed.pop_front_if(|(at, ..)| at.elapsed() >= REMOVED_FOR).is_some() {}
    }

    /// The Pod of this name that `is_own` accepts. It may be deleted.
    fn find(&mut self, namespace: &str, name: &str, is_own: impl Fn(&PodRecord) -> bool) -> Option<Arc<PodRecord>> {
        let known = self.scope(namespace).and_then(|scope| scope.get(namespace, name)).filter(|pod| is_own(pod));
        let removed =
            self.removed.iter().rev().find(|(_, home, pod)| **home == *namespace && *pod.name == *name && is_own(pod));
        known.or_else(|| Some(Arc::clone(&removed?.2)))
    }

    /// Keeps a Node that proves something, and forgets any other. Returns whether elections must observe it.
    fn note_node(&mut self, node: &NodeRecord) -> bool {
        let proving = node.proof().map(|_| node.clone());
        let known = self.nodes.remove(&node.name);
        let is_new = proving != known;
        self.nodes.extend(proving.map(|node| (node.name.clone(), node)));
        is_new
    }

    fn scope(&mut self, namespace: &str) -> Option<&mut ScopePods> {
        self.scopes.iter_mut().find(|(scope, _)| scope.contains(namespace)).map(|(_, pods)| pods)
    }
}

impl ScopePods {
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<PodRecord>> {
        let mut lists = self.listing.iter().chain([&self.known]);
        let pod = lists.find_map(|pods| pods.get(namespace)?.get(name))?;
        Some(Arc::clone(&pod.0))
    }

    fn put(&mut self, namespace: &Arc<str>, pod: PodRecord) -> Arc<PodRecord> {
        // A list repeats most Pods.
        let same = self.get(namespace, &pod.name).filter(|known| **known == pod);
        let pod = same.unwrap_or_else(|| Arc::new(pod));
        let pods = self.listing.as_mut().unwrap_or(&mut self.known);
        pods.entry(Arc::clone(namespace)).or_default().replace(PodByName(Arc::clone(&pod)));
        pod
    }
}

impl SharedTexts {
    /// Lets a Pod share the names of its node and of its containers with other Pods.
    fn share(&mut self, pod: &mut PodRecord) {
        let containers = pod.containers.iter_mut().map(|container| &mut container.name);
        for text in pod.node.iter_mut().chain(containers) {
            if let Some(known) = self.texts.get(&**text) {
                *text = Arc::clone(known);
            } else {
                self.texts.insert(Arc::clone(text));
            }
        }
        if self.texts.len() >= self.sweep_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.texts.len().saturating_mul(2).max(FEW_TEXTS);
        }
    }
}

impl Borrow<str> for PodByName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Hash for PodByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl PartialEq for PodByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for PodByName {}

impl Dispatcher {
    /// A list of Pods begins.
    pub(super) fn begin_pods(&mut self, scope: &Scope) {
        if let Some(pods) = self.pods.as_mut().and_then(|pods| pods.scopes.get_mut(scope)) {
            pods.listing = Some(PodsByNamespace::new());
        }
    }

    /// A list of Pods is complete.
    pub(super) fn finish_pods(&mut self, scope: &Scope) {
        if let Some(pods) = self.pods.as_mut().and_then(|pods| pods.scopes.get_mut(scope)) {
            pods.known = pods.listing.take().unwrap_or_default();
            pods.is_listed = true;
        }
        if self.labels.is_some() {
            self.schedule_all();
        }
    }

    /// Observes a version of a Pod, which may be its last one.
    pub(super) fn observe_pod(&mut self, namespace: &Arc<str>, pod: WatchedPod, is_last: bool) {
        let Some(pods) = &mut self.pods else { return };
        let WatchedPod { record: pod, labels } = pod;
        if let Some(kept) = self.labels.as_mut().filter(|_| !is_last) {
            kept.observe(namespace, &pod, &labels);
        }
        let pod = if is_last { pods.remove(namespace, pod) } else { pods.put(namespace, pod) };
        let candidates = pods.candidates.residents(namespace, &pod.name);
        let elected = candidates.filter_map(|member| self.stands_for.get(member));
        let leases: BTreeSet<_> = elected.chain(pods.assisted.residents(namespace, &pod.name)).cloned().collect();
        for lease in leases {
            self.show_pod(&lease, &pod);
        }
    }

    /// Observes a version of a Node.
    pub(super) fn observe_node(&mut self, node: &NodeRecord) {
        if !self.pods.as_mut().is_some_and(|pods| pods.note_node(node)) {
            return;
        }
        let concerned = self.elections.iter().filter(|(_, election)| election.concerns_node(&node.name));
        for key in concerned.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.observe(&key, Observation::Node { record: node.clone() });
            self.schedule(&key, Duration::ZERO);
        }
    }

    /// Records in which Pod a candidate runs. Returns that Pod if it is known.
    pub(super) fn settle(&mut self, member: &MemberKey, record: &CandidateRecord) -> Option<Arc<PodRecord>> {
        let pods = self.pods.as_mut()?;
        let home = ObjectKey { namespace: Arc::clone(&member.namespace), name: record.pod_name().into() };
        pods.candidates.settle(member, home);
        pods.find(&member.namespace, record.pod_name(), |pod| record.runs_in(pod))
    }

    /// Finds the Pod of the holder of an assisted Lease, and lets its election observe the Pod.
    pub(super) fn follow_assisted(&mut self, lease: &LeaseKey) {
        let (Some(pods), Some(election)) = (&mut self.pods, self.elections.get(lease)) else { return };
        let Some((namespace, name)) = election.assisted_pod() else {
            pods.assisted.leave(lease);
            return;
        };
        let home = ObjectKey { namespace: namespace.into(), name: (&*name).into() };
        if pods.assisted.settle(lease, home)
            && let Some(pod) = pods.find(namespace, &name, |_| true)
        {
            self.show_pod(lease, &pod);
        }
    }

    /// Lets an election observe the Pod of a candidate, and its Node if that proves something.
    pub(super) fn show_pod(&mut self, lease: &LeaseKey, pod: &Arc<PodRecord>) {
        let node = self.pods.as_ref().zip(pod.node.as_deref()).and_then(|(pods, name)| pods.nodes.get(name)).cloned();
        self.observe(lease, Observation::Pod { record: Arc::clone(pod) });
        if let Some(record) = node {
            self.observe(lease, Observation::Node { record });
        }
        self.schedule(lease, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests;
