//! Why requests fail, as metrics and the log have it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hustings_client::gate::is_not_leading;
use hustings_client::requests::Failure as Failed;
use tokio::time::Instant;

use crate::ops::metrics::{Failure, Request};

/// How often a failure of the same kind is told: when the API server is gone, every Lease's requests fail.
const REPORT_PERIOD: Duration = Duration::from_secs(10);

/// Which kinds of failures have been told of late.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<HashMap<(Request, Failure), Instant>>);

impl Reports {
    /// Whether this failure is to be told.
    pub(super) fn is_due(&self, request: Request, failure: Failure) -> bool {
        let now = Instant::now();
        // A map of instants is whole whatever its last writer did.
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = told.get(&(request, failure)).is_none_or(|last| now.duration_since(*last) >= REPORT_PERIOD);
        if is_due {
            told.insert((request, failure), now);
        }
        is_due
    }
}

/// The kind of a failure.
pub(super) fn label(failure: &Failed) -> Failure {
    match failure {
        Failed::Conflict => Failure::Conflict,
        Failed::Missing => Failure::NotFound,
        Failed::NotSent(_) | Failed::TimedOut(_) => Failure::Timeout,
        Failed::Refused(error) | Failed::Unknown(error) => match &**error {
            kube::Error::Api(status) => match status.code {
                401 | 403 => Failure::Forbidden,
                429 => Failure::Throttled,
                400..=499 => Failure::Invalid,
                _ => Failure::Server,
            },
            error if is_not_leading(error) => Failure::NotLeading,
            _ => Failure::Unreachable,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_one_kind_is_told_once_in_a_while() {
        let reports = Reports::default();
        assert!(reports.is_due(Request::Ping, Failure::Timeout));
        assert!(!reports.is_due(Request::Ping, Failure::Timeout));
        assert!(reports.is_due(Request::Ping, Failure::Forbidden));
        tokio::time::advance(REPORT_PERIOD).await;
        assert!(reports.is_due(Request::Ping, Failure::Timeout));
    }
}
