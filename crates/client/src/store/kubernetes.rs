//! The store in Kubernetes. Each request has a deadline and an answer with a definite meaning.
//!
//! This module never repeats a request: only the caller decides about that.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::header::{RETRY_AFTER, USER_AGENT};
use hustings_core::model::{CandidateRecord, LeaseRecord, Request};
use hustings_wire::exchange::{Exchange, Next, groups};
pub use hustings_wire::failure::is_missing;
use hustings_wire::request::Decoded;
use hustings_wire::watch::LONGEST_SILENCE;
use kube::client::Body;
use kube::{Client, Config};
use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;

use super::answers::{self, checked};
use super::connections;
use super::contract::{Answer, Store, Versions};
use super::failure::{failure_of, within};
use crate::api::{NativeVersion, ReadCandidate, ReadLease};
use crate::clock::Clock;
use crate::watch::watch_object;

/// How long connecting may take. A request also has its own deadline, which includes this time. A watch has no other
/// deadline for its start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns a client for Lease traffic. It never repeats a request on its own, because the validity of a repeated write
/// would count from the wrong instant.
///
/// Hustings also gives each single request a deadline. Lists and watches have none: they end when their connection has
/// been silent for longer than a watch lasts.
///
/// After a request without an answer, the next one uses a new connection. If the name of the server has several
/// addresses, a dead one does not delay a connection to the others by more than a quarter of a second. Both also hold
/// behind a proxy (`Config::proxy_url`).
///
/// # Errors
/// Fails if the configuration cannot be used, for example because of a proxy whose scheme is not supported.
pub fn lease_client(config: Config) -> Result<Client, kube::Error> {
    connections::client(lease_config(config)).map(checked)
}

/// The configuration of a [`lease_client`].
pub(crate) fn lease_config(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(LONGEST_SILENCE);
    // Otherwise the idle time of a pooled connection would count against the next answer.
    config.reset_reader_on_write = true;
    config
}

/// Returns a client for programs that only read. Like a [`lease_client`], except that it repeats a request that the
/// server was too busy to answer, or could not answer yet.
///
/// # Errors
/// Fails if the configuration cannot be used, for example because of a proxy whose scheme is not supported.
pub fn reading_client(config: Config) -> Result<Client, kube::Error> {
    let mut config = lease_config(config);
    config.default_retry = true;
    connections::client(config).map(checked)
}

/// Leases and candidates in Kubernetes. Clones share everything.
#[derive(Clone)]
pub struct Kubernetes {
    client: Client,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    seed: u64,
    native: watch::Receiver<Option<NativeVersion>>,
    keeps_native_fields: Arc<OnceLock<bool>>,
}

impl Kubernetes {
    /// Creates a store behind `client`. No request takes longer than `timeout`. The client must not retry: see
    /// [`lease_client`].
    pub fn new(client: Client, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        let seed = rand::make_rng::<StdRng>().next_u64();
        let native = watch::channel(None).1;
        Self { client, clock, timeout, seed, native, keeps_native_fields: Arc::default() }
    }

    /// Derives the random parts of the pauses after failed watches from `seed`, not from the system's randomness.
    #[must_use]
    pub const fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sends requests about native candidates to the version of their API that the server was last found to serve.
    #[must_use]
    pub fn native_version(mut self, served: watch::Receiver<Option<NativeVersion>>) -> Self {
        self.native = served;
        self
    }

    /// Returns the client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the server keeps the native copies of strategy and preferred holder; `None` until an answer has shown
    /// it.
    pub fn keeps_native_fields(&self) -> Option<bool> {
        self.keeps_native_fields.get().copied()
    }

    async fn exchange(&self, namespace: &str, request: &Request) -> Answer {
        let native = self.native.borrow().unwrap_or_default();
        let (mut exchange, mut sent) = Exchange::begin(namespace, request, native)
            .map_err(|error| failure_of(kube::Error::BuildRequest(error)))?;
        loop {
            sent.headers_mut().insert(USER_AGENT, connections::user_agent());
            let answer = answers::send_unchecked(&self.client, sent.map(Body::from)).boxed().await;
            let (head, body) = answer.map_err(|error| exchange.failed(failure_of(error)))?.into_parts();
            let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            sent = match exchange.answered(namespace, request, head.status.as_u16(), retry_after, &body) {
                Next::Ask(next) => next,
                Next::Answered(answer) => {
                    let Decoded { object, keeps_native_fields } = answer?;
                    if let Some(keeps) = keeps_native_fields {
                        // Every answer of one server shows the same.
                        let _ = self.keeps_native_fields.set(keeps);
                    }
                    return Ok(object);
                }
            };
        }
    }
}

impl Store for Kubernetes {
    fn send<'a>(&'a self, namespace: &'a str, request: &'a Request) -> BoxFuture<'a, Answer> {
        within(&*self.clock, self.timeout, self.exchange(namespace, request)).boxed()
    }

    fn watch_lease(&self, namespace: &str, name: &str) -> Versions<LeaseRecord> {
        let leases = watch_object::<ReadLease>(self.client.clone(), namespace, name, self.seed);
        leases.map(|lease| lease.map(|lease| lease.record)).boxed()
    }

    fn watch_candidate(&self, namespace: &str, name: &str) -> Versions<CandidateRecord> {
        let candidates = watch_object::<ReadCandidate>(self.client.clone(), namespace, name, self.seed);
        candidates.map(|candidate| candidate.map(|candidate| candidate.record)).boxed()
    }
}

/// Whether the cluster certainly does not serve LeaseCandidates. A 404 alone does not prove that, because a proxy may
/// send it. The server's list of API groups does.
pub async fn lacks_candidates(client: &Client) -> bool {
    let mut request = groups();
    request.headers_mut().insert(USER_AGENT, connections::user_agent());
    let list = checked(client.clone()).request_text(request).await;
    list.is_ok_and(|list| hustings_wire::exchange::lacks_candidates(list.as_bytes()))
}

#[cfg(test)]
mod tests;
