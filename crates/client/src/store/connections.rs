//! A pool of connections that the client replaces after one connection went silent.
//!
//! After a failover of the load balancer, each request on an existing connection gets no answer or a reset, while new
//! connections work at once. An ordinary pool would use the old connections one after the other. Each costs a request
//! timeout or a pause, and a few of them cost a healthy holder its term. So a
//! [`lease_client`](crate::store::lease_client) replaces its pool as soon as the caller gives up one request without an
//! answer, or the connection of one fails. The next request then uses a new connection.
//!
//! The rule that must hold: once a request went without an answer, later requests use no earlier connection. Requests
//! under way continue. Only a request of the current pool replaces the pool. So a server that is merely slow costs at
//! most one handshake for each connection and request timeout. There are as many connections as requests under way,
//! plus those that have been idle for less than the read timeout of the configuration.
//!
//! A watch may be silent for a long time although its connection works. The client ends a watch, which then restarts by
//! itself, under two conditions:
//!
//! - The watch has been silent since before the sending of a request that went without an answer.
//! - A new connection has answered since.
//!
//! So a server that answers no request need not restart all watches as well.

mod addresses;

use std::ffi::OsStr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use http::header::{PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{BodyExt, Either, StreamBody};
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connect, Connection};
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::retry::RetryLayer;
use tower::{BoxError, Service, ServiceBuilder};

pub(crate) use hustings_wire::expected::is_watch;

pub(crate) use self::addresses::AddressConnector;
use self::addresses::Addresses;
use crate::access::{self, Authorized, Parts, ReplaceConnections};

/// Returns a client that replaces its connections as described above.
pub(crate) fn client(config: Config) -> Result<Client, kube::Error> {
    client_by(AddressConnector::new(), config)
}

/// Returns such a client whose TCP connections, to the server or to its proxy, come from `tcp`.
fn client_by(tcp: AddressConnector, mut config: Config) -> Result<Client, kube::Error> {
    let user_agent = take_user_agent(&mut config);
    let addresses = tcp.addresses();
    let Parts { connector, credentials } = access::parts(&config, tcp)?;
    if let Some(value) = connector.proxy_authorization(&config.cluster_url) {
        config.headers.push((PROXY_AUTHORIZATION, value));
    }
    let connector = bounded(TimeoutConnector::new(connector), &config);
    let connections = Authorized::new(Connections::new(connector, user_agent, addresses), credentials);
    let retry = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retry)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(connections);
    Ok(Client::new(service, config.default_namespace))
}

/// A service for requests with relative URIs. `connector` makes its connections, with the timeouts of `config`.
pub(crate) fn over<C>(
    connector: C,
    config: &Config,
) -> impl Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError, Future: Send> + Clone + Send + use<C>
where
    C: Service<Uri, Error: Into<BoxError>, Future: Send + 'static> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Send + Unpin + 'static,
{
    let connector = bounded(TimeoutConnector::new(connector), config);
    ServiceBuilder::new().layer(config.base_uri_layer()).map_err(BoxError::from).service(Connections::new(
        connector,
        user_agent(),
        Arc::default(),
    ))
}

/// Limits how long connecting may take, and how long a connection may be silent.
fn bounded<C>(mut connector: TimeoutConnector<C>, config: &Config) -> TimeoutConnector<C> {
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    connector
}

/// The user agent, which the server's audit log and metrics show: `PROGRAM hustings-client/VERSION`.
pub(crate) fn user_agent() -> HeaderValue {
    static USER_AGENT: OnceLock<HeaderValue> = OnceLock::new();
    let name = || {
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy).unwrap_or_default();
        user_agent_of(&program)
    };
    USER_AGENT.get_or_init(name).clone()
}

/// The user agent of the program with this file name.
fn user_agent_of(program: &str) -> HeaderValue {
    let library = concat!("hustings-client/", env!("CARGO_PKG_VERSION"));
    // A product of RFC 9110 is a token.
    let program = program.replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.', "-");
    HeaderValue::from_str(format!("{program} {library}").trim_start())
        .unwrap_or_else(|_| HeaderValue::from_static(library))
}

/// Returns a client like `client` that adds the library's user agent to its requests. A user agent of the client itself
/// is sent, too, because it cannot be read here.
pub(crate) fn named(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        request.headers_mut().insert(USER_AGENT, user_agent());
        let client = client.clone();
        async move { client.send(request).await }
    });
    Client::new(service, namespace)
}

/// Removes the user agent from a configuration and returns it, or the library's own if there is none.
fn take_user_agent(config: &mut Config) -> HeaderValue {
    let named = config.headers.iter().rev().find(|(name, _)| name == USER_AGENT).map(|(_, value)| value.clone());
    config.headers.retain(|(name, _)| name != USER_AGENT);
    named.unwrap_or_else(user_agent)
}

/// Sends requests over the connections of the current pool.
#[derive(Clone)]
struct Connections<C> {
    connector: C,
    user_agent: HeaderValue,
    pool: Arc<Mutex<Pool<C>>>,
    route: Arc<ServerRoute>,
}

struct Pool<C> {
    generation: u64,
    client: HttpClient<C, Body>,
}

/// The state of the route to the server.
struct ServerRoute {
    state: Mutex<ServerRouteState>,
    /// Wakes the watches when `silent_since` changes. It wakes them in the order in which they wait, so that a
    /// simulated world is repeatable. A `tokio::sync::watch` channel wakes them in random order.
    changed: Notify,
    /// The addresses of the server, or of its proxy.
    addresses: Arc<Addresses>,
}

#[derive(Default)]
struct ServerRouteState {
    /// The generation of the current pool.
    generation: u64,
    /// When the request was sent for which the previous pool was replaced; `None` once the current pool has answered.
    replaced_for: Option<Instant>,
    /// Watches that have been silent since this instant must end.
    silent_since: Option<Instant>,
}

/// A request whose answer is not complete. If it is dropped before that, the caller gave it up, or its connection
/// failed.
struct UnansweredRequest {
    route: Arc<ServerRoute>,
    generation: u64,
    sent: Instant,
    is_over: bool,
}

/// The body of an answer.
pub(crate) struct TrackedBody {
    body: Incoming,
    pending: UnansweredRequest,
}

type AnswerBody = Either<TrackedBody, StreamBody<Frames>>;
type Data = <Incoming as HttpBody>::Data;
type Frames = BoxStream<'static, Result<Frame<Data>, hyper::Error>>;

impl<C: Connect + Clone + Send + Sync + 'static> Connections<C> {
    fn new(connector: C, user_agent: HeaderValue, addresses: Arc<Addresses>) -> Self {
        let route = ServerRoute { state: Mutex::default(), changed: Notify::new(), addresses };
        let pool = Pool { generation: 0, client: http_client(&connector) };
        Self { connector, user_agent, pool: Arc::new(Mutex::new(pool)), route: Arc::new(route) }
    }

    fn present(&self) -> (u64, HttpClient<C, Body>) {
        // The values stay consistent even if a thread panics while it holds these locks. The generation is read under
        // the lock of the pool, so that no earlier pool replaces a later one.
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.route.state().generation;
        if pool.generation != generation {
            *pool = Pool { generation, client: http_client(&self.connector) };
        }
        (generation, pool.client.clone())
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> Service<Request<Body>> for Connections<C> {
    type Response = Response<AnswerBody>;
    type Error = hyper_util::client::legacy::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, self.user_agent.clone());
        let connections = self.clone();
        let is_watch = is_watch(&request);
        let send = async move {
            let (generation, client) = connections.present();
            let route = connections.route;
            let mut pending =
                UnansweredRequest { route: Arc::clone(&route), generation, sent: Instant::now(), is_over: false };
            let answer = client.request(request).await.inspect_err(|error| {
                // A failure to connect proves nothing about the existing connections.
                pending.is_over = error.is_connect();
                if pending.is_over {
                    route.addresses.distrust_latest();
                }
            })?;
            pending.answered();
            pending.is_over = is_watch || answer.body().is_end_stream();
            Ok(answer.map(|body| {
                if is_watch {
                    Either::Right(StreamBody::new(until_silent(body, route)))
                } else {
                    Either::Left(TrackedBody { body, pending })
                }
            }))
        };
        send.boxed()
    }
}

impl<C> ReplaceConnections for Connections<C> {
    fn replace_connections(&self) {
        // Watches go on: the server ends those that a new credential would not permit.
        self.route.state().generation += 1;
    }
}

impl ServerRoute {
    fn state(&self) -> MutexGuard<'_, ServerRouteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnansweredRequest {
    /// The current pool works. So an earlier stream that is silent may have lost its connection.
    fn answered(&self) {
        let mut state = self.route.state();
        if state.generation == self.generation
            && let Some(sent) = state.replaced_for.take()
        {
            state.silent_since = Some(sent);
            self.route.changed.notify_waiters();
        }
    }
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        let mut state = self.route.state();
        if !self.is_over && state.generation == self.generation {
            tracing::debug!("a request went without an answer: the next one uses a new connection");
            state.generation += 1;
            state.replaced_for = Some(self.sent);
            self.route.addresses.distrust_latest();
        }
    }
}

impl HttpBody for TrackedBody {
    type Data = Data;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.pending.is_over |= frame.is_none() || self.body.is_end_stream();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The frames of a watch until its connection must be replaced. The stream then ends as if the server had ended it.
fn until_silent(body: Incoming, route: Arc<ServerRoute>) -> Frames {
    let state = (body, route, Instant::now());
    let frames = stream::unfold(state, |(mut body, route, received_at)| async move {
        loop {
            // This precedes the check, so that no change is missed.
            let changed = route.changed.notified();
            if route.state().silent_since.is_some_and(|since| received_at < since) {
                tracing::debug!("a watch that has been silent for long starts again on a new connection");
                return None;
            }
            tokio::select! {
                biased;
                frame = body.frame() => return Some((frame?, (body, Arc::clone(&route), Instant::now()))),
                () = changed => {}
            }
        }
    });
    frames.boxed()
}

fn http_client<C: Connect + Clone>(connector: &C) -> HttpClient<C, Body> {
    HttpClient::builder(TokioExecutor::new()).build(connector.clone())
}

#[cfg(test)]
mod tests;
