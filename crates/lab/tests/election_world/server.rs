//! Executes the requests of the election as an API server: with the reference store, an admission policy and failures.

use hustings_core::election::{Action, Event, Observation, Source, Target};
use hustings_core::model::{
    CandidateKey, CandidateKind, CandidatePatch, LeaseWrite, Moment, Outcome, Purpose, Request, Set, WireTime,
};

use super::{LEASE, World, describe};

impl World {
    pub(crate) fn execute(&mut self, actions: Vec<Action>) {
        let mut read = Vec::new();
        let mut pinged = Vec::new();
        let mut patched = Vec::new();
        for action in actions {
            if self.failing > 0 && !matches!(action, Action::Event(_)) {
                self.failing -= 1;
                let target = match &action {
                    Action::Send { request, .. } => {
                        request.candidate().map_or(Target::Lease, |candidate| Target::Candidate(candidate.clone()))
                    }
                    Action::PatchStatus { candidate, .. } => Target::Status(candidate.clone()),
                    Action::ReadPod { .. } | Action::ReadNode { .. } | Action::Event(_) => Target::Evidence,
                };
                let object = match &target {
                    Target::Lease => "Lease".to_owned(),
                    Target::Evidence => "Pod of the holder".to_owned(),
                    Target::Candidate(candidate) => format!("Candidate({:?})", candidate.to_string()),
                    Target::Status(candidate) => format!("Status({:?})", candidate.to_string()),
                };
                self.say(&format!("a request about {object} fails"));
                self.election.observe(self.now(), Observation::Failed { target });
                continue;
            }
            if let Action::PatchStatus { candidate, .. } = &action
                && self.conflicting > 0
            {
                self.conflicting -= 1;
                self.say(&format!("status of {candidate}: conflict"));
                let target = Target::Status(candidate.clone());
                self.election.observe(self.now(), Observation::Failed { target });
                continue;
            }
            let (request, event) = match action {
                Action::Send { request, event } => (request, event),
                Action::PatchStatus { candidate, uid, status } => {
                    (Request::patch_status(candidate, &*uid, status, [WireTime::default(); 3]), None)
                }
                Action::ReadPod { pod } => {
                    self.read_pod(&pod);
                    continue;
                }
                Action::ReadNode { node } => {
                    self.read_node(&node);
                    continue;
                }
                Action::Event(event) => {
                    self.say(&format!("event {}: {event}", event.as_str()));
                    continue;
                }
            };
            match &request {
                Request::ReadLease { .. } => {
                    let found = self.lease().map_or("missing".to_owned(), describe);
                    self.request(&request);
                    self.say(&format!("read the Lease: {found}"));
                }
                Request::ReadCandidate { candidate } => {
                    read.push(candidate.to_string());
                    self.request(&request);
                }
                Request::CreateLease { .. } => self.create_lease(&request),
                Request::WriteLease { write, .. } => self.write_lease(&request, write, event.as_ref()),
                Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(_), .. }
                    if candidate.kind == CandidateKind::Hustings
                        && self.processes.get(&*candidate.name).is_some_and(|process| process.refuses_pings) =>
                {
                    self.say(&format!("the ping of {candidate} fails"));
                    let target = Target::Candidate(candidate.clone());
                    self.election.observe(self.now(), Observation::Failed { target });
                }
                Request::PatchCandidate { candidate, uid, patch: CandidatePatch::Ping(_) }
                    if self.reverted.contains("ping") =>
                {
                    self.say(&format!("ping: {candidate}: no effect"));
                    self.revert(candidate, uid, Source::Written { sent: self.now });
                }
                Request::PatchCandidate { candidate, uid, patch: CandidatePatch::Status { .. } }
                    if self.reverted.contains("status") =>
                {
                    self.say(&format!("status: {candidate}: no effect"));
                    self.revert(candidate, uid, Source::StatusWritten { sent: self.now });
                }
                Request::DeleteCandidate { candidate, uid, .. } if self.reverted.contains("delete") => {
                    self.say(&format!("delete {candidate}: no effect"));
                    self.revert(candidate, uid, Source::Written { sent: self.now });
                }
                Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(ping_time), .. }
                    if candidate.kind == CandidateKind::Native
                        && self
                            .store
                            .candidate(candidate)
                            .is_some_and(|record| record.ping_time > Some(*ping_time)) =>
                {
                    self.say(&format!("withdraw the ping: {candidate}"));
                    self.request(&request);
                }
                Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(_), .. } => {
                    self.pings += 1;
                    pinged.push(candidate.to_string());
                    self.request(&request);
                }
                Request::PatchCandidate { candidate, patch: CandidatePatch::Status { status, .. }, .. } => {
                    self.status_patches += 1;
                    patched.push(format!("{candidate} {}", status.state.map_or("-", |state| state.as_str())));
                    self.request(&request);
                }
                Request::DeleteCandidate { candidate, resource_version, .. } => {
                    assert!(resource_version.is_some(), "{candidate} is deleted only as it was seen");
                    if self.request(&request) {
                        self.say(&format!("delete {candidate}"));
                    }
                }
                other => panic!("a controller has no reason for {other:?}"),
            }
        }
        for (what, names) in [("read", read), ("ping", pinged), ("status", patched)] {
            match names.as_slice() {
                [] => {}
                [first, .., last] if names.len() > 8 => {
                    let text = format!("{what}: {first} to {last}, {} in all", names.len());
                    self.say(&text);
                }
                names => self.say(&format!("{what}: {}", names.join(", "))),
            }
        }
    }

    /// Executes the request and reports the outcome. After a conflict, it reports the result of a live
    /// read. Returns whether the request succeeded.
    fn request(&mut self, request: &Request) -> bool {
        let reply = self.store.execute(request, self.wall(0));
        let is_success = matches!(reply, Outcome::Landed(_) | Outcome::Deleted);
        if is_success {
            self.show_effect(request);
        }
        let now = self.now();
        let observation = Observation::of_reply(request, reply, now.moment).or_else(|read| {
            let reply = self.store.execute(&read, now.wall);
            Observation::of_reply(&read, reply, now.moment)
        });
        if let Ok(observation) = observation {
            self.election.observe(now, observation);
        }
        is_success
    }

    /// Lets the watch show the change by this request.
    fn show_effect(&mut self, request: &Request) {
        let source = Source::Watch;
        match request {
            Request::CreateLease { .. } | Request::WriteLease { .. } => {
                if let Some(record) = self.lease().filter(|lease| lease.enrolled).cloned() {
                    self.show(Observation::Lease { record, source });
                }
            }
            Request::PatchCandidate { candidate, .. } => {
                if let Some(record) = self.store.candidate(candidate).cloned() {
                    self.show(Observation::Candidate { record, source });
                }
            }
            Request::DeleteCandidate { candidate, .. } => {
                self.orphan_process(candidate);
                self.show(Observation::CandidateMissing { candidate: candidate.clone(), source });
            }
            Request::ReadLease { .. }
            | Request::ReadCandidate { .. }
            | Request::ListCandidates { .. }
            | Request::CreateCandidate { .. } => {}
        }
    }

    fn create_lease(&mut self, request: &Request) {
        if self.lease().is_some() {
            self.say("create the Lease: it exists");
            self.request(request);
            return;
        }
        self.lease_writes += 1;
        self.say("create the Lease");
        self.request(request);
        if self.reverted.contains("create") {
            self.say("the Lease is deleted");
            self.delete_lease();
        }
    }

    fn write_lease(&mut self, request: &Request, write: &LeaseWrite, event: Option<&Event>) {
        let purpose = write.purpose.as_str();
        let current = self.lease().filter(|lease| lease.resource_version == write.resource_version);
        let Some(lease) = current.cloned() else {
            self.say(&format!("{purpose}: conflict"));
            self.request(request);
            return;
        };
        if write.purpose == Purpose::Grant {
            let is_free = self.relied_until <= self.now || self.is_holder_dead();
            assert!(is_free, "a grant while {} is relied upon\n{}", describe(&lease), self.log);
        }
        if let (Purpose::Grant | Purpose::Prefer, Set::To(name)) =
            (write.purpose, if write.purpose == Purpose::Grant { &write.holder } else { &write.preferred_holder })
        {
            let lasts = self.config.window * self.config.answer_windows;
            // A candidate that has just been deleted has no process, so it is not checked.
            let answered = [
                self.processes.get(name).map(|process| process.answered_at),
                self.natives.get(name).map(|native| native.answered_at),
            ];
            let is_recent = |at: Moment| self.now.since(at) <= lasts.saturating_add(self.lag);
            let is_fresh = answered == [None; 2] || answered.into_iter().flatten().flatten().any(is_recent);
            assert!(is_fresh, "{name} has not proved itself live\n{}", self.log);
            // The controller does not know changes that a late watch has not shown yet.
            if self.lag.is_zero() {
                let wall = self.now().wall;
                let excluded = self.candidate(name).is_some_and(|record| record.acts.exclusion(wall).is_some());
                assert!(!excluded, "{name} is excluded\n{}", self.log);
                assert!(lease.pause(wall).is_none(), "elections are paused\n{}", self.log);
            }
        }
        self.lease_writes += 1;
        // An admission policy changes the write before it reaches the store.
        let mut kept = write.clone();
        if self.reverted.contains(purpose) {
            kept = LeaseWrite { enrol: write.enrol, ..LeaseWrite::new(write.purpose, &lease) };
        }
        kept.enrol &= !self.reverted.contains("enrol");
        let mut record = kept.applied_to(&lease, lease.resource_version);
        record.native = self.store.native_fields_after(&kept, &lease);
        if record == lease {
            self.say(&format!("{purpose}: no effect"));
        } else {
            if write.purpose == Purpose::Grant {
                assert!(record.renew_time > lease.renew_time, "a grant does not move the renewTime on\n{}", self.log);
            }
            let event = event.map_or(String::new(), |event| format!(" [{event}]"));
            self.say(&format!("{purpose}: {}{event}", describe(&record)));
        }
        self.request(&Request::write_lease(LEASE, kept));
    }

    /// A write of a candidate succeeds and has no effect.
    fn revert(&mut self, candidate: &CandidateKey, uid: &str, source: Source) {
        let name = &candidate.name;
        if self.candidate(name).is_some_and(|record| record.uid == uid) {
            self.edit_candidate(name, |_| {});
            if let Some(record) = self.candidate(name).cloned() {
                self.election.observe(self.now(), Observation::Candidate { record, source });
            }
        } else {
            self.request(&Request::ReadCandidate { candidate: candidate.clone() });
        }
    }
}
