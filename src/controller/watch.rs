//! Watches Leases and LeaseCandidates.
//!
//! - There is one watch per kind and scope, so that a namespace without read permission delays no other.
//! - A watch reports each change as a [`WatchEvent`], and keeps its objects in a store, by kube-runtime's reflector.
//! - A list replaces the whole store, and no event of the reflector reports the objects that it drops. The watch therefore
//!   compares the store before and after each list, and reports the missing objects as removed.
//! - A watch ends after a minute and resumes where it ended, so that a dead connection lasts no longer than that.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use hustings_client::store::{Pauses, watch_config};
use hustings_core::election::NODE_LEASES;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Store, reflector};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use rand::rngs::StdRng;
use tokio::sync::mpsc;

use super::watched::{Scope, Stored, WatchEvent, Watched, reference};
use crate::ops::health::{Check, Health};
use crate::ops::metrics::Metrics;

/// The pause after the first failure. Each further failure doubles it. A permission or CRD that was added meanwhile takes
/// effect after the pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// The watch of one kind in one scope.
pub(super) struct Watch<K: Watched> {
    sender: mpsc::Sender<WatchEvent>,
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
        Self { sender, rng, writer: Writer::default(), reporter }
    }

    /// The store with the objects of this watch.
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
                    reporter.pass::<K>();
                    WatchEvent::Listed(scope.clone(), K::RESOURCE)
                }
                Ok(Event::Apply(Stored { key, record })) => K::changed(key, record),
                Ok(Event::Delete(Stored { key, .. })) => K::removed(key),
                Err(error) => {
                    reporter.report::<K>(&error);
                    continue;
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
) -> impl Stream<Item = watcher::Result<Event<Stored<K>>>> + Send + use<K> {
    // The watcher resumes at once when a stream ends, even one that ends as soon as it begins.
    let client = hustings_client::store::paced(client, "default");
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
                    // The watcher resumes where the stream broke off. If that fails, the next event reports it.
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
            // The version is too old. The list that follows solves that.
            410 => return,
            // kube would print the whole status.
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
    let mut config = watch_config();
    config.label_selector = K::labels();
    if *scope == Scope::Cluster {
        config.field_selector = Some(format!("metadata.namespace!={NODE_LEASES}"));
    }
    config
}

#[cfg(test)]
mod tests;
