//! Requests about Leases and candidates in Kubernetes, and the backend that they form. Each request has a deadline and
//! an answer with a definite meaning.
//!
//! Nothing here repeats a request, because repeating is a decision.

mod backend;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use http::header::{RETRY_AFTER, USER_AGENT};
use http::{StatusCode, Uri};
use hustings_core::model::{LeaseRecord, LeaseWrite};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::{AuthError, Body};
use kube::core::response::StatusDetails;
use kube::core::{ObjectList, Request, Status};
use kube::{Client, Config, Resource};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use crate::backend::Failure;

use crate::api::{ReadCandidate, ReadLease, empty_lease, lease_patch};
use crate::clock::{Clock, within};
use crate::connections;
use crate::gate::gate_error;

/// The field manager that the server records.
const FIELD_MANAGER: &str = "hustings";

/// How long connecting may take. It counts towards every request's own deadline, and bounds that of a watch.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may be silent: a watch ends after a minute.
const LONGEST_SILENCE: Duration = Duration::from_secs(65);

/// The reason of a Status for a missing object.
const NOT_FOUND: &str = "NotFound";

/// How much of an answer without a Status goes into a message, in characters.
const LONGEST_EXCERPT: usize = 100;

/// The maximum number of candidates of one Lease that are listed.
const MOST_LISTED: u32 = 500;

/// Returns a client for Lease traffic. It never repeats a request on its own, because the validity of a repeated write
/// would count from the wrong instant.
///
/// Hustings also gives each single request a deadline. Lists and watches have none: they end when their connection has
/// been silent for longer than a watch lasts.
///
/// After a request without an answer, the next one uses a new connection. This does not hold behind a proxy
/// (`Config::proxy_url`), which also needs kube's feature `http-proxy` or `socks5`.
///
/// # Errors
/// Fails if the configuration cannot be used, for example because of a proxy whose feature is not enabled.
pub fn lease_client(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(LONGEST_SILENCE);
    // Otherwise the idle time of a pooled connection would count against the next answer.
    config.reset_reader_on_write = true;
    connections::client(config)
}

/// Sends requests, one at a time or concurrently. It keeps no state.
#[derive(Clone)]
pub struct Requests {
    client: Client,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    seed: u64,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            // A proxy may answer 408 after it has passed the request on.
            kube::Error::Api(status) => match status.code {
                // `send` checks which object the Status names.
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
            kube::Error::Service(cause) if cause.is::<AuthError>() => Self::Refused(Box::new(error)),
            _ if gate_error(&error).is_some_and(|error| !error.is_outcome_unknown()) => Self::Refused(Box::new(error)),
            _ => Self::Unknown(Box::new(error)),
        }
    }
}

impl Requests {
    /// Creates requests through `client`. None takes longer than `timeout`. The client must not retry: see
    /// [`lease_client`].
    pub fn new(client: Client, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self { client, clock, timeout, seed: rand::make_rng::<StdRng>().next_u64() }
    }

    /// Draws the pauses after failed watches from `seed` instead of the system's randomness.
    #[must_use]
    pub const fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns the client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Reads a Lease live.
    pub async fn read_lease(&self, namespace: &str, name: &str) -> Result<ReadLease, Failure> {
        self.read(namespace, name).await
    }

    /// Creates an empty Lease. Returns [`Failure::Conflict`] if it exists.
    pub async fn create_lease(&self, namespace: &str, name: &str) -> Result<ReadLease, Failure> {
        self.create(namespace, &empty_lease(namespace, name)).await
    }

    /// Writes a Lease. `current` is the version that `write` is conditional on.
    pub async fn write_lease(
        &self,
        namespace: &str,
        name: &str,
        write: &LeaseWrite,
        current: &LeaseRecord,
    ) -> Result<ReadLease, Failure> {
        self.patch(namespace, name, &lease_patch(write, current)).await
    }

    /// Reads a candidate live.
    pub async fn read_candidate(&self, namespace: &str, name: &str) -> Result<ReadCandidate, Failure> {
        self.read(namespace, name).await
    }

    /// Creates a candidate.
    pub async fn create_candidate(&self, namespace: &str, candidate: &Value) -> Result<ReadCandidate, Failure> {
        self.create(namespace, candidate).await
    }

    /// Patches the spec and metadata of a candidate by a merge patch.
    pub async fn patch_candidate(&self, namespace: &str, name: &str, patch: &Value) -> Result<ReadCandidate, Failure> {
        self.patch(namespace, name, patch).await
    }

    /// Patches the status of a candidate by a merge patch.
    pub async fn patch_candidate_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<ReadCandidate, Failure> {
        let request = request::<ReadCandidate>(namespace).patch_subresource(
            "status",
            name,
            &patch_params(),
            &Patch::Merge(patch),
        );
        self.send::<ReadCandidate, _>(namespace, name, request).await
    }

    /// Deletes a candidate if the object still has this uid and, if given, this version. Returns the candidate if a
    /// finalizer keeps it. Returns [`Failure::Missing`] if there is no candidate.
    pub async fn delete_candidate(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<u64>,
    ) -> Result<Option<ReadCandidate>, Failure> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(|version| version.to_string()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = request::<ReadCandidate>(namespace).delete(name, &params);
        let answer: Value = self.send::<ReadCandidate, _>(namespace, name, request).await?;
        let is_kept = answer["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        Ok(is_kept.then(|| ReadCandidate::from_json(answer)))
    }

    /// Lists the candidates of one Lease, at most 500. Returns [`Failure::Missing`] if the cluster does not serve
    /// LeaseCandidates.
    pub async fn list_candidates(&self, namespace: &str, lease: &str) -> Result<Vec<ReadCandidate>, Failure> {
        let params = ListParams::default().fields(&format!("spec.leaseName={lease}")).limit(MOST_LISTED);
        let request = request::<ReadCandidate>(namespace).list(&params);
        let list: ObjectList<ReadCandidate> = self.send::<ReadCandidate, _>(namespace, "", request).await?;
        Ok(list.items)
    }

    async fn read<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<K, Failure> {
        let request = request::<K>(namespace).get(name, &kube::api::GetParams::default());
        self.send::<K, K>(namespace, name, request).await
    }

    async fn create<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<K, Failure> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let request = request::<K>(namespace).create(&params, object.to_string().into_bytes());
        self.send::<K, K>(namespace, "", request).await
    }

    async fn patch<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, Failure> {
        let request = request::<K>(namespace).patch(name, &patch_params(), &Patch::Merge(patch));
        self.send::<K, K>(namespace, name, request).await
    }

    /// Sends a request about the object of kind `K` with this name. An empty name means no particular object.
    async fn send<K: Resource<DynamicType = ()>, T: DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Failure> {
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        request.headers_mut().insert(USER_AGENT, connections::user_agent());
        let answer = async {
            let answered = async { answer_to(self.client.send(request.map(Body::from)).await?).await };
            match answered.await {
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    let is_missing = is_missing::<K>(&status, name)
                        // A missing namespace also makes a creation fail.
                        || names(&status, "", "namespaces", namespace)
                        // Rare, and large.
                        || lacks_kind::<K>(&self.client).boxed().await;
                    Err(if is_missing { Failure::Missing } else { kube::Error::Api(status).into() })
                }
                answer => Ok(answer?),
            }
        };
        within(&*self.clock, self.timeout, answer).await
    }
}

/// Whether a failed request means that the object of kind `K` with this name is missing. A 404 alone does not: a proxy
/// that does not know the object answers the same.
pub fn is_missing<K: Resource<DynamicType = ()>>(status: &Status, name: &str) -> bool {
    names(status, &K::group(&()), &K::plural(&()), name)
}

/// Whether the cluster certainly does not serve LeaseCandidates. A 404 alone does not prove that, because a proxy may
/// send it. The server's list of API groups does.
pub async fn lacks_candidates(client: &Client) -> bool {
    let mut request = http::Request::new(Vec::new());
    *request.uri_mut() = Uri::from_static("/apis");
    request.headers_mut().insert(USER_AGENT, connections::user_agent());
    match client.request::<APIGroupList>(request).await {
        Ok(list) => !list.groups.is_empty() && !list.groups.iter().any(|group| group.name == ReadCandidate::group(&())),
        Err(_) => false,
    }
}

/// The same for any kind. Every server serves Leases.
async fn lacks_kind<K: Resource<DynamicType = ()>>(client: &Client) -> bool {
    K::group(&()) == ReadCandidate::group(&()) && lacks_candidates(client).await
}

fn names(status: &Status, group: &str, plural: &str, name: &str) -> bool {
    let is_it = |details: &StatusDetails| details.name == name && details.kind == plural && details.group == group;
    status.code == 404 && status.reason == NOT_FOUND && !name.is_empty() && status.details.as_ref().is_some_and(is_it)
}

fn request<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace)))
}

/// Reads an answer. Unlike kube's own function, it keeps the header `Retry-After`, the only information from a server
/// that sheds load.
async fn answer_to<T: DeserializeOwned>(response: http::Response<Body>) -> Result<T, kube::Error> {
    let (head, body) = response.into_parts();
    let body = body.collect_bytes().await?;
    if head.status.is_success() {
        return serde_json::from_slice(&body).map_err(kube::Error::SerdeError);
    }
    let mut status: Status = serde_json::from_slice(&body)
        .unwrap_or_else(|_| Status::failure(&no_status(head.status, &body), "Failed to parse error data"));
    status.code = head.status.as_u16();
    let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    if let Some(seconds) = retry_after {
        let (name, group, kind, uid) = Default::default();
        let none = StatusDetails { name, group, kind, uid, causes: Vec::new(), retry_after_seconds: 0 };
        status.details.get_or_insert(none).retry_after_seconds = seconds;
    }
    Err(kube::Error::Api(status.boxed()))
}

/// The message for an answer without a Status. The first line of a proxy's page is enough.
fn no_status(code: StatusCode, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let excerpt: String = body.trim().lines().next().unwrap_or_default().chars().take(LONGEST_EXCERPT).collect();
    if code == StatusCode::NOT_FOUND {
        return format!("answered without a Kubernetes Status: {excerpt:?}; check for a proxy in between");
    }
    excerpt
}

fn names_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

#[cfg(test)]
mod tests;
