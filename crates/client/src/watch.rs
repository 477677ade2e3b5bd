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
mod tests {
    use std::convert::Infallible;
    use std::io::{self, Write};
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Mutex};

    use http::Response;
    use http_body::Frame;
    use serde_json::json;
    use tokio::time::sleep;

    use super::*;
    use crate::api::ReadLease;

    const END_OF_INITIAL_EVENTS: &str = r#"{"type": "BOOKMARK", "object": {
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}}}"#;

    /// What was told.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn asks(request: &Request<Body>, for_what: &str) -> bool {
        request.uri().query().is_some_and(|query| query.contains(for_what))
    }

    fn event(text: &str) -> Vec<u8> {
        let event: serde_json::Value = serde_json::from_str(text).unwrap();
        format!("{event}\n").into_bytes()
    }

    #[tokio::test(start_paused = true)]
    async fn one_request_brings_the_object_or_that_it_is_missing() {
        const LEASE: &str = r#"{"type": "ADDED", "object": {"metadata": {"name": "l", "resourceVersion": "1"}}}"#;
        for exists in [true, false] {
            let server = tower::service_fn(move |request: Request<Body>| async move {
                assert!(asks(&request, "sendInitialEvents=true"), "{request:?}");
                let mut body = if exists { event(LEASE) } else { Vec::new() };
                body.extend(event(END_OF_INITIAL_EVENTS));
                Ok::<_, Infallible>(Response::new(Body::from(body)))
            });
            let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
            assert_eq!(versions.next().await.map(|version| version.is_some()), Some(exists));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_speaks_soon_after_a_long_outage_whenever_that_ends() {
        for seconds in (300..330).step_by(6) {
            let recovery = Instant::now() + Duration::from_secs(seconds);
            let server = tower::service_fn(move |request: Request<Body>| async move {
                let lease = json!({ "metadata": { "name": "l", "resourceVersion": "2" } });
                // As where streaming lists are turned off.
                if asks(&request, "sendInitialEvents=") {
                    return Ok(Response::builder().status(422).body(Body::empty()).unwrap());
                }
                let answer = if !asks(&request, "watch=") {
                    json!({ "kind": "LeaseList", "metadata": { "resourceVersion": "1" }, "items": [] })
                } else if Instant::now() < recovery {
                    return Err(std::io::Error::other("connection refused"));
                } else {
                    json!({ "type": "ADDED", "object": lease })
                };
                Ok(Response::new(Body::from(answer.to_string().into_bytes())))
            });
            let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
            assert!(matches!(versions.next().await, Some(None)), "the list is empty");
            let version = timeout_at(recovery + LONGEST_PAUSE + Duration::from_secs(1), versions.next()).await;
            assert!(matches!(version, Ok(Some(Some(_)))), "after {seconds} s: {version:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_refuses_is_not_asked_every_second() {
        let asked = Arc::new(AtomicU32::new(0));
        let server = tower::service_fn({
            let asked = Arc::clone(&asked);
            move |_: Request<Body>| {
                asked.fetch_add(1, Ordering::Relaxed);
                async { Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap()) }
            }
        });
        // Otherwise a test without a subscriber that meets the line first would say for all threads that nobody wants it.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert!(timeout(Duration::from_mins(10), versions.next()).await.is_err(), "there is nothing to tell");
        let asked = asked.load(Ordering::Relaxed);
        assert!((100..=150).contains(&asked), "{asked} requests in ten minutes");
        let told = String::from_utf8_lossy(&log.0.lock().unwrap()).matches("watch failed").count();
        assert!((9..=11).contains(&told), "told {told} times in ten minutes");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_watch_begins_before_the_former_has_ended_in_order() {
        let began = Instant::now();
        let notes = Arc::new(Mutex::new(Vec::new()));
        let server = tower::service_fn({
            let notes = Arc::clone(&notes);
            move |request: Request<Body>| {
                let note = {
                    let notes = Arc::clone(&notes);
                    move |what: &'static str| notes.lock().unwrap().push((what, began.elapsed().as_secs()))
                };
                note("begins");
                let first =
                    if asks(&request, "sendInitialEvents=") { event(END_OF_INITIAL_EVENTS) } else { Vec::new() };
                let first = stream::once(ready(Ok(Frame::data(first.into()))));
                let end = stream::once(async move {
                    sleep(Duration::from_secs(LONGEST_WATCH_SECONDS.into())).await;
                    note("ends");
                    Ok::<_, Infallible>(Frame::data(Vec::new().into()))
                });
                ready(Ok::<_, Infallible>(Response::new(StreamBody::new(first.chain(end)))))
            }
        });
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert!(matches!(versions.next().await, Some(None)), "the list is empty");
        assert!(timeout(Duration::from_secs(121), versions.next()).await.is_err(), "there is nothing to tell");
        let expected = [("begins", 0), ("begins", 59), ("ends", 60), ("begins", 118), ("ends", 119)];
        assert_eq!(*notes.lock().unwrap(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_ends_every_watch_at_once_is_not_asked_at_once_again() {
        let asked = Arc::new(AtomicU32::new(0));
        let server = tower::service_fn({
            let asked = Arc::clone(&asked);
            move |request: Request<Body>| {
                let is_too_many = asked.fetch_add(1, Ordering::Relaxed) > 1_000;
                let is_first = asks(&request, "sendInitialEvents=");
                let body = if is_first { event(END_OF_INITIAL_EVENTS) } else { Vec::new() };
                async move {
                    if is_too_many {
                        // So that a failing test ends.
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(Response::new(Body::from(body)))
                }
            }
        });
        let mut versions = pin!(watch_object::<ReadLease>(Client::new(server, "n"), "n", "l", 0));
        assert!(matches!(versions.next().await, Some(None)), "the list is empty");
        assert!(timeout(Duration::from_mins(10), versions.next()).await.is_err(), "there is nothing to tell");
        let asked = asked.load(Ordering::Relaxed);
        assert!((500..=610).contains(&asked), "{asked} requests in ten minutes");
    }
}
