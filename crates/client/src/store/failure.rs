//! Why a request returned no object, and the deadline of a request.

use std::error::Error;
use std::iter;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use hustings_core::model::Outcome;
use kube::core::Status;

use crate::access::AccessError;
use crate::clock::Clock;

/// The interval at which a lasting failure is logged again.
pub(crate) const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Why a server does not know LeaseCandidates, and the remedy.
pub(crate) const NO_CRD: &str =
    "the LeaseCandidate CRD is not installed: install the chart, or run `hustings crds | kubectl apply -f -`";

/// The resource of candidates, as an RBAC role names it.
pub(crate) const CANDIDATES: &str = "leasecandidates.hustings.io";

/// What caused a failure. Kubernetes gives a [`kube::Error`].
pub type FailureCause = Box<dyn Error + Send + Sync>;

/// Why a request returned no object. The variant reports whether a write was certainly not executed, which determines
/// what the caller may do next. The failure does not name the object, which the caller knows. The elector's logs name
/// the object and the verb.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Another version or another object exists (409).
    #[error("conflict: another version or object exists; read it and decide again")]
    Conflict,
    /// There is no such object (404).
    #[error("not found: create the object, or its namespace or kind")]
    Missing,
    /// The server has certainly not executed the request.
    #[error("refused: {}; {}", brief(&**.0), if is_passing(&**.0) { "try again later" } else { "a retry alone does not help" })]
    Refused(FailureCause),
    /// The request was never sent: too many requests of this process were under way for as long as it could wait.
    #[error("not sent within {} ms: too many requests of this process are under way; try again later", .0.as_millis())]
    NotSent(Duration),
    /// The request was never sent: the work of this process has shown no [heartbeat](crate::Heartbeat) for this long.
    #[error(
        "not sent: the task that supervises the work has not run for {} ms, so this replica does not prove that it is \
         alive; look for a system call that blocks it",
        .0.as_millis()
    )]
    NoHeartbeat(Duration),
    /// It is unknown whether the server executed the request, or still will.
    #[error("outcome unknown: {}; read before you write again", brief(&**.0))]
    Unknown(FailureCause),
    /// There was no answer in time. The server may still execute the request.
    #[error("no answer within {} ms: the outcome is unknown; read before you write again", .0.as_millis())]
    TimedOut(Duration),
}

impl Failure {
    /// Whether the same request can succeed later without an intervention. After a conflict, compute it again from the
    /// current version. A request with an unknown outcome may have succeeded already.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict | Self::NotSent(_) | Self::NoHeartbeat(_) | Self::Unknown(_) | Self::TimedOut(_) => true,
            Self::Missing => false,
            Self::Refused(cause) => is_passing(&**cause),
        }
    }

    /// What the failed request means for the election.
    pub fn outcome<Record>(&self) -> Outcome<Record> {
        match self {
            Self::Conflict => Outcome::Conflict,
            Self::Missing => Outcome::Missing,
            Self::Refused(_) | Self::NotSent(_) | Self::NoHeartbeat(_) => Outcome::Refused,
            Self::Unknown(_) | Self::TimedOut(_) => Outcome::Unknown,
        }
    }

    /// How long the server asks the client to pause (`Retry-After`), if it does.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether RBAC denies the request. A rejection by a quota, or in a namespace under deletion, does not count.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(lacks_right)
    }

    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(cause) | Self::Unknown(cause) => match cause.downcast_ref()? {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            Self::Conflict | Self::Missing | Self::NotSent(_) | Self::NoHeartbeat(_) | Self::TimedOut(_) => None,
        }
    }
}

/// Returns the answer to a request, or [`Failure::TimedOut`]. Dropping a request closes its connection, so that the
/// next request does not wait behind it.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    timeout: Duration,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match select(pin!(request), clock.sleep_until(clock.now().after(timeout))).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), _)) => Err(Failure::TimedOut(timeout)),
    }
}

/// Whether a permission is missing. The server uses the same code for many rejections that no RBAC role can lift. An
/// anonymous client lacks credentials rather than a permission.
pub(crate) fn lacks_right(status: &Status) -> bool {
    // The API server's wording for any authorizer: User "jane" cannot create resource "leases" ...
    let text = &status.message;
    status.is_forbidden() && text.contains("\" cannot ") && !text.contains("User \"system:anonymous\"")
}

/// The remedy for [a missing permission](lacks_right). An object without a namespace belongs to the cluster.
pub(crate) fn not_allowed(verb: &str, resource: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("not allowed: grant the verb {verb} on {resource} in namespace {namespace}"),
        None => format!("not allowed: grant the verb {verb} on {resource} in a ClusterRole"),
    }
}

/// Whether the rejection is temporary: the server asks for a pause, or the provider of credentials failed. The server
/// would reject any other request again.
fn is_passing(cause: &(dyn Error + 'static)) -> bool {
    match cause.downcast_ref() {
        Some(kube::Error::Api(status)) => status.code == 429,
        Some(kube::Error::Service(cause)) => cause.is::<AccessError>(),
        _ => false,
    }
}

/// An error without the repetition in kube's rendering, and with the causes that its rendering omits.
fn brief(cause: &(dyn Error + 'static)) -> String {
    match cause.downcast_ref() {
        Some(kube::Error::Api(status)) => format!("{} ({})", status.message, status.code),
        _ => with_causes(cause),
    }
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
