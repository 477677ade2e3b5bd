//! The watch of one named object.
//!
//! What comes from a watch may lag behind, and a watch may die without a word; whoever listens polls when it has been
//! silent. It ends itself often enough that an apiserver can shed it.

use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt};
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// The longest a single watch request lasts.
const LONGEST_WATCH_SECONDS: u32 = 60;

/// Each version of the object that becomes known, or `None` when it is found missing. Never ends.
pub(crate) fn watch_object<K>(
    client: Client,
    namespace: &str,
    name: &str,
) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let config = Config::default().fields(&format!("metadata.name={name}")).timeout(LONGEST_WATCH_SECONDS);
    let (kind, name) = (K::kind(&()).into_owned(), format!("{namespace}/{name}"));
    let mut listed = false;
    watcher(Api::<K>::namespaced(client, namespace), config).default_backoff().filter_map(move |event| {
        ready(match event {
            Ok(Event::Init) => {
                listed = false;
                None
            }
            Ok(Event::InitApply(object)) => {
                listed = true;
                Some(Some(object))
            }
            Ok(Event::InitDone) => (!listed).then_some(None),
            Ok(Event::Apply(object)) => Some(Some(object)),
            Ok(Event::Delete(_)) => Some(None),
            Err(error) => {
                tracing::warn!(kind, name, %error, "watch failed, trying again");
                None
            }
        })
    })
}
