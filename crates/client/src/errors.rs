//! What each error tells its reader: of which Lease or object it speaks, what to do, and whether trying again helps.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;

use crate::backend::Failure;
use crate::gate::{GateError, InvalidGate};
use crate::{CampaignError, Fence, InvalidElector, InvalidTiming, Obstacle, Problem};

#[test]
fn a_failed_request_says_whether_to_read_to_wait_or_to_mend_something() {
    let status =
        |code, message: &str| Box::new(kube::Error::Api(Box::new(Status::failure(message, "").with_code(code))));
    let unreachable = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    let forbidden = r#"leases "l" is forbidden"#;
    for (failure, is_retryable, text) in [
        (Failure::Conflict, true, "another version stands: read it, and decide anew"),
        (
            Failure::Missing,
            false,
            "there is no such object, nor will there be unless somebody creates it, or its namespace or kind",
        ),
        (
            Failure::Refused(status(403, forbidden)),
            false,
            r#"refused: leases "l" is forbidden (403); trying again alone does not help"#,
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
            Failure::TimedOut(Duration::from_secs(5)),
            true,
            "no answer within 5000 ms, so that the outcome is unknown: read before you write again",
        ),
    ] {
        assert_eq!((failure.to_string().as_str(), failure.is_retryable()), (text, is_retryable));
    }
}

#[test]
fn a_write_that_the_gate_kept_back_or_ended_names_its_lease_and_says_what_is_known_of_it() {
    let lease = || Arc::<str>::from("n/l");
    for (error, text) in [
        (
            GateError::NotLeading { lease: lease() },
            "not the leader of Lease n/l: the write was not sent, so make it anew once this process leads",
        ),
        (
            GateError::TooManyParked { lease: lease(), most: 64 },
            "not the leader of Lease n/l, and 64 writes wait for that already: the write was not sent, so make it anew \
             once this process leads",
        ),
        (
            GateError::TookTooLong { lease: lease() },
            "the write took too long to stay within the term of Lease n/l: its outcome is unknown, so read before you \
             write again",
        ),
        (
            GateError::LostMeanwhile { lease: lease() },
            "the term of Lease n/l was lost during the write: its outcome is unknown, so read before you write again",
        ),
        (
            GateError::GivenUp { lease: lease() },
            "the write under Lease n/l was given up since its task is gone: its outcome is unknown, and this process \
             should be started anew",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
    for (error, text) in [
        (
            InvalidGate::DeadlineZero { lease: lease() },
            "cannot gate writes under Lease n/l: their deadline must be above 0",
        ),
        (
            InvalidGate::DeadlineTooLong { lease: lease(), most: Duration::from_millis(7_600) },
            "cannot gate writes under Lease n/l: their deadline must be at most 7600 ms, the renew deadline without a \
             jittered retry period",
        ),
        (
            InvalidGate::DeadlineAboveGrace { lease: lease(), grace: Duration::from_secs(2) },
            "cannot gate writes under Lease n/l: their deadline must be at most 2000 ms, the grace of work that is to \
             stop",
        ),
    ] {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn an_elector_that_cannot_be_built_says_of_each_thing_what_to_give_instead() {
    let wrong = |text: &str| text.to_owned();
    for (problem, text) in [
        (Problem::Namespace(wrong("N")), r#"namespace "N" is no DNS label: give the namespace of the Lease"#),
        (
            Problem::LeaseName(wrong("my_lease")),
            r#"Lease name "my_lease" is no DNS subdomain: use lower-case letters, digits, '-' and '.'"#,
        ),
        (Problem::IdentityMissing, "there is no identity: give one, or set POD_NAME by the downward API"),
        (
            Problem::Identity(wrong("A")),
            r#"identity "A" is no DNS subdomain, and cannot name a LeaseCandidate: use the name of the pod"#,
        ),
        (
            Problem::IdentityTooLong(wrong("aaa")),
            r#"identity "aaa" is longer than 253 characters: shorten it or the Lease's name"#,
        ),
        (
            Problem::BinaryVersionMissing,
            "there is no binary version: give one, or choose direct mode to stand without a controller",
        ),
        (
            Problem::Candidate(wrong("priority -1 is below 0: give 0 or more")),
            "the candidate cannot stand: priority -1 is below 0: give 0 or more",
        ),
        (Problem::DirectHasNoCandidate, "direct mode has no candidate: leave out versions, strategy and priority"),
        (
            Problem::KeyNeedsDirect,
            "a key is for direct mode: give a priority, or choose direct mode to stand without a controller",
        ),
        (Problem::Timing(InvalidTiming::LeaseDurationZero), "the lease duration must be at least 1 s"),
        (Problem::Timing(InvalidTiming::LeaseDurationTooLong), "the lease duration must be at most 1 h"),
        (Problem::Timing(InvalidTiming::RetryPeriodZero), "the retry period must be above 0"),
        (Problem::Timing(InvalidTiming::RequestTimeoutZero), "the request timeout must be above 0"),
        (
            Problem::Timing(InvalidTiming::StopGraceZero),
            "the grace of the work must be above 0, or no term could end in order",
        ),
        (
            Problem::Timing(InvalidTiming::RenewDeadlineTooLong),
            "the renew deadline must be at most 0.99 of the lease duration",
        ),
        (
            Problem::Timing(InvalidTiming::RenewDeadlineTooShort),
            "the renew deadline must be longer than the retry period with its jitter (1.2 times the retry period)",
        ),
    ] {
        assert_eq!(problem.to_string(), text);
        let invalid = InvalidElector { lease: "n/l".to_owned(), problems: vec![problem] };
        assert_eq!(invalid.to_string(), format!("cannot stand for Lease n/l: {text}"));
    }
}

#[tokio::test]
async fn what_keeps_an_elector_from_leading_says_who_can_mend_it() {
    let task = tokio::spawn(std::future::pending::<()>());
    task.abort();
    let died = CampaignError::Died { lease: "n/l".to_owned(), source: task.await.unwrap_err() };
    assert_eq!(
        (died.to_string().as_str(), died.is_retryable()),
        (
            "the elector of Lease n/l died, and this process will not lead again: start another elector, or the process",
            false
        )
    );
    let obstacle = Obstacle::CandidateOfAnotherLease {
        identity: "web-0".to_owned(),
        lease: "n/l".to_owned(),
        other: "m".to_owned(),
    };
    assert_eq!(
        (obstacle.to_string().as_str(), obstacle.is_retryable()),
        ("LeaseCandidate web-0 stands for Lease m and not for n/l: give each elector an identity of its own", false)
    );
    assert_eq!(
        "l/7".parse::<Fence>().unwrap_err().to_string(),
        r#""l/7" names no term: a fence is NAMESPACE/LEASE/TOKEN, as in default/my-component/1234"#
    );
}

/// As hyper wraps what the system says.
#[derive(Debug, thiserror::Error)]
#[error("client error (Connect)")]
struct Wrapped(#[source] std::io::Error);
