//! Failures of requests: their label in the metrics, and how often the log reports them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hustings_client::gate::is_not_leading;
use hustings_client::store::Failure as Failed;
use tokio::time::Instant;

use crate::serve::metrics::{FailureReason, RequestKind};

/// The log reports each kind of failure at most once in this period, since during an outage the requests of every Lease
/// fail.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// When the log last reported each kind of failure.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<HashMap<(RequestKind, FailureReason), Instant>>);

impl Reports {
    /// Whether to log this failure now. If so, records that it was logged.
    pub(super) fn is_due(&self, request: RequestKind, failure: FailureReason) -> bool {
        let now = Instant::now();
        // A panic cannot leave the map half written, so a poisoned lock is safe to use.
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = reported.get(&(request, failure)).is_none_or(|last| now.duration_since(*last) >= REPORT_PERIOD);
        if is_due {
            reported.insert((request, failure), now);
        }
        is_due
    }
}

/// The metric label of a failure.
pub(super) fn label(failure: &Failed) -> FailureReason {
    match failure {
        Failed::Conflict => FailureReason::Conflict,
        Failed::Missing => FailureReason::NotFound,
        Failed::NotSent(_) | Failed::NoHeartbeat(_) | Failed::TimedOut(_) => FailureReason::Timeout,
        Failed::Refused(cause) | Failed::Unknown(cause) => match failure.status() {
            Some(status) => match status.code {
                401 | 403 => FailureReason::Forbidden,
                408 | 504 => FailureReason::Timeout,
                429 => FailureReason::Throttled,
                400..=499 => FailureReason::Invalid,
                _ => FailureReason::Server,
            },
            None if is_not_leading(&**cause) => FailureReason::NotLeading,
            None => FailureReason::Unreachable,
        },
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::gate::GateError;
    use hustings_client::store::failure_of;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_one_kind_is_reported_once_per_period() {
        let reports = Reports::default();
        assert!(reports.is_due(RequestKind::Ping, FailureReason::Timeout));
        assert!(!reports.is_due(RequestKind::Ping, FailureReason::Timeout));
        assert!(reports.is_due(RequestKind::Ping, FailureReason::Forbidden));
        // A failure that is not reported does not put off the next report.
        tokio::time::advance(REPORT_PERIOD / 2).await;
        assert!(!reports.is_due(RequestKind::Ping, FailureReason::Timeout));
        tokio::time::advance(REPORT_PERIOD / 2).await;
        assert!(reports.is_due(RequestKind::Ping, FailureReason::Timeout));
    }

    #[test]
    fn each_class_of_failure_has_its_label() {
        let answered = |code| {
            let status = kube::core::Status { code, ..kube::core::Status::failure("m", "r") };
            label(&failure_of(kube::Error::Api(status.boxed())))
        };
        for (code, expected) in [
            (401, FailureReason::Forbidden),
            (403, FailureReason::Forbidden),
            (408, FailureReason::Timeout),
            (504, FailureReason::Timeout),
            (429, FailureReason::Throttled),
            (400, FailureReason::Invalid),
            (499, FailureReason::Invalid),
            (500, FailureReason::Server),
            (409, FailureReason::Conflict),
        ] {
            assert_eq!(answered(code), expected, "{code}");
        }
        assert_eq!(label(&Failed::TimedOut(REPORT_PERIOD)), FailureReason::Timeout);
        assert_eq!(label(&Failed::NotSent(REPORT_PERIOD)), FailureReason::Timeout);
        assert_eq!(label(&Failed::Unknown("reset".into())), FailureReason::Unreachable);
        assert_eq!(label(&failure_of(kube::Error::Service("reset".into()))), FailureReason::Unreachable);
        assert_eq!(label(&Failed::Missing), FailureReason::NotFound);
        let not_leading = GateError::NotLeading { lease: "n/l".into() };
        assert_eq!(label(&failure_of(kube::Error::Service(not_leading.into()))), FailureReason::NotLeading);
    }
}
