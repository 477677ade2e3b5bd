//! What the API server tells of Leases and LeaseCandidates.
//!
//! Each kind is watched once for each scope, so that a namespace that may not be read holds up no other. Nothing is
//! kept here but names: after a list, whatever was known and is no longer in it is told as gone, since the watch has
//! not told of its deletion. A watch ends after a minute and is resumed where it ended, so that a connection that has
//! died unnoticed costs no more than that.

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use hustings_client::api::{ReadCandidate, ReadLease, names};
use hustings_core::election::NODE_LEASES;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::NamespaceResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt as _};
use rand::rngs::StdRng;
use rand::{Rng, RngExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::key::{LeaseKey, ObjectKey};
use crate::ops::health::{Check, Health};
use crate::ops::metrics::{self, Metrics};

/// How long a watch stays open before it is resumed, in seconds.
const WATCH_SECONDS: u32 = 60;

/// How many objects one page of a list has: what has to be in memory at once, whatever size they are.
const PAGE_SIZE: u32 = 100;

/// How long to wait after the first failure; each further one doubles it.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// How long to wait at the most: what is granted or installed meanwhile is found out by then.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// After how long without a failure the pauses begin anew. A list that succeeds is not enough: where it is the watch after
/// it that is refused, everything would be listed several times a second.
const QUIET: Duration = Duration::from_mins(1);

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
    Lease(LeaseKey, Box<ReadLease>),
    /// A Lease is gone, or has lost its label.
    LeaseGone(LeaseKey),
    /// A version of a candidate.
    Candidate(ObjectKey, Box<ReadCandidate>),
    /// A candidate is gone.
    CandidateGone(ObjectKey),
    /// All objects of a kind that there were in a scope have been told.
    Listed(Scope, metrics::Resource),
}

/// A kind that is watched.
pub(super) trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + fmt::Debug + DeserializeOwned + Send + 'static
{
    /// Which one.
    const RESOURCE: metrics::Resource;
    /// The API resource as RBAC names it.
    const NAME: &'static str;
    /// The selector of those that concern Hustings.
    fn labels() -> Option<String>;
    /// This version of the object, without its metadata: what counts of them stands in the record, and the rest may be a
    /// megabyte while it waits.
    fn seen(self, key: ObjectKey) -> Seen;
    /// The object is gone.
    fn gone(key: ObjectKey) -> Seen;
}

/// One kind in one scope.
pub(super) struct Watch {
    scope: Scope,
    sender: mpsc::Sender<Seen>,
    listed: Check,
    crd: Option<Check>,
    metrics: Metrics,
    rng: StdRng,
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
    const RESOURCE: metrics::Resource = metrics::Resource::Leases;
    const NAME: &'static str = "leases.coordination.k8s.io";

    fn labels() -> Option<String> {
        Some(format!("{}={}", names::ENROLLED_LABEL, names::ENROLLED))
    }

    fn seen(self, key: ObjectKey) -> Seen {
        Seen::Lease(key.into(), Box::new(Self { metadata: ObjectMeta::default(), ..self }))
    }

    fn gone(key: ObjectKey) -> Seen {
        Seen::LeaseGone(key.into())
    }
}

impl Watched for ReadCandidate {
    const RESOURCE: metrics::Resource = metrics::Resource::Candidates;
    const NAME: &'static str = "leasecandidates.hustings.io";

    fn labels() -> Option<String> {
        None
    }

    fn seen(self, key: ObjectKey) -> Seen {
        Seen::Candidate(key, Box::new(Self { metadata: ObjectMeta::default(), ..self }))
    }

    fn gone(key: ObjectKey) -> Seen {
        Seen::CandidateGone(key)
    }
}

impl Watch {
    /// A watch that tells `sender` what it sees, and `health` and `metrics` how it goes.
    pub(super) fn new<K: Watched>(
        (scope, sender, metrics): (Scope, mpsc::Sender<Seen>, Metrics),
        health: &Health,
        crd: Option<Check>,
        rng: StdRng,
    ) -> Self {
        let listed = health.check(scope.check(K::RESOURCE.as_str()));
        Self { scope, sender, listed, crd, metrics, rng }
    }

    /// Watches until nobody listens any more.
    pub(super) async fn run<K: Watched>(mut self, client: Client) {
        // Also a stream that ends or breaks off as soon as it has begun is resumed at once.
        let client = hustings_client::paced(client, "default");
        let api: Api<K> = match self.scope.namespace() {
            None => Api::all(client),
            Some(namespace) => Api::namespaced(client, namespace),
        };
        let mut known = BTreeSet::new();
        let mut failures = 0;
        let mut failed_at: Option<Instant> = None;
        while !self.sender.is_closed() {
            // A watcher that cannot resume would say nothing when it can again, so after a failure there is a new one.
            let error = self.watch(&api, &mut known).await;
            if failed_at.is_none_or(|failed_at| failed_at.elapsed() > QUIET) {
                failures = 0;
            }
            failed_at = Some(Instant::now());
            self.metrics.watch_failures.get_or_create(&K::RESOURCE.label()).inc();
            if let Some(error) = error {
                self.report::<K>(&error);
            }
            tokio::time::sleep(pause(failures, &mut self.rng)).await;
            failures = failures.saturating_add(1);
        }
    }

    /// Lists and watches until that fails.
    async fn watch<K: Watched>(&self, api: &Api<K>, known: &mut BTreeSet<ObjectKey>) -> Option<watcher::Error> {
        let mut events = pin!(watcher::watcher(api.clone(), config::<K>(&self.scope)));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            let seen = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    let Some(key) = ObjectKey::of(&object) else { continue };
                    listed.insert(key.clone());
                    // Also if the rest of the list fails, and the next one does not have it any more.
                    known.insert(key.clone());
                    object.seen(key)
                }
                Ok(Event::InitDone) => {
                    for key in known.difference(&listed) {
                        self.tell(K::gone(key.clone())).await?;
                    }
                    *known = std::mem::take(&mut listed);
                    self.pass::<K>();
                    Seen::Listed(self.scope.clone(), K::RESOURCE)
                }
                Ok(Event::Apply(object)) => {
                    let Some(key) = ObjectKey::of(&object) else { continue };
                    known.insert(key.clone());
                    object.seen(key)
                }
                Ok(Event::Delete(object)) => {
                    let Some(key) = ObjectKey::of(&object) else { continue };
                    known.remove(&key);
                    K::gone(key)
                }
                // The stream has broken off. It is resumed from where it was, and if it cannot be, that is told next.
                Err(watcher::Error::WatchFailed(error)) => {
                    tracing::debug!(resource = K::NAME, scope = %self.scope, %error, "a watch broke off");
                    continue;
                }
                Err(error) => return Some(error),
            };
            self.tell(seen).await?;
        }
        None
    }

    async fn tell(&self, seen: Seen) -> Option<()> {
        self.sender.send(seen).await.ok()
    }

    fn pass<K: Watched>(&self) {
        if let Some(crd) = &self.crd {
            crd.pass();
        }
        if self.listed.pass() {
            tracing::info!(resource = K::NAME, scope = %self.scope, "listed and watched");
        }
    }

    fn report<K: Watched>(&self, error: &watcher::Error) {
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

fn pause(failures: u32, rng: &mut impl Rng) -> Duration {
    let pause = SHORTEST_PAUSE.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
    pause.mul_f64(rng.random_range(0.5..=1.0))
}

impl ObjectKey {
    fn of(object: &impl Resource<DynamicType = ()>) -> Option<Self> {
        let namespace = object.namespace()?;
        Some(Self { namespace: namespace.into(), name: object.meta().name.as_deref()?.into() })
    }
}

#[cfg(test)]
mod tests;
