//! Why a request returned no object, and what that means.

use std::error::Error;
use std::time::Duration;
use std::{fmt, iter};

use hustings_core::model::{Object, Outcome, Reply};
use kube_core::response::StatusDetails;
use kube_core::{Resource, Status};

use crate::expected::NOT_THE_SERVER;

/// The interval at which a lasting failure is logged again.
pub const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Why a server does not know LeaseCandidates, and the remedy.
pub const NO_CRD: &str =
    "the LeaseCandidate CRD is not installed: install the chart, or run `hustings crds | kubectl apply -f -`";

/// The resource of candidates, as an RBAC role names it.
pub const CANDIDATES: &str = "leasecandidates.hustings.io";

/// The reason of a Status for a missing object.
const NOT_FOUND: &str = "NotFound";

/// How much of an answer without a Status goes into a message, in characters.
const LONGEST_EXCERPT: usize = 100;

/// What caused a failure. An answer of the API server gives a [`Status`], possibly inside another error.
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
    /// The request was never sent: the work of this process has shown no heartbeat for this long.
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

/// The answer to a request: the object, or `None` after its deletion.
pub type Answer = Result<Option<Object>, Failure>;

/// Converts an answer for the cores, which need to know only the effect of a failure on the objects.
pub fn reply_of(answer: Answer) -> Reply {
    match answer {
        Ok(Some(object)) => Reply::Landed(object),
        Ok(None) => Reply::Deleted,
        Err(failure) => failure.outcome(),
    }
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

    /// The Status with which the server answered, if that is the failure.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(cause) | Self::Unknown(cause) => status_in(&**cause),
            Self::Conflict | Self::Missing | Self::NotSent(_) | Self::NoHeartbeat(_) | Self::TimedOut(_) => None,
        }
    }
}

/// The meaning of an answer other than a success. Whether a 404 proves that the object is missing depends on the
/// request: see [`is_missing`].
impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status.code {
            404 if status.reason != NOT_FOUND => Self::Unknown(status.into()),
            409 => Self::Conflict,
            // The answer to a patch of an object that was replaced by another of the same name.
            422 if names_uid(&status) => Self::Conflict,
            // A proxy may answer 408 after it has passed the request on.
            408 => Self::Unknown(status.into()),
            400..=499 => Self::Refused(status.into()),
            _ => Self::Unknown(status.into()),
        }
    }
}

/// A failure before anything was sent, which may pass: no credentials, or no connection.
#[derive(Debug)]
pub struct Unsent(pub FailureCause);

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Unsent {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Returns the Status in an answer other than a success. The header `Retry-After`, which is the only information from a
/// server that sheds load, counts more than the body.
pub fn read_status(code: u16, retry_after: Option<&str>, body: &[u8]) -> Status {
    let mut status: Status = serde_json::from_slice(body)
        .unwrap_or_else(|_| Status::failure(&no_status(code, body), "Failed to parse error data"));
    status.code = code;
    if let Some(seconds) = retry_after.and_then(|seconds| seconds.parse().ok()) {
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
    status
}

/// Whether a failed request means that the object of kind `K` with this name is missing. A 404 alone does not prove
/// that, because a proxy may send it.
pub fn is_missing<K: Resource<DynamicType = ()>>(status: &Status, name: &str) -> bool {
    names(status, &K::group(&()), &K::plural(&()), name)
}

/// Whether a 404 is about the object with this name.
pub(crate) fn names(status: &Status, group: &str, plural: &str, name: &str) -> bool {
    let is_this = |details: &StatusDetails| details.name == name && details.kind == plural && details.group == group;
    status.code == 404 && status.reason == NOT_FOUND && !name.is_empty() && status.details.as_ref().is_some_and(is_this)
}

fn names_uid(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

/// The message for an answer without a Status: the first line of the body, such as a proxy's error page.
fn no_status(code: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let excerpt: String = body.trim().lines().next().unwrap_or_default().chars().take(LONGEST_EXCERPT).collect();
    if code == 404 {
        return format!("answered without a Kubernetes Status: {excerpt:?}; {NOT_THE_SERVER}");
    }
    excerpt
}

/// The Status that is this error, or that it wraps.
fn status_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Status> {
    let is = |error: &'a (dyn Error + 'static)| {
        error.downcast_ref().or_else(|| error.downcast_ref::<Box<Status>>().map(|status| &**status))
    };
    is(error).or_else(|| is(error.source()?))
}

/// Whether a permission is missing. The server uses the same code for many rejections that no RBAC role can lift. An
/// anonymous client lacks credentials rather than a permission.
pub fn lacks_right(status: &Status) -> bool {
    // The API server's wording for any authorizer: User "jane" cannot create resource "leases" ...
    let text = &status.message;
    status.is_forbidden() && text.contains("\" cannot ") && !text.contains("User \"system:anonymous\"")
}

/// The remedy for [a missing permission](lacks_right). An object without a namespace belongs to the cluster.
pub fn not_allowed(verb: &str, resource: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("not allowed: grant the verb {verb} on {resource} in namespace {namespace}"),
        None => format!("not allowed: grant the verb {verb} on {resource} in a ClusterRole"),
    }
}

/// Whether the rejection is temporary: the server asks for a pause, or the request could not be sent yet. The server
/// would reject any other request again.
fn is_passing(cause: &(dyn Error + 'static)) -> bool {
    cause.is::<Unsent>() || status_in(cause).is_some_and(|status| status.code == 429)
}

/// An error without the repetition in its rendering, and with the causes that its rendering omits.
fn brief(cause: &(dyn Error + 'static)) -> String {
    match status_in(cause) {
        Some(status) => format!("{} ({})", status.message, status.code),
        None => with_causes(cause),
    }
}

/// An error with its causes, except those that its text already ends with.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_header_counts_whatever_the_status_says_and_the_first_line_of_a_page_is_quoted() {
        for code in [429, 503] {
            let status =
                json!({ "status": "Failure", "code": code, "details": { "retryAfterSeconds": 1, "name": "l" } });
            let failure = Failure::from(read_status(code, Some("9"), status.to_string().as_bytes()));
            assert_eq!(failure.retry_after(), Some(Duration::from_secs(9)), "{code}");
        }
        let failure = Failure::from(read_status(502, None, "x".repeat(5_000).as_bytes())).to_string();
        let excerpt = "x".repeat(LONGEST_EXCERPT);
        assert_eq!(failure, format!("outcome unknown: {excerpt} (502); read before you write again"));
        let failure = Failure::from(read_status(404, None, b"<html>\nno</html>")).to_string();
        assert!(failure.contains(r#""<html>"; check for a proxy"#), "{failure}");
    }

    #[test]
    fn a_status_is_found_in_the_error_that_wraps_it_and_what_was_not_sent_may_be_sent_later() {
        #[derive(Debug, thiserror::Error)]
        #[error("api")]
        struct Wrapped(#[source] Box<Status>);
        let status = || Status::failure("busy", "").with_code(429);
        for failure in [Failure::from(status()), Failure::Refused(Wrapped(Box::new(status())).into())] {
            assert_eq!(failure.to_string(), "refused: busy (429); try again later");
        }
        let unsent = Failure::Refused(Unsent("no credentials".into()).into());
        assert_eq!(
            (unsent.to_string().as_str(), unsent.is_retryable()),
            ("refused: no credentials; try again later", true)
        );
    }
}
