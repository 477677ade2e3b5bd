//! Many elections in one process, at the cost of one.
//!
//! A sharded component stands for hundreds of Leases. With separate electors, the API server would serve two watches
//! for each of them. Electors built from one [`Elections`] share one watch of each kind, whose events are routed by
//! name, and a bounded number of connections.
//!
//! If the API server cannot serve all requests in time, those of running terms come first. A request that has waited
//! too long to be answered in time is not sent, so that the server does no useless work.
//!
//! The watches cover the whole namespace. A Lease that kubectl or client-go created lacks the label
//! `hustings.io/enrolled` and must be observed too; a Lease that loses the label must not seem deleted. Use a namespace
//! of components, not `kube-node-lease`: it holds the nodes' heartbeats and no elections. The ClusterRole
//! `hustings-candidate` grants the necessary permissions. A Role that names single Leases does not.
//!
//! Each elector needs about 20 kB of memory and, in a pod with a known UID, one file descriptor for its lock. Locks use
//! at most half of the file descriptors that the process may open. With the usual limit of 1024, about 500 electors
//! have a lock. After a restart of their container, the others wait until their Leases have expired.

mod routes;
mod turns;

use std::future::ready;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use hustings_core::model::{CandidateRecord, LeaseRecord, Request};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt};
use tokio_util::task::AbortOnDropHandle;

use super::contract::{Answer, Store, Versions};
use super::failure::{Failure, within};
use super::kubernetes::Kubernetes;
use crate::api::{ReadCandidate, ReadLease};
use crate::clock::{Clock, SystemClock};
use crate::watch::watch_namespace;
use routes::Routes;
use turns::{TurnKind, Turns};

/// The elections of one process in one namespace. Clones share everything.
///
/// ```no_run
/// # fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use hustings_client::Elections;
///
/// let elections = Elections::new(client, "default");
/// let mut campaigns = Vec::new();
/// for shard in 0..100 {
///     campaigns.push(elections.coordinated(format!("shard-{shard}"), "1.4.0").build()?.start());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Elections(Arc<SharedElections>);

/// What all electors of one [`Elections`] share.
struct SharedElections {
    namespace: String,
    kubernetes: Kubernetes,
    turns: Turns,
    leases: SharedWatch<LeaseRecord>,
    candidates: SharedWatch<CandidateRecord>,
}

/// The store of one elector.
struct Share {
    shared: Arc<SharedElections>,
    clock: Arc<dyn Clock>,
    /// How long a request may wait for its turn. After a longer wait, the answer would probably come too late for the
    /// elector, and the server's work would be useless.
    patience: Duration,
}

/// One watch of all objects of a kind. The first listener starts it.
struct SharedWatch<T> {
    routes: Arc<Routes<T>>,
    task: OnceLock<AbortOnDropHandle<()>>,
}

impl Elections {
    /// Creates the elections of this namespace. The client should be a [`lease_client`](crate::store::lease_client).
    pub fn new(client: Client, namespace: impl Into<String>) -> Self {
        // Each elector limits the time of its requests by its own clock.
        let kubernetes = Kubernetes::new(client, SystemClock::shared(), Duration::MAX);
        Self(Arc::new(SharedElections {
            namespace: namespace.into(),
            kubernetes,
            turns: Turns::default(),
            leases: SharedWatch::default(),
            candidates: SharedWatch::default(),
        }))
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// Returns the store of an elector. Its requests take at most `timeout` by `clock`, including the wait for their
    /// turn.
    pub(crate) fn store(&self, clock: Arc<dyn Clock>, timeout: Duration) -> Arc<dyn Store> {
        Arc::new(Share { shared: Arc::clone(&self.0), clock, patience: timeout / 2 })
    }
}

impl Store for Share {
    fn send<'a>(&'a self, namespace: &'a str, request: &'a Request) -> BoxFuture<'a, Answer> {
        async move {
            let turn = self.shared.turns.take(TurnKind::of(request)).map(Ok);
            let turn = within(&*self.clock, self.patience, turn).await;
            let _turn = turn.map_err(|_| Failure::NotSent(self.patience))?;
            self.shared.kubernetes.send(namespace, request).await
        }
        .boxed()
    }

    fn watch_lease(&self, namespace: &str, name: &str) -> Versions<LeaseRecord> {
        let events = || watch_namespace::<ReadLease>(self.shared.kubernetes.client().clone(), namespace);
        self.shared.leases.listen(name, events, |lease| lease.record)
    }

    fn watch_candidate(&self, namespace: &str, name: &str) -> Versions<CandidateRecord> {
        let events = || watch_namespace::<ReadCandidate>(self.shared.kubernetes.client().clone(), namespace);
        self.shared.candidates.listen(name, events, |candidate| candidate.record)
    }
}

impl<T: Clone + Send + Sync + 'static> SharedWatch<T> {
    /// Returns the versions of one object that the watch reports. The first listener starts the watch, on the runtime
    /// of that listener.
    fn listen<K, Events>(&self, name: &str, events: impl FnOnce() -> Events, record: fn(K) -> T) -> Versions<T>
    where
        K: ResourceExt + Send + 'static,
        Events: Stream<Item = Event<K>> + Send + 'static,
    {
        // Listen before the watch starts, so that the listener misses nothing.
        let versions = self.routes.listen(name);
        self.task.get_or_init(|| {
            let routes = Arc::clone(&self.routes);
            let routing = events().for_each(move |event| {
                routes.deliver(event, record);
                ready(())
            });
            AbortOnDropHandle::new(tokio::spawn(routing))
        });
        versions
    }
}

impl<T> Default for SharedWatch<T> {
    fn default() -> Self {
        Self { routes: Arc::default(), task: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests;
