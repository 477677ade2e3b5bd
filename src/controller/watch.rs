//! The watches of Leases and LeaseCandidates.
//!
//! Each kind is watched once for each scope, so that a namespace that may not be read holds up no other. Every watch keeps
//! a store of its objects for readers, by kube-runtime's reflector; the elections learn of each change by [`Seen`]. A list
//! replaces the store as a whole, and no event reports what the store loses by that. So whatever was in the store before
//! the list and is not in it afterwards is reported as gone. A watch ends after a minute and is resumed where it ended, so
//! that a dead connection costs no more than that.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use hustings_client::Pauses;
use hustings_client::api::{ReadCandidate, ReadLease, names};
use hustings_core::election::NODE_LEASES;
use hustings_core::model::{CandidateRecord, LeaseRecord};
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Store, reflector};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::key::{LeaseKey, ObjectKey};
use super::status::Transitions;
use super::stores::{Stored, StoredCandidate, reference};
use crate::ops::health::{Check, Health};
use crate::ops::metrics::{self, Metrics};

/// How long a watch stays open before it is resumed, in seconds.
const WATCH_SECONDS: u32 = 60;

/// How many objects one page of a list has: as many are in memory as a whole at once, whatever their size.
const PAGE_SIZE: u32 = 100;

/// How long to wait after the first failure; each further one doubles it. What is granted or installed meanwhile is found
/// out by then.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// Every namespace.
    Cluster,
    /// One namespace.
    Namespace(String),
}

/// Something that a watch has told.
#[derive(Debug)]
pub(super) enum Seen {
    /// A version of a Lease.
    Lease(LeaseKey, Box<LeaseRecord>),
    /// A Lease is gone, or has lost its label.
    LeaseGone(LeaseKey),
    /// A version of a candidate.
    Candidate(ObjectKey, Box<CandidateRecord>),
    /// A candidate is gone.
    CandidateGone(ObjectKey),
    /// All objects of a kind that there were in a scope have been told.
    Listed(Scope, metrics::Resource),
}

/// A kind that is watched.
pub(super) trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// What is kept of an object of this kind.
    type Record: Clone + fmt::Debug + Send + Sync + 'static;
    /// Which one.
    const RESOURCE: metrics::Resource;
    /// The API resource as RBAC names it.
    const NAME: &'static str;
    /// The selector of those that concern Hustings.
    fn labels() -> Option<String>;
    /// What is kept of the object.
    fn record(self) -> Self::Record;
    /// This version of the object.
    fn seen(key: ObjectKey, record: Self::Record) -> Seen;
    /// The object is gone.
    fn gone(key: ObjectKey) -> Seen;
}

/// One kind in one scope.
pub(super) struct Watch<K: Watched> {
    sender: mpsc::Sender<Seen>,
    rng: StdRng,
    writer: Writer<Stored<K>>,
    reporter: Reporter,
}

/// Reports the state of a watch in health checks, metrics and the log.
struct Reporter {
    scope: Scope,
    listed: Check,
    crd: Option<Check>,
    metrics: Metrics,
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

    /// The namespace, if it is one.
    pub(super) fn namespace(&self) -> Option<&str> {
        match self {
            Self::Cluster => None,
            Self::Namespace(name) => Some(name),
        }
    }

    /// Whether it has the objects of this namespace.
    pub(super) fn contains(&self, namespace: &str) -> bool {
        self.namespace().is_none_or(|own| own == namespace)
    }

    fn check(&self, name: &str) -> String {
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

    fn labels() -> Option<String> {
        Some(format!("{}={}", names::ENROLLED_LABEL, names::ENROLLED))
    }

    fn record(self) -> LeaseRecord {
        self.record
    }

    fn seen(key: ObjectKey, record: LeaseRecord) -> Seen {
        Seen::Lease(key.into(), Box::new(record))
    }

    fn gone(key: ObjectKey) -> Seen {
        Seen::LeaseGone(key.into())
    }
}

impl Watched for ReadCandidate {
    type Record = StoredCandidate;
    const RESOURCE: metrics::Resource = metrics::Resource::Candidates;
    const NAME: &'static str = "leasecandidates.hustings.io";

    fn labels() -> Option<String> {
        None
    }

    fn record(self) -> StoredCandidate {
        StoredCandidate { transitions: Transitions::read(&self.status), record: self.record }
    }

    fn seen(key: ObjectKey, record: StoredCandidate) -> Seen {
        Seen::Candidate(key, Box::new(record.record))
    }

    fn gone(key: ObjectKey) -> Seen {
        Seen::CandidateGone(key)
    }
}

impl<K: Watched> Watch<K> {
    /// A watch that tells `sender` what it sees, and `health` and `metrics` how it goes.
    pub(super) fn new(
        (scope, sender, metrics): (Scope, mpsc::Sender<Seen>, Metrics),
        health: &Health,
        crd: Option<Check>,
        rng: StdRng,
    ) -> Self {
        let listed = health.check(scope.check(K::RESOURCE.as_str()));
        let reporter = Reporter { scope, listed, crd, metrics };
        Self { sender, rng, writer: Writer::default(), reporter }
    }

    /// The objects as this watch last showed them.
    pub(super) fn store(&self) -> Store<Stored<K>> {
        self.writer.as_reader()
    }

    /// Watches until the receiver is dropped.
    pub(super) async fn run(self, client: Client) {
        let Self { sender, rng, writer, reporter } = self;
        let scope = &reporter.scope;
        let store = writer.as_reader();
        let events = events::<K>(client, scope).backoff(Pauses::new(SHORTEST_PAUSE, rng));
        let mut events = pin!(reflector(writer, events));
        // Objects that were reported and that the list in progress may lack; empty between lists.
        let mut told = BTreeSet::new();
        while let Some(event) = events.next().await {
            let seen = match event {
                Ok(Event::Init) => {
                    told.extend(store.state().iter().map(|object| object.key.clone()));
                    continue;
                }
                Ok(Event::InitApply(Stored { key, record })) => {
                    // The rest of this list may fail, and the next one lack the object.
                    told.insert(key.clone());
                    K::seen(key, record)
                }
                Ok(Event::InitDone) => {
                    // The list has replaced the store, and no event reports what the store has lost.
                    for key in std::mem::take(&mut told) {
                        if store.get(&reference(&key)).is_none() && sender.send(K::gone(key)).await.is_err() {
                            return;
                        }
                    }
                    reporter.pass::<K>();
                    Seen::Listed(scope.clone(), K::RESOURCE)
                }
                Ok(Event::Apply(Stored { key, record })) => K::seen(key, record),
                Ok(Event::Delete(Stored { key, .. })) => K::gone(key),
                Err(error) => {
                    reporter.report::<K>(&error);
                    continue;
                }
            };
            if sender.send(seen).await.is_err() {
                return;
            }
        }
    }
}

/// Lists and watches without end. A watcher that fails to resume never reports that it has recovered, so a new one, which
/// lists first, follows each failure.
fn events<K: Watched>(
    client: Client,
    scope: &Scope,
) -> impl Stream<Item = watcher::Result<Event<Stored<K>>>> + Send + use<K> {
    // The watcher resumes at once when a stream ends, even one that ends as soon as it begins.
    let client = hustings_client::paced(client, "default");
    let api: Api<K> = match scope.namespace() {
        None => Api::all(client),
        Some(namespace) => Api::namespaced(client, namespace),
    };
    let config = config::<K>(scope);
    let begin = move || watcher::watcher(api.clone(), config.clone()).boxed();
    stream::unfold(None, move |watcher| {
        let mut watcher = watcher.unwrap_or_else(&begin);
        async move {
            loop {
                match watcher.next().await? {
                    // The watcher resumes where the stream broke off. If that fails, the next event says so.
                    Err(watcher::Error::WatchFailed(error)) => {
                        tracing::debug!(resource = K::NAME, %error, "a watch broke off");
                    }
                    Ok(event) => {
                        if let Some(event) = stored(event) {
                            return Some((Ok(event), Some(watcher)));
                        }
                        tracing::debug!(resource = K::NAME, "ignored an object without a name");
                    }
                    Err(error) => return Some((Err(error), None)),
                }
            }
        }
    })
}

/// The event for the store; `None` if its object has no name.
fn stored<K: Watched>(event: Event<K>) -> Option<Event<Stored<K>>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply(Stored::of(object)?),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(Stored::of(object)?),
        Event::Delete(object) => Event::Delete(Stored::of(object)?),
    })
}

impl Reporter {
    fn pass<K: Watched>(&self) {
        if let Some(crd) = &self.crd {
            crd.pass();
        }
        if self.listed.pass() {
            tracing::info!(resource = K::NAME, scope = %self.scope, "listed and watched");
        }
    }

    fn report<K: Watched>(&self, error: &watcher::Error) {
        self.metrics.watch_failures.get_or_create(&K::RESOURCE.label()).inc();
        let status = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => Some(status),
            _ => None,
        };
        let code = status.map_or(0, |status| status.code);
        let message = match code {
            403 => format!("not allowed: grant the verbs list and watch on {} in {}", K::NAME, self.scope),
            404 => format!("the resource {} is not known to the server", K::NAME),
            // Too old a version: the list that follows is all that it takes.
            410 => return,
            // kube prints the whole status.
            _ => status.map_or_else(|| error.to_string(), |status| format!("{} ({code})", status.message)),
        };
        if code == 404
            && let Some(crd) = &self.crd
        {
            crd.fail(format!("{} is not installed: run `hustings crds | kubectl apply -f -`", K::NAME));
        }
        if self.listed.fail(message.clone()) {
            tracing::warn!(resource = K::NAME, scope = %self.scope, reason = message, "cannot list and watch");
        }
    }
}

fn config<K: Watched>(scope: &Scope) -> watcher::Config {
    let mut config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(PAGE_SIZE);
    config.label_selector = K::labels();
    if *scope == Scope::Cluster {
        config.field_selector = Some(format!("metadata.namespace!={NODE_LEASES}"));
    }
    config
}

#[cfg(test)]
mod tests;
