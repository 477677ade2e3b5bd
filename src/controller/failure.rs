//! Why requests fail, as metrics and the log have it.

use hustings_client::gate::is_not_leading;
use hustings_client::requests::Failure as Failed;

use crate::ops::metrics::Failure;

/// The kind of a failure.
pub(super) fn label(failure: &Failed) -> Failure {
    match failure {
        Failed::Conflict => Failure::Conflict,
        Failed::Missing => Failure::NotFound,
        Failed::TimedOut(_) => Failure::Timeout,
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
