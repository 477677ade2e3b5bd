//! The server: how it executes the requests that reach it.

use hustings_core::elector::{Action, Observation};
use hustings_core::model::{LeaseRecord, LeaseWrite, Object, Outcome, Reply, Request, WireTime};

use super::World;
use crate::canonical::{FIRST_TRANSITION, FIRST_WALL_MICROS};
use crate::exploration::State;
use crate::process::LEASE;

impl World {
    /// Executes an action of a process. Returns what the process observes, if anything.
    pub(super) fn execute(&mut self, who: usize, action: &Action) -> Option<Observation> {
        let (attempt, request) = match action {
            Action::Send { attempt, request } => (*attempt, request),
            Action::StopWork => return Some(Observation::WorkStopped),
            // Work that was asked to stop reports that it has stopped.
            Action::AbortWork => return None,
        };
        let reply = match request {
            // The models need their own start value for the count of terms.
            Request::CreateLease { .. } if self.lease().is_none() => {
                Outcome::Landed(Object::Lease(self.put(LeaseRecord::as_created())))
            }
            Request::WriteLease { write, .. } => {
                let is_unconditional = self.processes[who].writes_unconditionally();
                self.write(who, LeaseWrite::clone(write), is_unconditional)
            }
            request => self.reply(request),
        };
        Some(Observation::of_reply(attempt, request, reply))
    }

    pub(super) fn write(&mut self, who: usize, mut write: LeaseWrite, is_unconditional: bool) -> Reply {
        let former = self.lease().cloned();
        if let Some(former) = former.as_ref().filter(|_| is_unconditional) {
            write.resource_version = former.resource_version;
        }
        let reply = self.reply(&Request::WriteLease { name: LEASE.to_owned(), write: Box::new(write) });
        if let (Some(former), Outcome::Landed(Object::Lease(lease))) = (former, &reply) {
            let changes_hands = (&lease.holder, &lease.session) != (&former.holder, &former.session);
            self.verdict.is_deposed |= changes_hands && self.leading().any(|other| other != who);
            self.previous = Some(former).filter(|_| self.scenario.stale_watch);
        }
        reply
    }

    /// Writes a version as a third party, or creates the Lease.
    pub(super) fn put(&mut self, mut record: LeaseRecord) -> LeaseRecord {
        self.previous = self.lease().cloned().filter(|_| self.scenario.stale_watch);
        if self.lease().is_none() {
            // A person may write any number of transitions.
            record.transitions = FIRST_TRANSITION;
        }
        self.store.put_lease(LEASE, record).clone()
    }

    fn reply(&mut self, request: &Request) -> Reply {
        self.store.execute(request, WireTime::from_micros(FIRST_WALL_MICROS))
    }
}
