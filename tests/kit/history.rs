//! Every version of the objects of a kind, from a watch. It includes states that lasted only for a millisecond. All
//! objects of one API server share one counter of versions, so versions of two kinds can be ordered.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// The versions observed so far.
pub(crate) struct History<K>(Arc<Mutex<Vec<K>>>);

impl<K: Resource + Clone + Debug + DeserializeOwned + Send + 'static> History<K> {
    /// Records all versions from now on, until the watch ends after some minutes.
    pub(crate) async fn of(api: Api<K>) -> Self {
        let now = api.list(&ListParams::default()).await.unwrap();
        let watch = api.watch(&WatchParams::default(), &now.metadata.resource_version.unwrap()).await.unwrap();
        let seen = Arc::new(Mutex::new(now.items));
        let versions = Arc::clone(&seen);
        tokio::spawn(watch.for_each(move |event| {
            match event.unwrap() {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => versions.lock().unwrap().push(object),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(error) => panic!("{error:?}"),
            }
            std::future::ready(())
        }));
        Self(seen)
    }

    /// The result of `read` for each version, with the number of the version, oldest first.
    pub(crate) fn read<T>(&self, read: impl Fn(&K) -> T) -> Vec<(u64, T)> {
        let seen = self.0.lock().unwrap();
        seen.iter().map(|object| (object.resource_version().unwrap().parse().unwrap(), read(object))).collect()
    }
}
