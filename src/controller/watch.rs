//! Watches Leases and LeaseCandidates.
//!
//! - There is one watch per kind and scope, so that a namespace without read permission does not delay the others.
//! - A watch reports each change as a [`WatchEvent`], and keeps only the names of the objects.
//! - A new list shows only the objects that exist now. The watch therefore compares each list with the names that it
//!   keeps, and reports the missing objects as removed.
//! - The API server may not serve a kind, or only one of its versions. After a failure, the watch discovers the served
//!   version before it lists again. Objects of a kind that is no longer served count as removed.
//! - A watch ends after a minute and resumes where it ended. A dead connection therefore lasts at most a minute.

use std::collections::BTreeSet;
use std::future::ready;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use hustings_client::store::{Pauses, watch_config};
use hustings_core::election::NODE_LEASES;
use kube::Client;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::sync::watch::{self, Receiver, Sender};

use super::key::ObjectKey;
use super::watched::{Scope, WatchEvent, WatchedKind};
use crate::ops::health::{Check, Health};
use crate::ops::metrics::ControllerMetrics;

/// The pause after the first failure. Each further failure doubles it. A permission or CRD that was added in the
/// meantime takes effect after the pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// The pause between two discoveries while the API server does not serve a kind.
const REDISCOVERY: Duration = Duration::from_secs(30);

/// How long a discovery may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The watch of one kind in one scope.
pub(super) struct Watch<K: WatchedKind> {
    sender: mpsc::Sender<WatchEvent>,
    served: Sender<Option<K::DynamicType>>,
    rng: StdRng,
    reporter: WatchReporter,
}

/// Reports the state of a watch in health checks, metrics and the log.
struct WatchReporter {
    scope: Scope,
    listed: Check,
    crd: Option<Check>,
    metrics: ControllerMetrics,
}

impl<K: WatchedKind> Watch<K> {
    /// Creates a watch that sends its events to `sender` and reports its state to `health` and `metrics`.
    pub(super) fn new(
        (scope, sender, metrics): (Scope, mpsc::Sender<WatchEvent>, ControllerMetrics),
        health: &Health,
        crd: Option<Check>,
        rng: StdRng,
    ) -> Self {
        let listed = health.check(scope.check(K::RESOURCE.as_str()));
        let reporter = WatchReporter { scope, listed, crd, metrics };
        Self { sender, served: watch::channel(None).0, rng, reporter }
    }

    /// The version of the kind that the server was last found to serve.
    pub(super) fn served(&self) -> Receiver<Option<K::DynamicType>> {
        self.served.subscribe()
    }

    /// Watches until the receiver is dropped.
    pub(super) async fn run(self, client: Client) {
        let Self { sender, served, rng, reporter } = self;
        let scope = &reporter.scope;
        let events = events::<K>(client, scope, served.clone()).backoff(Pauses::new(SHORTEST_PAUSE, rng));
        let mut events = pin!(events);
        // The reported objects, and those of them that the list in progress has not shown yet.
        let (mut known, mut missing) = (BTreeSet::new(), BTreeSet::new());
        while let Some(event) = events.next().await {
            let before = known.len();
            let watch_event = match event {
                Ok(Event::Init) => {
                    missing.clone_from(&known);
                    continue;
                }
                Ok(Event::InitApply((key, object))) => {
                    missing.remove(&key);
                    known.insert(key.clone());
                    object.changed(key)
                }
                Ok(Event::InitDone) => {
                    for key in std::mem::take(&mut missing) {
                        known.remove(&key);
                        if sender.send(K::removed(key)).await.is_err() {
                            return;
                        }
                    }
                    reporter.pass::<K>(served.borrow().is_some());
                    WatchEvent::Listed(scope.clone(), K::RESOURCE)
                }
                Ok(Event::Apply((key, object))) => {
                    known.insert(key.clone());
                    object.changed(key)
                }
                Ok(Event::Delete((key, _))) => {
                    known.remove(&key);
                    K::removed(key)
                }
                Err(error) => {
                    let is_refused = reporter.report::<K>(&error);
                    if !K::OPTIONAL || !is_refused {
                        continue;
                    }
                    // Elections do not wait for objects that the server refuses to list.
                    WatchEvent::Listed(scope.clone(), K::RESOURCE)
                }
            };
            reporter.count::<K>(before, known.len());
            if sender.send(watch_event).await.is_err() {
                return;
            }
        }
    }
}

/// Lists and watches for ever. A watcher that fails to resume never reports its recovery. After each failure a new
/// watcher therefore starts, which lists first.
fn events<K: WatchedKind>(
    client: Client,
    scope: &Scope,
    served: Sender<Option<K::DynamicType>>,
) -> impl Stream<Item = watcher::Result<Event<(ObjectKey, K)>>> + Send + use<K> {
    // Pace the requests, since the watcher resumes at once after each stream, even after one that ends immediately.
    let client = hustings_client::store::paced(client, "default");
    let scope = scope.clone();
    let begin = move || stream::once(begin::<K>(client.clone(), scope.clone(), served.clone())).flatten().boxed();
    stream::unfold(None, move |watcher| {
        let begin = begin.clone();
        let mut watcher = watcher.unwrap_or_else(&begin);
        async move {
            loop {
                match watcher.next().await {
                    // The watcher resumes where the stream broke off. If that fails, the next event is the error.
                    Some(Err(watcher::Error::WatchFailed(error))) => {
                        tracing::debug!(resource = K::NAME, %error, "a watch broke off");
                    }
                    Some(Ok(event)) => {
                        if let Some(event) = keyed(event) {
                            return Some((Ok(event), Some(watcher)));
                        }
                        tracing::debug!(resource = K::NAME, "ignored an object without a name");
                    }
                    Some(Err(error)) => return Some((Err(error), None)),
                    None => watcher = begin(),
                }
            }
        }
    })
}

/// Lists and watches the version of the kind that the server serves. If the server serves none, the stream reports an
/// empty list and ends after a pause.
async fn begin<K: WatchedKind>(
    client: Client,
    scope: Scope,
    served: Sender<Option<K::DynamicType>>,
) -> BoxStream<'static, watcher::Result<Event<K>>> {
    let discovered = tokio::time::timeout(DISCOVERY_TIMEOUT, K::served(&client)).await;
    match discovered.unwrap_or_else(|elapsed| Err(kube::Error::Service(elapsed.into()))) {
        Ok(Some(version)) => {
            let api = K::api(client, &scope, &version);
            served.send_replace(Some(version));
            watcher::watcher(api, config::<K>(&scope)).boxed()
        }
        Ok(None) => {
            served.send_replace(None);
            let pause = stream::once(tokio::time::sleep(REDISCOVERY)).filter_map(|()| ready(None));
            stream::iter([Ok(Event::Init), Ok(Event::InitDone)]).chain(pause).boxed()
        }
        Err(error) => stream::once(ready(Err(watcher::Error::InitialListFailed(error)))).boxed(),
    }
}

/// Adds the key of the object to an event; `None` if the object has no name.
fn keyed<K: WatchedKind>(event: Event<K>) -> Option<Event<(ObjectKey, K)>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => Event::InitApply((ObjectKey::of(&object)?, object)),
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply((ObjectKey::of(&object)?, object)),
        Event::Delete(object) => Event::Delete((ObjectKey::of(&object)?, object)),
    })
}

impl WatchReporter {
    fn pass<K: WatchedKind>(&self, is_served: bool) {
        if let Some(crd) = &self.crd {
            crd.pass();
        }
        let warning = (!is_served).then(|| format!("the API server does not serve {}", K::NAME));
        if self.listed.pass_with(warning) {
            let does = if is_served { "listed and watched" } else { "not served by the API server" };
            tracing::info!(resource = K::NAME, scope = %self.scope, "{does}");
        }
    }

    /// Updates the number of known objects of all scopes. In this scope it was `before` and is `now`.
    fn count<K: WatchedKind>(&self, before: usize, now: usize) {
        let gauge = self.metrics.watched_objects.get_or_create(&K::RESOURCE.label());
        gauge.inc_by(i64::try_from(now.saturating_sub(before)).unwrap_or(i64::MAX));
        gauge.dec_by(i64::try_from(before.saturating_sub(now)).unwrap_or(i64::MAX));
    }

    /// Reports a failure. Returns whether the server refuses to list or watch, so that a retry does not help.
    fn report<K: WatchedKind>(&self, error: &watcher::Error) -> bool {
        self.metrics.watch_failures.get_or_create(&K::RESOURCE.label()).inc();
        let status = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => Some(status),
            _ => None,
        };
        let code = status.map_or(0, |status| status.code);
        let message = match (code, &self.crd) {
            (403, _) => format!("not allowed: grant the verbs list and watch on {} in {}", K::NAME, self.scope),
            (404, Some(crd)) => {
                let message = format!("{} is not installed: run `hustings crds | kubectl apply -f -`", K::NAME);
                crd.fail(message.clone());
                message
            }
            (404, None) => format!("the resource {} is not known to the server", K::NAME),
            // The version is too old. The next list solves that.
            (410, _) => return false,
            // kube prints the whole status, so format the error here.
            _ => status.map_or_else(|| error.to_string(), |status| format!("{} ({code})", status.message)),
        };
        let is_new =
            if K::OPTIONAL { self.listed.pass_with(Some(message.clone())) } else { self.listed.fail(message.clone()) };
        if is_new {
            tracing::warn!(resource = K::NAME, scope = %self.scope, reason = message, "cannot list and watch");
        }
        // A server that is overloaded or starting may answer the next request.
        !matches!(code, 0 | 408 | 429 | 503 | 504)
    }
}

fn config<K: WatchedKind>(scope: &Scope) -> watcher::Config {
    let mut config = watch_config();
    config.label_selector = K::labels();
    if *scope == Scope::Cluster {
        config.field_selector = Some(format!("metadata.namespace!={NODE_LEASES}"));
    }
    config
}

#[cfg(test)]
mod tests;
