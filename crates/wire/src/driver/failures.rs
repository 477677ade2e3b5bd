//! The log line of a failed request, and how often a lasting failure is logged.

use std::collections::BTreeMap;

use hustings_core::elector::NoteSeverity;
use hustings_core::model::{Moment, Purpose, Request};

use super::lines::Line;
use crate::failure::{CANDIDATES, Failure, LOG_INTERVAL, NO_CRD, not_allowed};

/// The resource of Leases, as an RBAC role names it.
const LEASES: &str = "leases.coordination.k8s.io";

/// When each failure of one elector was last logged.
#[derive(Debug, Default)]
pub(super) struct FailureLog(BTreeMap<RequestPurpose, BTreeMap<FailureClass, Moment>>);

/// Verb and resource.
type RequestPurpose = (&'static str, &'static str);

/// The classes of failures that the log distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FailureClass {
    Forbidden,
    Refused,
    NothingToCreateIn,
    Failed,
    /// A term has time for a few only. So each is logged.
    FailedRenewal,
}

impl FailureLog {
    /// The line for this failure. A repeated one is for debugging.
    pub(super) fn line(&mut self, namespace: &str, request: &Request, failure: &Failure, now: Moment) -> Line {
        let name = request.object_name();
        let (verb, resource) = purpose(request);
        let is_due =
            |kind: &FailureClass| *kind == FailureClass::FailedRenewal || self.is_due((verb, resource), *kind, now);
        let warning = |code, text: String| Line::new(NoteSeverity::Warning, code, text);
        let whole = |line: Line| {
            let line = line.with("namespace", namespace).with("name", name).with("verb", verb);
            line.with("resource", resource).with("failure", failure.to_string())
        };
        let cannot_create = |what: &str| {
            let line = warning("cannot-create", format!("cannot create: there is no such namespace{what}"));
            line.with("namespace", namespace).with("name", name).with("resource", resource)
        };
        let is_renewal = matches!(request, Request::WriteLease { write, .. } if write.purpose == Purpose::Renew);
        match kind((verb, resource), is_renewal, failure).filter(is_due) {
            Some(FailureClass::Forbidden) => warning("not-allowed", not_allowed(verb, resource, Some(namespace)))
                .with("name", name)
                .with("failure", failure.to_string()),
            Some(FailureClass::Refused) => whole(warning("request-refused", "request refused".to_owned())),
            Some(FailureClass::NothingToCreateIn) if resource == CANDIDATES => cannot_create(&format!(", or {NO_CRD}")),
            Some(FailureClass::NothingToCreateIn) => cannot_create("; create it first"),
            Some(FailureClass::Failed | FailureClass::FailedRenewal) => {
                whole(warning("request-failed", "request failed".to_owned()))
            }
            None => whole(Line::new(NoteSeverity::Debug, "request-failed", "request failed")),
        }
    }

    /// Whether to log this failure now: the first time, and then at intervals until a request succeeds.
    fn is_due(&mut self, purpose: RequestPurpose, kind: FailureClass, now: Moment) -> bool {
        let of_purpose = self.0.entry(purpose).or_default();
        let is_due = of_purpose.get(&kind).is_none_or(|last| now >= last.after(LOG_INTERVAL));
        if is_due {
            of_purpose.insert(kind, now);
        }
        is_due
    }

    /// Makes the next failure count as the first one.
    pub(super) fn succeeded(&mut self, request: &Request) {
        self.0.remove(&purpose(request));
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
fn kind((verb, _): RequestPurpose, is_renewal: bool, failure: &Failure) -> Option<FailureClass> {
    match failure {
        failure if failure.is_forbidden() => Some(FailureClass::Forbidden),
        Failure::Refused(_) => Some(FailureClass::Refused),
        // A creation cannot miss its object.
        Failure::Missing if verb == "create" => Some(FailureClass::NothingToCreateIn),
        Failure::Unknown(_) | Failure::TimedOut(_) if is_renewal => Some(FailureClass::FailedRenewal),
        Failure::NotSent(_) | Failure::NoHeartbeat(_) | Failure::Unknown(_) | Failure::TimedOut(_) => {
            Some(FailureClass::Failed)
        }
        Failure::Conflict | Failure::Missing => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hustings_core::model::{LeaseRecord, LeaseWrite, Nomination, WireTime};
    use kube_core::Status;

    use super::*;

    #[test]
    fn only_a_rejection_by_rbac_is_reported_as_a_missing_right() {
        let refused = |why: &str| {
            let message = format!("leasecandidates.hustings.io \"web-0\" is forbidden: {why}");
            let status = Status { code: 403, ..Status::failure(&message, "Forbidden") };
            kind(("create", CANDIDATES), false, &Failure::Refused(status.into()))
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
        for (verb, resource, is_renewal, failure, expected) in [
            ("create", LEASES, false, Failure::Missing, Some(FailureClass::NothingToCreateIn)),
            ("get", LEASES, false, Failure::Missing, None),
            ("get", LEASES, false, timed_out(), Some(FailureClass::Failed)),
            ("patch", LEASES, true, timed_out(), Some(FailureClass::FailedRenewal)),
            ("patch", LEASES, false, timed_out(), Some(FailureClass::Failed)),
            ("patch", CANDIDATES, false, timed_out(), Some(FailureClass::Failed)),
            ("patch", CANDIDATES, false, Failure::Unknown("webhook".into()), Some(FailureClass::Failed)),
            ("patch", LEASES, true, Failure::NotSent(Duration::ZERO), Some(FailureClass::Failed)),
            ("patch", CANDIDATES, false, Failure::Conflict, None),
        ] {
            assert_eq!(kind((verb, resource), is_renewal, &failure), expected, "{verb} {resource} {failure}");
        }
        assert_eq!(purpose(&Request::read_lease("l")), ("get", LEASES));
        assert_eq!(purpose(&Request::ReadCandidate { candidate: "c".into() }), ("get", CANDIDATES));
    }

    #[test]
    fn a_lasting_failure_is_reported_once_a_minute_and_again_after_a_success() {
        let mut failures = FailureLog::default();
        let at = |seconds: i64| Moment::from_micros(seconds * 1_000_000);
        let (create, get) = (("create", LEASES), ("get", LEASES));
        assert!(failures.is_due(create, FailureClass::Failed, at(0)));
        assert!(!failures.is_due(create, FailureClass::Failed, at(59)));
        assert!(failures.is_due(create, FailureClass::Forbidden, at(59)), "another class of failure");
        assert!(failures.is_due(get, FailureClass::Failed, at(59)));
        assert!(failures.is_due(create, FailureClass::Failed, at(60)));
        failures.succeeded(&Request::create_lease("l"));
        assert!(failures.is_due(create, FailureClass::Failed, at(61)));
        assert!(!failures.is_due(get, FailureClass::Failed, at(61)));
    }

    #[test]
    fn each_class_of_failure_is_logged_with_its_remedy_and_a_repeated_one_for_debugging() {
        let mut failures = FailureLog::default();
        let denied = r#"leases is forbidden: User "jane" cannot create resource "leases""#;
        let refused = |code, message| Failure::Refused(Status::failure(message, "Forbidden").with_code(code).into());
        let create = Request::create_lease("l");
        let now = Moment::default();
        let mut logged = |request: &Request, failure: &Failure| {
            let line = failures.line("n", request, failure, now);
            (line.severity, format!("{} {:?} {:?}", line.text, line.text_of("name"), line.text_of("failure")))
        };
        for (failure, severity, text) in [
            (
                refused(403, denied),
                NoteSeverity::Warning,
                "not allowed: grant the verb create on leases.coordination.k8s.io in namespace n",
            ),
            (refused(422, "too long"), NoteSeverity::Warning, "request refused"),
            (Failure::Missing, NoteSeverity::Warning, "cannot create: there is no such namespace; create it first"),
            (Failure::NotSent(Duration::ZERO), NoteSeverity::Warning, "request failed"),
            (Failure::NotSent(Duration::ZERO), NoteSeverity::Debug, "request failed"),
            (Failure::Conflict, NoteSeverity::Debug, "request failed"),
        ] {
            let (logged_severity, line) = logged(&create, &failure);
            assert_eq!(logged_severity, severity, "{line}");
            assert!(line.starts_with(text) && line.contains(r#"Some("l")"#), "{line}");
        }
        let renewal = Request::write_lease("l", LeaseWrite::new(Purpose::Renew, &LeaseRecord::default()));
        for cause in ["sign in", "sign in"] {
            let (severity, line) = logged(&renewal, &Failure::Unknown(cause.into()));
            assert_eq!(severity, NoteSeverity::Warning, "{line}");
            assert!(line.starts_with("request failed") && line.contains(cause), "{line}");
        }
        let nomination = Box::new(Nomination { name: "l".to_owned(), ..Nomination::default() });
        let request = Request::CreateCandidate { nomination, renew_time: WireTime::from_micros(0) };
        let (_, line) = logged(&request, &Failure::Missing);
        let text = "cannot create: there is no such namespace, or the LeaseCandidate CRD is not installed: install";
        assert!(line.starts_with(text) && line.contains("hustings crds"), "{line}");
    }
}
