//! The store of Leases and candidates.
//!
//! An elector relies on these properties of its store:
//!
//! - versions grow with every write of any object;
//! - a write takes effect only on the version that it names;
//! - a failure says whether the write may still take effect;
//! - a watch may lag behind, but never reports anything untrue.
//!
//! In Kubernetes the store is [`Requests`](crate::requests::Requests); in tests it is
//! [`MemoryBackend`](crate::testing::MemoryBackend). One contract test holds both to the same behaviour.

use std::error::Error;
use std::iter;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use hustings_core::elector::Outcome;
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, WireTime};
use kube::client::AuthError;
use kube::core::Status;

use crate::nomination::Nomination;

/// How often a lasting failure is logged.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The answer to a request.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// What a watch of one object reports: each version that it observes, or `None` when the object is missing. The first
/// item is the current state. A watch may skip intermediate versions, never the latest. It never ends.
pub type Sightings<T> = BoxStream<'static, Option<T>>;

/// A store of Leases and candidates, as electors use it. It never repeats a request on its own, because repeating is a
/// decision. A request that the caller drops may still be executed.
pub trait Backend: Send + Sync + 'static {
    /// Reads the Lease live: the answer is not older than the sending of the request.
    fn read_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord>;

    /// Creates the Lease [as every writer does](LeaseRecord::as_created). Returns [`Failure::Conflict`] if it exists.
    fn create_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord>;

    /// Writes the Lease if its version is that of `write`, else returns [`Failure::Conflict`]. Never creates a Lease.
    /// `current` is that version, as far as it is known.
    fn write_lease<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        write: &'a LeaseWrite,
        current: &'a LeaseRecord,
    ) -> Answer<'a, LeaseRecord>;

    /// Watches the Lease.
    fn watch_lease(&self, namespace: &str, name: &str) -> Sightings<LeaseRecord>;

    /// Reads a candidate live.
    fn read_candidate<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, CandidateRecord>;

    /// Creates the candidate. Returns [`Failure::Conflict`] if it exists.
    fn create_candidate<'a>(&'a self, nomination: &'a Nomination, renew_time: WireTime) -> Answer<'a, CandidateRecord>;

    /// Writes the candidate's renew time if the object still has this uid, else returns [`Failure::Conflict`]. With
    /// `refresh`, also writes everything that `nomination` contains, except the priority.
    fn renew_candidate<'a>(
        &'a self,
        nomination: &'a Nomination,
        uid: &'a str,
        renew_time: WireTime,
        refresh: bool,
    ) -> Answer<'a, CandidateRecord>;

    /// Deletes the candidate if the object still has this uid. Returns [`Failure::Missing`] if there is no candidate.
    fn delete_candidate<'a>(&'a self, namespace: &'a str, name: &'a str, uid: &'a str) -> Answer<'a, ()>;

    /// Lists all candidates of one Lease, by name. A store may omit those beyond the first 500.
    fn list_candidates<'a>(&'a self, namespace: &'a str, lease: &'a str) -> Answer<'a, Vec<CandidateRecord>>;

    /// Watches a candidate.
    fn watch_candidate(&self, namespace: &str, name: &str) -> Sightings<CandidateRecord>;
}

/// Why a request returned no object. The variant says whether a write was certainly not executed, which decides what
/// the caller may do next. The caller knows the object, so the failure does not name it; the elector's logs do, with
/// the verb.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Another version or another object exists (409).
    #[error("conflict: another version or object exists; read it and decide again")]
    Conflict,
    /// There is no such object (404).
    #[error("not found: create the object, or its namespace or kind")]
    Missing,
    /// The server has certainly not executed the request. A store other than Kubernetes gives the reason as
    /// [`kube::Error::Service`].
    #[error("refused: {}; {}", brief(.0), if is_passing(.0) { "try again later" } else { "a retry alone does not help" })]
    Refused(Box<kube::Error>),
    /// The request was never sent: too many requests of this process were under way for as long as it could wait.
    #[error("not sent within {} ms: too many requests of this process are under way; try again later", .0.as_millis())]
    NotSent(Duration),
    /// It is unknown whether the server executed the request, or still will.
    #[error("outcome unknown: {}; read before you write again", brief(.0))]
    Unknown(Box<kube::Error>),
    /// There was no answer in time. The server may still execute the request.
    #[error("no answer within {} ms: the outcome is unknown; read before you write again", .0.as_millis())]
    TimedOut(Duration),
}

impl Failure {
    /// Whether the same request can succeed later without an intervention. After a conflict, compute it again from the
    /// current version. A request with an unknown outcome may have succeeded already.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict | Self::NotSent(_) | Self::Unknown(_) | Self::TimedOut(_) => true,
            Self::Missing => false,
            Self::Refused(error) => is_passing(error),
        }
    }

    /// What the failed request means for the election.
    pub fn outcome<Record>(&self) -> Outcome<Record> {
        match self {
            Self::Conflict => Outcome::Conflict,
            Self::Missing => Outcome::Missing,
            Self::Refused(_) | Self::NotSent(_) => Outcome::Refused,
            Self::Unknown(_) | Self::TimedOut(_) => Outcome::Unknown,
        }
    }

    /// How long the server asks the client to pause (`Retry-After`), if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether RBAC denies the request. A refusal by a quota, or by a namespace under deletion, does not count.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(lacks_right)
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(error) | Self::Unknown(error) => match &**error {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Conflict | Self::Missing | Self::NotSent(_) | Self::TimedOut(_) => None,
        }
    }
}

/// Whether a permission is missing. The server uses the same code for many refusals that no Role can lift.
pub(crate) fn lacks_right(status: &Status) -> bool {
    // The API server's wording for any authorizer: User "jane" cannot create resource "leases" ...
    status.is_forbidden() && status.message.contains("\" cannot ")
}

/// The remedy for [a missing permission](lacks_right).
pub(crate) fn not_allowed(verb: &str, resource: &str, namespace: &str) -> String {
    format!("not allowed: grant the verb {verb} on {resource} in namespace {namespace}")
}

/// Whether the refusal is temporary: the server asks for a pause, or the provider of credentials failed. The server
/// would repeat any other refusal.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429,
        kube::Error::Service(cause) => cause.is::<AuthError>(),
        _ => false,
    }
}

/// kube's error without the repetition in its own rendering, and with the causes that its rendering omits.
fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({})", status.message, status.code);
    }
    with_causes(error)
}

/// An error with its causes, except those that its text already ends with.
pub(crate) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
