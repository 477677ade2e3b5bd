//! The time limit of a check.

use std::time::Duration;

use super::report::Finding;

/// How long one check may take, apart from the watch of the controllers' own Lease.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the findings of a check, or one that says that the check took too long.
pub(super) async fn within(check: &'static str, findings: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    tokio::time::timeout(TIMEOUT, findings).await.unwrap_or_else(|_| vec![Finding::unknown(check, timed_out())])
}

/// The reason of a finding if the API server did not answer within [`TIMEOUT`].
pub(super) fn timed_out() -> String {
    format!("no answer within {} s", TIMEOUT.as_secs())
}
