//! Watches Leases and LeaseCandidates, and with evidence Pods and Nodes.
//!
//! - There is one watch per kind and scope, so that a namespace without read permission does not delay the others.
//! - A watch reports each change as a [`WatchEvent`]. kube-runtime's reflector keeps the objects in a store, which
//!   [`Stores`](super::stores::Stores) lets everything read that only reads. Pods are many, so no store keeps them.
//! - A new list replaces the store, and shows only the objects that exist now. The watch therefore compares each list
//!   with the store before it, and reports the missing objects as removed.
//! - The API server may not serve a kind, or only one of its versions. After a failure, the watch discovers the served
//!   version before it lists again. Objects of a kind that is no longer served count as removed.
//! - A watch ends after a minute and resumes where it ended. A dead connection therefore lasts at most a minute.

mod reporter;

use std::collections::BTreeSet;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use hustings_client::clock::Clock;
use hustings_client::store::{AnswerTooLong, Pauses, WatchRequests, watch_config};
use hustings_core::election::NODE_LEASES;
use kube::Client;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Store, reflector};
use kube::runtime::watcher::{self, Event};
use rand::rngs::StdRng;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use self::reporter::WatchReporter;
use super::namespaces::Namespaces;
use super::outage::is_refusal;
use super::stores::Stored;
use super::watched::{Scope, WatchEvent, WatchedKind};
use crate::serve::health::{Check, Health};
use crate::serve::metrics::{self, ControllerMetrics};

/// The pause after the first failure. Each further failure doubles it. A permission or CRD that was added in the
/// meantime takes effect after the pause.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);

/// The pause between two discoveries while the API server does not serve a kind.
const REDISCOVERY: Duration = Duration::from_secs(30);

/// How old the objects may become while the server lists but begins no watch. A watch lasts half as long.
const LONGEST_WITHOUT_WATCH: Duration = Duration::from_mins(2);

/// How long a discovery may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The failure of a discovery that takes longer.
const NO_DISCOVERY: &str = "no answer to the discovery within 5 s";

/// What all watches of a controller share.
pub(super) struct WatchContext {
    /// Receives their events.
    pub(super) sender: mpsc::Sender<WatchEvent>,
    pub(super) health: Health,
    pub(super) metrics: ControllerMetrics,
    pub(super) namespaces: Namespaces,
    pub(super) clock: Arc<dyn Clock>,
    /// As many pages of their lists are received at a time.
    pub(super) pages: Arc<Semaphore>,
}

/// The watch of one kind in one scope.
pub(super) struct Watch<K: WatchedKind> {
    sender: mpsc::Sender<WatchEvent>,
    served: Sender<Option<K::DynamicType>>,
    rng: StdRng,
    writer: Writer<Stored<K>>,
    reporter: WatchReporter,
    pages: Arc<Semaphore>,
    /// The label selector, if it is not that of the kind.
    labels: Option<String>,
}

impl<K: WatchedKind> Watch<K> {
    /// Creates the watch of a scope. `crd` is the check of the kind, if it may be missing.
    pub(super) fn new(scope: Scope, context: &WatchContext, crd: Option<Check>, rng: StdRng) -> Self {
        let sender = context.sender.clone();
        let listed = context.health.check(scope.check(K::RESOURCE.as_str()));
        let reporter = WatchReporter::new(scope, listed, crd, context);
        let pages = Arc::clone(&context.pages);
        Self { sender, served: watch::channel(None).0, rng, writer: Writer::default(), reporter, pages, labels: None }
    }

    /// Watches only the objects with these labels.
    pub(super) fn with_labels(self, labels: Option<String>) -> Self {
        Self { labels, ..self }
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
        let Self { sender, served, rng, writer, mut reporter, pages, labels } = self;
        let (scope, store) = (reporter.scope.clone(), writer.as_reader());
        let mut config = config::<K>(&scope);
        config.label_selector = labels.or(config.label_selector);
        let failures = reporter.failures::<K>();
        let requests = WatchRequests::new(pages, move || {
            failures.inc();
        });
        let mut begun = requests.begun();
        let events = events::<K>(client, config, &scope, store.clone(), served.clone(), requests);
        let events = events.backoff(Pauses::new(SHORTEST_PAUSE, rng));
        let mut events =
            pin!(if K::IS_STORED { reflector(writer, events).left_stream() } else { events.right_stream() });
        // The objects that were reported and that the list in progress may lack; empty between lists.
        let mut reported = BTreeSet::new();
        loop {
            let event = tokio::select! {
                biased;
                may_continue = reporter.overdue::<K>() => {
                    // Most elections do not need these objects.
                    if may_continue && sender.send(WatchEvent::Listed(scope.clone(), K::RESOURCE)).await.is_err() {
                        return;
                    }
                    continue;
                }
                Ok(()) = begun.changed() => {
                    reporter.resume::<K>();
                    continue;
                }
                event = events.next() => event,
            };
            let Some(event) = event else { return };
            let watch_event = match event {
                Ok(Event::Init) => {
                    reported.extend(store.state().iter().map(|object| object.key.clone()));
                    reporter.begin();
                    let Some(event) = K::list_began(&scope) else { continue };
                    event
                }
                Ok(Event::InitApply(Stored { key, content })) => {
                    // The rest of this list may fail, and the next list may lack the object.
                    if K::IS_STORED {
                        reported.insert(key.clone());
                    }
                    K::changed(key, content)
                }
                Ok(Event::InitDone) => {
                    for key in std::mem::take(&mut reported) {
                        let is_gone = store.get(&Stored::reference(&key)).is_none();
                        let Some(event) = K::removed(key, None).filter(|_| is_gone) else { continue };
                        if sender.send(event).await.is_err() {
                            return;
                        }
                    }
                    reporter.pass::<K>(served.borrow().is_some());
                    K::listed(&scope)
                }
                Ok(Event::Apply(Stored { key, content })) => K::changed(key, content),
                Ok(Event::Delete(Stored { key, content })) => {
                    let Some(event) = K::removed(key, Some(content)) else { continue };
                    event
                }
                Err(error) => {
                    let Some(event) = reporter.fail::<K>(&error) else { continue };
                    event
                }
            };
            if K::IS_STORED {
                reporter.count::<K>(store.len());
            }
            if sender.send(watch_event).await.is_err() {
                return;
            }
        }
    }
}

/// Lists and watches for ever.
///
/// A busy server may soon begin the watch that it has just refused, so the watcher tries to resume. After any other
/// failure a new watcher starts, which lists first.
fn events<K: WatchedKind>(
    client: Client,
    config: watcher::Config,
    scope: &Scope,
    store: Store<Stored<K>>,
    served: Sender<Option<K::DynamicType>>,
    requests: WatchRequests,
) -> impl Stream<Item = watcher::Result<Event<Stored<K>>>> + Send + use<K> {
    let (scope, latest) = (scope.clone(), requests.begun());
    let heeding = requests.client(client.clone(), "default");
    let begin = move |config: &watcher::Config| {
        let (client, heeding, scope, served) = (client.clone(), heeding.clone(), scope.clone(), served.clone());
        stream::once(begin::<K>(client, heeding, config.clone(), scope, served)).flatten().boxed()
    };
    stream::unfold((None, config, Instant::now()), move |(watcher, mut config, mut heard_at)| {
        let (begin, store, requests, latest) = (begin.clone(), store.clone(), requests.clone(), latest.clone());
        let mut watcher = watcher.unwrap_or_else(|| begin(&config));
        async move {
            loop {
                match watcher.next().await {
                    // The watcher resumes where the stream broke off. If that fails, the next event is the error.
                    Some(Err(watcher::Error::WatchFailed(error))) => {
                        tracing::debug!(resource = K::NAME, %error, "a watch broke off");
                        requests.count_failure();
                    }
                    Some(Ok(event)) => {
                        heard_at = Instant::now();
                        if let Some(event) = stored(event, &store) {
                            return Some((Ok(event), (Some(watcher), config, heard_at)));
                        }
                        tracing::debug!(resource = K::NAME, "ignored an object without a name");
                    }
                    Some(Err(error)) => {
                        if is_too_long(&error) {
                            config.page_size = config.page_size.map(|size| (size / 10).max(1));
                        }
                        let fresh_at = heard_at.max(*latest.borrow());
                        let resumes = may_resume(&error) && fresh_at.elapsed() < LONGEST_WITHOUT_WATCH;
                        return Some((Err(error), (resumes.then_some(watcher), config, heard_at)));
                    }
                    None => watcher = begin(&config),
                }
            }
        }
    })
}

/// Whether the server did not begin a watch, but may begin it soon.
fn may_resume(error: &watcher::Error) -> bool {
    let watcher::Error::WatchStartFailed(cause) = error else { return false };
    !matches!(cause, kube::Error::Api(status) if is_refusal(status.code))
}

/// Whether a page of a list was too long, so that smaller pages are due.
fn is_too_long(error: &watcher::Error) -> bool {
    let watcher::Error::InitialListFailed(kube::Error::Service(cause)) = error else { return false };
    cause.is::<AnswerTooLong>()
}

/// Lists and watches the version of the kind that the server serves. If the server serves none, the stream reports an
/// empty list and ends after a pause. `heeding` sends the lists and watches. They may wait for a busy server, for which
/// a discovery has no time.
async fn begin<K: WatchedKind>(
    client: Client,
    heeding: Client,
    config: watcher::Config,
    scope: Scope,
    served: Sender<Option<K::DynamicType>>,
) -> BoxStream<'static, watcher::Result<Event<K>>> {
    let discovered = tokio::time::timeout(DISCOVERY_TIMEOUT, K::served(&client)).await;
    match discovered.unwrap_or_else(|_| Err(kube::Error::Service(NO_DISCOVERY.into()))) {
        Ok(Some(version)) => {
            let api = K::api(heeding, &scope, &version);
            served.send_replace(Some(version));
            watcher::watcher(api, config).boxed()
        }
        Ok(None) => {
            served.send_replace(None);
            let pause = stream::once(tokio::time::sleep(REDISCOVERY)).filter_map(|()| ready(None));
            stream::iter([Ok(Event::Init), Ok(Event::InitDone)]).chain(pause).boxed()
        }
        Err(error) => stream::once(ready(Err(watcher::Error::InitialListFailed(error)))).boxed(),
    }
}

/// The event with the parts of objects that the controller keeps; `None` if an object has no name.
///
/// A list after a failure repeats most objects. An object that has not changed keeps its content in memory, so that a
/// list does not double what the store holds.
fn stored<K: WatchedKind>(event: Event<K>, store: &Store<Stored<K>>) -> Option<Event<Stored<K>>> {
    Some(match event {
        Event::Init => Event::Init,
        Event::InitApply(object) => {
            let object = Stored::of(object)?;
            let known = store.get(&Stored::reference(&object.key));
            let same = known.filter(|known| K::version_of(&known.content) == K::version_of(&object.content));
            Event::InitApply(same.map_or(object, |known| Stored::clone(&known)))
        }
        Event::InitDone => Event::InitDone,
        Event::Apply(object) => Event::Apply(Stored::of(object)?),
        Event::Delete(object) => Event::Delete(Stored::of(object)?),
    })
}

fn config<K: WatchedKind>(scope: &Scope) -> watcher::Config {
    let mut config = watch_config();
    config.label_selector = K::labels();
    // A Node has no namespace.
    if *scope == Scope::Cluster && K::RESOURCE != metrics::Resource::Nodes {
        config.field_selector = Some(format!("metadata.namespace!={NODE_LEASES}"));
    }
    config
}

#[cfg(test)]
mod tests;
