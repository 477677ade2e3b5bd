//! The watches: each shows its process the newest version of an object, after a delay of its own.

use std::sync::Arc;
use std::time::Duration;

use hustings_core::election;
use hustings_core::elector::{Observation, Source};
use hustings_core::model::{CandidateKey, CandidateKind, Outcome, Reply, Request};

use super::{Happening, Lab};
use crate::news::Who;
use crate::process::micros;

impl Lab {
    /// Every watch of the Lease shows its current version.
    pub fn lease_changed(&mut self) {
        self.reverting_observes();
        for index in 0..self.replicas.len() {
            self.show_lease(Who::Replica(index));
        }
        for index in 0..self.controllers.len() {
            self.show_lease(Who::Controller(index));
        }
        for index in 0..self.bare.len() {
            if self.lease().is_some_and(|lease| lease.holder.as_deref() == Some(&*self.bare[index].candidate.name)) {
                self.nudge(Who::Bare(index));
            }
        }
    }

    /// Every watch of this candidate shows its current version.
    pub fn candidate_changed(&mut self, candidate: impl Into<CandidateKey>) {
        let candidate = candidate.into();
        self.reverting_observes();
        for index in 0..self.replicas.len() {
            if candidate.kind == CandidateKind::Hustings && self.replicas[index].process.name == *candidate.name {
                self.show_own_candidate(index);
            }
        }
        for index in 0..self.natives.len() {
            if candidate.kind == CandidateKind::Native && self.natives[index].process.name == *candidate.name {
                self.nudge(Who::Native(index));
            }
        }
        for index in 0..self.bare.len() {
            if candidate == self.bare[index].candidate {
                self.nudge(Who::Bare(index));
            }
        }
        for index in 0..self.controllers.len() {
            self.show_candidate(index, &candidate);
        }
    }

    /// Every controller's watch shows the current version of this Pod, and then that of its Node.
    pub fn pod_changed(&mut self, name: &str) {
        let home = self.home(name);
        self.show_evidence(&home);
    }

    /// Every controller's watch shows the current version of this Node.
    pub fn node_changed(&mut self, name: &str) {
        let node = self.server.nodes.get(name).cloned();
        self.show_evidence(node.map(|record| election::Observation::Node { record }).as_slice());
    }

    fn show_evidence(&mut self, observations: &[election::Observation]) {
        for index in 0..self.controllers.len() {
            if !observations.is_empty() {
                self.push(self.now_micros, Happening::Show(index, observations.to_vec()));
            }
        }
    }

    /// What the watches have shown of the Pod of this name: the Pod and its Node.
    pub(crate) fn home(&self, name: &str) -> Vec<election::Observation> {
        let Some(pod) = self.server.pods.get(name).filter(|_| !self.server.hidden_pods.contains(name)) else {
            return Vec::new();
        };
        let node = pod.node.as_deref().and_then(|node| self.server.nodes.get(node));
        let node = node.map(|record| election::Observation::Node { record: record.clone() });
        [election::Observation::Pod { record: Arc::new(pod.clone()) }].into_iter().chain(node).collect()
    }

    /// Changes the delay of an elector's watches, and shows it the current version of the Lease.
    pub fn set_watch(&mut self, index: usize, delay: Option<Duration>) {
        self.replicas[index].process.watch_delay = delay;
        self.show_lease(Who::Replica(index));
    }

    pub(crate) fn show_lease(&mut self, who: Who) {
        let lease = self.server.lease().cloned();
        let now = self.now_micros;
        let process = self.process(who);
        let Some(delay) = process.watch_delay else { return };
        // A watch never changes the order of events.
        let at = (now + micros(delay)).max(process.last_watch_at);
        process.last_watch_at = at;
        match who {
            Who::Replica(index) => {
                let observation = match lease {
                    Some(record) => Observation::Lease { record, source: Source::Watch },
                    None => Observation::LeaseMissing { source: Source::Watch },
                };
                self.push(at, Happening::Observe(index, observation));
            }
            // client-go polls.
            Who::Native(_) | Who::Bare(_) => {}
            Who::Controller(index) => {
                let lease = lease.filter(|lease| lease.enrolled);
                let shown = std::mem::replace(&mut self.controllers[index].shows_lease, lease.is_some());
                if lease.is_none() && !shown {
                    return;
                }
                let source = election::Source::Watch;
                let observation = match lease {
                    Some(record) => election::Observation::Lease { record, source },
                    None => election::Observation::LeaseMissing { source },
                };
                self.push(at, Happening::Inform(index, observation));
            }
        }
    }

    pub(super) fn show_own_candidate(&mut self, index: usize) {
        let replica = &self.replicas[index];
        let Some(delay) = replica.process.watch_delay else { return };
        if replica.elector.config().candidate().is_none() {
            return;
        }
        let source = Source::Watch;
        let observation = match self.server.store.candidate(&replica.process.name) {
            Some(record) => Observation::Candidate { record: record.clone(), source },
            None => Observation::CandidateMissing { source },
        };
        self.push(self.now_micros + micros(delay), Happening::Observe(index, observation));
    }

    /// If an executed request has changed an object, every watch of that object shows its current version.
    pub(crate) fn show_effect(&mut self, request: &Request, reply: &Reply) {
        if !matches!(reply, Outcome::Landed(_) | Outcome::Deleted) {
            return;
        }
        match request {
            Request::ReadLease { .. } | Request::ReadCandidate { .. } | Request::ListCandidates { .. } => {}
            Request::CreateLease { .. } | Request::WriteLease { .. } => self.lease_changed(),
            Request::CreateCandidate { nomination, .. } => self.candidate_changed(nomination.key()),
            Request::PatchCandidate { candidate, .. } | Request::DeleteCandidate { candidate, .. } => {
                self.candidate_changed(candidate.clone());
            }
        }
    }
}
