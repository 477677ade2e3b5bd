//! Routes the events of one watch over many objects to the listeners of each object.
//!
//! The rule that must hold: no listener delays another. Each object has room for its newest state only, so that a slow
//! listener skips intermediate states. A list after a gap in the watch does not report deletions, so an object that the
//! list does not contain counts as missing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{StreamExt, stream};
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

use crate::backend::Sightings;

/// Routes by the name of the object.
pub(super) struct Routes<T>(Mutex<HashMap<String, Route<T>>>);

struct Route<T> {
    known: watch::Sender<Known<T>>,
    /// Since the last list began, the watch reported the object, or this route was created.
    listed: bool,
}

#[derive(Clone)]
enum Known<T> {
    Nothing,
    Missing,
    Object(T),
}

impl<T: Clone + Send + Sync + 'static> Routes<T> {
    /// Returns the states of the object of this name, beginning with the one that is known already.
    pub(super) fn listen(self: &Arc<Self>, name: &str) -> Sightings<T> {
        let mut routes = self.routes();
        let route = routes.entry(name.to_owned()).or_insert_with(Route::new);
        let mut known = route.known.subscribe();
        known.mark_changed();
        // Keep the routes alive, because a watch never ends.
        let state = (known, Arc::clone(self));
        let sightings = stream::unfold(state, |(mut known, routes)| async move {
            known.changed().await.ok()?;
            let now = known.borrow_and_update().clone();
            Some((now, (known, routes)))
        });
        let sightings = sightings.filter_map(|known| async {
            match known {
                Known::Nothing => None,
                Known::Missing => Some(None),
                Known::Object(record) => Some(Some(record)),
            }
        });
        sightings.boxed()
    }

    /// Passes an event on to the listeners of its object.
    pub(super) fn tell<K: ResourceExt>(&self, event: Event<K>, record: impl FnOnce(K) -> T) {
        match event {
            Event::Init => self.routes().values_mut().for_each(|route| route.listed = false),
            Event::InitApply(object) | Event::Apply(object) => {
                self.bring(&object.name_any(), || Known::Object(record(object)));
            }
            Event::Delete(object) => self.bring(&object.name_any(), || Known::Missing),
            Event::InitDone => {
                let mut routes = self.routes();
                routes.retain(|_, route| route.known.receiver_count() > 0);
                for route in routes.values().filter(|route| !route.listed) {
                    route.known.send_replace(Known::Missing);
                }
            }
        }
    }

    fn bring(&self, name: &str, known: impl FnOnce() -> Known<T>) {
        let mut routes = self.routes();
        let Some(route) = routes.get_mut(name) else { return };
        if route.known.receiver_count() == 0 {
            routes.remove(name);
            return;
        }
        route.listed = true;
        route.known.send_replace(known());
    }
}

impl<T> Routes<T> {
    fn routes(&self) -> MutexGuard<'_, HashMap<String, Route<T>>> {
        // A panic under this lock leaves whole routes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Route<T> {
    fn new() -> Self {
        Self { known: watch::Sender::new(Known::Nothing), listed: true }
    }
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self(Mutex::default())
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
    enum Told {
        Nothing,
        Missing,
        Version(u64),
    }

    fn lease(name: &str, version: u64) -> ReadLease {
        ReadLease::from_json(json!({ "metadata": { "name": name, "resourceVersion": version.to_string() } }))
    }

    fn tell(routes: &Leases, events: impl IntoIterator<Item = Event<ReadLease>>) {
        for event in events {
            routes.tell(event, |lease| lease.record.resource_version);
        }
    }

    fn told(sightings: &mut Sightings<u64>) -> Told {
        match sightings.next().now_or_never() {
            None => Told::Nothing,
            Some(sighting) => sighting.expect("it never ends").map_or(Told::Missing, Told::Version),
        }
    }

    #[test]
    fn each_listener_is_told_of_its_own_object_and_of_nothing_twice() {
        let routes = Leases::default();
        let (mut a, mut b) = (routes.listen("a"), routes.listen("b"));
        assert_eq!(told(&mut a), Told::Nothing);
        tell(&routes, [Event::Init, Event::InitApply(lease("a", 1)), Event::InitApply(lease("c", 2)), Event::InitDone]);
        assert_eq!((told(&mut a), told(&mut b)), (Told::Version(1), Told::Missing));
        tell(&routes, [Event::Apply(lease("b", 3))]);
        assert_eq!((told(&mut a), told(&mut b)), (Told::Nothing, Told::Version(3)));
        tell(&routes, [Event::Delete(lease("b", 4))]);
        assert_eq!((told(&mut a), told(&mut b)), (Told::Nothing, Told::Missing));
    }

    #[test]
    fn what_a_list_after_a_gap_does_not_name_is_missing() {
        let routes = Leases::default();
        let (mut a, mut b) = (routes.listen("a"), routes.listen("b"));
        tell(&routes, [Event::Init, Event::InitApply(lease("a", 1)), Event::InitApply(lease("b", 2)), Event::InitDone]);
        tell(&routes, [Event::Init, Event::InitApply(lease("b", 3))]);
        assert_eq!((told(&mut a), told(&mut b)), (Told::Version(1), Told::Version(3)), "the list is not over");
        tell(&routes, [Event::InitDone]);
        assert_eq!((told(&mut a), told(&mut b)), (Told::Missing, Told::Nothing));
    }

    #[test]
    fn who_begins_to_listen_during_a_list_is_not_told_that_the_object_is_missing() {
        let routes = Leases::default();
        tell(&routes, [Event::Init, Event::InitApply(lease("a", 1))]);
        let mut late = routes.listen("a");
        tell(&routes, [Event::InitDone]);
        assert_eq!(told(&mut late), Told::Nothing);
        let mut second = routes.listen("a");
        tell(&routes, [Event::Init, Event::InitDone]);
        assert_eq!((told(&mut late), told(&mut second)), (Told::Missing, Told::Missing));
    }

    #[test]
    fn who_is_slow_finds_the_newest_and_holds_nobody_up() {
        let routes = Leases::default();
        let mut slow = routes.listen("a");
        tell(&routes, (1..=1000).map(|version| Event::Apply(lease("a", version))));
        assert_eq!((told(&mut slow), told(&mut slow)), (Told::Version(1000), Told::Nothing));
    }

    #[test]
    fn an_object_to_which_nobody_listens_any_more_takes_no_room() {
        let routes = Leases::default();
        drop((routes.listen("a"), routes.listen("b")));
        tell(&routes, [Event::Apply(lease("a", 1))]);
        assert_eq!(routes.routes().len(), 1);
        tell(&routes, [Event::Init, Event::InitDone]);
        assert_eq!(routes.routes().len(), 0);
    }
}
