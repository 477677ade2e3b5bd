//! Why a request of a client returned no object, and the deadline of a request.

use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
pub use hustings_wire::failure::{Failure, FailureCause};
pub(crate) use hustings_wire::failure::{LOG_INTERVAL, Unsent, with_causes};

use crate::access::AccessError;
use crate::clock::Clock;
use crate::work::gate::gate_error;

/// What the failure of kube's client means.
pub fn failure_of(error: kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) => Failure::from(*status),
        // These fail before anything is sent.
        kube::Error::BuildRequest(_) | kube::Error::Auth(_) => Failure::Refused(error.into()),
        kube::Error::Service(ref cause) if cause.is::<AccessError>() => Failure::Refused(Unsent(error.into()).into()),
        error if gate_error(&error).is_some_and(|error| !error.is_outcome_unknown()) => Failure::Refused(error.into()),
        error => Failure::Unknown(error.into()),
    }
}

/// Returns the answer to a request, or [`Failure::TimedOut`]. Dropping a request closes its connection, so that the
/// next request does not wait behind it.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    timeout: Duration,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match select(pin!(request), clock.sleep_until(clock.now().after(timeout))).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), _)) => Err(Failure::TimedOut(timeout)),
    }
}
