//! Connections to a server whose name has several addresses, some of which may be dead.
//!
//! The kernel takes minutes to give up a connection to an address that answers nothing. A client that waits for one
//! address before it tries the next one spends its whole request timeout on the first. So this connector:
//!
//! - starts with the first address, and adds the next one whenever 250 ms pass or an attempt fails. The first
//!   connection wins;
//! - remembers which addresses gave no answer, and tries them last for five minutes. So neither the next connection nor
//!   a request with a short timeout starts again at a dead address;
//! - asks for the addresses anew for each connection, one lookup at a time. A lookup that fails or is slow does not
//!   delay a connection to the addresses of the former answer.
//!
//! The rule that must hold: while one address works, the client reaches it within a few requests, whatever the others
//! do.

use std::convert::Infallible;
use std::future::ready;
use std::io;
use std::iter::once;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Service};

/// How long a connection may be idle before the kernel probes the other end. With the next two constants, this detects
/// a dead peer after 25 s if there is nothing to send, as on a watch.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);

/// The interval of the probes.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum number of probes.
pub(super) const KEEPALIVE_RETRIES: u32 = 3;

/// How long sent data may go without the other kernel's acknowledgement.
pub(super) const UNACKNOWLEDGED: Duration = Duration::from_secs(15);

/// How long a connection may wait for one address before it also tries the next one: what RFC 8305 recommends.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// How long an address that gave no answer is tried after the others.
const DEMOTION: Duration = Duration::from_mins(5);

/// How many addresses are remembered as dead.
const MOST_DEMOTED: usize = 64;

/// How long a lookup may take before the connection uses the addresses of the former answer.
const LOOKUP_LIMIT: Duration = Duration::from_secs(1);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("dns error: the address of {host} is not known")]
    Lookup { host: String, source: Arc<io::Error> },
    /// The first failure, which tells the most.
    #[error("cannot connect to {}", .address.ip())]
    Connect { address: SocketAddr, source: BoxError },
}

/// A function that returns the addresses of a host, with any port.
pub(super) type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

type Lookup = Shared<BoxFuture<'static, Result<Vec<SocketAddr>, Arc<io::Error>>>>;

/// Connects to one server. Clones share what they know about its addresses.
#[derive(Clone)]
pub(crate) struct AddressConnector {
    pub(super) resolver: Resolver,
    addresses: Arc<Addresses>,
}

/// What is known about the addresses of one server.
#[derive(Default)]
pub(super) struct Addresses(Mutex<AddressState>);

#[derive(Default)]
struct AddressState {
    /// The lookup under way.
    lookup: Option<Lookup>,
    /// The last answer.
    known: Vec<SocketAddr>,
    /// The addresses that gave no answer, and when: the newest last.
    demoted: Vec<(SocketAddr, Instant)>,
    /// The address that was tried or reached last, until it has been demoted.
    latest: Option<SocketAddr>,
}

impl AddressConnector {
    pub(super) fn new() -> Self {
        let look_up = |host: String| async move { Ok(tokio::net::lookup_host((host, 0)).await?.collect()) }.boxed();
        Self { resolver: Arc::new(look_up), addresses: Arc::default() }
    }

    /// What this connector and its clones know about the addresses.
    pub(super) fn addresses(&self) -> Arc<Addresses> {
        Arc::clone(&self.addresses)
    }

    async fn connect(self, server: Uri) -> Result<TokioIo<TcpStream>, Error> {
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let addresses = match host.parse() {
            Ok(address) => vec![SocketAddr::new(address, 0)],
            Err(_) => self.resolve(&host).await.map_err(|source| Error::Lookup { host, source })?,
        };
        self.connect_to_any(self.addresses.in_order(addresses), &server).await
    }

    /// Returns the addresses of `host`.
    async fn resolve(&self, host: &str) -> Result<Vec<SocketAddr>, Arc<io::Error>> {
        let (lookup, known) = {
            let mut state = self.addresses.state();
            // A lookup whose runtime has ended is of no use.
            state.lookup.take_if(|lookup| lookup.peek().is_some());
            let lookup = state.lookup.get_or_insert_with(|| self.lookup(host)).clone();
            (lookup, state.known.clone())
        };
        if known.is_empty() {
            return lookup.await;
        }
        match timeout(LOOKUP_LIMIT, lookup).await {
            Ok(Ok(addresses)) => Ok(addresses),
            _ => Ok(known),
        }
    }

    /// Begins a lookup in a task of its own, so that a later request can use the answer if this one ends before.
    fn lookup(&self, host: &str) -> Lookup {
        let (answer, addresses) = ((self.resolver)(host.to_owned()), Arc::clone(&self.addresses));
        let task = tokio::spawn(async move {
            let answer = match answer.await {
                Ok(addresses) if addresses.is_empty() => Err(io::Error::other("the name has no address")),
                answer => answer,
            };
            let mut state = addresses.state();
            state.lookup = None;
            if let Ok(addresses) = &answer {
                state.known.clone_from(addresses);
            }
            answer
        });
        async move { task.await.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(Arc::new) }
            .boxed()
            .shared()
    }

    /// Returns the first connection to one of these addresses.
    async fn connect_to_any(&self, addresses: Vec<SocketAddr>, server: &Uri) -> Result<TokioIo<TcpStream>, Error> {
        let mut left = addresses.into_iter();
        let mut attempts = FuturesUnordered::new();
        let mut first_failure = None;
        loop {
            let newest = left.next();
            if let Some(address) = newest {
                self.addresses.begin(address);
                let resolver = tower::service_fn(move |_: Name| ready(Ok::<_, Infallible>(once(address))));
                let connecting = tcp(resolver).call(server.clone());
                attempts.push(async move { (address, connecting.await) });
            }
            let is_last = left.len() == 0;
            tokio::select! {
                biased;
                Some((address, connected)) = attempts.next() => match connected {
                    Ok(stream) => {
                        self.addresses.reached(address);
                        return Ok(stream);
                    }
                    Err(source) => {
                        self.addresses.demote(address);
                        let failure = first_failure.take().unwrap_or(Error::Connect { address, source: source.into() });
                        if is_last && attempts.is_empty() {
                            return Err(failure);
                        }
                        first_failure = Some(failure);
                    }
                },
                () = sleep(ATTEMPT_DELAY), if !is_last => {
                    if let Some(address) = newest {
                        self.addresses.demote(address);
                    }
                }
            }
        }
    }
}

impl Service<Uri> for AddressConnector {
    type Response = TokioIo<TcpStream>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        self.clone().connect(server).boxed()
    }
}

impl Addresses {
    /// A request got no answer. So the address that was tried or reached last may be dead, or may belong to a server
    /// that hangs.
    pub(super) fn distrust_latest(&self) {
        let latest = self.state().latest.take();
        if let Some(address) = latest {
            self.demote(address);
        }
    }

    fn begin(&self, address: SocketAddr) {
        self.state().latest = Some(address);
    }

    fn reached(&self, address: SocketAddr) {
        let mut state = self.state();
        state.latest = Some(address);
        state.demoted.retain(|(demoted, _)| *demoted != address);
    }

    fn demote(&self, address: SocketAddr) {
        let mut state = self.state();
        state.demoted.retain(|(demoted, since)| *demoted != address && since.elapsed() < DEMOTION);
        if state.demoted.len() >= MOST_DEMOTED {
            state.demoted.remove(0);
        }
        state.demoted.push((address, Instant::now()));
    }

    /// Returns these addresses in the order in which to try them.
    fn in_order(&self, mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let state = self.state();
        addresses.sort_by_key(|address| {
            state.demoted.iter().rposition(|(demoted, since)| demoted == address && since.elapsed() < DEMOTION)
        });
        addresses
    }

    fn state(&self) -> MutexGuard<'_, AddressState> {
        // The values stay consistent even if a thread panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes TCP connections to the address that the resolver returns, at the port of the URI.
fn tcp<R>(resolver: R) -> HttpConnector<R> {
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    connector.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    connector
}

#[cfg(test)]
mod tests;
