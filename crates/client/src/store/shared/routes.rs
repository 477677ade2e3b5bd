//! Routes the events of one watch over many objects to the listeners of each object.
//!
//! The rule that must hold: no listener delays another. Each route keeps only the newest state of its object, so a slow
//! listener skips intermediate states. A list after a gap in the watch does not report deletions, so an object that the
//! list does not contain counts as missing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use super::super::contract::Versions;

/// Routes by the name of the object.
pub(super) struct Routes<T>(Mutex<RouteTable<T>>);

struct RouteTable<T> {
    by_name: HashMap<String, NameRoute<T>>,
    /// The newest list is complete.
    is_listed: bool,
}

struct NameRoute<T> {
    known: watch::Sender<KnownObject<T>>,
    /// Since the last list began, the watch reported the object, or this route was created.
    listed: bool,
}

#[derive(Clone)]
enum KnownObject<T> {
    Nothing,
    Missing,
    Object(T),
}

impl<T: Clone + Send + Sync + 'static> Routes<T> {
    /// Returns the states of the object of this name. The first is the state that is already known. After a complete
    /// list, an object that nobody listened to counts as missing until the watch reports it: a hint to read it.
    pub(super) fn listen(self: &Arc<Self>, name: &str) -> Versions<T> {
        let mut routes = self.routes();
        let RouteTable { by_name, is_listed } = &mut *routes;
        let route = by_name.entry(name.to_owned()).or_insert_with(|| NameRoute::new(*is_listed));
        let mut known = route.known.subscribe();
        known.mark_changed();
        // Keep the routes alive, because a watch never ends.
        let state = (known, Arc::clone(self));
        let versions = stream::unfold(state, |(mut known, routes)| async move {
            known.changed().await.ok()?;
            let now = known.borrow_and_update().clone();
            Some((now, (known, routes)))
        });
        let versions = versions.filter_map(|known| async {
            match known {
                KnownObject::Nothing => None,
                KnownObject::Missing => Some(None),
                KnownObject::Object(record) => Some(Some(record)),
            }
        });
        versions.boxed()
    }

    /// Passes an event on to the listeners of its object.
    pub(super) fn deliver<K: ResourceExt>(&self, event: Event<K>, record: impl FnOnce(K) -> T) {
        match event {
            Event::Init => {
                let mut routes = self.routes();
                routes.is_listed = false;
                routes.by_name.values_mut().for_each(|route| route.listed = false);
            }
            Event::InitApply(object) | Event::Apply(object) => {
                self.update(&object.name_any(), || KnownObject::Object(record(object)));
            }
            Event::Delete(object) => self.update(&object.name_any(), || KnownObject::Missing),
            Event::InitDone => {
                let mut routes = self.routes();
                routes.is_listed = true;
                routes.by_name.retain(|_, route| route.known.receiver_count() > 0);
                for route in routes.by_name.values().filter(|route| !route.listed) {
                    route.known.send_replace(KnownObject::Missing);
                }
            }
        }
    }

    fn update(&self, name: &str, known: impl FnOnce() -> KnownObject<T>) {
        let mut routes = self.routes();
        let Some(route) = routes.by_name.get_mut(name) else { return };
        if route.known.receiver_count() == 0 {
            routes.by_name.remove(name);
            return;
        }
        route.listed = true;
        route.known.send_replace(known());
    }
}

impl<T> Routes<T> {
    fn routes(&self) -> MutexGuard<'_, RouteTable<T>> {
        // The routes stay consistent even if a thread panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> NameRoute<T> {
    fn new(is_missing: bool) -> Self {
        let known = if is_missing { KnownObject::Missing } else { KnownObject::Nothing };
        Self { known: watch::Sender::new(known), listed: true }
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self(Mutex::new(RouteTable { by_name: HashMap::new(), is_listed: false }))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::json;

    use super::*;
    use crate::api::ReadLease;

    type Leases = Arc<Routes<u64>>;

    #[derive(Debug, PartialEq)]
    enum Seen {
        Nothing,
        Missing,
        Version(u64),
    }

    fn lease(name: &str, version: u64) -> ReadLease {
        ReadLease::from_json(json!({ "metadata": { "name": name, "resourceVersion": version.to_string() } }))
    }

    fn deliver(routes: &Leases, events: impl IntoIterator<Item = Event<ReadLease>>) {
        for event in events {
            routes.deliver(event, |lease| lease.record.resource_version);
        }
    }

    fn seen(versions: &mut Versions<u64>) -> Seen {
        match versions.next().now_or_never() {
            None => Seen::Nothing,
            Some(sighting) => sighting.expect("it never ends").map_or(Seen::Missing, Seen::Version),
        }
    }

    #[test]
    fn each_listener_gets_only_its_own_object_and_no_state_twice() {
        let routes = Leases::default();
        let (mut a, mut b) = (routes.listen("a"), routes.listen("b"));
        assert_eq!(seen(&mut a), Seen::Nothing);
        deliver(
            &routes,
            [Event::Init, Event::InitApply(lease("a", 1)), Event::InitApply(lease("c", 2)), Event::InitDone],
        );
        assert_eq!((seen(&mut a), seen(&mut b)), (Seen::Version(1), Seen::Missing));
        deliver(&routes, [Event::Apply(lease("b", 3))]);
        assert_eq!((seen(&mut a), seen(&mut b)), (Seen::Nothing, Seen::Version(3)));
        deliver(&routes, [Event::Delete(lease("b", 4))]);
        assert_eq!((seen(&mut a), seen(&mut b)), (Seen::Nothing, Seen::Missing));
    }

    #[test]
    fn an_object_that_a_list_after_a_gap_does_not_contain_is_missing() {
        let routes = Leases::default();
        let (mut a, mut b) = (routes.listen("a"), routes.listen("b"));
        deliver(
            &routes,
            [Event::Init, Event::InitApply(lease("a", 1)), Event::InitApply(lease("b", 2)), Event::InitDone],
        );
        deliver(&routes, [Event::Init, Event::InitApply(lease("b", 3))]);
        assert_eq!((seen(&mut a), seen(&mut b)), (Seen::Version(1), Seen::Version(3)), "the list is not over");
        deliver(&routes, [Event::InitDone]);
        assert_eq!((seen(&mut a), seen(&mut b)), (Seen::Missing, Seen::Nothing));
    }

    #[test]
    fn a_listener_that_starts_during_a_list_does_not_find_the_object_missing() {
        let routes = Leases::default();
        deliver(&routes, [Event::Init, Event::InitApply(lease("a", 1))]);
        let mut late = routes.listen("a");
        deliver(&routes, [Event::InitDone]);
        assert_eq!(seen(&mut late), Seen::Nothing);
        let mut second = routes.listen("a");
        deliver(&routes, [Event::Init, Event::InitDone]);
        assert_eq!((seen(&mut late), seen(&mut second)), (Seen::Missing, Seen::Missing));
    }

    #[test]
    fn a_slow_listener_gets_the_newest_state_and_delays_no_other() {
        let routes = Leases::default();
        let mut slow = routes.listen("a");
        deliver(&routes, (1..=1000).map(|version| Event::Apply(lease("a", version))));
        assert_eq!((seen(&mut slow), seen(&mut slow)), (Seen::Version(1000), Seen::Nothing));
    }

    #[test]
    fn a_listener_that_starts_late_gets_the_known_state() {
        let routes = Leases::default();
        let _first = routes.listen("a");
        deliver(&routes, [Event::Apply(lease("a", 1))]);
        assert_eq!(seen(&mut routes.listen("a")), Seen::Version(1));
    }

    #[test]
    fn a_listener_that_starts_after_a_list_finds_an_unknown_object_missing_at_once() {
        let routes = Leases::default();
        deliver(&routes, [Event::Init, Event::InitApply(lease("a", 1)), Event::InitDone]);
        let mut late = routes.listen("b");
        assert_eq!((seen(&mut late), seen(&mut late)), (Seen::Missing, Seen::Nothing));
        deliver(&routes, [Event::Init]);
        assert_eq!(seen(&mut routes.listen("c")), Seen::Nothing, "the next list has begun");
    }

    #[test]
    fn an_object_without_listeners_uses_no_memory() {
        let routes = Leases::default();
        drop((routes.listen("a"), routes.listen("b")));
        deliver(&routes, [Event::Apply(lease("a", 1))]);
        assert_eq!(routes.routes().by_name.len(), 1);
        deliver(&routes, [Event::Init, Event::InitDone]);
        assert_eq!(routes.routes().by_name.len(), 0);
    }
}
