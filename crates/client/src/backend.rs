//! Where Leases and candidates are kept.
//!
//! An elector needs little of its store, and all of it in earnest: versions that grow with every write of any object,
//! writes that land only on the version they name, failures that say whether the write may still land, and watches that
//! lag behind but never lie. In Kubernetes that is [`Requests`](crate::requests::Requests); in tests it is
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

/// How often a failure is told that goes on.
pub(crate) const TELL_EVERY: Duration = Duration::from_mins(1);

/// What becomes of a request.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, Failure>>;

/// What a watch of one object tells: each version that becomes known, or `None` when the object is missing. The first is
/// how it stands; versions in between may be left out, the last never is. It never ends.
pub type Sightings<T> = BoxStream<'static, Option<T>>;

/// A store of Leases and candidates, as electors use it. Nothing is ever sent again by it: to repeat a request is a
/// decision. A request that is dropped may still be executed.
pub trait Backend: Send + Sync + 'static {
    /// Reads the Lease live: what it says is not older than the sending.
    fn read_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord>;

    /// Creates the Lease [as everybody does](LeaseRecord::as_created). [`Failure::Conflict`] says that it exists.
    fn create_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord>;

    /// Writes the Lease if its version is that of `write`, else this is a [`Failure::Conflict`]. It never creates one.
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

    /// Creates the candidate. [`Failure::Conflict`] says that it exists.
    fn create_candidate<'a>(&'a self, nomination: &'a Nomination, renew_time: WireTime) -> Answer<'a, CandidateRecord>;

    /// Writes the candidate's renew time, if it still is the object with this uid, else this is a
    /// [`Failure::Conflict`]. With `refresh` it is made to say all that `nomination` says, except the priority.
    fn renew_candidate<'a>(
        &'a self,
        nomination: &'a Nomination,
        uid: &'a str,
        renew_time: WireTime,
        refresh: bool,
    ) -> Answer<'a, CandidateRecord>;

    /// Deletes the candidate, if it still is the object with this uid. One that is gone is [`Failure::Missing`].
    fn delete_candidate<'a>(&'a self, namespace: &'a str, name: &'a str, uid: &'a str) -> Answer<'a, ()>;

    /// All candidates of one Lease, by name. A store may leave out what exceeds 500 of them.
    fn list_candidates<'a>(&'a self, namespace: &'a str, lease: &'a str) -> Answer<'a, Vec<CandidateRecord>>;

    /// Watches a candidate.
    fn watch_candidate(&self, namespace: &str, name: &str) -> Sightings<CandidateRecord>;
}

/// Why a request brought no object. Whether a write was certainly not executed, or may still be, decides what may be
/// done next. Which object it was about is known to whoever asked; an elector names it, with the verb, when it tells.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Another version or another object stands (409).
    #[error("another version stands: read it, and decide anew")]
    Conflict,
    /// There is no such object (404).
    #[error("there is no such object, nor will there be unless somebody creates it, or its namespace or kind")]
    Missing,
    /// The server has certainly not executed it. A store other than Kubernetes says why by [`kube::Error::Service`].
    #[error("refused: {}; {}", brief(.0), if is_passing(.0) { "try again later" } else { "trying again alone does not help" })]
    Refused(Box<kube::Error>),
    /// It was never sent: too many requests of this process were under way for as long as it could wait.
    #[error("not sent within {} ms: too many requests of this process are under way", .0.as_millis())]
    NotSent(Duration),
    /// Nobody knows whether the server executed it, or will.
    #[error("outcome unknown: {}; read before you write again", brief(.0))]
    Unknown(Box<kube::Error>),
    /// There was no answer in time. The server may still execute it.
    #[error("no answer within {} ms, so that the outcome is unknown: read before you write again", .0.as_millis())]
    TimedOut(Duration),
}

impl Failure {
    /// Whether the same request may succeed later without anybody having changed something. After a conflict it is to be
    /// made anew from what stands now; one whose outcome is unknown may have succeeded already.
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

    /// How long the server asks to be left alone, where it does (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether RBAC does not allow it. What a quota refuses, or a namespace that is being deleted, is no such failure.
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

/// Whether a right is missing: with the same code the server refuses much that no Role can allow.
pub(crate) fn lacks_right(status: &Status) -> bool {
    // The API server's words for whatever authorizer it has: User "jane" cannot create resource "leases" ...
    status.is_forbidden() && status.message.contains("\" cannot ")
}

/// What to do where [a right is missing](lacks_right).
pub(crate) fn not_allowed(verb: &str, resource: &str, namespace: &str) -> String {
    format!("not allowed: grant the verb {verb} on {resource} in namespace {namespace}")
}

/// Whether the server asks for patience, or whoever gives the credentials failed. Everything else would be refused again.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429,
        kube::Error::Service(cause) => cause.is::<AuthError>(),
        _ => false,
    }
}

/// kube's error without the repetition that its own rendering has, and with the causes that this leaves out.
fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({})", status.message, status.code);
    }
    with_causes(error)
}

/// An error with its causes, as far as it does not tell them itself.
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
