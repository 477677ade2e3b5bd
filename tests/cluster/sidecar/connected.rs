//! `hustings sidecar --while-connected`: the sidecar stands while a client holds a connection open, and the kernel closes
//! that of a dead client.
//!
//! The leases of most of these tests are far longer than any wait. A Lease that changes its holder was therefore given up.

mod clients;
mod ends;
mod stubborn;
mod times;

use hustings_controlplane::ControlPlane;

use super::beside::Sidecar;

/// A replica in direct mode with a Lease that does not expire while a test waits.
const LONG: [&str; 5] =
    ["--while-connected", "--direct", "--lease-duration=300s", "--renew-deadline=250s", "--retry-period=300ms"];

/// The events of one term.
const TERM: [&str; 3] = ["leading", "stopping", "stopped"];

async fn start(plane: &ControlPlane, namespace: &str, name: &str) -> Sidecar {
    Sidecar::start(plane, namespace, name, &LONG).await
}
