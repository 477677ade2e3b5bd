//! A store of Leases and candidates as a value: which reply follows from which state.
//!
//! Electors and elections reach their objects only through a store; in a cluster that is the API server. A [`Request`]
//! is one operation on it, and the [`ReferenceStore`] defines what each operation does. Tests and models add the faults
//! of a network and of a server around it.
//!
//! The rules that must hold:
//!
//! - Versions of an object grow with every write, even across its deletion.
//! - A write takes effect on the version or the uid that it names, or not at all.
//! - A request that changes nothing creates no new version, as in Kubernetes.

mod request;

use std::collections::BTreeMap;

pub use request::{CandidatePatch, Nomination, Object, Outcome, Reply, Request};

use super::{CandidateKey, CandidateKind, CandidateRecord, LeaseRecord, LeaseWrite, NativeFields, WireTime};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The Leases and the candidates of one namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReferenceStore {
    leases: BTreeMap<String, LeaseRecord>,
    candidates: BTreeMap<CandidateKey, CandidateRecord>,
    /// The version of the newest write.
    newest: u64,
    /// The same for each object that has its own version counter.
    newest_apart: BTreeMap<ObjectName, u64>,
    /// How many objects have been deleted or replaced. An object and its successor of the same name have different
    /// uids.
    deleted: u32,
    /// Whether it keeps the native fields of Leases, as a server with the feature gate does.
    keeps_native_fields: bool,
}

/// The kind and the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectName {
    /// A Lease.
    Lease(String),
    /// A candidate.
    Candidate(CandidateKey),
}

impl ReferenceStore {
    /// An empty store. One counter numbers the versions of all objects, as in etcd.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store in which each of these objects has its own version counter, which starts at the given number.
    ///
    /// No code compares the versions of two objects. With a common counter, a model would distinguish states that
    /// behave the same.
    pub fn counting_apart(first: impl IntoIterator<Item = (ObjectName, u64)>) -> Self {
        Self { newest_apart: first.into_iter().collect(), ..Self::default() }
    }

    /// Switches the feature gate on or off. With the gate off, the store drops native fields of Leases that are not set
    /// yet, as the API server does.
    pub const fn keep_native_fields(&mut self, keeps: bool) {
        self.keeps_native_fields = keeps;
    }

    /// The native fields after this write has succeeded on `lease`.
    pub fn native_fields_after(&self, write: &LeaseWrite, lease: &LeaseRecord) -> NativeFields {
        let mut after = write.native_fields_after(lease);
        let gate = |field: &Option<String>| self.keeps_native_fields || field.is_some();
        after.strategy = after.strategy.filter(|_| gate(&lease.native.strategy));
        after.preferred_holder = after.preferred_holder.filter(|_| gate(&lease.native.preferred_holder));
        after
    }

    /// The current version of a Lease.
    pub fn lease(&self, name: &str) -> Option<&LeaseRecord> {
        self.leases.get(name)
    }

    /// The current version of a candidate.
    pub fn candidate(&self, key: impl Into<CandidateKey>) -> Option<&CandidateRecord> {
        self.candidates.get(&key.into())
    }

    /// All candidates, by name.
    pub fn candidates(&self) -> impl Iterator<Item = &CandidateRecord> {
        self.candidates.values()
    }

    /// Executes a request. `wall` is the time by the server's clock: the creation time of a new candidate, in whole
    /// seconds.
    pub fn execute(&mut self, request: &Request, wall: WireTime) -> Reply {
        match request {
            Request::ReadLease { name } => found(self.lease(name)).map(Object::Lease),
            Request::CreateLease { name } if self.leases.contains_key(name) => Outcome::Conflict,
            Request::CreateLease { name } => {
                Outcome::Landed(Object::Lease(self.put_lease(name, LeaseRecord::as_created()).clone()))
            }
            Request::WriteLease { name, write, .. } => self.write_lease(name, write).map(Object::Lease),
            Request::ReadCandidate { candidate } => found(self.candidate(candidate)).map(Object::Candidate),
            Request::ListCandidates { lease_name } => {
                let is_listed = |candidate: &&CandidateRecord| {
                    candidate.kind == CandidateKind::Hustings && candidate.lease_name == *lease_name
                };
                let of_lease = self.candidates().filter(is_listed);
                Outcome::Landed(Object::Candidates(of_lease.cloned().collect()))
            }
            Request::CreateCandidate { nomination, renew_time } => {
                self.create_candidate(nomination, *renew_time, wall).map(Object::Candidate)
            }
            Request::PatchCandidate { candidate, uid, patch } => {
                self.patch_candidate(candidate, uid, patch).map(Object::Candidate)
            }
            Request::DeleteCandidate { candidate, uid, resource_version } => match self.candidates.get(candidate) {
                None => Outcome::Missing,
                Some(found)
                    if found.uid != *uid
                        || resource_version.is_some_and(|version| version != found.resource_version) =>
                {
                    Outcome::Conflict
                }
                Some(_) => {
                    self.delete_candidate(candidate);
                    Outcome::Deleted
                }
            },
        }
    }

    /// Writes a Lease as a third party: unconditionally, and with a new version even if no field of the record changes.
    /// With an empty uid, the Lease becomes a new object. Returns the version written.
    pub fn put_lease(&mut self, name: &str, mut record: LeaseRecord) -> &LeaseRecord {
        record.resource_version = self.next_version(&ObjectName::Lease(name.to_owned()));
        if record.uid.is_empty() {
            self.deleted += u32::from(self.leases.contains_key(name));
            record.uid = self.uid(name);
        }
        self.leases.insert(name.to_owned(), record);
        &self.leases[name]
    }

    /// Writes a candidate as a third party, as [`put_lease`](Self::put_lease) writes a Lease.
    pub fn put_candidate(&mut self, mut record: CandidateRecord) -> &CandidateRecord {
        let key = record.key();
        record.resource_version = self.next_version(&ObjectName::Candidate(key.clone()));
        if record.uid.is_empty() {
            self.deleted += u32::from(self.candidates.contains_key(&key));
            record.uid = self.uid(&key.name);
        }
        self.candidates.insert(key.clone(), record);
        &self.candidates[&key]
    }

    /// Edits a Lease as a third party. Returns the new version; `None` if there is no such Lease.
    pub fn edit_lease(&mut self, name: &str, edit: impl FnOnce(&mut LeaseRecord)) -> Option<&LeaseRecord> {
        let mut record = self.leases.get(name)?.clone();
        edit(&mut record);
        Some(self.put_lease(name, record))
    }

    /// Edits a candidate as a third party. Returns the new version; `None` if there is no such candidate.
    pub fn edit_candidate(
        &mut self,
        key: impl Into<CandidateKey>,
        edit: impl FnOnce(&mut CandidateRecord),
    ) -> Option<&CandidateRecord> {
        let mut record = self.candidates.get(&key.into())?.clone();
        edit(&mut record);
        Some(self.put_candidate(record))
    }

    /// Deletes a Lease. Returns its last version; `None` if there is no such Lease.
    pub fn delete_lease(&mut self, name: &str) -> Option<LeaseRecord> {
        let deleted = self.leases.remove(name)?;
        self.next_version(&ObjectName::Lease(name.to_owned()));
        self.deleted += 1;
        Some(deleted)
    }

    /// Deletes a candidate. Returns its last version; `None` if there is no such candidate.
    pub fn delete_candidate(&mut self, key: impl Into<CandidateKey>) -> Option<CandidateRecord> {
        let key = key.into();
        let deleted = self.candidates.remove(&key)?;
        self.next_version(&ObjectName::Candidate(key));
        self.deleted += 1;
        Some(deleted)
    }

    fn write_lease(&mut self, name: &str, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        let Some(lease) = self.leases.get(name) else { return Outcome::Missing };
        if write.resource_version != lease.resource_version {
            return Outcome::Conflict;
        }
        let mut written = write.applied_to(lease, lease.resource_version);
        written.native = self.native_fields_after(write, lease);
        if written == *lease {
            return Outcome::Landed(written);
        }
        Outcome::Landed(self.put_lease(name, written).clone())
    }

    fn create_candidate(
        &mut self,
        nomination: &Nomination,
        renew_time: WireTime,
        wall: WireTime,
    ) -> Outcome<CandidateRecord> {
        if self.candidates.contains_key(&nomination.key()) {
            return Outcome::Conflict;
        }
        let micros = wall.as_micros();
        let creation_time = WireTime::from_micros(micros - micros.rem_euclid(MICROS_PER_SECOND));
        let created = CandidateRecord { creation_time, ..nomination.candidate(renew_time) };
        Outcome::Landed(self.put_candidate(created).clone())
    }

    fn patch_candidate(&mut self, key: &CandidateKey, uid: &str, patch: &CandidatePatch) -> Outcome<CandidateRecord> {
        let Some(candidate) = self.candidates.get(key) else { return Outcome::Missing };
        if candidate.uid != uid {
            return Outcome::Conflict;
        }
        let patched = patch.applied_to(candidate);
        if patched == *candidate {
            return Outcome::Landed(patched);
        }
        Outcome::Landed(self.put_candidate(patched).clone())
    }

    fn next_version(&mut self, object: &ObjectName) -> u64 {
        let newest = self.newest_apart.get_mut(object).unwrap_or(&mut self.newest);
        *newest += 1;
        *newest
    }

    fn uid(&self, name: &str) -> String {
        format!("{name}-{}", self.deleted)
    }
}

fn found<Record: Clone>(object: Option<&Record>) -> Outcome<Record> {
    object.map_or(Outcome::Missing, |object| Outcome::Landed(object.clone()))
}

#[cfg(test)]
mod tests;
