//! Finds the successor of a holder that dies while no controller runs. It runs the decisions of the electors
//! themselves.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::WireTime;

use super::cluster::group;
use super::group::Group;
use super::{between, run};

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
    let is_live = |group: &Group| group.replicas.iter().any(|replica| Some(&replica.name) == group.leader.as_ref());
    let group = group.filter(|group| !group.is_direct && is_live(group))?;
    let mut lab = super::lab(name, None, wall);
    group.start(&mut lab);
    let holder = lab.leader()?;
    let died = lab.now_micros;
    lab.end(holder);
    let limit = group.timing().lease_duration().saturating_add(LIMIT);
    run(&mut lab, limit, |lab| lab.leader().is_some());
    let successor = lab.leader()?;
    Some((lab.replicas[successor].process.name.clone(), between(died, lab.now_micros)))
}
