//! Requests about Leases and candidates, each with a deadline and an answer whose meaning is known.
//!
//! Whether a write was certainly not executed, or may still be, decides what may be done next, so every failure falls
//! into one of four kinds. Nothing is ever sent again here: to repeat a request is a decision.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use hustings_core::elector::Outcome;
use hustings_core::model::{LeaseRecord, LeaseWrite};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Client, Config, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::{ReadCandidate, ReadLease, empty_lease, lease_patch};
use crate::clock::Clock;

/// Who the server notes as the writer of fields.
const FIELD_MANAGER: &str = "hustings";

/// How long it may take to connect. It is part of every request's own deadline, and bounds that of a watch.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client as Lease traffic needs it: it sends nothing twice of its own accord, since a repeated write would count
/// from the wrong instant.
///
/// Every single request of Hustings has a deadline besides; a read timeout would end idle watches, which are bounded
/// otherwise.
pub fn lease_client(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config)
}

/// Why a request brought no object.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Another version or another object stands (409).
    #[error("another version stands")]
    Conflict,
    /// There is no such object (404).
    #[error("there is no such object")]
    Missing,
    /// The server has certainly not executed it.
    #[error("refused: {}", brief(.0))]
    Refused(Box<kube::Error>),
    /// Nobody knows whether the server executed it, or will.
    #[error("outcome unknown: {}", brief(.0))]
    Unknown(Box<kube::Error>),
    /// There was no answer in time. The server may still execute it.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
}

/// Sends requests, one at a time or many: it keeps no state.
#[derive(Clone)]
pub struct Requests {
    client: Client,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

impl Failure {
    /// What the failed request means for the election.
    pub fn outcome<Record>(&self) -> Outcome<Record> {
        match self {
            Self::Conflict => Outcome::Conflict,
            Self::Missing => Outcome::Missing,
            Self::Refused(_) => Outcome::Refused,
            Self::Unknown(_) | Self::TimedOut(_) => Outcome::Unknown,
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match &error {
            // 408 is also what a proxy says after it has passed the request on.
            kube::Error::Api(status) => match status.code {
                404 => Self::Missing,
                409 => Self::Conflict,
                408 => Self::Unknown(Box::new(error)),
                400..=499 => Self::Refused(Box::new(error)),
                _ => Self::Unknown(Box::new(error)),
            },
            // These are found before anything is sent.
            kube::Error::BuildRequest(_) | kube::Error::Auth(_) => Self::Refused(Box::new(error)),
            _ => Self::Unknown(Box::new(error)),
        }
    }
}

impl Requests {
    /// Requests by `client`, none of which takes longer than `timeout`. The client must not retry: see
    /// [`lease_client`].
    pub fn new(client: Client, clock: Arc<dyn Clock>, timeout: Duration) -> Self {
        Self { client, clock, timeout }
    }

    /// The client.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Reads a Lease live.
    pub async fn read_lease(&self, namespace: &str, name: &str) -> Result<ReadLease, Failure> {
        self.read(namespace, name).await
    }

    /// Creates a Lease, empty. [`Failure::Conflict`] says that it exists.
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
        self.send(request).await
    }

    /// Deletes a candidate if it is still this one. A candidate that is gone is [`Failure::Missing`].
    pub async fn delete_candidate(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        resource_version: Option<u64>,
    ) -> Result<(), Failure> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: resource_version.map(|version| version.to_string()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.send::<Value>(request::<ReadCandidate>(namespace).delete(name, &params)).await.map(drop)
    }

    async fn read<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<K, Failure> {
        self.send(request::<K>(namespace).get(name, &kube::api::GetParams::default())).await
    }

    async fn create<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<K, Failure> {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        self.send(request::<K>(namespace).create(&params, object.to_string().into_bytes())).await
    }

    async fn patch<K: Resource<DynamicType = ()> + DeserializeOwned>(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<K, Failure> {
        self.send(request::<K>(namespace).patch(name, &patch_params(), &Patch::Merge(patch))).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, Failure> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        let deadline = self.clock.sleep_until(self.clock.now().after(self.timeout));
        match select(Box::pin(self.client.request(request)), deadline).await {
            Either::Left((answer, _)) => Ok(answer?),
            // Dropping the request closes its connection, so that the next one does not wait behind it.
            Either::Right(((), _)) => Err(Failure::TimedOut(self.timeout)),
        }
    }
}

fn request<K: Resource<DynamicType = ()>>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace)))
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

/// kube's error without the repetition that its own rendering has.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::clock::SystemClock;

    async fn answered(code: u16) -> Result<ReadLease, Failure> {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let body =
                json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "m" });
            Ok::<_, std::convert::Infallible>(
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap(),
            )
        });
        let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
        requests.read_lease("n", "l").await
    }

    #[tokio::test]
    async fn every_answer_has_its_meaning() {
        for (code, expected) in [
            (200, None),
            (400, Some(Outcome::Refused)),
            (403, Some(Outcome::Refused)),
            (404, Some(Outcome::Missing)),
            (408, Some(Outcome::Unknown)),
            (409, Some(Outcome::Conflict)),
            (422, Some(Outcome::Refused)),
            (429, Some(Outcome::Refused)),
            (500, Some(Outcome::Unknown)),
            (503, Some(Outcome::Unknown)),
            (504, Some(Outcome::Unknown)),
        ] {
            let outcome = answered(code).await.err().map(|failure| failure.outcome::<()>());
            assert_eq!(outcome, expected, "{code}");
        }
    }

    #[tokio::test]
    async fn a_request_without_an_answer_ends_at_its_deadline() {
        let service =
            tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, std::io::Error>>());
        let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_millis(20));
        let failure = requests.create_lease("n", "l").await.unwrap_err();
        assert!(matches!(failure, Failure::TimedOut(_)), "{failure}");
        assert_eq!(failure.outcome::<()>(), Outcome::Unknown);
    }

    #[tokio::test]
    async fn a_lost_connection_leaves_the_outcome_unknown() {
        let service = tower::service_fn(|_: Request<Body>| async {
            Err::<Response<Body>, _>(std::io::Error::other("connection reset"))
        });
        let requests = Requests::new(Client::new(service, "default"), SystemClock::shared(), Duration::from_mins(1));
        let failure = requests.create_lease("n", "l").await.unwrap_err();
        assert_eq!(failure.outcome::<()>(), Outcome::Unknown);
        assert!(failure.to_string().contains("connection reset"), "{failure}");
    }
}
