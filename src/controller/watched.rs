//! The watched kinds of objects, and the part of each object that the controller keeps.

use std::borrow::Cow;
use std::fmt;
use std::future::ready;

use hustings_client::api::{NativeVersion, ReadCandidate, ReadLease, ReadNativeCandidate, names};
use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord, LeaseRecord};
use kube::core::NamespaceResourceScope;
use kube::runtime::reflector::{Lookup, ObjectRef};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::key::{LeaseKey, MemberKey, ObjectKey};
use super::status::Transitions;
use crate::ops::metrics;

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
    /// A version of a Lease.
    Lease(LeaseKey, Box<LeaseRecord>),
    /// A Lease was deleted, or lost its label.
    LeaseRemoved(LeaseKey),
    /// A version of a candidate.
    Candidate(MemberKey, Box<CandidateRecord>),
    /// A candidate was deleted.
    CandidateRemoved(MemberKey),
    /// All objects of a kind in a scope were reported, or none of them can be.
    Listed(Scope, metrics::Resource),
}

/// A kind of objects that the controller watches.
pub(super) trait Watched:
    Resource<DynamicType: Clone + Default + Send + Sync + 'static> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// The part of an object that the controller keeps.
    type Record: Clone + fmt::Debug + Send + Sync + 'static;
    /// The kind in the metrics.
    const RESOURCE: metrics::Resource;
    /// The API resource as RBAC names it.
    const NAME: &'static str;
    /// Whether elections go on without the objects that cannot be watched.
    const OPTIONAL: bool = false;
    /// Returns the version of the kind that the server serves; `None` if it serves none.
    fn served(client: &Client) -> impl Future<Output = kube::Result<Option<Self::DynamicType>>> + Send;
    /// The objects of this version of the kind in `scope`.
    fn api(client: Client, scope: &Scope, version: &Self::DynamicType) -> Api<Self>;
    /// The label selector of the watch.
    fn labels() -> Option<String>;
    /// The part of this object that the controller keeps.
    fn record(self) -> Self::Record;
    /// The event for a new version of an object.
    fn changed(key: ObjectKey, record: Self::Record) -> WatchEvent;
    /// The event for an object that was deleted, or no longer matches the selector.
    fn removed(key: ObjectKey) -> WatchEvent;
}

/// An object in a store: its key and its record only, since the whole object may take a megabyte.
#[derive(Clone, Debug)]
pub(super) struct Stored<K: Watched> {
    /// Namespace and name.
    pub(super) key: ObjectKey,
    /// The fields that Hustings reads.
    pub(super) record: K::Record,
}

/// The part of a candidate that the controller keeps.
#[derive(Clone, Debug)]
pub(super) struct WatchedCandidate {
    /// The fields that the election observes.
    pub(super) record: CandidateRecord,
    /// The transition times of its status.
    pub(super) transitions: Transitions,
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

impl Watched for ReadLease {
    type Record = LeaseRecord;
    const RESOURCE: metrics::Resource = metrics::Resource::Leases;
    const NAME: &'static str = "leases.coordination.k8s.io";

    fn served(_: &Client) -> impl Future<Output = kube::Result<Option<()>>> + Send {
        ready(Ok(Some(())))
    }

    fn api(client: Client, scope: &Scope, (): &()) -> Api<Self> {
        typed(client, scope)
    }

    fn labels() -> Option<String> {
        Some(format!("{}={}", names::ENROLLED_LABEL, names::ENROLLED))
    }

    fn record(self) -> LeaseRecord {
        self.record
    }

    fn changed(key: ObjectKey, record: LeaseRecord) -> WatchEvent {
        WatchEvent::Lease(key.into(), Box::new(record))
    }

    fn removed(key: ObjectKey) -> WatchEvent {
        WatchEvent::LeaseRemoved(key.into())
    }
}

impl Watched for ReadCandidate {
    type Record = WatchedCandidate;
    const RESOURCE: metrics::Resource = metrics::Resource::Candidates;
    const NAME: &'static str = "leasecandidates.hustings.io";

    fn served(_: &Client) -> impl Future<Output = kube::Result<Option<()>>> + Send {
        ready(Ok(Some(())))
    }

    fn api(client: Client, scope: &Scope, (): &()) -> Api<Self> {
        typed(client, scope)
    }

    fn labels() -> Option<String> {
        None
    }

    fn record(self) -> WatchedCandidate {
        WatchedCandidate { transitions: Transitions::read(&self.status), record: self.record }
    }

    fn changed(key: ObjectKey, record: WatchedCandidate) -> WatchEvent {
        WatchEvent::Candidate(member(key, CandidateKind::Hustings), Box::new(record.record))
    }

    fn removed(key: ObjectKey) -> WatchEvent {
        WatchEvent::CandidateRemoved(member(key, CandidateKind::Hustings))
    }
}

impl Watched for ReadNativeCandidate {
    type Record = CandidateRecord;
    const RESOURCE: metrics::Resource = metrics::Resource::NativeCandidates;
    const NAME: &'static str = "leasecandidates.coordination.k8s.io";
    const OPTIONAL: bool = true;

    fn served(client: &Client) -> impl Future<Output = kube::Result<Option<NativeVersion>>> + Send {
        NativeVersion::discover(client)
    }

    fn api(client: Client, scope: &Scope, version: &NativeVersion) -> Api<Self> {
        match scope.namespace() {
            None => Api::all_with(client, version),
            Some(namespace) => Api::namespaced_with(client, namespace, version),
        }
    }

    fn labels() -> Option<String> {
        None
    }

    fn record(self) -> CandidateRecord {
        self.record
    }

    fn changed(key: ObjectKey, record: CandidateRecord) -> WatchEvent {
        WatchEvent::Candidate(member(key, CandidateKind::Native), Box::new(record))
    }

    fn removed(key: ObjectKey) -> WatchEvent {
        WatchEvent::CandidateRemoved(member(key, CandidateKind::Native))
    }
}

fn typed<K>(client: Client, scope: &Scope) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match scope.namespace() {
        None => Api::all(client),
        Some(namespace) => Api::namespaced(client, namespace),
    }
}

fn member(ObjectKey { namespace, name }: ObjectKey, kind: CandidateKind) -> MemberKey {
    MemberKey { namespace, candidate: CandidateKey { kind, name } }
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

    // The identity of a key has neither of them, and yet every key would keep a copy.
    fn resource_version(&self) -> Option<Cow<'_, str>> {
        None
    }

    fn uid(&self) -> Option<Cow<'_, str>> {
        None
    }
}
