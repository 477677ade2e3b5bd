//! The server's side of a scene: one Lease, some candidates, and versions that only grow.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hustings_core::elector::Outcome;
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, SessionMark, Set, WireTime};

/// A part of an object that an admission policy protects.
#[allow(dead_code, reason = "the property tests have no policy")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strips {
    Session,
    RenewTime,
    Everything,
}

#[derive(Default)]
pub(crate) struct Store {
    version: u64,
    uid: u64,
    pub(crate) lease: Option<LeaseRecord>,
    pub(crate) candidates: BTreeMap<String, CandidateRecord>,
    /// What an admission policy puts back to what stood before, in every write by an elector.
    pub(crate) strips: Option<Strips>,
    /// The cluster has no CRD.
    pub(crate) knows_no_candidates: bool,
}

impl Store {
    pub(crate) fn create_lease(&mut self) -> Outcome<LeaseRecord> {
        if self.lease.is_some() {
            return Outcome::Conflict;
        }
        let uid = self.next_uid();
        let lease = LeaseRecord {
            uid,
            resource_version: self.next_version(),
            duration_seconds: 15,
            enrolled: true,
            ..LeaseRecord::default()
        };
        self.lease = Some(lease.clone());
        Outcome::Landed(lease)
    }

    pub(crate) fn write_lease(&mut self, write: &LeaseWrite) -> Outcome<LeaseRecord> {
        let Some(lease) = self.lease.clone() else { return Outcome::Missing };
        if lease.resource_version != write.resource_version {
            return Outcome::Conflict;
        }
        // Otherwise nobody could tell by the record which attempt has landed, or that anything has changed.
        if let Set::To(renew_time) = write.renew_time {
            assert!(lease.renew_time.is_none_or(|former| former < renew_time), "a renew time goes back: {write:?}");
        }
        let written = write.applied_to(&lease, self.version + 1);
        let lease = match self.strips {
            None => written,
            Some(Strips::Session) => LeaseRecord { session: lease.session, ..written },
            Some(Strips::RenewTime) => LeaseRecord { renew_time: lease.renew_time, ..written },
            // A write that changes nothing makes no version.
            Some(Strips::Everything) => return Outcome::Landed(lease),
        };
        self.next_version();
        self.lease = Some(lease.clone());
        Outcome::Landed(lease)
    }

    /// A write by somebody who is no elector.
    pub(crate) fn edit_lease(&mut self, edit: impl FnOnce(&mut LeaseRecord)) {
        let version = self.next_version();
        let uid = format!("lease-{}", self.uid + 1);
        let lease = self.lease.get_or_insert_with(|| {
            self.uid += 1;
            LeaseRecord { uid, duration_seconds: 15, ..LeaseRecord::default() }
        });
        edit(lease);
        lease.resource_version = version;
    }

    /// What a controller writes: a grant to `electee`, whatever stood before.
    pub(crate) fn grant(&mut self, electee: &str, wall: WireTime) {
        self.edit_lease(|lease| {
            lease.holder = Some(electee.to_owned());
            lease.duration_seconds = 5;
            lease.acquire_time = Some(wall);
            lease.renew_time = Some(wall.max(lease.range_end().unwrap_or(wall)).later_than(lease.renew_time));
            lease.transitions = lease.transitions.saturating_add(1);
            lease.session = SessionMark::Open;
            lease.preferred_holder = None;
            lease.leaving = false;
            lease.enrolled = true;
        });
    }

    pub(crate) fn delete_lease(&mut self) {
        self.next_version();
        self.lease = None;
    }

    pub(crate) fn create_candidate(
        &mut self,
        name: &str,
        lease: &str,
        version: &str,
        strategy: &str,
        owned: bool,
        renew_time: WireTime,
    ) -> Outcome<CandidateRecord> {
        if self.knows_no_candidates {
            return Outcome::Missing;
        }
        if self.candidates.contains_key(name) {
            return Outcome::Conflict;
        }
        let candidate = CandidateRecord {
            name: name.to_owned(),
            uid: self.next_uid(),
            resource_version: self.next_version(),
            owned,
            lease_name: lease.to_owned(),
            binary_version: version.to_owned(),
            // A third party's strategy may do without.
            emulation_version: (strategy == "OldestEmulationVersion").then(|| version.to_owned()),
            strategy: Some(strategy.to_owned()),
            renew_time: Some(renew_time),
            ..CandidateRecord::default()
        };
        self.candidates.insert(name.to_owned(), candidate.clone());
        Outcome::Landed(candidate)
    }

    pub(crate) fn list_candidates(&self, lease: &str) -> Option<Vec<CandidateRecord>> {
        let of_lease = self.candidates.values().filter(|candidate| candidate.lease_name == lease);
        (!self.knows_no_candidates).then(|| of_lease.cloned().collect())
    }

    pub(crate) fn edit_candidate(
        &mut self,
        name: &str,
        uid: Option<&str>,
        edit: impl FnOnce(&mut CandidateRecord),
    ) -> Outcome<CandidateRecord> {
        let version = self.next_version();
        match self.candidates.get_mut(name) {
            None => Outcome::Missing,
            Some(candidate) if uid.is_some_and(|uid| uid != candidate.uid) => Outcome::Conflict,
            Some(candidate) => {
                edit(candidate);
                candidate.resource_version = version;
                Outcome::Landed(candidate.clone())
            }
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn next_uid(&mut self) -> String {
        self.uid += 1;
        format!("uid-{}", self.uid)
    }
}

/// A Lease on one line, without what is absent.
pub(crate) fn describe(lease: &LeaseRecord) -> String {
    let mut text = format!("v{} ", lease.resource_version);
    match (&lease.holder, lease.is_open()) {
        (Some(holder), _) => _ = write!(text, "{holder}"),
        (None, _) => text.push_str("nobody"),
    }
    _ = write!(text, " {}s n={}", lease.duration_seconds, lease.transitions);
    if lease.session != SessionMark::Absent {
        _ = write!(text, " session={}", lease.session);
    }
    if let Some(token) = lease.token {
        _ = write!(text, " token={token}");
    }
    if let Some(key) = lease.key {
        _ = write!(text, " key={key}");
    }
    if let Some(preferred) = &lease.preferred_holder {
        _ = write!(text, " preferred={preferred}");
    }
    if lease.leaving {
        text.push_str(" leaving");
    }
    if let Some(hold) = &lease.hold {
        _ = write!(text, " hold={hold}");
    }
    text
}
