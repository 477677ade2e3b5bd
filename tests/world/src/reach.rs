//! The faults and paths that a campaign must reach. A fault that never happens finds no bug, and a path that is never
//! taken is untested.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::server::REFUSALS;
use crate::trouble::DISTURBANCES;
use crate::world::{PATHS, THIRD_PARTY_GRANT, faults};

/// How long a campaign of every mode must be, in Lease time, before it must have reached everything.
pub const SHORTEST_CAMPAIGN: Duration = Duration::from_hours(100);

/// Every fault, disturbance and path that a campaign of every mode must reach.
pub fn wanted() -> BTreeSet<&'static str> {
    faults().chain(DISTURBANCES).chain(REFUSALS).chain(PATHS).chain([THIRD_PARTY_GRANT]).collect()
}
