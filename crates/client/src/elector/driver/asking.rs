//! One request of an elector: its deadline, the log line of its failure, and the pause after it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hustings_core::model::{Moment, Request};

use crate::clock::Clock;
use crate::elector::heartbeat::Supervision;
use crate::store::failure::{CANDIDATES, LOG_INTERVAL, NO_CRD, not_allowed, within};
use crate::store::{Answer, Failure, Store};

/// The resource of Leases, as an RBAC role names it.
const LEASES: &str = "leases.coordination.k8s.io";

/// When each failure of one elector was last logged.
#[derive(Debug, Default)]
pub(crate) struct FailureLog(Mutex<BTreeMap<RequestPurpose, BTreeMap<FailureClass, Moment>>>);

/// Verb and resource.
type RequestPurpose = (&'static str, &'static str);

/// The classes of failures that the log distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FailureClass {
    Forbidden,
    Refused,
    NothingToCreateIn,
    Failed,
    /// A write of the Lease, of which a term has time for a few only. So each is logged.
    FailedRenewal,
}

/// The bounds of an elector's requests, and the log of their failures.
pub(crate) struct Asking {
    pub(crate) failures: FailureLog,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a request may take.
    pub(crate) timeout: Duration,
    pub(crate) namespace: String,
    /// The heartbeat of the work, without which the elector proves no life.
    pub(crate) supervision: Option<Supervision>,
}

impl Asking {
    /// Sends the request with a deadline, whatever the store does, and logs a failure.
    pub(super) async fn send(&self, store: &dyn Store, request: &Request) -> Answer {
        let supervised = async {
            self.supervise(request).await?;
            store.send(&self.namespace, request).await
        };
        let answer = within(&*self.clock, self.timeout, supervised).await;
        match &answer {
            Ok(_) => self.failures.succeeded(purpose(request)),
            Err(failure) => self.log(request, failure),
        }
        answer
    }

    /// Waits for a heartbeat of the work, for nearly all of the time that the request has: a beat just before the end
    /// leaves enough for a request to a healthy server.
    async fn supervise(&self, request: &Request) -> Result<(), Failure> {
        let Some(supervision) = &self.supervision else { return Ok(()) };
        let permitted = async {
            supervision.permits(request).await;
            Ok(())
        };
        let permitted = within(&*self.clock, self.timeout.saturating_mul(9) / 10, permitted).await;
        permitted.map_err(|_| Failure::NoHeartbeat(supervision.silence()))
    }

    /// Pauses for as long as the server asks. The elector gets the answer after the pause, so it does not repeat the
    /// request any earlier. Request and pause together take at most the request timeout, so that a second renewal is
    /// possible within the term.
    pub(super) async fn pause(&self, sent: Moment, answer: &Answer) {
        if let Some(pause) = answer.as_ref().err().and_then(Failure::retry_after) {
            let until = self.clock.now().after(pause).min(sent.after(self.timeout));
            self.clock.sleep_until(until).await;
        }
    }

    fn log(&self, request: &Request, failure: &Failure) {
        let namespace = &self.namespace;
        let name = request.object_name();
        let (verb, resource) = purpose(request);
        let is_due = |kind: &FailureClass| {
            *kind == FailureClass::FailedRenewal || self.failures.is_due((verb, resource), *kind, self.clock.now())
        };
        match kind((verb, resource), failure).filter(is_due) {
            Some(FailureClass::Forbidden) => {
                tracing::warn!(name, %failure, "{}", not_allowed(verb, resource, Some(namespace)));
            }
            Some(FailureClass::Refused) => tracing::warn!(namespace, name, verb, resource, %failure, "request refused"),
            Some(FailureClass::NothingToCreateIn) if resource == CANDIDATES => {
                tracing::warn!(namespace, name, resource, "cannot create: there is no such namespace, or {NO_CRD}");
            }
            Some(FailureClass::NothingToCreateIn) => {
                tracing::warn!(namespace, name, resource, "cannot create: there is no such namespace; create it first");
            }
            Some(FailureClass::Failed | FailureClass::FailedRenewal) => {
                tracing::warn!(namespace, name, verb, resource, %failure, "request failed");
            }
            None => tracing::debug!(namespace, name, verb, resource, %failure, "request failed"),
        }
    }
}

impl FailureLog {
    /// Whether to log this failure now: the first time, and then at intervals until a request succeeds.
    fn is_due(&self, purpose: RequestPurpose, kind: FailureClass, now: Moment) -> bool {
        // The values stay consistent even if a thread panics while it holds this lock.
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_purpose = failures.entry(purpose).or_default();
        let is_due = of_purpose.get(&kind).is_none_or(|last| now >= last.after(LOG_INTERVAL));
        if is_due {
            of_purpose.insert(kind, now);
        }
        is_due
    }

    /// Makes the next failure count as the first one.
    fn succeeded(&self, purpose: RequestPurpose) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&purpose);
    }
}

/// The verb and the resource of the request in RBAC.
const fn purpose(request: &Request) -> RequestPurpose {
    match request {
        Request::ReadLease { .. } => ("get", LEASES),
        Request::CreateLease { .. } => ("create", LEASES),
        Request::WriteLease { .. } => ("patch", LEASES),
        Request::ReadCandidate { .. } => ("get", CANDIDATES),
        Request::ListCandidates { .. } => ("list", CANDIDATES),
        Request::CreateCandidate { .. } => ("create", CANDIDATES),
        Request::PatchCandidate { .. } => ("patch", CANDIDATES),
        Request::DeleteCandidate { .. } => ("delete", CANDIDATES),
    }
}

/// The class of a failure, if a person should know about it.
fn kind((verb, resource): RequestPurpose, failure: &Failure) -> Option<FailureClass> {
    match failure {
        failure if failure.is_forbidden() => Some(FailureClass::Forbidden),
        Failure::Refused(_) => Some(FailureClass::Refused),
        // A creation cannot miss its object.
        Failure::Missing if verb == "create" => Some(FailureClass::NothingToCreateIn),
        Failure::Unknown(_) | Failure::TimedOut(_) if (verb, resource) == ("patch", LEASES) => {
            Some(FailureClass::FailedRenewal)
        }
        Failure::NotSent(_) | Failure::NoHeartbeat(_) | Failure::Unknown(_) | Failure::TimedOut(_) => {
            Some(FailureClass::Failed)
        }
        Failure::Conflict | Failure::Missing => None,
    }
}

#[cfg(test)]
mod tests {
    use hustings_core::model::{LeaseRecord, LeaseWrite, Purpose, WireTime};
    use kube::core::Status;

    use super::*;
    use crate::testing::{Log, MemoryStore, TokioClock, nomination};

    #[test]
    fn only_a_rejection_by_rbac_is_reported_as_a_missing_right() {
        let refused = |why: &str| {
            let message = format!("leasecandidates.hustings.io \"web-0\" is forbidden: {why}");
            let status = Status { code: 403, ..Status::failure(&message, "Forbidden") };
            kind(("create", CANDIDATES), &Failure::Refused(Box::new(kube::Error::Api(status.boxed()))))
        };
        let by_rbac = r#"User "jane" cannot create resource "leasecandidates" in API group "hustings.io""#;
        assert_eq!(refused(by_rbac), Some(FailureClass::Forbidden));
        for other in [
            "unable to create new content in namespace shop because it is being terminated",
            "create not allowed while custom resource definition is terminating",
            r#"User "system:anonymous" cannot create resource "leasecandidates" in API group "hustings.io""#,
            "exceeded quota: few, requested: count/leasecandidates.hustings.io=1, used: 2, limited: 2",
        ] {
            assert_eq!(refused(other), Some(FailureClass::Refused), "{other}");
        }
    }

    #[test]
    fn each_failure_that_a_person_should_know_about_is_logged() {
        let timed_out = || Failure::TimedOut(Duration::ZERO);
        for (verb, resource, failure, expected) in [
            ("create", LEASES, Failure::Missing, Some(FailureClass::NothingToCreateIn)),
            ("get", LEASES, Failure::Missing, None),
            ("get", LEASES, timed_out(), Some(FailureClass::Failed)),
            ("patch", LEASES, timed_out(), Some(FailureClass::FailedRenewal)),
            ("patch", CANDIDATES, timed_out(), Some(FailureClass::Failed)),
            ("patch", CANDIDATES, Failure::Unknown("webhook".into()), Some(FailureClass::Failed)),
            ("patch", LEASES, Failure::NotSent(Duration::ZERO), Some(FailureClass::Failed)),
            ("patch", CANDIDATES, Failure::Conflict, None),
        ] {
            assert_eq!(kind((verb, resource), &failure), expected, "{verb} {resource} {failure}");
        }
        assert_eq!(purpose(&Request::read_lease("l")), ("get", LEASES));
        assert_eq!(purpose(&Request::ReadCandidate { candidate: "c".into() }), ("get", CANDIDATES));
    }

    #[test]
    fn a_lasting_failure_is_reported_once_a_minute_and_again_after_a_success() {
        let failures = FailureLog::default();
        let at = |seconds: i64| Moment::from_micros(seconds * 1_000_000);
        let (create, get) = (("create", LEASES), ("get", LEASES));
        assert!(failures.is_due(create, FailureClass::Failed, at(0)));
        assert!(!failures.is_due(create, FailureClass::Failed, at(59)));
        assert!(failures.is_due(create, FailureClass::Forbidden, at(59)), "another class of failure");
        assert!(failures.is_due(get, FailureClass::Failed, at(59)));
        assert!(failures.is_due(create, FailureClass::Failed, at(60)));
        failures.succeeded(create);
        assert!(failures.is_due(create, FailureClass::Failed, at(61)));
        assert!(!failures.is_due(get, FailureClass::Failed, at(61)));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_success_the_next_failure_is_logged_again() {
        let (failures, clock) = (FailureLog::default(), TokioClock::shared());
        let now = clock.now();
        let asking =
            Asking { failures, clock, timeout: Duration::from_secs(5), namespace: "n".to_owned(), supervision: None };
        let failures = &asking.failures;
        let create = Request::create_lease("l");
        assert!(failures.is_due(purpose(&create), FailureClass::Refused, now));
        assert!(!failures.is_due(purpose(&create), FailureClass::Refused, now));
        asking.send(&MemoryStore::new(), &create).await.unwrap();
        assert!(failures.is_due(purpose(&create), FailureClass::Refused, now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_as_long_as_the_server_asks_and_at_most_the_rest_of_the_request_timeout() {
        let asking = Asking {
            failures: FailureLog::default(),
            clock: TokioClock::shared(),
            timeout: Duration::from_secs(5),
            namespace: "n".to_owned(),
            supervision: None,
        };
        for (asked, expected) in [(0, 0), (3, 3), (4, 4), (3600, 4)] {
            let details = serde_json::json!({ "retryAfterSeconds": asked });
            let status = serde_json::json!({ "status": "Failure", "code": 429, "details": details });
            let status: Status = serde_json::from_value(status).unwrap();
            let answer = Err(Failure::Refused(Box::new(kube::Error::Api(status.boxed()))));
            let sent = asking.clock.now();
            // The answer took a second.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let began = asking.clock.now();
            asking.pause(sent, &answer).await;
            assert_eq!(asking.clock.now().since(began).as_secs(), expected, "{asked}");
        }
    }

    #[test]
    fn each_class_of_failure_is_logged_with_its_remedy_and_a_repeated_one_for_debugging() {
        let (log, _guard) = Log::begin();
        let (clock, namespace) = (TokioClock::shared(), "n".to_owned());
        let asking = Asking {
            failures: FailureLog::default(),
            clock,
            timeout: Duration::from_secs(5),
            namespace,
            supervision: None,
        };
        let denied = r#"leases is forbidden: User "jane" cannot create resource "leases""#;
        let status = |code, message| kube::Error::Api(Status::failure(message, "Forbidden").with_code(code).boxed());
        let refused = |code, message| Failure::Refused(Box::new(status(code, message)));
        let create = Request::create_lease("l");
        for (failure, line) in [
            (
                refused(403, denied),
                "WARN not allowed: grant the verb create on leases.coordination.k8s.io in namespace n",
            ),
            (refused(422, "too long"), "WARN request refused"),
            (Failure::Missing, "WARN cannot create: there is no such namespace; create it first"),
            (Failure::NotSent(Duration::ZERO), "WARN request failed"),
            (Failure::NotSent(Duration::ZERO), "DEBUG request failed"),
            (Failure::Conflict, "DEBUG request failed"),
        ] {
            asking.log(&create, &failure);
            let logged = log.take();
            assert!(logged.starts_with(line) && logged.contains(r#"name="l""#), "{logged}");
        }
        let write = Box::new(LeaseWrite::new(Purpose::Renew, &LeaseRecord::default()));
        let renewal = Request::WriteLease { name: "l".to_owned(), write };
        for cause in ["sign in", "sign in"] {
            asking.log(&renewal, &Failure::Unknown(cause.into()));
            let logged = log.take();
            assert!(logged.starts_with("WARN request failed") && logged.contains(cause), "{logged}");
        }
        let request = Request::CreateCandidate { nomination: nomination("l"), renew_time: WireTime::from_micros(0) };
        asking.log(&request, &Failure::Missing);
        let logged = log.take();
        let line =
            "WARN cannot create: there is no such namespace, or the LeaseCandidate CRD is not installed: install";
        assert!(logged.starts_with(line) && logged.contains("hustings crds"), "{logged}");
    }
}
