//! Finds the successor of a holder that dies while no controller runs, by the decisions of the electors themselves.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::{UNDECLARED_DURATION_SECONDS, WireTime};

use super::cluster::group;
use super::simulation::Simulation;
use super::timing;
use super::upgrade::{Order, Upgrade, begin};

/// How long the electors may take to elect, after the Lease has expired.
const LIMIT: Duration = Duration::from_mins(2);

/// Returns the successor, and how long after the death it leads. Returns `None` if no live candidate holds the Lease,
/// or if no replica succeeds.
pub(crate) fn after_crash(
    name: &str,
    lease: &ReadLease,
    candidates: &[ReadCandidate],
    wall: WireTime,
) -> Option<(String, Duration)> {
    let group = group(Some(lease), candidates).ok().filter(|group| !group.is_direct && group.leader.is_some())?;
    let timing = timing(group.lease_seconds.unwrap_or(UNDECLARED_DURATION_SECONDS));
    let upgrade = Upgrade {
        lease: name.to_owned(),
        old: group.replicas,
        leader: group.leader,
        hold: group.hold,
        acts: group.acts,
        to: String::new(),
        emulates: String::new(),
        is_direct: false,
        timing,
        wall,
        surge: 0,
        unavailable: 0,
        readiness: Duration::ZERO,
        shutdown: Duration::ZERO,
        order: Order::default(),
    };
    let mut simulation = Simulation::new(name, None, wall);
    begin(&upgrade, &mut simulation);
    let holder = simulation.leader()?;
    let died = simulation.now();
    simulation.end(holder);
    let limit = timing.lease_duration().saturating_add(LIMIT);
    simulation.run_until(limit, |simulation| simulation.leader().is_some());
    let successor = simulation.leader()?;
    Some((simulation.name(successor).to_owned(), simulation.now().saturating_sub(died)))
}
