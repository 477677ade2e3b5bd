//! The watches of a simulation. Each delivers the newest version of an object to its process.

use hustings_core::election;
use hustings_core::elector::{self, ElectorMode};
use hustings_core::model::{CandidateKey, Outcome, Reply, Request};

use super::{LATENCY, Replica, Simulation, SimulationEvent};

impl Simulation {
    /// Delivers the object that an executed request has changed.
    pub(super) fn show_effect(&mut self, request: &Request, reply: &Reply) {
        if !matches!(reply, Outcome::Landed(_) | Outcome::Deleted) {
            return;
        }
        match request {
            Request::ReadLease { .. } | Request::ReadCandidate { .. } | Request::ListCandidates { .. } => {}
            Request::CreateLease { .. } | Request::WriteLease { .. } => self.show_lease(),
            Request::CreateCandidate { nomination, .. } => self.show_candidate(&nomination.key()),
            Request::PatchCandidate { candidate, .. } | Request::DeleteCandidate { candidate, .. } => {
                self.show_candidate(candidate);
            }
        }
    }

    pub(super) fn show_lease(&mut self) {
        for index in 0..self.replicas.len() {
            self.show_lease_to(index);
        }
        let source = election::Source::Watch;
        let observation = match self.store.lease(&self.lease).cloned() {
            Some(record) => election::Observation::Lease { record, source },
            None => election::Observation::LeaseMissing { source },
        };
        self.push(LATENCY, SimulationEvent::Inform(observation));
    }

    pub(super) fn show_lease_to(&mut self, index: usize) {
        let source = elector::Source::Watch;
        let observation = match self.store.lease(&self.lease).cloned() {
            Some(record) => elector::Observation::Lease { record, source },
            None => elector::Observation::LeaseMissing { source },
        };
        self.push(LATENCY, SimulationEvent::Observe(index, observation));
    }

    pub(super) fn show_candidate(&mut self, key: &CandidateKey) {
        let record = self.store.candidate(key).cloned();
        let stands = |replica: &Replica| {
            *replica.nomination.name == *key.name && replica.elector.config().mode == ElectorMode::Coordinated
        };
        if let Some(index) = self.replicas.iter().position(stands) {
            let source = elector::Source::Watch;
            let observation = match record.clone() {
                Some(record) => elector::Observation::Candidate { record, source },
                None => elector::Observation::CandidateMissing { source },
            };
            self.push(LATENCY, SimulationEvent::Observe(index, observation));
        }
        let source = election::Source::Watch;
        let observation = match record {
            Some(record) => election::Observation::Candidate { record, source },
            None => election::Observation::CandidateMissing { candidate: key.clone(), source },
        };
        self.push(LATENCY, SimulationEvent::Inform(observation));
    }
}
