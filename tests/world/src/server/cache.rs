//! The watch cache of one instance of the API server. It serves watches, and reads that name a version.
//!
//! It may lag behind. Each kind has its own lag, because each has its own watch on etcd. So a client that changes from
//! one instance to another may observe an older state than before. After a restart, an instance knows no earlier
//! changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::kind::Kind;
use super::store::Store;

/// The cache of one instance. Clones are the same cache.
#[derive(Clone, Debug, Default)]
pub struct Cache(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    lags: Lags,
    /// The version with which it began: no watch can resume from an earlier one.
    began_with: u64,
    /// When it last became healthy; `None` if it has had no fault yet.
    well_since: Option<Instant>,
    /// Cancelled at the next restart.
    incarnation: CancellationToken,
}

/// How far a cache lags behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// The lag of Leases.
    pub leases: Duration,
    /// The lag of candidates and Pods.
    pub candidates: Duration,
}

impl Cache {
    /// Sets how far it lags behind from now on.
    pub fn set(&self, lags: Lags) {
        let mut state = self.state();
        if state.lags != lags {
            state.lags = lags;
            state.well_since = Some(Instant::now());
        }
    }

    /// Restarts the instance of `server`: its connections break, and it lists everything again.
    pub fn restart(&self, server: &Server) {
        let former = {
            let mut state = self.state();
            state.lags = Lags::default();
            state.began_with = server.revision();
            state.well_since = Some(Instant::now());
            std::mem::take(&mut state.incarnation)
        };
        former.cancel();
    }

    /// Cancelled when the instance ends.
    pub fn incarnation(&self) -> CancellationToken {
        self.state().incarnation.clone()
    }

    /// How long it has been healthy.
    pub fn well_for(&self) -> Duration {
        let state = self.state();
        if state.lags == Lags::default() {
            state.well_since.map_or(Duration::MAX, |since| since.elapsed())
        } else {
            Duration::ZERO
        }
    }

    /// The oldest version from which a watch can resume.
    pub(super) fn oldest(&self, store: &Store) -> u64 {
        store.compacted().max(self.state().began_with)
    }

    /// The newest revision of a kind in this cache.
    pub(super) fn revision(&self, store: &Store, kind: Kind) -> u64 {
        let lag = self.lag(kind);
        if lag.is_zero() {
            return store.revision();
        }
        let known = Instant::now().checked_sub(lag).map_or_else(|| store.compacted(), |at| store.revision_at(at));
        known.max(self.state().began_with)
    }

    pub(super) fn lag(&self, kind: Kind) -> Duration {
        let lags = self.state().lags;
        match kind {
            Kind::Lease => lags.leases,
            Kind::LeaseCandidate | Kind::Pod => lags.candidates,
            Kind::Event | Kind::ConfigMap | Kind::AccessReview => Duration::ZERO,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::api::{GetParams, ListParams, PostParams, WatchEvent, WatchParams};
    use kube::core::ObjectMeta;
    use kube::{Api, ResourceExt};

    use super::*;
    use crate::server::Server;

    const LAG: Duration = Duration::from_secs(10);

    fn lease(name: &str) -> Lease {
        Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lagging_instance_serves_an_old_state_and_sends_later_changes_later() {
        let (server, cache) = (Server::default(), Cache::default());
        let leases = Api::<Lease>::namespaced(server.reached_by("a", cache.clone()).client("n"), "n");
        leases.create(&PostParams::default(), &lease("a")).await.unwrap();
        tokio::time::sleep(LAG).await;
        leases.create(&PostParams::default(), &lease("b")).await.unwrap();
        leases.delete("a", &kube::api::DeleteParams::default()).await.unwrap();
        cache.set(Lags { leases: LAG, ..Lags::default() });

        let names = async |params: ListParams| -> Vec<String> {
            leases.list(&params).await.unwrap().iter().map(ResourceExt::name_any).collect()
        };
        assert_eq!(names(ListParams::default()).await, ["b"], "a read of the newest version does not use the cache");
        let any = ListParams::default().match_any();
        assert_eq!(names(any.clone()).await, ["a"]);
        assert!(leases.get_opt("a").await.unwrap().is_none());
        let get_any = GetParams { resource_version: Some("0".to_owned()) };
        assert_eq!(leases.get_with("a", &get_any).await.unwrap().name_any(), "a");
        assert!(leases.get_with("b", &get_any).await.is_err());

        let since = leases.list(&any).await.unwrap().metadata.resource_version.unwrap();
        let began = Instant::now();
        let watch = leases.watch(&WatchParams::default(), &since).await.unwrap();
        let events: Vec<_> = watch.take(2).try_collect().await.unwrap();
        assert!(matches!(&events[0], WatchEvent::Added(lease) if lease.name_any() == "b"), "{events:?}");
        assert!(matches!(&events[1], WatchEvent::Deleted(lease) if lease.name_any() == "a"), "{events:?}");
        assert!(began.elapsed() + Duration::from_secs(1) >= LAG, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_watch_resumes_from_a_version_before_the_restart_of_an_instance() {
        let (server, [stays, restarts]) = (Server::default(), [Cache::default(), Cache::default()]);
        let leases = Api::<Lease>::namespaced(server.client("n"), "n");
        let since = leases.create(&PostParams::default(), &lease("a")).await.unwrap().resource_version().unwrap();
        leases.create(&PostParams::default(), &lease("b")).await.unwrap();
        let incarnation = restarts.incarnation();
        restarts.restart(&server);
        assert!(incarnation.is_cancelled() && !restarts.incarnation().is_cancelled());
        for (cache, resumes) in [(stays, true), (restarts, false)] {
            let leases = Api::<Lease>::namespaced(server.reached_by("a", cache).client("n"), "n");
            let watch = leases.watch(&WatchParams::default(), &since).await.unwrap();
            let event = pin!(watch).next().await.unwrap().unwrap();
            match event {
                WatchEvent::Added(lease) => assert!(resumes && lease.name_any() == "b"),
                WatchEvent::Error(status) => assert!(!resumes && status.code == 410, "{status:?}"),
                event => panic!("{event:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_of_the_newest_state_completes_once_the_cache_has_it() {
        let (server, cache) = (Server::default(), Cache::default());
        let leases = Api::<Lease>::namespaced(server.reached_by("a", cache.clone()).client("n"), "n");
        tokio::time::sleep(LAG).await;
        leases.create(&PostParams::default(), &lease("a")).await.unwrap();
        cache.set(Lags { leases: LAG, ..Lags::default() });
        let began = Instant::now();
        let mut params = WatchParams::default().initial_events();
        params.bookmarks = true;
        let watch = leases.watch(&params, "").await.unwrap();
        let events: Vec<_> = watch.take(2).try_collect().await.unwrap();
        assert!(matches!(&events[0], WatchEvent::Added(lease) if lease.name_any() == "a"), "{events:?}");
        assert!(matches!(&events[1], WatchEvent::Bookmark(_)), "{events:?}");
        assert!(began.elapsed() + Duration::from_secs(1) >= LAG, "{:?}", began.elapsed());
    }
}
