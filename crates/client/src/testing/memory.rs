//! Leases and candidates in memory, stored as an API server does.
//!
//! The rule that must hold: an elector cannot distinguish its answers from those of Kubernetes. One counter numbers the
//! versions of all objects, so that versions grow across a deletion. A write takes effect on the version that it names,
//! or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{FutureExt, future};
use hustings_core::model::{CandidateRecord, LeaseRecord, LeaseWrite, SessionMark, WireTime};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::TokioClock;
use super::objects::Objects;
use crate::backend::{Answer, Backend, Failure, Sightings};
use crate::clock::Clock;
use crate::nomination::Nomination;

/// The duration of a grant, in seconds.
const GRANT_DURATION_SECONDS: u32 = 5;

/// A store of Leases and candidates for tests. Clones are handles to the same store.
#[derive(Clone)]
pub struct MemoryBackend {
    clock: Arc<dyn Clock>,
    leases: Arc<Objects<LeaseRecord>>,
    candidates: Arc<Objects<CandidateRecord>>,
    /// How many random sources this store has given out.
    seeds: Arc<AtomicU64>,
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryBackend {
    /// Creates an empty store with a [`TokioClock`] that starts now.
    pub fn new() -> Self {
        let newest = Arc::<AtomicU64>::default();
        Self {
            clock: TokioClock::shared(),
            leases: Arc::new(Objects::new(Arc::clone(&newest))),
            candidates: Arc::new(Objects::new(newest)),
            seeds: Arc::default(),
        }
    }

    /// Returns the clock that stamps new objects. The electors on this store should use it, too.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Returns a source of random numbers that no other elector of this store has, and that is the same in each run.
    pub fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.seeds.fetch_add(1, Ordering::SeqCst))
    }

    /// Returns the current Lease.
    pub fn lease(&self, namespace: &str, name: &str) -> Option<LeaseRecord> {
        self.leases.read(namespace, name).ok()
    }

    /// Returns the current candidate.
    pub fn candidate(&self, namespace: &str, name: &str) -> Option<CandidateRecord> {
        self.candidates.read(namespace, name).ok()
    }

    /// Grants the Lease as a controller grants a free one; creates the Lease if it is missing. Does not check whether
    /// the Lease is free.
    pub fn grant(&self, namespace: &str, lease: &str, electee: &str) -> Option<LeaseRecord> {
        let wall = self.clock.wall();
        // A conflict means that the Lease exists already.
        let _ = self.leases.create(namespace, lease, LeaseRecord::as_created());
        self.edit_lease(namespace, lease, |record| {
            record.holder = Some(electee.to_owned());
            record.duration_seconds = GRANT_DURATION_SECONDS;
            record.acquire_time = Some(wall);
            record.renew_time = Some(wall.max(record.range_end().unwrap_or(wall)).later_than(record.renew_time));
            record.transitions = record.transitions.saturating_add(1);
            record.session = SessionMark::Open;
            record.preferred_holder = None;
            record.hold = None;
        })
    }

    /// Asks the holder to hand over to `preferred`, as a controller does. Returns `None` if there is no such Lease.
    pub fn prefer(&self, namespace: &str, lease: &str, preferred: &str) -> Option<LeaseRecord> {
        self.edit_lease(namespace, lease, |record| record.preferred_holder = Some(preferred.to_owned()))
    }

    /// Pings a candidate, as a controller does. An elector answers with a `renew_time` not below the `ping_time`.
    /// Returns `None` if there is no such candidate.
    pub fn ping(&self, namespace: &str, candidate: &str) -> Option<CandidateRecord> {
        let wall = self.clock.wall();
        self.edit_candidate(namespace, candidate, |record| {
            record.ping_time = Some(wall.later_than(record.ping_time.max(record.renew_time)));
        })
    }

    /// Edits a Lease without any rule. Returns `None` if there is no such Lease.
    pub fn edit_lease(&self, namespace: &str, name: &str, edit: impl FnOnce(&mut LeaseRecord)) -> Option<LeaseRecord> {
        self.leases
            .change(namespace, name, |record| {
                edit(record);
                Ok(())
            })
            .ok()
    }

    /// Edits a candidate, as an administrator or a controller does. Returns `None` if there is no such candidate.
    pub fn edit_candidate(
        &self,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut CandidateRecord),
    ) -> Option<CandidateRecord> {
        self.candidates
            .change(namespace, name, |record| {
                edit(record);
                Ok(())
            })
            .ok()
    }

    /// Deletes a Lease. Returns `false` if there is none.
    pub fn delete_lease(&self, namespace: &str, name: &str) -> bool {
        self.leases.delete(namespace, name, |_| true).is_ok()
    }
}

impl Backend for MemoryBackend {
    fn read_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord> {
        future::lazy(move |_| self.leases.read(namespace, name)).boxed()
    }

    fn create_lease<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, LeaseRecord> {
        future::lazy(move |_| self.leases.create(namespace, name, LeaseRecord::as_created())).boxed()
    }

    fn write_lease<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        write: &'a LeaseWrite,
        _current: &'a LeaseRecord,
    ) -> Answer<'a, LeaseRecord> {
        let apply = move |record: &mut LeaseRecord| {
            if record.resource_version != write.resource_version {
                return Err(Failure::Conflict);
            }
            *record = write.applied_to(record, record.resource_version);
            Ok(())
        };
        future::lazy(move |_| self.leases.change(namespace, name, apply)).boxed()
    }

    fn watch_lease(&self, namespace: &str, name: &str) -> Sightings<LeaseRecord> {
        self.leases.watch(namespace, name)
    }

    fn read_candidate<'a>(&'a self, namespace: &'a str, name: &'a str) -> Answer<'a, CandidateRecord> {
        future::lazy(move |_| self.candidates.read(namespace, name)).boxed()
    }

    fn create_candidate<'a>(&'a self, nomination: &'a Nomination, renew_time: WireTime) -> Answer<'a, CandidateRecord> {
        future::lazy(move |_| {
            let micros = self.clock.wall().as_micros();
            let mut record = CandidateRecord {
                name: nomination.name.clone(),
                // On the wire, a creation time has whole seconds.
                creation_time: WireTime::from_micros(micros - micros % 1_000_000),
                lease_name: nomination.lease_name.clone(),
                priority: nomination.priority.unwrap_or(0),
                renew_time: Some(renew_time),
                ..CandidateRecord::default()
            };
            refresh(&mut record, nomination);
            self.candidates.create(&nomination.namespace, &nomination.name, record)
        })
        .boxed()
    }

    fn renew_candidate<'a>(
        &'a self,
        nomination: &'a Nomination,
        uid: &'a str,
        renew_time: WireTime,
        with_refresh: bool,
    ) -> Answer<'a, CandidateRecord> {
        let renew = move |record: &mut CandidateRecord| {
            if record.uid != uid {
                return Err(Failure::Conflict);
            }
            record.renew_time = Some(renew_time);
            if with_refresh {
                refresh(record, nomination);
            }
            Ok(())
        };
        future::lazy(move |_| self.candidates.change(&nomination.namespace, &nomination.name, renew)).boxed()
    }

    fn delete_candidate<'a>(&'a self, namespace: &'a str, name: &'a str, uid: &'a str) -> Answer<'a, ()> {
        future::lazy(move |_| self.candidates.delete(namespace, name, |record| record.uid == uid)).boxed()
    }

    fn list_candidates<'a>(&'a self, namespace: &'a str, lease: &'a str) -> Answer<'a, Vec<CandidateRecord>> {
        future::lazy(move |_| {
            let mut candidates = self.candidates.list(namespace);
            candidates.retain(|candidate| candidate.lease_name == lease);
            Ok(candidates)
        })
        .boxed()
    }

    fn watch_candidate(&self, namespace: &str, name: &str) -> Sightings<CandidateRecord> {
        self.candidates.watch(namespace, name)
    }
}

fn refresh(record: &mut CandidateRecord, nomination: &Nomination) {
    record.binary_version.clone_from(&nomination.binary_version);
    record.emulation_version.clone_from(&nomination.emulation_version);
    record.strategy.clone_from(&nomination.strategy);
    record.lease_duration_seconds = Some(nomination.lease_duration_seconds);
    record.session = Some(nomination.session.clone());
    record.owned |= nomination.pod.is_some();
}
