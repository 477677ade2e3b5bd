//! Others that write the same objects: a second controller that leads, too, and a client that reverts writes.

use std::time::Duration;

use hustings_core::election::Config;
use hustings_core::model::{CandidateRecord, History, LeaseRecord, Moment, NativeFields, RecordedStatus, Transfer};

use super::World;

/// A second controller that also leads.
#[derive(Clone, Debug)]
pub(crate) struct SecondController {
    pub(crate) config: Config,
    pub(crate) clock_seconds: i64,
}

impl World {
    /// Starts a second controller that decides, too.
    pub(crate) fn lead_twice(&mut self, second: SecondController) {
        self.second = Some(second);
        self.swap_controllers();
        self.election = self.newcomer();
        self.swap_controllers();
    }

    /// Lets the second controller decide and carry out its decision. Returns its deadline, and whether it did anything.
    pub(super) fn play_second(&mut self) -> (Moment, bool) {
        if self.second.is_none() {
            return (Moment::NEVER, false);
        }
        self.swap_controllers();
        let decision = self.election.decide(self.now());
        let acts = !decision.actions.is_empty();
        self.execute(decision.actions);
        self.swap_controllers();
        (decision.deadline, acts)
    }

    /// Exchanges the two controllers, so that the second one's requests are executed as those of the first.
    fn swap_controllers(&mut self) {
        let Some(second) = &mut self.second else { return };
        let standby = self.standby.get_or_insert_with(|| self.election.clone());
        std::mem::swap(&mut self.election, standby);
        std::mem::swap(&mut self.config, &mut second.config);
        std::mem::swap(&mut self.clock_seconds, &mut second.clock_seconds);
        self.is_second = !self.is_second;
    }

    /// Lets the other client revert what its manifest does not contain. Returns whether it reverted anything.
    pub(super) fn play_reverting_client(&mut self) -> bool {
        if self.undoing.is_empty() {
            return false;
        }
        let mut reverted = false;
        if let Some(lease) = self.lease().cloned() {
            let restored = self.restored_lease(&lease);
            if restored != lease {
                reverted = true;
                self.reverts += 1;
                self.put_lease(restored);
            }
        }
        let undo = |field: &str| self.undoing.contains(field);
        let (status, ping, renewal) = (undo("status"), undo("ping"), undo("renewal"));
        let restored = |record: &CandidateRecord| {
            let mut restored = record.clone();
            if status {
                restored.status = RecordedStatus::default();
            }
            if ping {
                restored.ping_time = None;
            }
            if renewal {
                restored.renew_time = None;
            }
            restored
        };
        let changed: Vec<_> = self.candidates().map(restored).collect();
        for record in changed {
            if self.record(&record.key()).is_some_and(|current| *current != record) {
                reverted = true;
                self.reverts += 1;
                let key = record.key();
                self.edit_key(&key, |current| *current = record.clone());
            }
        }
        reverted
    }

    fn restored_lease(&self, lease: &LeaseRecord) -> LeaseRecord {
        let undo = |field: &str| self.undoing.contains(field);
        let mut restored = lease.clone();
        if undo("label") {
            restored.enrolled = false;
        }
        if undo("strategy") {
            restored.strategy = None;
        }
        if undo("native-fields") {
            restored.native = NativeFields::default();
        }
        if undo("preferred") {
            restored.preferred_holder = None;
            restored.native.preferred_holder = None;
        }
        if undo("hold") {
            restored.hold = None;
        }
        if undo("reason") {
            restored.history = History::default();
        }
        if undo("transfer") {
            restored.acts.transfer = Some(Transfer::To("nobody".to_owned()));
        }
        if undo("grant") && lease.is_open() && lease.holder.is_some() {
            restored.holder = None;
            restored.renew_time = restored.renew_time.map(|time| time.after(Duration::from_micros(1)));
        }
        restored
    }
}
