//! The watched kinds of objects, and the part of each object that the controller keeps. It does not keep whole objects,
//! since one may take a megabyte.

use std::fmt;
use std::future::ready;
use std::sync::Arc;

use hustings_client::api::{NativeVersion, ReadCandidate, ReadLease, ReadNativeCandidate, names};
use hustings_client::store::discover_native;
use hustings_core::model::{
    CandidateKey, CandidateKind, CandidateRecord, LeaseRecord, NodeRecord, PodLabel, PodRecord,
};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::evidence::{ReadNode, ReadPod};
use super::key::{LeaseKey, MemberKey, ObjectKey};
use super::status::Transitions;
use crate::base::cluster::{scoped, scoped_native};
use crate::serve::metrics;

/// The namespaces that one watch covers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// Every namespace.
    Cluster,
    /// One namespace.
    Namespace(String),
}

/// A change that a watch reports.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// A new version of a Lease.
    Lease(LeaseKey, Arc<LeaseRecord>),
    /// A Lease was deleted, or lost its label.
    LeaseRemoved(LeaseKey),
    /// A new version of a candidate.
    Candidate(MemberKey, WatchedCandidate),
    /// A candidate was deleted.
    CandidateRemoved(MemberKey),
    /// A version of a Pod in this namespace.
    Pod(Arc<str>, WatchedPod),
    /// A Pod was deleted, or lost its labels; this is its last version.
    PodRemoved(Arc<str>, WatchedPod),
    /// A list of Pods begins. It will show the Pods that exist.
    PodListBegan(Scope),
    /// A list of Pods is complete.
    PodsListed(Scope),
    /// A version of a Node.
    Node(Arc<NodeRecord>),
    /// The watch has reported all objects of a kind in a scope, or it cannot report any.
    Listed(Scope, metrics::Resource),
    /// The server forbids to list or watch a kind that elections need.
    Refused(Scope, metrics::Resource),
}

/// A kind of objects that the controller watches.
pub(super) trait WatchedKind:
    Resource<DynamicType: Clone + Default + Send + Sync + 'static> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// The part of an object that the controller keeps. Cloning it is cheap.
    type Content: Clone + fmt::Debug + Send + Sync + 'static;
    /// The kind in the metrics.
    const RESOURCE: metrics::Resource;
    /// The API resource as RBAC names it.
    const NAME: &'static str;
    /// Whether elections continue if these objects cannot be watched.
    const OPTIONAL: bool = false;
    /// Whether a store keeps these objects. The dispatcher keeps those that it needs in less memory.
    const IS_STORED: bool = true;
    /// Returns the version of the kind that the server serves; `None` if it serves none.
    fn served(client: &Client) -> impl Future<Output = kube::Result<Option<Self::DynamicType>>> + Send;
    /// The API of this version of the kind in `scope`.
    fn api(client: Client, scope: &Scope, version: &Self::DynamicType) -> Api<Self>;
    /// The label selector of the watch.
    fn labels() -> Option<String> {
        None
    }
    /// The part of this object to keep.
    fn content(self) -> Self::Content;
    /// The `resourceVersion` of an object.
    fn version_of(content: &Self::Content) -> u64;
    /// The event for a new version of an object.
    fn changed(key: ObjectKey, content: Self::Content) -> WatchEvent;
    /// The event for an object that was deleted or no longer matches the selector. A list that lacks the object does not
    /// show its last content. `None` if that changes nothing.
    fn removed(key: ObjectKey, last: Option<Self::Content>) -> Option<WatchEvent>;
    /// The event for the beginning of a list.
    fn list_began(_: &Scope) -> Option<WatchEvent> {
        None
    }
    /// The event for a complete list.
    fn listed(scope: &Scope) -> WatchEvent {
        WatchEvent::Listed(scope.clone(), Self::RESOURCE)
    }
}

/// The part of a Node that the controller keeps.
#[derive(Clone, Debug)]
pub(super) struct WatchedNode {
    version: u64,
    record: Arc<NodeRecord>,
}

/// A Pod, and its labels, which the controller does not keep.
#[derive(Clone, Debug)]
pub(super) struct WatchedPod {
    /// The part that the controller keeps.
    pub(super) record: PodRecord,
    pub(super) labels: Vec<PodLabel>,
}

/// The part of a candidate that the controller keeps.
#[derive(Clone, Debug)]
pub(super) struct WatchedCandidate {
    /// The fields that the election observes.
    pub(super) record: Arc<CandidateRecord>,
    /// The transition times of its status.
    pub(super) transitions: Transitions,
}

#[cfg(test)]
impl From<PodRecord> for WatchedPod {
    fn from(record: PodRecord) -> Self {
        Self { record, labels: Vec::new() }
    }
}

impl From<ReadCandidate> for WatchedCandidate {
    fn from(candidate: ReadCandidate) -> Self {
        Self { transitions: Transitions::read(&candidate.status), record: candidate.record.into() }
    }
}

impl Scope {
    /// The scopes of `--watch-namespaces`.
    pub(super) fn all_of(namespaces: &[String]) -> Vec<Self> {
        if namespaces.is_empty() {
            vec![Self::Cluster]
        } else {
            namespaces.iter().cloned().map(Self::Namespace).collect()
        }
    }

    /// The namespace; `None` for all namespaces.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Cluster => None,
            Self::Namespace(name) => Some(name),
        }
    }

    /// Whether the scope covers this namespace.
    pub(super) fn contains(&self, namespace: &str) -> bool {
        self.namespace().is_none_or(|own| own == namespace)
    }

    /// The name of the check `name` for this scope.
    pub(super) fn check(&self, name: &str) -> String {
        self.namespace().map_or_else(|| name.to_owned(), |namespace| format!("{name}/{namespace}"))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster => f.write_str("all namespaces"),
            Self::Namespace(name) => write!(f, "namespace {name}"),
        }
    }
}

impl WatchedKind for ReadLease {
    type Content = Arc<LeaseRecord>;
    const RESOURCE: metrics::Resource = metrics::Resource::Leases;
    const NAME: &'static str = "leases.coordination.k8s.io";

    fn served(_: &Client) -> impl Future<Output = kube::Result<Option<()>>> + Send {
        ready(Ok(Some(())))
    }

    fn api(client: Client, scope: &Scope, (): &()) -> Api<Self> {
        scoped(client, scope.namespace())
    }

    fn labels() -> Option<String> {
        Some(format!("{}={}", names::ENROLLED_LABEL, names::ENROLLED))
    }

    fn content(self) -> Arc<LeaseRecord> {
        self.record.into()
    }

    fn version_of(content: &Arc<LeaseRecord>) -> u64 {
        content.resource_version
    }

    fn changed(key: ObjectKey, content: Arc<LeaseRecord>) -> WatchEvent {
        WatchEvent::Lease(key.into(), content)
    }

    fn removed(key: ObjectKey, _: Option<Arc<LeaseRecord>>) -> Option<WatchEvent> {
        Some(WatchEvent::LeaseRemoved(key.into()))
    }
}

impl WatchedKind for ReadCandidate {
    type Content = WatchedCandidate;
    const RESOURCE: metrics::Resource = metrics::Resource::Candidates;
    const NAME: &'static str = "leasecandidates.hustings.io";

    fn served(_: &Client) -> impl Future<Output = kube::Result<Option<()>>> + Send {
        ready(Ok(Some(())))
    }

    fn api(client: Client, scope: &Scope, (): &()) -> Api<Self> {
        scoped(client, scope.namespace())
    }

    fn content(self) -> WatchedCandidate {
        self.into()
    }

    fn version_of(content: &WatchedCandidate) -> u64 {
        content.record.resource_version
    }

    fn changed(key: ObjectKey, content: WatchedCandidate) -> WatchEvent {
        WatchEvent::Candidate(member(key, CandidateKind::Hustings), content)
    }

    fn removed(key: ObjectKey, _: Option<WatchedCandidate>) -> Option<WatchEvent> {
        Some(WatchEvent::CandidateRemoved(member(key, CandidateKind::Hustings)))
    }
}

impl WatchedKind for ReadNativeCandidate {
    type Content = WatchedCandidate;
    const RESOURCE: metrics::Resource = metrics::Resource::NativeCandidates;
    const NAME: &'static str = "leasecandidates.coordination.k8s.io";
    const OPTIONAL: bool = true;

    fn served(client: &Client) -> impl Future<Output = kube::Result<Option<NativeVersion>>> + Send {
        discover_native(client)
    }

    fn api(client: Client, scope: &Scope, version: &NativeVersion) -> Api<Self> {
        scoped_native(client, scope.namespace(), *version)
    }

    fn content(self) -> WatchedCandidate {
        // Native candidates have no status.
        WatchedCandidate { record: self.record.into(), transitions: Transitions::default() }
    }

    fn version_of(content: &WatchedCandidate) -> u64 {
        content.record.resource_version
    }

    fn changed(key: ObjectKey, content: WatchedCandidate) -> WatchEvent {
        WatchEvent::Candidate(member(key, CandidateKind::Native), content)
    }

    fn removed(key: ObjectKey, _: Option<WatchedCandidate>) -> Option<WatchEvent> {
        Some(WatchEvent::CandidateRemoved(member(key, CandidateKind::Native)))
    }
}

impl WatchedKind for ReadPod {
    type Content = WatchedPod;
    const RESOURCE: metrics::Resource = metrics::Resource::Pods;
    const NAME: &'static str = "pods";
    const OPTIONAL: bool = true;
    const IS_STORED: bool = false;

    fn served(_: &Client) -> impl Future<Output = kube::Result<Option<()>>> + Send {
        ready(Ok(Some(())))
    }

    fn api(client: Client, scope: &Scope, (): &()) -> Api<Self> {
        scoped(client, scope.namespace())
    }

    fn content(self) -> WatchedPod {
        WatchedPod { record: self.record, labels: self.labels }
    }

    // Only a store compares versions.
    fn version_of(_: &WatchedPod) -> u64 {
        0
    }

    fn changed(key: ObjectKey, content: WatchedPod) -> WatchEvent {
        WatchEvent::Pod(key.namespace, content)
    }

    fn removed(key: ObjectKey, last: Option<WatchedPod>) -> Option<WatchEvent> {
        Some(WatchEvent::PodRemoved(key.namespace, last?))
    }

    fn list_began(scope: &Scope) -> Option<WatchEvent> {
        Some(WatchEvent::PodListBegan(scope.clone()))
    }

    fn listed(scope: &Scope) -> WatchEvent {
        WatchEvent::PodsListed(scope.clone())
    }
}

impl WatchedKind for ReadNode {
    type Content = WatchedNode;
    const RESOURCE: metrics::Resource = metrics::Resource::Nodes;
    const NAME: &'static str = "nodes";
    const OPTIONAL: bool = true;

    fn served(_: &Client) -> impl Future<Output = kube::Result<Option<()>>> + Send {
        ready(Ok(Some(())))
    }

    fn api(client: Client, _: &Scope, (): &()) -> Api<Self> {
        Api::all(client)
    }

    fn content(self) -> WatchedNode {
        let version = self.meta().resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or(0);
        WatchedNode { version, record: self.record.into() }
    }

    fn version_of(content: &WatchedNode) -> u64 {
        content.version
    }

    fn changed(_: ObjectKey, content: WatchedNode) -> WatchEvent {
        WatchEvent::Node(content.record)
    }

    // No administrator has declared a missing Node out of service.
    fn removed(key: ObjectKey, _: Option<WatchedNode>) -> Option<WatchEvent> {
        Some(WatchEvent::Node(NodeRecord { name: key.name.to_string(), ..NodeRecord::default() }.into()))
    }
}

fn member(ObjectKey { namespace, name }: ObjectKey, kind: CandidateKind) -> MemberKey {
    MemberKey { namespace, candidate: CandidateKey { kind, name } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_of_the_flag_is_a_scope_with_its_own_check() {
        let scopes = Scope::all_of(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(scopes, [Scope::Namespace("a".to_owned()), Scope::Namespace("b".to_owned())]);
        assert_eq!(Scope::all_of(&[]), [Scope::Cluster]);
        assert_eq!((Scope::Cluster.check("leases"), scopes[0].check("leases")), ("leases".into(), "leases/a".into()));
    }

    #[test]
    fn only_leases_are_watched_by_a_label() {
        let labels = [ReadLease::labels(), ReadCandidate::labels(), ReadNativeCandidate::labels()];
        assert_eq!(labels, [Some("hustings.io/enrolled=true".to_owned()), None, None]);
    }
}
