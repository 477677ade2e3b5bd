//! Objects of one kind in memory: versions, conditional changes, watches.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};
use hustings_core::model::{CandidateRecord, LeaseRecord};
use tokio::sync::watch;

use crate::backend::{Failure, Sightings};

/// The metadata of an object.
pub(super) trait Object: Clone + PartialEq + Send + Sync + 'static {
    fn uid(&mut self) -> &mut String;
    fn version(&mut self) -> &mut u64;
}

/// Objects by namespace and name.
pub(super) struct Shelf<T> {
    /// The version of the newest write of any object, of any kind.
    newest: Arc<AtomicU64>,
    places: Mutex<Places<T>>,
}

/// Each object with its watchers. A deleted object keeps its entry.
type Places<T> = BTreeMap<(String, String), watch::Sender<Option<T>>>;

impl<T: Object> Shelf<T> {
    pub(super) fn new(newest: Arc<AtomicU64>) -> Self {
        Self { newest, places: Mutex::default() }
    }

    /// Returns the current object.
    pub(super) fn read(&self, namespace: &str, name: &str) -> Result<T, Failure> {
        stands(place(&mut self.places(), namespace, name))
    }

    /// Returns all objects of a namespace, by name.
    pub(super) fn list(&self, namespace: &str) -> Vec<T> {
        let places = self.places();
        let there = places.iter().filter(|((place, _), _)| place == namespace);
        there.filter_map(|(_, place)| place.borrow().clone()).collect()
    }

    /// Creates the object, with a new uid. Returns a conflict if it exists.
    pub(super) fn create(&self, namespace: &str, name: &str, mut object: T) -> Result<T, Failure> {
        let mut places = self.places();
        let place = place(&mut places, namespace, name);
        if stands(place).is_ok() {
            return Err(Failure::Conflict);
        }
        *object.version() = self.next_version();
        *object.uid() = format!("uid-{}", object.version());
        place.send_replace(Some(object.clone()));
        Ok(object)
    }

    /// Changes the object. If `edit` fails, nothing changes. An edit without effect creates no version, as in
    /// Kubernetes.
    pub(super) fn change(
        &self,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut T) -> Result<(), Failure>,
    ) -> Result<T, Failure> {
        let mut places = self.places();
        let place = place(&mut places, namespace, name);
        let mut current = stands(place)?;
        let mut edited = current.clone();
        edit(&mut edited)?;
        edited.version().clone_from(current.version());
        edited.uid().clone_from(current.uid());
        if edited != current {
            *edited.version() = self.next_version();
            place.send_replace(Some(edited.clone()));
        }
        Ok(edited)
    }

    /// Deletes the object if `like` accepts it, else returns a conflict.
    pub(super) fn delete(&self, namespace: &str, name: &str, like: impl FnOnce(&T) -> bool) -> Result<(), Failure> {
        let mut places = self.places();
        let place = place(&mut places, namespace, name);
        if !like(&stands(place)?) {
            return Err(Failure::Conflict);
        }
        self.next_version();
        place.send_replace(None);
        Ok(())
    }

    /// Returns the current object, then each version that the listener is quick enough to see.
    pub(super) fn watch(self: &Arc<Self>, namespace: &str, name: &str) -> Sightings<T> {
        let mut versions = place(&mut self.places(), namespace, name).subscribe();
        versions.mark_changed();
        // Keep the store alive, because a watch never ends.
        stream::unfold((versions, Arc::clone(self)), |(mut versions, shelf)| async move {
            versions.changed().await.ok()?;
            let version = versions.borrow_and_update().clone();
            Some((version, (versions, shelf)))
        })
        .boxed()
    }

    fn places(&self) -> MutexGuard<'_, Places<T>> {
        // An edit that panics leaves the object as it was.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_version(&self) -> u64 {
        self.newest.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl Object for LeaseRecord {
    fn uid(&mut self) -> &mut String {
        &mut self.uid
    }

    fn version(&mut self) -> &mut u64 {
        &mut self.resource_version
    }
}

impl Object for CandidateRecord {
    fn uid(&mut self) -> &mut String {
        &mut self.uid
    }

    fn version(&mut self) -> &mut u64 {
        &mut self.resource_version
    }
}

fn place<'a, T>(places: &'a mut Places<T>, namespace: &str, name: &str) -> &'a mut watch::Sender<Option<T>> {
    places.entry((namespace.to_owned(), name.to_owned())).or_insert_with(|| watch::Sender::new(None))
}

fn stands<T: Clone>(place: &watch::Sender<Option<T>>) -> Result<T, Failure> {
    place.borrow().clone().ok_or(Failure::Missing)
}
