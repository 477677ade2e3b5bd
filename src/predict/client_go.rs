//! What a crash costs of a holder that is an elector of client-go.

use std::time::Duration;

use hustings_core::model::LeaseRecord;
use hustings_lab::client_go::{RETRY_PERIOD, lasts};

/// How soon the kubelet usually reports the end of a container.
pub(crate) const REPORTED_WITHIN: Duration = Duration::from_secs(1);

/// What a crash usually costs if a controller then releases the Lease.
pub(crate) const ASSISTED_CRASH_COSTS: Duration = REPORTED_WITHIN.saturating_add(RETRY_PERIOD);

/// What a crash usually costs if the Lease has to expire. `None` if the Lease declares no duration.
pub(crate) fn crash_costs(lease: &LeaseRecord) -> Option<Duration> {
    (lease.duration_seconds > 0).then(|| lasts(lease).saturating_add(RETRY_PERIOD))
}
