//! A client that reverts what its manifest does not contain, as soon as it observes that.

use std::collections::BTreeSet;
use std::time::Duration;

use hustings_core::model::{CandidateRecord, History, LeaseRecord, NativeFields, RecordedStatus, Transfer};

use crate::lab::{Happening, Lab};

/// The client.
#[derive(Clone, Debug, Default)]
pub struct Reverting {
    /// What it reverts: `label`, `strategy`, `native-fields`, `preferred`, `hold`, `reason`, `transfer` and `grant` of
    /// the Lease; `status`, `ping` and `renewal` of candidates. A `transfer` is a request that it restores.
    pub what: BTreeSet<String>,
    /// How often it has reverted an object.
    pub times: usize,
}

impl Reverting {
    fn lease(&self, lease: &LeaseRecord) -> LeaseRecord {
        let mut restored = lease.clone();
        for what in &self.what {
            match what.as_str() {
                "label" => restored.enrolled = false,
                "strategy" => restored.strategy = None,
                "native-fields" => restored.native = NativeFields::default(),
                "preferred" => {
                    restored.preferred_holder = None;
                    restored.native.preferred_holder = None;
                }
                "hold" => restored.hold = None,
                "reason" => restored.history = History::default(),
                "transfer" => restored.acts.transfer = Some(Transfer::To("nobody".to_owned())),
                "grant" if lease.is_open() && lease.holder.is_some() => {
                    restored.holder = None;
                    restored.renew_time = restored.renew_time.map(|time| time.after(Duration::from_micros(1)));
                }
                _ => {}
            }
        }
        restored
    }

    fn candidate(&self, candidate: &CandidateRecord) -> CandidateRecord {
        let mut restored = candidate.clone();
        for what in &self.what {
            match what.as_str() {
                "status" => restored.status = RecordedStatus::default(),
                "ping" => restored.ping_time = None,
                "renewal" => restored.renew_time = None,
                _ => {}
            }
        }
        restored
    }
}

impl Lab {
    /// Lets a client revert this from now on.
    pub fn revert_from_now_on(&mut self, what: BTreeSet<String>) {
        self.reverting.what = what;
        self.reverting_observes();
    }

    pub(crate) fn reverting_observes(&mut self) {
        if !self.reverting.what.is_empty() {
            self.push(self.now_micros, Happening::Revert);
        }
    }

    pub(crate) fn revert(&mut self) {
        if let Some(lease) = self.lease() {
            let restored = self.reverting.lease(lease);
            if restored != *lease {
                self.reverting.times += 1;
                self.edit_lease(|lease| *lease = restored);
            }
        }
        let candidates: Vec<_> = self.server.store.candidates().cloned().collect();
        for candidate in candidates {
            let restored = self.reverting.candidate(&candidate);
            if restored != candidate {
                self.reverting.times += 1;
                self.server.store.put_candidate(restored);
                self.candidate_changed(candidate.key());
            }
        }
    }
}
