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
pub(super) struct Objects<T> {
    /// The version of the newest write of any object, of any kind.
    newest: Arc<AtomicU64>,
    entries: Mutex<Entries<T>>,
}

/// Each object with its watchers. A deleted object keeps its entry.
type Entries<T> = BTreeMap<(String, String), watch::Sender<Option<T>>>;

impl<T: Object> Objects<T> {
    pub(super) fn new(newest: Arc<AtomicU64>) -> Self {
        Self { newest, entries: Mutex::default() }
    }

    /// Returns the current object.
    pub(super) fn read(&self, namespace: &str, name: &str) -> Result<T, Failure> {
        current(entry(&mut self.entries(), namespace, name))
    }

    /// Returns all objects of a namespace, by name.
    pub(super) fn list(&self, namespace: &str) -> Vec<T> {
        let entries = self.entries();
        let found = entries.iter().filter(|((within, _), _)| within == namespace);
        found.filter_map(|(_, entry)| entry.borrow().clone()).collect()
    }

    /// Creates the object, with a new uid. Returns a conflict if it exists.
    pub(super) fn create(&self, namespace: &str, name: &str, mut object: T) -> Result<T, Failure> {
        let mut entries = self.entries();
        let entry = entry(&mut entries, namespace, name);
        if current(entry).is_ok() {
            return Err(Failure::Conflict);
        }
        *object.version() = self.next_version();
        *object.uid() = format!("uid-{}", object.version());
        entry.send_replace(Some(object.clone()));
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
        let mut entries = self.entries();
        let entry = entry(&mut entries, namespace, name);
        let mut current = current(entry)?;
        let mut edited = current.clone();
        edit(&mut edited)?;
        edited.version().clone_from(current.version());
        edited.uid().clone_from(current.uid());
        if edited != current {
            *edited.version() = self.next_version();
            entry.send_replace(Some(edited.clone()));
        }
        Ok(edited)
    }

    /// Deletes the object if `like` accepts it, else returns a conflict.
    pub(super) fn delete(&self, namespace: &str, name: &str, like: impl FnOnce(&T) -> bool) -> Result<(), Failure> {
        let mut entries = self.entries();
        let entry = entry(&mut entries, namespace, name);
        if !like(&current(entry)?) {
            return Err(Failure::Conflict);
        }
        self.next_version();
        entry.send_replace(None);
        Ok(())
    }

    /// Returns the current object, then each version that the listener is quick enough to see.
    pub(super) fn watch(self: &Arc<Self>, namespace: &str, name: &str) -> Sightings<T> {
        let mut versions = entry(&mut self.entries(), namespace, name).subscribe();
        versions.mark_changed();
        // Keep the store alive, because a watch never ends.
        stream::unfold((versions, Arc::clone(self)), |(mut versions, objects)| async move {
            versions.changed().await.ok()?;
            let version = versions.borrow_and_update().clone();
            Some((version, (versions, objects)))
        })
        .boxed()
    }

    fn entries(&self) -> MutexGuard<'_, Entries<T>> {
        // An edit that panics leaves the object as it was.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
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

fn entry<'a, T>(entries: &'a mut Entries<T>, namespace: &str, name: &str) -> &'a mut watch::Sender<Option<T>> {
    entries.entry((namespace.to_owned(), name.to_owned())).or_insert_with(|| watch::Sender::new(None))
}

fn current<T: Clone>(entry: &watch::Sender<Option<T>>) -> Result<T, Failure> {
    entry.borrow().clone().ok_or(Failure::Missing)
}
