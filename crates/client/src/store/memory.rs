//! Leases and candidates in memory, for tests.
//!
//! The rule that must hold: an elector cannot distinguish its answers from those of Kubernetes. So each namespace is a
//! [`ReferenceStore`], which defines what every request does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, future, stream};
use hustings_core::model::{CandidateRecord, LeaseRecord, Outcome, ReferenceStore, Request};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;

use super::contract::{Answer, Store, Versions};
use super::failure::Failure;
use crate::clock::Clock;
use crate::clock::tokio_clock::TokioClock;

/// A store of Leases and candidates for tests. Clones are handles to the same store.
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    namespaces: Arc<Mutex<BTreeMap<String, watch::Sender<ReferenceStore>>>>,
    /// How many sources of random numbers this store has returned.
    seeds: Arc<AtomicU64>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates an empty store with a [`TokioClock`] that starts now.
    pub fn new() -> Self {
        Self { clock: TokioClock::shared(), namespaces: Arc::default(), seeds: Arc::default() }
    }

    /// Returns the clock that stamps new objects. The electors on this store should use it, too.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// Returns a source of random numbers. Each call returns another source. The sources are the same in each run.
    pub fn rng(&self) -> StdRng {
        StdRng::seed_from_u64(self.seeds.fetch_add(1, Ordering::SeqCst))
    }

    /// Returns the current Lease.
    pub fn lease(&self, namespace: &str, name: &str) -> Option<LeaseRecord> {
        self.namespace(namespace).borrow().lease(name).cloned()
    }

    /// Returns the current candidate.
    pub fn candidate(&self, namespace: &str, name: &str) -> Option<CandidateRecord> {
        self.namespace(namespace).borrow().candidate(name).cloned()
    }

    /// Grants the Lease to `electee`, as a controller does. Creates the Lease if it is missing. Does not check whether
    /// the Lease is free.
    pub fn grant(&self, namespace: &str, lease: &str, electee: &str) -> Option<LeaseRecord> {
        let wall = self.clock.wall();
        // A conflict means that the Lease exists already.
        let _ = self.execute(namespace, &Request::create_lease(lease));
        self.edit_lease(namespace, lease, |record| record.grant_to(electee, wall))
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

    /// Edits a Lease without any check. Returns `None` if there is no such Lease.
    pub fn edit_lease(&self, namespace: &str, name: &str, edit: impl FnOnce(&mut LeaseRecord)) -> Option<LeaseRecord> {
        self.change(namespace, |store| store.edit_lease(name, edit).cloned())
    }

    /// Edits a candidate, as an administrator or a controller does. Returns `None` if there is no such candidate.
    pub fn edit_candidate(
        &self,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut CandidateRecord),
    ) -> Option<CandidateRecord> {
        self.change(namespace, |store| store.edit_candidate(name, edit).cloned())
    }

    /// Deletes a Lease. Returns `false` if there is none.
    pub fn delete_lease(&self, namespace: &str, name: &str) -> bool {
        self.change(namespace, |store| store.delete_lease(name).is_some())
    }

    fn execute(&self, namespace: &str, request: &Request) -> Answer {
        let wall = self.clock.wall();
        match self.change(namespace, |store| store.execute(request, wall)) {
            Outcome::Landed(object) => Ok(Some(object)),
            Outcome::Deleted => Ok(None),
            Outcome::Conflict => Err(Failure::Conflict),
            Outcome::Missing => Err(Failure::Missing),
            Outcome::Refused => Err(Failure::Refused("the store refuses the request".into())),
            Outcome::Unknown => Err(Failure::Unknown("the store does not know the outcome".into())),
        }
    }

    /// Changes a namespace, and wakes its watches if anything has changed.
    fn change<T>(&self, namespace: &str, change: impl FnOnce(&mut ReferenceStore) -> T) -> T {
        let mut namespaces = self.namespaces();
        let current = namespaces.entry(namespace.to_owned()).or_default();
        let mut changed = current.borrow().clone();
        let result = change(&mut changed);
        current.send_if_modified(|store| {
            let is_change = *store != changed;
            *store = changed;
            is_change
        });
        result
    }

    fn namespace(&self, namespace: &str) -> watch::Sender<ReferenceStore> {
        self.namespaces().entry(namespace.to_owned()).or_default().clone()
    }

    fn namespaces(&self) -> MutexGuard<'_, BTreeMap<String, watch::Sender<ReferenceStore>>> {
        // The map stays consistent even if a thread panics while it holds this lock.
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the versions of one object. A slow listener skips intermediate versions.
    fn watch<T: Clone + PartialEq + Send + 'static>(
        &self,
        namespace: &str,
        object: impl Fn(&ReferenceStore) -> Option<T> + Clone + Send + Sync + 'static,
    ) -> Versions<T> {
        // The sender keeps the watch from ending.
        let sender = self.namespace(namespace);
        let mut changes = sender.subscribe();
        changes.mark_changed();
        let versions = stream::unfold((changes, sender), move |(mut changes, sender)| {
            let object = object.clone();
            async move {
                changes.changed().await.ok()?;
                let version = object(&changes.borrow_and_update());
                Some((version, (changes, sender)))
            }
        });
        let mut last = None;
        versions
            .filter(move |version| {
                let is_new = last.as_ref() != Some(version);
                last = Some(version.clone());
                future::ready(is_new)
            })
            .boxed()
    }
}

impl Store for MemoryStore {
    fn send<'a>(&'a self, namespace: &'a str, request: &'a Request) -> BoxFuture<'a, Answer> {
        future::lazy(move |_| self.execute(namespace, request)).boxed()
    }

    fn watch_lease(&self, namespace: &str, name: &str) -> Versions<LeaseRecord> {
        let name = name.to_owned();
        self.watch(namespace, move |store| store.lease(&name).cloned())
    }

    fn watch_candidate(&self, namespace: &str, name: &str) -> Versions<CandidateRecord> {
        let name = name.to_owned();
        self.watch(namespace, move |store| store.candidate(&name).cloned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hustings_core::model::LeaseStage;

    use super::*;
    use crate::testing::nomination;

    fn store() -> MemoryStore {
        let store = MemoryStore::new();
        let nomination = nomination("a");
        let renew_time = store.clock.wall().after(Duration::from_hours(1));
        store.execute("n", &Request::CreateCandidate { nomination, renew_time }).unwrap();
        store
    }

    #[tokio::test(start_paused = true)]
    async fn each_ping_is_later_than_the_last_ping_and_the_last_renewal() {
        let store = store();
        let mut latest = store.candidate("n", "a").unwrap().renew_time;
        for _ in 0..2 {
            let ping_time = store.ping("n", "a").unwrap().ping_time;
            assert!(ping_time > latest);
            latest = ping_time;
        }
        assert_eq!((store.ping("n", "b"), store.ping("m", "a")), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_reports_the_object_as_it_is_and_then_only_its_own_changes() {
        let store = store();
        let (mut lease, mut candidate) = (store.watch_lease("n", "l"), store.watch_candidate("n", "a"));
        assert_eq!(lease.next().now_or_never(), Some(Some(None)));
        assert!(matches!(candidate.next().now_or_never(), Some(Some(Some(_)))));
        store.grant("n", "l", "a");
        let granted = lease.next().now_or_never().flatten().flatten().unwrap();
        assert_eq!(granted.holder.as_deref(), Some("a"));
        assert_eq!(candidate.next().now_or_never(), None, "the candidate has not changed");
        store.ping("n", "a");
        assert!(matches!(candidate.next().now_or_never(), Some(Some(Some(_)))));
        assert_eq!(lease.next().now_or_never(), None);
        assert!(store.delete_lease("n", "l") && !store.delete_lease("n", "l"));
        assert_eq!(lease.next().now_or_never(), Some(Some(None)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_grant_resets_what_the_former_holder_left_in_the_lease() {
        let store = store();
        store.grant("n", "l", "a").unwrap();
        let edited = store.edit_lease("n", "l", |record| {
            record.session = hustings_core::model::SessionMark::Absent;
            record.preferred_holder = Some("b".to_owned());
            record.hold = Some("works".to_owned());
            (record.leaving, record.enrolled) = (true, false);
        });
        let granted = store.grant("n", "l", "b").unwrap();
        assert_eq!(
            (granted.holder.as_deref(), granted.stage(None), granted.transitions),
            (Some("b"), LeaseStage::Granted, 2)
        );
        assert_eq!((granted.preferred_holder, granted.hold), (None, None));
        assert_eq!((granted.leaving, granted.enrolled, granted.duration_seconds), (false, true, 5));
        assert!(granted.renew_time > edited.unwrap().renew_time);
    }

    #[test]
    fn each_elector_has_random_numbers_of_its_own_and_the_same_ones_in_each_run() {
        let numbers = || {
            let store = MemoryStore::new();
            [(); 2].map(|()| rand::RngExt::random::<u64>(&mut store.rng()))
        };
        let [first, second] = numbers();
        assert_ne!(first, second);
        assert_eq!(numbers(), [first, second]);
    }
}
