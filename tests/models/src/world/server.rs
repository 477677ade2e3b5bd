//! The server: what becomes of a request when it reaches it.

use hustings_core::elector::{Action, AttemptId, Observation, Outcome, Source};
use hustings_core::model::{LeaseRecord, LeaseWrite};

use super::World;
use crate::canonical::FIRST_TRANSITION;
use crate::exploration::State;

impl World {
    /// What becomes of a request when it reaches the server.
    pub(super) fn execute(&mut self, who: usize, action: Action) -> Option<Observation> {
        match action {
            Action::ReadLease(id) => Some(match self.lease.clone() {
                Some(record) => Observation::Lease { record, source: Source::Read(id) },
                None => Observation::LeaseMissing { source: Source::Read(id) },
            }),
            Action::CreateLease(attempt) => Some(Observation::LeaseWritten { attempt, outcome: self.create() }),
            Action::WriteLease { attempt, write } => Some(self.written(who, attempt, &write)),
            Action::StopWork => Some(Observation::WorkStopped),
            // The work that was asked to stop tells when it has.
            Action::AbortWork
            | Action::ReadCandidate(_)
            | Action::ListCandidates(_)
            | Action::CreateCandidate { .. }
            | Action::RenewCandidate { .. }
            | Action::DeleteCandidate { .. } => None,
        }
    }

    fn written(&mut self, who: usize, attempt: AttemptId, write: &LeaseWrite) -> Observation {
        let is_unconditional = self.processes[who].writes_unconditionally();
        let outcome = self.write(who, write, is_unconditional);
        Observation::LeaseWritten { attempt, outcome }
    }

    fn create(&mut self) -> Outcome<LeaseRecord> {
        if self.lease.is_some() {
            return Outcome::Conflict;
        }
        self.put(LeaseRecord::as_created());
        self.lease.clone().map_or(Outcome::Unknown, Outcome::Landed)
    }

    pub(super) fn write(&mut self, who: usize, write: &LeaseWrite, is_unconditional: bool) -> Outcome<LeaseRecord> {
        let Some(lease) = self.lease.clone() else { return Outcome::Missing };
        if write.resource_version != lease.resource_version && !is_unconditional {
            return Outcome::Conflict;
        }
        let written = write.applied_to(&lease, 0);
        let changes_hands = (&written.holder, &written.session) != (&lease.holder, &lease.session);
        self.verdict.is_deposed |= changes_hands && self.leading().any(|other| other != who);
        self.put(written);
        self.lease.clone().map_or(Outcome::Unknown, Outcome::Landed)
    }

    /// A new version stands.
    pub(super) fn put(&mut self, mut record: LeaseRecord) {
        self.version += 1;
        record.resource_version = self.version;
        if self.lease.is_none() {
            // A server may choose any uid, and a person any number of transitions.
            record.uid = format!("uid-{}", self.deletions);
            record.transitions = FIRST_TRANSITION;
        }
        self.previous = self.lease.replace(record).filter(|_| self.scenario.stale_watch);
    }
}
