//! The API server of the world: it carries out what the election decides, and honours conditions.

use hustings_core::election::{Action, Observation, Source, Target};
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, Purpose, Set};

use super::{World, describe};

impl World {
    pub(crate) fn execute(&mut self, actions: Vec<Action>) {
        let mut read = Vec::new();
        let mut pinged = Vec::new();
        let mut patched = Vec::new();
        for action in actions {
            if self.failing > 0 && !matches!(action, Action::Event(_)) {
                self.failing -= 1;
                let target = match &action {
                    Action::ReadCandidate { name }
                    | Action::Ping { name, .. }
                    | Action::DeleteCandidate { name, .. } => Target::Candidate(name.to_string()),
                    Action::PatchStatus { name, .. } => Target::Status(name.to_string()),
                    _ => Target::Lease,
                };
                self.say(&format!("a request about {target:?} fails"));
                self.election.observe(self.now(), Observation::Failed { target });
                continue;
            }
            if let Action::PatchStatus { name, .. } = &action
                && self.conflicting > 0
            {
                self.conflicting -= 1;
                self.say(&format!("status of {name}: conflict"));
                let target = Target::Status(name.to_string());
                self.election.observe(self.now(), Observation::Failed { target });
                continue;
            }
            match action {
                Action::ReadLease => {
                    self.read_lease();
                    let found = self.lease.as_ref().map_or("missing".to_owned(), describe);
                    self.say(&format!("read the Lease: {found}"));
                }
                Action::ReadCandidate { name } => {
                    read.push(name.to_string());
                    self.read_candidate(&name);
                }
                Action::CreateLease => self.create_lease(),
                Action::WriteLease { write, event } => self.write_lease(&write, event.map(|event| event.to_string())),
                Action::Ping { name, .. } if self.candidates.get(&*name).is_some_and(|(_, p)| p.refuses_pings) => {
                    self.say(&format!("the ping of {name} fails"));
                    self.election
                        .observe(self.now(), Observation::Failed { target: Target::Candidate(name.to_string()) });
                }
                Action::Ping { name, uid, .. } if self.reverted.contains("ping") => {
                    self.say(&format!("ping: {name}: no effect"));
                    self.patch(&name, &uid, Source::Written { sent: self.now }, |_| {});
                }
                Action::PatchStatus { name, uid, .. } if self.reverted.contains("status") => {
                    self.say(&format!("status: {name}: no effect"));
                    self.patch(&name, &uid, Source::StatusWritten { sent: self.now }, |_| {});
                }
                Action::DeleteCandidate { name, uid, .. } if self.reverted.contains("delete") => {
                    self.say(&format!("delete {name}: no effect"));
                    self.patch(&name, &uid, Source::Written { sent: self.now }, |_| {});
                }
                Action::Ping { name, uid, ping_time } => {
                    self.pings += 1;
                    pinged.push(name.to_string());
                    let source = Source::Written { sent: self.now };
                    self.patch(&name, &uid, source, |record| record.ping_time = Some(ping_time));
                }
                Action::PatchStatus { name, uid, status } => {
                    self.status_patches += 1;
                    patched.push(format!("{name} {}", status.state.map_or("-", |state| state.as_str())));
                    let source = Source::StatusWritten { sent: self.now };
                    self.patch(&name, &uid, source, |record| record.status = status);
                }
                Action::DeleteCandidate { name, uid, resource_version } => {
                    let stands = self.candidates.get(&*name);
                    if stands.is_some_and(|(r, _)| *r.uid == *uid && r.resource_version == resource_version) {
                        self.say(&format!("delete {name}"));
                        self.delete_candidate(&name);
                    } else {
                        self.read_candidate(&name);
                    }
                }
                Action::Event(event) => self.say(&format!("event {}: {event}", event.as_str())),
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

    fn read_lease(&mut self) {
        let source = Source::Read { sent: self.now };
        let observation = match self.lease.clone() {
            Some(record) => Observation::Lease { record, source },
            None => Observation::LeaseMissing { source },
        };
        self.election.observe(self.now(), observation);
    }

    fn read_candidate(&mut self, name: &str) {
        let source = Source::Read { sent: self.now };
        let observation = match self.candidates.get(name) {
            Some((record, _)) => Observation::Candidate { record: record.clone(), source },
            None => Observation::CandidateMissing { name: name.to_owned(), source },
        };
        self.election.observe(self.now(), observation);
    }

    fn create_lease(&mut self) {
        if self.lease.is_some() {
            self.say("create the Lease: it exists");
            self.read_lease();
            return;
        }
        self.lease_writes += 1;
        self.say("create the Lease");
        let record = LeaseRecord {
            resource_version: self.next_version(),
            uid: format!("uid-{}", self.version),
            ..LeaseRecord::as_created()
        };
        self.lease = Some(record.clone());
        self.show(Observation::Lease { record: record.clone(), source: Source::Watch });
        self.election.observe(self.now(), Observation::Lease { record, source: Source::Written { sent: self.now } });
        if self.reverted.contains("create") {
            self.say("the Lease is deleted");
            self.delete_lease();
        }
    }

    fn write_lease(&mut self, write: &LeaseWrite, event: Option<String>) {
        let lease = self.lease.clone().filter(|lease| lease.resource_version == write.resource_version);
        let Some(lease) = lease else {
            self.say(&format!("{}: conflict", write.purpose.as_str()));
            self.read_lease();
            return;
        };
        if write.purpose == Purpose::Grant {
            assert!(self.relied_until <= self.now, "a grant while {} is relied upon\n{}", describe(&lease), self.log);
        }
        if let (Purpose::Grant | Purpose::Prefer, Set::To(name)) =
            (write.purpose, if write.purpose == Purpose::Grant { &write.holder } else { &write.preferred_holder })
        {
            let lasts = self.config.window * self.config.answer_windows;
            // One that has just been deleted is another matter.
            let is_fresh = self.candidates.get(name).is_none_or(|(_, process)| {
                process.answered_at.is_some_and(|at| self.now.since(at) <= lasts.saturating_add(self.lag))
            });
            assert!(is_fresh, "{name} has not proved itself live\n{}", self.log);
        }
        self.lease_writes += 1;
        let version = self.next_version();
        let mut record = write.applied_to(&lease, version);
        record.enrolled = lease.enrolled || (write.enrol && !self.reverted.contains("enrol"));
        if self.reverted.contains(write.purpose.as_str()) {
            record = LeaseRecord { enrolled: record.enrolled, ..lease.clone() };
        }
        if record == lease {
            // A write that changes nothing makes no version.
            self.say(&format!("{}: no effect", write.purpose.as_str()));
            let source = Source::Written { sent: self.now };
            self.election.observe(self.now(), Observation::Lease { record, source });
            return;
        }
        if write.purpose == Purpose::Grant {
            assert!(record.renew_time > lease.renew_time, "a grant does not move the renewTime on\n{}", self.log);
        }
        let event = event.map_or(String::new(), |event| format!(" [{event}]"));
        self.say(&format!("{}: {}{event}", write.purpose.as_str(), describe(&record)));
        self.lease = Some(record.clone());
        if record.enrolled {
            self.show(Observation::Lease { record: record.clone(), source: Source::Watch });
        }
        self.election.observe(self.now(), Observation::Lease { record, source: Source::Written { sent: self.now } });
    }

    fn patch(&mut self, name: &str, uid: &str, source: Source, change: impl FnOnce(&mut CandidateRecord)) {
        let version = self.next_version();
        let Some((record, _)) = self.candidates.get_mut(name).filter(|(record, _)| record.uid == uid) else {
            self.read_candidate(name);
            return;
        };
        change(record);
        record.resource_version = version;
        let record = record.clone();
        self.show(Observation::Candidate { record: record.clone(), source: Source::Watch });
        self.election.observe(self.now(), Observation::Candidate { record, source });
    }
}
