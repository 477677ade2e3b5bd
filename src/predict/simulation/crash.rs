//! Finds the successor of a holder that dies while no controller runs. It runs the decisions of the electors
//! themselves.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::WireTime;

use super::Simulation;
use super::cluster::group;

/// How long the electors may take to elect, after the Lease has expired.
const LIMIT: Duration = Duration::from_mins(2);

/// Returns the successor, and how long after the death it begins to lead. Returns `None` if no live candidate holds the
/// Lease, or if no replica takes over.
pub(crate) fn after_crash(
    name: &str,
    lease: &ReadLease,
    candidates: &[ReadCandidate],
    wall: WireTime,
) -> Option<(String, Duration)> {
    let group = group(name, Some(lease), candidates).ok();
    let group = group.filter(|group| !group.is_direct && group.leader.is_some())?;
    let mut simulation = Simulation::new(name, None, wall);
    group.start(&mut simulation);
    let holder = simulation.leader()?;
    let died = simulation.now();
    simulation.end(holder);
    let limit = group.timing().lease_duration().saturating_add(LIMIT);
    simulation.run_until(limit, |simulation| simulation.leader().is_some());
    let successor = simulation.leader()?;
    Some((simulation.name(successor).to_owned(), simulation.now().saturating_sub(died)))
}
