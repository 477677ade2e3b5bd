//! Watches of one named object, in a namespace or of a cluster, or of all objects of a kind in one namespace.
//!
//! A watch may lag behind, and may die silently; a listener polls when the watch has been silent. Each watch ends after
//! a minute, so that an overloaded API server loses its watches soon.

pub(crate) mod requests;

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use futures::{Stream, StreamExt};
use http::Request;
use hustings_wire::watch::{
    LONGEST_PAUSE, LONGEST_WATCH_SECONDS, QUIET, SHORTEST_PAUSE, SHORTEST_WATCH, reason_of, without_digits,
};
use kube::client::Body;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client, Resource};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};

use crate::store::answers::checked;
use crate::store::connections::{is_watch, named};
use crate::store::failure::{LOG_INTERVAL, with_causes};

/// How many objects one page of a list has. The process keeps a whole page in memory, whatever the size of its objects.
const PAGE_SIZE: u32 = 100;

/// A kind that can be watched.
pub(crate) trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl<K> Watched for K where K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static {}

/// The pauses after failures. Each pause is twice as long as the previous one, up to 5 s, minus a random part, so that
/// replicas do not return together. Two minutes without a failure reset the pauses. An event does not reset them,
/// because kube's watcher emits one as soon as it begins to list. If events reset them, a server that rejects lists
/// would get a request every second.
#[derive(Debug)]
pub struct Pauses {
    shortest: Duration,
    next: Duration,
    failed_at: Option<Instant>,
    rng: StdRng,
}

/// The failure that was logged last, and when.
#[derive(Default)]
struct LastFailure(Option<(String, Instant)>);

/// Each observed version of the object, or `None` when it is found missing. Never ends.
pub(crate) fn watch_object<K: Watched + Resource<Scope = NamespaceResourceScope>>(
    client: Client,
    namespace: &str,
    name: &str,
    seed: u64,
) -> impl Stream<Item = Option<K>> + Send + use<K> {
    let objects = Api::namespaced(paced(named(checked(client)), namespace), namespace);
    versions(watch(objects, config_of(name), format!("{namespace}/{name}"), seed))
}

/// Each observed version of the object that belongs to no namespace, or `None` when it is found missing. Never ends.
pub(crate) fn watch_cluster_object<K: Watched + Resource<Scope = ClusterResourceScope>>(
    client: Client,
    name: &str,
) -> impl Stream<Item = Option<K>> + Send + use<K> {
    let namespace = client.default_namespace().to_owned();
    let objects = Api::all(paced(named(checked(client)), &namespace));
    versions(watch(objects, config_of(name), name.to_owned(), rand::make_rng::<StdRng>().next_u64()))
}

fn config_of(name: &str) -> Config {
    watch_config().fields(&format!("metadata.name={name}"))
}

fn versions<K: Watched>(events: impl Stream<Item = Event<K>> + Send) -> impl Stream<Item = Option<K>> + Send {
    let mut listed = false;
    events.filter_map(move |event| {
        ready(match event {
            Event::Init => {
                listed = false;
                None
            }
            Event::InitApply(object) => {
                listed = true;
                Some(Some(object))
            }
            Event::InitDone => (!listed).then_some(None),
            Event::Apply(object) => Some(Some(object)),
            Event::Delete(_) => Some(None),
        })
    })
}

/// The events of all objects of a kind in a namespace. Never ends.
pub(crate) fn watch_namespace<K: Watched + Resource<Scope = NamespaceResourceScope>>(
    client: Client,
    namespace: &str,
) -> impl Stream<Item = Event<K>> + Send + use<K> {
    let seed = rand::make_rng::<StdRng>().next_u64();
    let objects = Api::namespaced(paced(named(checked(client)), namespace), namespace);
    watch(objects, watch_config(), format!("namespace {namespace}"), seed)
}

/// Returns the configuration of every watch: its length and the page size of its lists. The caller may add a selector.
pub fn watch_config() -> Config {
    Config::default().timeout(LONGEST_WATCH_SECONDS).page_size(PAGE_SIZE)
}

fn watch<K: Watched>(
    objects: Api<K>,
    config: Config,
    what: String,
    seed: u64,
) -> impl Stream<Item = Event<K>> + Send + use<K> {
    // A streamed list needs one request instead of two. Servers without the feature gate WatchList need the second
    // watcher.
    let namespace = objects.namespace().map(str::to_owned);
    let streamed = watcher(objects.clone(), config.clone().streaming_lists());
    let events = streamed.take_while(|event| ready(!refuses_to_stream(event))).chain(watcher(objects, config));
    let pauses = Pauses::new(SHORTEST_PAUSE, StdRng::seed_from_u64(seed));
    let resource = format!("{}.{}", K::plural(&()), K::group(&()));
    let mut last_failure = LastFailure::default();
    events.backoff(pauses).filter_map(move |event| {
        let namespace = namespace.as_deref();
        ready(event.inspect_err(|error| last_failure.log(reason(error, &resource, namespace), &resource, &what)).ok())
    })
}

/// Returns a client like `client` that begins the watches of one stream at least a second apart.
///
/// kube restarts a watch at once after an orderly end, and may resume a broken one at once. If a server or proxy ends
/// every watch at once, that would be a hot loop.
pub fn paced(client: Client, namespace: &str) -> Client {
    let mut next = Instant::now();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let now = Instant::now();
        let mut at = now;
        if is_watch(&request) {
            at = next.max(now);
            next = at + SHORTEST_WATCH;
        }
        async move {
            // Even a sleep until now takes a millisecond, and a long list needs many requests.
            if at > now {
                sleep_until(at).await;
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

fn refuses_to_stream<T>(event: &Result<T, Error>) -> bool {
    matches!(event, Err(Error::WatchStartFailed(kube::Error::Api(status))) if matches!(status.code, 400 | 422))
}

/// Why a watch failed, and its remedy.
fn reason(error: &Error, resource: &str, namespace: Option<&str>) -> String {
    let (verb, status) = match error {
        Error::InitialListFailed(kube::Error::Api(status)) => ("list", status),
        Error::WatchStartFailed(kube::Error::Api(status)) | Error::WatchError(status) => ("watch", status),
        _ => return with_causes(error),
    };
    reason_of(status, verb, resource, namespace)
}

impl LastFailure {
    /// Logs why a watch failed: at once if the reason is new, and at intervals as long as it lasts.
    fn log(&mut self, reason: String, resource: &str, what: &str) {
        let now = Instant::now();
        let is_same = |last: &str| without_digits(last).eq(without_digits(&reason));
        if self.0.as_ref().is_some_and(|(last, at)| is_same(last) && now - *at < LOG_INTERVAL) {
            tracing::debug!(resource, what, reason, "watch failed, trying again");
        } else {
            tracing::warn!(resource, what, reason, "watch failed, trying again");
            self.0 = Some((reason, now));
        }
    }
}

impl Pauses {
    /// Creates pauses, of which the first has the length `shortest`.
    pub fn new(shortest: Duration, rng: StdRng) -> Self {
        Self { shortest, next: shortest, failed_at: None, rng }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.failed_at.is_none_or(|failed_at| now - failed_at > QUIET) {
            self.next = self.shortest;
        }
        self.failed_at = Some(now);
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST_PAUSE);
        Some(pause.mul_f64(self.rng.random_range(0.8..=1.0)))
    }
}

impl Backoff for Pauses {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests;
