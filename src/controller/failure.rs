//! Failures of requests: their label in the metrics, and how often the log reports them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hustings_client::gate::is_not_leading;
use hustings_client::store::Failure as Failed;
use tokio::time::Instant;

use crate::serve::metrics::{Failure, Request};

/// The log reports each kind of failure at most once in this period, since during an outage the requests of every Lease
/// fail.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// When the log last reported each kind of failure.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<HashMap<(Request, Failure), Instant>>);

impl Reports {
    /// Whether to log this failure now. If so, records that it was logged.
    pub(super) fn is_due(&self, request: Request, failure: Failure) -> bool {
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
pub(super) fn label(failure: &Failed) -> Failure {
    match failure {
        Failed::Conflict => Failure::Conflict,
        Failed::Missing => Failure::NotFound,
        Failed::NotSent(_) | Failed::NoHeartbeat(_) | Failed::TimedOut(_) => Failure::Timeout,
        Failed::Refused(cause) | Failed::Unknown(cause) => match cause.downcast_ref() {
            Some(kube::Error::Api(status)) => match status.code {
                401 | 403 => Failure::Forbidden,
                408 | 504 => Failure::Timeout,
                429 => Failure::Throttled,
                400..=499 => Failure::Invalid,
                _ => Failure::Server,
            },
            Some(error) if is_not_leading(error) => Failure::NotLeading,
            _ => Failure::Unreachable,
        },
    }
}

#[cfg(test)]
mod tests {
    use hustings_client::gate::GateError;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_one_kind_is_reported_once_per_period() {
        let reports = Reports::default();
        assert!(reports.is_due(Request::Ping, Failure::Timeout));
        assert!(!reports.is_due(Request::Ping, Failure::Timeout));
        assert!(reports.is_due(Request::Ping, Failure::Forbidden));
        // A failure that is not reported does not put off the next report.
        tokio::time::advance(REPORT_PERIOD / 2).await;
        assert!(!reports.is_due(Request::Ping, Failure::Timeout));
        tokio::time::advance(REPORT_PERIOD / 2).await;
        assert!(reports.is_due(Request::Ping, Failure::Timeout));
    }

    #[test]
    fn each_class_of_failure_has_its_label() {
        let answered = |code| {
            let status = kube::core::Status { code, ..kube::core::Status::failure("m", "r") };
            label(&Failed::from(kube::Error::Api(status.boxed())))
        };
        for (code, expected) in [
            (401, Failure::Forbidden),
            (403, Failure::Forbidden),
            (408, Failure::Timeout),
            (504, Failure::Timeout),
            (429, Failure::Throttled),
            (400, Failure::Invalid),
            (499, Failure::Invalid),
            (500, Failure::Server),
            (409, Failure::Conflict),
        ] {
            assert_eq!(answered(code), expected, "{code}");
        }
        assert_eq!(label(&Failed::TimedOut(REPORT_PERIOD)), Failure::Timeout);
        assert_eq!(label(&Failed::NotSent(REPORT_PERIOD)), Failure::Timeout);
        assert_eq!(label(&Failed::Unknown("reset".into())), Failure::Unreachable);
        assert_eq!(label(&Failed::from(kube::Error::Service("reset".into()))), Failure::Unreachable);
        assert_eq!(label(&Failed::Missing), Failure::NotFound);
        let not_leading = GateError::NotLeading { lease: "n/l".into() };
        assert_eq!(label(&Failed::from(kube::Error::Service(not_leading.into()))), Failure::NotLeading);
    }
}
