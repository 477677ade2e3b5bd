//! Tests of error messages. Each error names its Lease or object and the remedy, and whether a retry can help.

use std::sync::Arc;
use std::time::Duration;

use hustings_core::model::Outcome;
use kube::core::Status;

use crate::store::Failure;
use crate::work::gate::{GateError, InvalidGate};
use crate::{CampaignError, Fence, InvalidElector, InvalidTiming, Obstacle, SettingProblem};

#[test]
fn an_error_of_a_request_names_the_next_step() {
    let status =
        |code, message: &str| Box::new(kube::Error::Api(Box::new(Status::failure(message, "").with_code(code))));
    let unreachable = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let forbidden = r#"leases "l" is forbidden"#;
    for (failure, is_retryable, text) in [
        (Failure::Conflict, true, "conflict: another version or object exists; read it and decide again"),
        (Failure::Missing, false, "not found: create the object, or its namespace or kind"),
        (
            Failure::Refused(status(403, forbidden)),
            false,
            r#"refused: leases "l" is forbidden (403); a retry alone does not help"#,
        ),
        (Failure::Refused(status(429, "too many requests")), true, "refused: too many requests (429); try again later"),
        (
            Failure::Unknown(status(500, "etcdserver: request timed out")),
            true,
            "outcome unknown: etcdserver: request timed out (500); read before you write again",
        ),
        (
            Failure::Unknown(Box::new(kube::Error::Service(Wrapped(unreachable).into()))),
            true,
            "outcome unknown: ServiceError: client error (Connect): connection refused; read before you write again",
        ),
        (
            Failure::NotSent(Duration::from_millis(2_500)),
            true,
            "not sent within 2500 ms: too many requests of this process are under way; try again later",
        ),
        (
            Failure::TimedOut(Duration::from_secs(5)),
            true,
            "no answer within 5000 ms: the outcome is unknown; read before you write again",
        ),
    ] {
        assert_eq!((failure.to_string().as_str(), failure.is_retryable()), (text, is_retryable));
    }
}

#[test]
fn a_request_that_was_not_sent_has_no_effect_and_one_without_an_answer_may_have_one() {
    let limit = Duration::from_secs(5);
    assert_eq!(Failure::NotSent(limit).outcome::<()>(), Outcome::Refused);
    assert_eq!(Failure::TimedOut(limit).outcome::<()>(), Outcome::Unknown);
}

#[test]
fn an_error_of_the_gate_names_the_lease_and_the_outcome_of_the_write() {
    let lease = || Arc::<str>::from("n/l");
    for (error, is_unknown, is_retryable, text) in [
        (
            GateError::NotLeading { lease: lease() },
            false,
            true,
            "not the leader of Lease n/l: the write was not sent; retry from a fresh read once this process leads",
        ),
        (
            GateError::TooManyParked { lease: lease(), most: 64 },
            false,
            true,
            "not the leader of Lease n/l, and 64 writes are waiting already: the write was not sent; retry from a fresh \
             read once this process leads",
        ),
        (
            GateError::TookTooLong { lease: lease() },
            true,
            true,
            "the write under Lease n/l exceeded its deadline: its outcome is unknown; read before you write again",
        ),
        (
            GateError::LostMeanwhile { lease: lease() },
            true,
            true,
            "the term of Lease n/l was lost during the write: its outcome is unknown; read before you write again",
        ),
        (
            GateError::GivenUp { lease: lease() },
            true,
            false,
            "the task of a write under Lease n/l panicked or was aborted: its outcome is unknown; restart this process",
        ),
    ] {
        assert_eq!(
            (error.to_string().as_str(), error.is_outcome_unknown(), error.is_retryable()),
            (text, is_unknown, is_retryable)
        );
    }
    for (error, text) in [
        (
            InvalidGate::DeadlineZero { lease: lease() },
            "cannot gate writes under Lease n/l: the write deadline must be above 0",
        ),
        (
            InvalidGate::DeadlineTooLong {
                lease: lease(),
                deadline: Duration::from_secs(8),
                most: Duration::from_millis(7_600),
            },
            "cannot gate writes under Lease n/l: the write deadline of 8000 ms must be at most 7600 ms, the renew deadline \
             minus one jittered retry period",
        ),
        (
            InvalidGate::DeadlineAboveGrace {
                lease: lease(),
                deadline: Duration::from_secs(3),
                grace: Duration::from_secs(2),
            },
            "cannot gate writes under Lease n/l: the write deadline of 3000 ms must be at most 2000 ms, the grace in which \
             work must stop",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn each_problem_of_an_elector_names_its_remedy() {
    let wrong = |text: &str| text.to_owned();
    let seconds = Duration::from_secs;
    for (problem, text) in [
        (
            SettingProblem::Namespace(wrong("N")),
            r#"namespace "N" is not a valid DNS label: use the name of the Lease's namespace"#,
        ),
        (
            SettingProblem::LeaseName(wrong("my_lease")),
            r#"Lease name "my_lease" is not a valid DNS subdomain: use lower-case letters, digits, '-' and '.'"#,
        ),
        (
            SettingProblem::IdentityMissing,
            "no identity is set: set one, or set the environment variable POD_NAME by the downward API",
        ),
        (
            SettingProblem::Identity(wrong("A")),
            r#"identity "A" is not a valid DNS subdomain and cannot name a LeaseCandidate: use the name of the pod"#,
        ),
        (
            SettingProblem::IdentityTooLong(wrong("aaa")),
            r#"identity "aaa" is longer than 253 characters: shorten it, or the name of the Lease"#,
        ),
        (
            SettingProblem::Candidate(wrong("priority -1 is negative: use 0 or more")),
            "invalid candidate: priority -1 is negative: use 0 or more",
        ),
        (SettingProblem::Timing(InvalidTiming::LeaseDurationZero), "the lease duration is 0 s: use 1 s or more"),
        (
            SettingProblem::Timing(InvalidTiming::LeaseDurationTooLong { seconds: 3601 }),
            "the lease duration of 3601 s is too long: use 3600 s or less",
        ),
        (
            SettingProblem::Timing(InvalidTiming::RetryPeriodZero),
            "the retry period is 0 s: use a longer one, such as 2 s",
        ),
        (
            SettingProblem::Timing(InvalidTiming::RequestTimeoutZero),
            "the request timeout is 0 s: use a longer one, such as 5 s",
        ),
        (
            SettingProblem::Timing(InvalidTiming::StopGraceZero),
            "the stop grace is 0 s, so no term could end gracefully: use a longer one, such as 25 s",
        ),
        (
            SettingProblem::Timing(InvalidTiming::RenewDeadlineTooLong {
                renew_deadline: seconds(15),
                most: seconds(14),
            }),
            "the renew deadline of 15s is above 14s, which is 0.99 of the lease duration: lower it, or raise the lease \
             duration",
        ),
        (
            SettingProblem::Timing(InvalidTiming::RenewDeadlineTooShort {
                renew_deadline: seconds(2),
                longest_retry_period: seconds(3),
            }),
            "the renew deadline of 2s is not above 3s, which is the retry period with its jitter: raise it, or lower \
             the retry period",
        ),
    ] {
        assert_eq!(problem.to_string(), text);
        let invalid = InvalidElector { lease: "n/l".to_owned(), problems: vec![problem] };
        assert_eq!(invalid.to_string(), format!("cannot stand for Lease n/l: {text}"));
    }
}

#[tokio::test]
async fn an_error_that_keeps_an_elector_from_leading_names_its_remedy() {
    let task = tokio::spawn(std::future::pending::<()>());
    task.abort();
    let died = CampaignError::Died { lease: "n/l".to_owned(), source: task.await.unwrap_err() };
    assert_eq!(
        died.to_string(),
        "the elector of Lease n/l panicked or was aborted, and will not lead again: start a new elector, or restart \
             the process"
    );
    let obstacle = Obstacle::CandidateOfAnotherLease {
        identity: "web-0".to_owned(),
        lease: "n/l".to_owned(),
        other: "m".to_owned(),
    };
    assert_eq!(
        obstacle.to_string(),
        "LeaseCandidate web-0 stands for Lease m and not for n/l: give each elector an identity of its own"
    );
    assert_eq!(
        "l/7".parse::<Fence>().unwrap_err().to_string(),
        r#""l/7" is not a fence: use NAMESPACE/LEASE/TOKEN, as in default/my-component/1234"#
    );
}

/// An error of the operating system, wrapped as hyper does it.
#[derive(Debug, thiserror::Error)]
#[error("client error (Connect)")]
struct Wrapped(#[source] std::io::Error);
