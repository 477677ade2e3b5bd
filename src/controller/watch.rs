//! Watches Leases and LeaseCandidates.
//!
//! - There is one watch per kind and scope, so that a namespace without read permission delays no other.
//! - A watch reports each change as a [`WatchEvent`], and keeps its objects in a store, by kube-runtime's reflector.
//! - A list replaces the whole store, and no event of the reflector reports the objects that it drops. The watch therefore
//!   compares the store before and after each list, and reports the missing objects as removed.
//! - The API server may not serve a kind, or only one of its versions. The watch discovers that before each list that
//!   follows a failure. Objects of a kind that is no longer served count as removed.
//! - A watch ends after a minute and resumes where it ended, so that a dead connection lasts no longer than that.

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
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Store, reflector};
use kube::runtime::watcher::{self, Event};
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::sync::watch::{self, Receiver, Sender};

use super::watched::{Scope, Stored, WatchEvent, Watched, reference};
use crate::ops::health::{Check, Health};
use crate::ops::metrics::Metrics;

/// The pause after the first failure. Each further failure doubles it. A permission or CRD that was added meanwhile takes
/// effect after the pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// The pause after the API server was found not to serve a kind.
const REDISCOVERY: Duration = Duration::from_secs(30);

/// How long a discovery may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The watch of one kind in one scope.
pub(super) struct Watch<K: Watched> {
    sender: mpsc::Sender<WatchEvent>,
    served: Sender<Option<K::DynamicType>>,
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

impl<K: Watched> Watch<K> {
    /// A watch that sends its events to `sender`, and reports its state to `health` and `metrics`.
    pub(super) fn new(
        (scope, sender, metrics): (Scope, mpsc::Sender<WatchEvent>, Metrics),
        health: &Health,
        crd: Option<Check>,
        rng: StdRng,
    ) -> Self {
        let listed = health.check(scope.check(K::RESOURCE.as_str()));
        let reporter = Reporter { scope, listed, crd, metrics };
        Self { sender, served: watch::channel(None).0, rng, writer: Writer::default(), reporter }
    }

    /// The store with the objects of this watch.
    pub(super) fn store(&self) -> Store<Stored<K>> {
        self.writer.as_reader()
    }

    /// The version of the kind that the server was last found to serve.
    pub(super) fn served(&self) -> Receiver<Option<K::DynamicType>> {
        self.served.subscribe()
    }

    /// Watches until the receiver is dropped.
    pub(super) async fn run(self, client: Client) {
        let Self { sender, served, rng, writer, reporter } = self;
        let scope = &reporter.scope;
        let store = writer.as_reader();
        let events = events::<K>(client, scope, served.clone()).backoff(Pauses::new(SHORTEST_PAUSE, rng));
        let mut events = pin!(reflector(writer, events));
        // Objects that were reported and that the list in progress may lack; empty between lists.
        let mut reported = BTreeSet::new();
        while let Some(event) = events.next().await {
            let watch_event = match event {
                Ok(Event::Init) => {
                    reported.extend(store.state().iter().map(|object| object.key.clone()));
                    continue;
                }
                Ok(Event::InitApply(Stored { key, record })) => {
                    // The rest of this list may fail, and the next list may lack the object.
                    reported.insert(key.clone());
                    K::changed(key, record)
                }
                Ok(Event::InitDone) => {
                    // The list has replaced the store, and no event reports what the store has lost.
                    for key in std::mem::take(&mut reported) {
                        if store.get(&reference(&key)).is_none() && sender.send(K::removed(key)).await.is_err() {
                            return;
                        }
                    }
                    reporter.pass::<K>(served.borrow().is_some());
                    WatchEvent::Listed(scope.clone(), K::RESOURCE)
                }
                Ok(Event::Apply(Stored { key, record })) => K::changed(key, record),
                Ok(Event::Delete(Stored { key, .. })) => K::removed(key),
                Err(error) => {
                    let code = reporter.report::<K>(&error);
                    if !K::OPTIONAL || code.is_none() {
                        continue;
                    }
                    // Elections do not wait for objects that the server refuses to list.
                    WatchEvent::Listed(scope.clone(), K::RESOURCE)
                }
            };
            if sender.send(watch_event).await.is_err() {
                return;
            }
        }
    }
}

/// Lists and watches for ever. A watcher that fails to resume never reports that it has recovered, so a new one, which
/// lists first, follows each failure.
fn events<K: Watched>(
    client: Client,
    scope: &Scope,
    served: Sender<Option<K::DynamicType>>,
) -> impl Stream<Item = watcher::Result<Event<Stored<K>>>> + Send + use<K> {
    // The watcher resumes at once when a stream ends, even one that ends as soon as it begins.
    let client = hustings_client::store::paced(client, "default");
    let scope = scope.clone();
    let begin = move || stream::once(begin::<K>(client.clone(), scope.clone(), served.clone())).flatten().boxed();
    stream::unfold(None, move |watcher| {
        let begin = begin.clone();
        let mut watcher = watcher.unwrap_or_else(&begin);
        async move {
            loop {
                match watcher.next().await {
                    // The watcher resumes where the stream broke off. If that fails, the next event reports it.
                    Some(Err(watcher::Error::WatchFailed(error))) => {
                        tracing::debug!(resource = K::NAME, %error, "a watch broke off");
                    }
                    Some(Ok(event)) => {
                        if let Some(event) = stored(event) {
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

/// Lists and watches the version of the kind that the server serves. If it serves none, this reports an empty list, and
/// ends after a pause.
async fn begin<K: Watched>(
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
    fn pass<K: Watched>(&self, is_served: bool) {
        if let Some(crd) = &self.crd {
            crd.pass();
        }
        let warning = (!is_served).then(|| format!("the API server does not serve {}", K::NAME));
        if self.listed.pass_with(warning) {
            let does = if is_served { "listed and watched" } else { "not served by the API server" };
            tracing::info!(resource = K::NAME, scope = %self.scope, "{does}");
        }
    }

    /// Returns the code of the server's answer; `None` if it did not answer.
    fn report<K: Watched>(&self, error: &watcher::Error) -> Option<u16> {
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
            // The version is too old. The list that follows solves that.
            410 => return Some(code),
            // kube would print the whole status.
            _ => status.map_or_else(|| error.to_string(), |status| format!("{} ({code})", status.message)),
        };
        if code == 404
            && let Some(crd) = &self.crd
        {
            crd.fail(format!("{} is not installed: run `hustings crds | kubectl apply -f -`", K::NAME));
        }
        let is_new =
            if K::OPTIONAL { self.listed.pass_with(Some(message.clone())) } else { self.listed.fail(message.clone()) };
        if is_new {
            tracing::warn!(resource = K::NAME, scope = %self.scope, reason = message, "cannot list and watch");
        }
        status.map(|status| status.code)
    }
}

fn config<K: Watched>(scope: &Scope) -> watcher::Config {
    let mut config = watch_config();
    config.label_selector = K::labels();
    if *scope == Scope::Cluster {
        config.field_selector = Some(format!("metadata.namespace!={NODE_LEASES}"));
    }
    config
}

#[cfg(test)]
mod tests;
