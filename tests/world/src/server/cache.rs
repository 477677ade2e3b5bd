//! What one instance of the API server remembers: reads that need not be the newest, and watches, come from there.
//!
//! It may lag behind, and each kind by its own time, since each is a watch of its own on what stands behind. Whoever
//! changes from one instance to another may therefore see what is older than what it has seen.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::kind::Kind;
use super::store::Store;

/// The memory of one instance. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Cache(Arc<Mutex<Lags>>);

/// How far it lags behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// In its Leases.
    pub leases: Duration,
    /// In its candidates.
    pub candidates: Duration,
}

impl Cache {
    /// Lags behind so far from now on.
    pub fn set(&self, lags: Lags) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = lags;
    }

    /// The newest revision that it knows of a kind.
    pub(super) fn revision(&self, store: &Store, kind: Kind) -> u64 {
        let lag = self.lag(kind);
        if lag.is_zero() {
            return store.revision();
        }
        Instant::now().checked_sub(lag).map_or_else(|| store.compacted(), |at| store.revision_at(at))
    }

    pub(super) fn lag(&self, kind: Kind) -> Duration {
        let lags = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            Kind::Lease => lags.leases,
            Kind::LeaseCandidate => lags.candidates,
            Kind::Event | Kind::ConfigMap | Kind::AccessReview => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
    use kube::core::ObjectMeta;
    use kube::{Api, ResourceExt};

    use super::*;
    use crate::server::Server;

    const LAG: Duration = Duration::from_secs(10);

    fn lease(name: &str) -> Lease {
        Lease { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, spec: None }
    }

    #[tokio::test(start_paused = true)]
    async fn an_instance_that_lags_behind_shows_what_was_and_tells_the_rest_later() {
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
        assert_eq!(names(ListParams::default()).await, ["b"], "the newest version does not come from there");
        let any = ListParams::default().match_any();
        assert_eq!(names(any.clone()).await, ["a"]);

        let since = leases.list(&any).await.unwrap().metadata.resource_version.unwrap();
        let began = Instant::now();
        let watch = leases.watch(&WatchParams::default(), &since).await.unwrap();
        let events: Vec<_> = watch.take(2).try_collect().await.unwrap();
        assert!(matches!(&events[0], WatchEvent::Added(lease) if lease.name_any() == "b"), "{events:?}");
        assert!(matches!(&events[1], WatchEvent::Deleted(lease) if lease.name_any() == "a"), "{events:?}");
        assert!(began.elapsed() + Duration::from_secs(1) >= LAG, "{:?}", began.elapsed());
    }
}
