//! What must hold of every election that has come to rest.

use std::time::Duration;

use hustings_core::election::LeaseVerdict;
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};

use super::World;

const MINUTE: Duration = Duration::from_mins(1);

impl World {
    /// Checks that nothing is written any more, and that a new controller pings each candidate once at the most and
    /// deposes nobody.
    pub(crate) fn check_rest(
        &mut self,
        candidates: impl Fn(&Self) -> usize,
        holder: Option<&str>,
    ) -> Result<(), TestCaseError> {
        let writes = |world: &Self| (world.pings, world.lease_writes, world.status_patches);
        let before = writes(self);
        self.run(MINUTE);
        prop_assert_eq!(writes(self), before, "\n{}", self.take_log());
        let pings = self.pings;
        self.restart();
        self.run(MINUTE);
        prop_assert!(self.pings - pings <= candidates(self), "\n{}", self.take_log());
        if let Some(holder) = holder {
            prop_assert!(self.is_leading(holder), "a restart deposes nobody\n{}", self.take_log());
        }
        let verdict = self.last().map(|decision| decision.lease.clone());
        prop_assert_eq!(matches!(verdict, Some(LeaseVerdict::Held { taken_up: true, .. })), holder.is_some());
        Ok(())
    }
}
