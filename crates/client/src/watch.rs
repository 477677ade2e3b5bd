//! The watch of one named object, or of all objects of a kind in one namespace.
//!
//! What comes from a watch may lag behind, and a watch may die without a word; whoever listens polls when it has been
//! silent. It ends itself often enough that an apiserver can shed it.

use std::fmt::Debug;
use std::future::ready;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use http::Request;
use http::header::USER_AGENT;
use http_body::Body as HttpBody;
use http_body_util::{BodyExt as _, Either, StreamBody};
use kube::client::Body;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use kube::{Api, Client, Resource};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::backend::{TELL_EVERY, lacks_right, not_allowed, with_causes};
use crate::connections::user_agent;

/// The longest a single watch request lasts.
const LONGEST_WATCH_SECONDS: u32 = 60;

/// For how long a watch is listened to, before the next one begins: a little less than it lasts.
const HEARD: Duration = Duration::from_secs(59);

/// How long a watch that nobody listens to any more is given to end.
const ENDING: Duration = Duration::from_secs(5);

/// How many objects one page of a list has: what has to be in memory at once.
const PAGE_SIZE: u32 = 100;

/// How long after the beginning of one watch the next begins at the soonest.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// The shortest pause after a failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(800);

/// The longest pause after a failure. A ping that nobody sees meanwhile is an election lost, and nobody polls while the
/// other watch speaks.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long nothing fails before the pauses start anew.
const QUIET: Duration = Duration::from_mins(2);

/// A kind that can be watched.
pub(crate) trait Watched:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

/// Pauses after failures: each is twice as long as the one before, up to 5 s, less a random part so that replicas do not
/// come back together. They start anew after two quiet minutes. An event does not reset them: kube's watcher emits one as
/// soon as it begins to list, so that a server which refuses to list would be asked every second.
#[derive(Debug)]
pub struct Pauses {
    shortest: Duration,
    next: Duration,
    failed_at: Option<Instant>,
    rng: StdRng,
}

/// The failure that was told last, and when.
#[derive(Default)]
struct Told(Option<(String, Instant)>);

/// Each version of the object that becomes known, or `None` when it is found missing. Never ends.
pub(crate) fn watch_object<K: Watched>(
    client: Client,
    namespace: &str,
    name: &str,
    seed: u64,
) -> impl Stream<Item = Option<K>> + Send + use<K> {
    // Any version will do, since only newer ones count: it comes from the server's memory and waits for nothing.
    let config = Config::default().fields(&format!("metadata.name={name}")).any_semantic();
    let mut listed = false;
    watch(client, namespace, config, format!("{namespace}/{name}"), seed).filter_map(move |event| {
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

/// What becomes known of all objects of a kind in a namespace. Never ends.
pub(crate) fn watch_namespace<K: Watched>(
    client: Client,
    namespace: &str,
) -> impl Stream<Item = Event<K>> + Send + use<K> {
    let seed = rand::make_rng::<StdRng>().next_u64();
    watch(client, namespace, Config::default().page_size(PAGE_SIZE), format!("namespace {namespace}"), seed)
}

fn watch<K: Watched>(
    client: Client,
    namespace: &str,
    config: Config,
    what: String,
    seed: u64,
) -> impl Stream<Item = Event<K>> + Send + use<K> {
    let objects = Api::<K>::namespaced(paced(hearing(client, namespace), namespace), namespace);
    let config = config.timeout(LONGEST_WATCH_SECONDS);
    // One request in place of two, and the rest for servers where that is turned off (feature gate WatchList).
    let streamed = watcher(objects.clone(), config.clone().streaming_lists());
    let events = streamed.take_while(|event| ready(!refuses_to_stream(event))).chain(watcher(objects, config));
    let pauses = Pauses::new(SHORTEST_PAUSE, StdRng::seed_from_u64(seed));
    let resource = format!("{}.{}", K::plural(&()), K::group(&()));
    let namespace = namespace.to_owned();
    let mut told = Told::default();
    events.backoff(pauses).filter_map(move |event| {
        ready(event.inspect_err(|error| told.tell(reason(error, &resource, &namespace), &resource, &what)).ok())
    })
}

/// A client like `client` for which the watches of one stream begin a second apart at the soonest.
///
/// kube begins a watch anew at once when one has ended in order, and a stream may resume at once one that broke off. Before
/// a server, or a proxy, that ends every watch at once that would be as often as it can.
pub fn paced(client: Client, namespace: &str) -> Client {
    let mut next = Instant::now();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let now = Instant::now();
        let at = if is_watch(&request) { next.max(now) } else { now };
        if is_watch(&request) {
            next = at + SHORTEST_WATCH;
        }
        async move {
            // To sleep until now takes a millisecond, of which a long list has many.
            if at > now {
                sleep_until(at).await;
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

/// A client like `client` that listens to each watch for as long as one is heard.
fn hearing(client: Client, namespace: &str) -> Client {
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, user_agent());
        let client = client.clone();
        let until = is_watch(&request).then(|| Instant::now() + HEARD);
        async move {
            let answer = client.send(request).await?;
            Ok::<_, kube::Error>(answer.map(|body| match until {
                Some(until) => Either::Left(heard(body, until)),
                None => Either::Right(body),
            }))
        }
    });
    Client::new(service, namespace)
}

/// Whether the request begins a watch.
pub(crate) fn is_watch<B>(request: &Request<B>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}

/// What comes of a watch until then; what is cut off is told again by the next one. That begins while this one ends, and so
/// on a connection of its own, which leaves two: one for the watch, and one on which a write that comes after hours of
/// silence need not begin with a TLS handshake.
fn heard(body: Body, until: Instant) -> impl HttpBody<Data = <Body as HttpBody>::Data, Error = kube::Error> {
    StreamBody::new(stream::unfold(body, move |mut body| async move {
        if let Ok(frame) = timeout_at(until, body.frame()).await {
            return Some((frame?, body));
        }
        // Whoever does not read to the end closes the connection.
        let rest = async move { while let Some(Ok(_)) = body.frame().await {} };
        tokio::spawn(timeout(ENDING, rest));
        None
    }))
}

fn refuses_to_stream<T>(event: &Result<T, Error>) -> bool {
    matches!(event, Err(Error::WatchStartFailed(kube::Error::Api(status))) if matches!(status.code, 400 | 422))
}

/// Why a watch failed, and what a person can do about it.
fn reason(error: &Error, resource: &str, namespace: &str) -> String {
    let (verb, cause) = match error {
        Error::InitialListFailed(kube::Error::Api(status)) => ("list", Some(status)),
        Error::WatchStartFailed(kube::Error::Api(status)) | Error::WatchError(status) => ("watch", Some(status)),
        _ => ("watch", None),
    };
    match cause {
        Some(status) if lacks_right(status) => not_allowed(verb, resource, namespace),
        // Whole, it would be three lines of which one says something.
        Some(status) => format!("{} ({})", status.message, status.code),
        None => with_causes(error),
    }
}

impl Told {
    /// Tells why a watch failed: at once if that is news, and once in a while as long as it lasts.
    fn tell(&mut self, reason: String, resource: &str, what: &str) {
        let now = Instant::now();
        if self.0.as_ref().is_some_and(|(last, at)| *last == reason && now - *at < TELL_EVERY) {
            tracing::debug!(resource, what, reason, "watch failed, trying again");
        } else {
            tracing::warn!(resource, what, reason, "watch failed, trying again");
            self.0 = Some((reason, now));
        }
    }
}

impl Pauses {
    /// Pauses of which the first lasts `shortest`.
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
