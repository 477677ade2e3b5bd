//! The time limit of requests, and the errors for requests that fail and for acts that are refused.

use std::time::Duration;

use crate::base::cluster::{Cluster, api_error, limited};
use crate::base::hint::Hinted;

/// The exit code if the act makes no sense now. The command has then written nothing.
pub(super) const REFUSED: u8 = 3;

/// How long a request may take.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// An error for an act that makes no sense now.
pub(super) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Hinted {
    Hinted::new(message, hint).with_exit_code(REFUSED)
}

/// An error that names the `attempt` that failed. If a permission is missing, the hint names the role that grants it.
pub(super) fn explain(cluster: &Cluster, attempt: &str, error: kube::Error) -> anyhow::Error {
    match &error {
        kube::Error::Api(status) if status.code == 403 => {
            let hint = format!("bind the chart's ClusterRole hustings-operator in namespace {}", cluster.namespace);
            api_error(error).context(Hinted::new(attempt, hint))
        }
        _ => cluster.explain(attempt, error),
    }
}

/// The error for a write that failed. Without an answer from the API server, the write may have taken effect.
pub(super) fn explain_write(cluster: &Cluster, attempt: &str, error: kube::Error) -> anyhow::Error {
    match &error {
        kube::Error::Api(status) if status.code < 500 => explain(cluster, attempt, error),
        _ => {
            let message = format!("{attempt}, or the write succeeded without an answer");
            api_error(error).context(Hinted::new(message, "`hustings status LEASE` shows the acts in force"))
        }
    }
}

/// Limits a request to [`REQUEST_TIMEOUT`].
pub(super) async fn within<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    limited(REQUEST_TIMEOUT, request).await
}
