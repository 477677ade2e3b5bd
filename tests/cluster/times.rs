//! What the tests that measure times share.

use std::time::Duration;

use hustings_controlplane::ControlPlane;

use crate::replica::until;

/// Waits until a replica has its LeaseCandidate. `log` is what the replica has said if it never has one.
pub(crate) async fn is_candidate(plane: &ControlPlane, namespace: &str, name: &str, log: impl Fn() -> String) {
    let stands = async || {
        let candidate = ["get", "lcand", name, "--namespace", namespace];
        plane.kubectl(candidate).await.unwrap().status.success().then_some(())
    };
    until("it is a candidate", log, stands).await;
}

/// The median of these times, their 95th percentile, and the longest.
pub(crate) fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |percent: usize| times[(times.len() * percent).div_ceil(100) - 1];
    format!("p50 {:.1?}, p95 {:.1?}, longest {:.1?}", at(50), at(95), at(100))
}
