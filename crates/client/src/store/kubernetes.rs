//! The store in Kubernetes. Each request has a deadline and an answer with a definite meaning.
//!
//! This module never repeats a request: only the caller decides about that.

mod wire;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{StatusCode, Uri};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use hustings_core::model::{CandidateRecord, LeaseRecord, Request};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::{Client, Config, Resource};
use rand::Rng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tower::BoxError;

use super::answers::{self, NOT_THE_SERVER, checked};
use super::connections;
use super::contract::{Answer, Store, Versions};
use super::failure::{Failure, within};
use crate::access::AccessError;
use crate::api::{NativeVersion, ReadCandidate, ReadLease, names};
use crate::clock::Clock;
use crate::watch::watch_object;
use crate::work::gate::gate_error;

/// How long connecting may take. A request also has its own deadline, which includes this time. A watch has no other
/// deadline for its start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be silent: a watch ends after a minute.
const LONGEST_SILENCE: Duration = Duration::from_secs(65);

/// The reason of a Status for a missing object.
const NOT_FOUND: &str = "NotFound";

/// How much of an answer without a Status goes into a message, in characters.
const LONGEST_EXCERPT: usize = 100;

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

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            // A proxy may answer 408 after it has passed the request on.
            kube::Error::Api(status) => match status.code {
                // `exchange` checks which object the Status names.
                404 if status.reason != NOT_FOUND => Self::Unknown(Box::new(error)),
                409 => Self::Conflict,
                // The answer to a patch of an object that was replaced by another of the same name.
                422 if names_uid(status) => Self::Conflict,
                408 => Self::Unknown(Box::new(error)),
                400..=499 => Self::Refused(Box::new(error)),
                _ => Self::Unknown(Box::new(error)),
            },
            // These fail before anything is sent.
            kube::Error::BuildRequest(_) | kube::Error::Auth(_) => Self::Refused(Box::new(error)),
            kube::Error::Service(cause) if cause.is::<AccessError>() => Self::Refused(Box::new(error)),
            _ if gate_error(&error).is_some_and(|error| !error.is_outcome_unknown()) => Self::Refused(Box::new(error)),
            _ => Self::Unknown(Box::new(error)),
        }
    }
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
        let mut sent = wire::encode(namespace, request, native).map_err(kube::Error::BuildRequest)?;
        sent.headers_mut().insert(USER_AGENT, connections::user_agent());
        let answered = async { body_of(answers::send(&self.client, sent.map(Body::from)).boxed().await?).await };
        let answer = match answered.await {
            Ok(body) => wire::decode(request, &body).map_err(kube::Error::SerdeError)?,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let is_missing = self.is_missing(namespace, request, &status).await;
                return Err(if is_missing { Failure::Missing } else { kube::Error::Api(status).into() });
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(keeps) = answer.keeps_native_fields {
            // Every answer of one server shows the same.
            let _ = self.keeps_native_fields.set(keeps);
        }
        Ok(answer.object)
    }

    /// Whether this 404 proves that the object is missing, or that nothing can be created in its place.
    async fn is_missing(&self, namespace: &str, request: &Request, status: &Status) -> bool {
        let name: &str = match request {
            Request::ReadLease { name } | Request::WriteLease { name, .. } => name,
            Request::ReadCandidate { candidate }
            | Request::PatchCandidate { candidate, .. }
            | Request::DeleteCandidate { candidate, .. } => &candidate.name,
            Request::CreateLease { .. } | Request::CreateCandidate { .. } | Request::ListCandidates { .. } => "",
        };
        // A missing namespace also makes a creation fail.
        if names(status, "", "namespaces", namespace) {
            return true;
        }
        match request {
            Request::ReadLease { .. } | Request::CreateLease { .. } | Request::WriteLease { .. } => {
                is_missing::<ReadLease>(status, name)
            }
            // A request about a native candidate is sent only if the server serves that kind.
            _ if names(status, names::NATIVE_GROUP, "leasecandidates", name) => true,
            // The list of API groups is large, and is requested only if nothing else decides.
            _ => is_missing::<ReadCandidate>(status, name) || lacks_candidates(&self.client).boxed().await,
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

/// Whether a failed request means that the object of kind `K` with this name is missing. A 404 alone does not prove
/// that, because a proxy may send it.
pub fn is_missing<K: Resource<DynamicType = ()>>(status: &Status, name: &str) -> bool {
    names(status, &K::group(&()), &K::plural(&()), name)
}

/// Whether the cluster certainly does not serve LeaseCandidates. A 404 alone does not prove that, because a proxy may
/// send it. The server's list of API groups does.
pub async fn lacks_candidates(client: &Client) -> bool {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = Uri::from_static("/apis");
    request.headers_mut().insert(USER_AGENT, connections::user_agent());
    match checked(client.clone()).request::<APIGroupList>(request).await {
        Ok(list) => !list.groups.is_empty() && !list.groups.iter().any(|group| group.name == ReadCandidate::group(&())),
        Err(_) => false,
    }
}

fn names(status: &Status, group: &str, plural: &str, name: &str) -> bool {
    let is_this = |details: &StatusDetails| details.name == name && details.kind == plural && details.group == group;
    status.code == 404 && status.reason == NOT_FOUND && !name.is_empty() && status.details.as_ref().is_some_and(is_this)
}

/// Returns the body of a success. Unlike kube's own function, it keeps the header `Retry-After`, which is the only
/// information from a server that sheds load.
async fn body_of<B>(response: http::Response<B>) -> Result<Vec<u8>, kube::Error>
where
    B: HttpBody<Error: Into<BoxError>>,
{
    let (head, body) = response.into_parts();
    let broken = |error: B::Error| error.into().downcast().map_or_else(kube::Error::Service, |error| *error);
    let body = body.collect().await.map_err(broken)?.to_bytes().to_vec();
    if head.status.is_success() {
        return Ok(body);
    }
    let mut status: Status = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Status::failure(&no_status(head.status, &body), "Failed to parse error data"));
    status.code = head.status.as_u16();
    let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(seconds) = retry_after {
        let none = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        };
        status.details.get_or_insert(none).retry_after_seconds = seconds;
    }
    Err(kube::Error::Api(status.boxed()))
}

/// The message for an answer without a Status: the first line of the body, such as a proxy's error page.
fn no_status(code: StatusCode, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let excerpt: String = body.trim().lines().next().unwrap_or_default().chars().take(LONGEST_EXCERPT).collect();
    if code == StatusCode::NOT_FOUND {
        return format!("answered without a Kubernetes Status: {excerpt:?}; {NOT_THE_SERVER}");
    }
    excerpt
}

fn names_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests;
