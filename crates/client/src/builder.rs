//! How an elector is put together. Everything is checked at once, so that the campaign cannot die of it later.

use std::env;
use std::sync::Arc;

use hustings_core::elector::{Config, FailOpen, Mode, Timing};
use hustings_core::model::Strategy;
use kube::Client;
use rand::Rng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use crate::api::names::is_static_pod_uid;
use crate::backend::Backend;
use crate::clock::{Clock, SystemClock};
use crate::driver::Driver;
use crate::elections::Elections;
use crate::elector::{Elector, Task};
use crate::events::Events;
use crate::host::host_name;
use crate::instance::Instance;
use crate::keys::Key;
use crate::leadership::leadership;
use crate::nomination::{Nomination, Pod};
use crate::off::Off;
use crate::requests::Requests;
use crate::telemetry::Witnesses;

mod problem;

use problem::emulation_version;
pub use problem::{InvalidElector, Problem};

/// Puts an [`Elector`] together; see [`Elector::builder`].
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct ElectorBuilder {
    store: Store,
    namespace: String,
    lease: String,
    /// One of many elections of this process.
    is_shared: bool,
    identity: Option<String>,
    /// The identity where no other is known.
    host_name: Option<String>,
    direct: bool,
    enabled: bool,
    events: Option<Client>,
    binary_version: Option<String>,
    emulation_version: Option<String>,
    strategy: Option<String>,
    priority: Option<i32>,
    key: Option<Key>,
    fail_open: FailOpen,
    keeps_on_stop: bool,
    fallback: bool,
    timing: Timing,
    pod: Option<Pod>,
    container: Option<String>,
    clock: Arc<dyn Clock>,
    rng: Box<dyn Rng + Send>,
    shutdown: CancellationToken,
    #[cfg(feature = "metrics")]
    metrics: Option<crate::metrics::Metrics>,
}

/// Where the Lease is.
pub(crate) enum Store {
    /// In a cluster.
    Cluster(Client),
    /// Wherever this one keeps it.
    Backend(Arc<dyn Backend>),
    /// In a cluster, with the other elections of this process.
    Shared(Elections),
}

/// The identity of a process that nobody elects and that has no name.
const UNELECTED: &str = "unelected";

impl ElectorBuilder {
    pub(crate) fn new(store: Store, namespace: String, lease: String) -> Self {
        Self {
            store,
            namespace,
            lease,
            is_shared: false,
            identity: None,
            host_name: None,
            direct: false,
            enabled: true,
            events: None,
            binary_version: None,
            emulation_version: None,
            strategy: None,
            priority: None,
            key: None,
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
            fallback: true,
            timing: Timing::default(),
            pod: None,
            container: None,
            clock: SystemClock::shared(),
            rng: Box::new(rand::make_rng::<StdRng>()),
            shutdown: CancellationToken::new(),
            #[cfg(feature = "metrics")]
            metrics: None,
        }
    }

    pub(crate) fn shared(elections: Elections, namespace: String, lease: String) -> Self {
        Self { is_shared: true, ..Self::new(Store::Shared(elections), namespace, lease) }
    }

    /// The identity under which to hold the Lease, which no other replica may have. Without one it is the name of the
    /// pod (environment variable `POD_NAME`), or else the [name of the host](crate::host_name).
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// The version of this program, by which it stands in the election of a controller.
    #[must_use]
    pub fn binary_version(mut self, version: impl Into<String>) -> Self {
        self.binary_version = Some(version.into());
        self
    }

    /// The version whose behaviour this program shows, if that is not its own.
    #[must_use]
    pub fn emulation_version(mut self, version: impl Into<String>) -> Self {
        self.emulation_version = Some(version.into());
        self
    }

    /// The strategy to be elected by; `OldestEmulationVersion` without this.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.strategy = Some(strategy.into());
        self
    }

    /// The priority with which the candidate is created. One that exists keeps its own.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Stands without a candidate: whoever finds the Lease free takes it, as client-go's electors do.
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    /// This replica's preference in direct mode: a number, or a `tokio::sync::watch::Receiver<Option<i64>>` where it
    /// changes at run time or is not known yet. A replica whose key is strictly higher than the holder's asks it to hand
    /// over, and leads when the holder's work has stopped; see [`keys`](crate::keys).
    #[must_use]
    pub fn key<K: Into<Key>>(mut self, key: K) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Whether there is an election at all; with `false` this process leads from its start to its shutdown, sends nothing
    /// and watches nothing. Functions run, [`is_leader`](crate::Leadership::is_leader) is true, gates let everything
    /// pass; [`number`](crate::Term::number) and [`token`](crate::Term::token) count the terms of this process from 1. It
    /// is for a component that runs once, where Kubernetes' own have `--leader-elect=false`: two such processes both
    /// lead. What the rest of the builder says is checked all the same, and an identity need not be known.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Whether the candidates elect among themselves where no controller does, 25 s after the Lease was found without a
    /// holder and at once from then on, until a controller is seen. They do unless this is false: then nobody leads until
    /// there is a controller, and whoever leads goes on.
    #[must_use]
    pub fn fallback(mut self, fallback: bool) -> Self {
        self.fallback = fallback;
        self
    }

    /// Publishes an event of reason `LeaderElection` on the Lease, through this client, when a term of this elector begins
    /// and when it ends, in client-go's words. That takes the permission to `create` and `patch` `events` of
    /// `events.k8s.io`; without it, and whenever the API server is slow, events are left out and nothing else happens.
    ///
    /// Hustings' controller tells itself which candidates became leaders; this is for Leases without one.
    #[must_use]
    pub fn events(mut self, client: Client) -> Self {
        self.events = Some(client);
        self
    }

    /// Whether the [time range](crate::time_range) of this replica goes on after its end while nobody is known to have
    /// taken over. It does not without this. Whether the replica leads has nothing to do with it.
    #[must_use]
    pub fn fail_open(mut self, fail_open: FailOpen) -> Self {
        self.fail_open = fail_open;
        self
    }

    /// Lets the Lease run out when the elector stops, instead of releasing it: an end of a time range that was once told
    /// stays true, and the others wait for it. A hand-over, a resignation (also that of a function that fails) and a deletion
    /// of the Lease take it back. The candidate is deleted all the same.
    #[must_use]
    pub fn keep_on_stop(mut self) -> Self {
        self.keeps_on_stop = true;
        self
    }

    /// Durations and periods, if the defaults do not suit. [`Timing::warnings`] of them are logged when the elector is built.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// The pod that owns the candidate, so that both go together. Without this it is what the environment variables
    /// `POD_NAME` and `POD_UID` say, if they are set and `POD_NAMESPACE` does not name another namespace than the
    /// Lease's: an owner is of the same namespace, or it counts as gone. The UID must be this pod's own: it tells two
    /// processes of one identity apart, wherever they run.
    ///
    /// A static pod owns no candidate, since the API server does not know it by the UID that its kubelet gave it. Its
    /// candidate is deleted when the elector stops, or by the controller's validity.
    #[must_use]
    pub fn pod(mut self, name: impl Into<String>, uid: impl Into<String>) -> Self {
        self.pod = Some(Pod { name: name.into(), uid: uid.into() });
        self
    }

    /// The name of the container that this process runs in. With it and the UID of the pod, a container that restarts
    /// takes its own Lease back at once, as long as nothing of its former life still runs. Without this it is what the
    /// environment variable `CONTAINER_NAME` says; of the containers of one pod that do not know their name, one at a
    /// time has that advantage.
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// The clocks to go by, in place of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Where random numbers come from. Two electors must never draw the same.
    #[must_use]
    pub fn rng(mut self, rng: impl Rng + Send + 'static) -> Self {
        self.rng = Box::new(rng);
        self
    }

    /// When this token is cancelled, the elector gives up in order and ends.
    #[must_use]
    pub fn shutdown(mut self, shutdown: &CancellationToken) -> Self {
        self.shutdown = shutdown.child_token();
        self
    }

    /// Shows this election among the metrics of the process (feature `metrics`).
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(mut self, metrics: &crate::metrics::Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Checks everything. Nothing is sent before the elector is started.
    pub fn build(mut self) -> Result<Elector, InvalidElector> {
        self.host_name = host_name();
        self.build_in(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn build_in(mut self, environment: impl Fn(&str) -> Option<String>) -> Result<Elector, InvalidElector> {
        let lease = format!("{}/{}", self.namespace, self.lease);
        let identity = self.identity.take().or_else(|| environment("POD_NAME")).or_else(|| self.host_name.take());
        let identity = identity.or_else(|| (!self.enabled).then(|| UNELECTED.to_owned()));
        let appended = |identity: String| {
            let names_candidate = self.is_shared && !self.direct && !identity.is_empty();
            if names_candidate { format!("{identity}.{}", self.lease) } else { identity }
        };
        let identity = identity.map(appended);
        let problems = self.problems(identity.as_deref());
        let (Some(identity), true) = (identity, problems.is_empty()) else {
            return Err(InvalidElector { lease, problems });
        };
        let (publisher, leadership) = leadership(Arc::clone(&self.clock), lease.clone(), identity.clone(), self.timing);
        let mut witnesses = Witnesses::new();
        #[cfg(feature = "metrics")]
        witnesses.extend(self.metrics.map(|metrics| metrics.witness(&leadership)));
        let events = self.events.take().filter(|_| self.enabled);
        witnesses.extend(events.map(|client| Events::witness(client, &self.namespace, &self.lease, &identity)));
        let stop_grace = self.timing.stop_grace;
        if !self.enabled {
            let (clock, shutdown) = (self.clock, self.shutdown.clone());
            let off = Off { identity, stop_grace, clock, publisher, witnesses, shutdown };
            return Ok(Elector::new(Task::Off(Box::new(off)), stop_grace, leadership, self.shutdown));
        }
        for warning in self.timing.warnings() {
            tracing::warn!(lease, "{warning}");
        }
        let is_near = environment("POD_NAMESPACE").is_none_or(|namespace| namespace == self.namespace);
        let pod_uid = self.pod.as_ref().map(|pod| pod.uid.clone()).or_else(|| environment("POD_UID"));
        let container = self.container.take().or_else(|| environment("CONTAINER_NAME"));
        let pod = self.pod.take().or_else(|| {
            is_near.then_some(())?;
            Some(Pod { name: environment("POD_NAME")?, uid: environment("POD_UID")? })
        });
        // The garbage collector would delete the candidate of an owner that the API server does not know.
        let pod = pod.filter(|pod| !is_static_pod_uid(&pod.uid));
        let random = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let Instance { session, lock } = Instance::new(pod_uid.as_deref(), container.as_deref(), &lease, &random);
        // It has been judged with the rest of the candidate.
        let strategy = Strategy::read(self.strategy.as_deref()).unwrap_or(Strategy::OldestEmulationVersion);
        let nomination = self.binary_version.take().map(|binary_version| {
            Arc::new(Nomination {
                namespace: self.namespace.clone(),
                name: identity.clone(),
                lease_name: self.lease.clone(),
                emulation_version: emulation_version(&binary_version, self.emulation_version, self.strategy.as_deref()),
                binary_version,
                strategy: self.strategy,
                priority: self.priority,
                lease_duration_seconds: self.timing.lease_duration_seconds,
                session: session.clone(),
                pod,
            })
        });
        let backend = match self.store {
            Store::Backend(backend) => backend,
            Store::Shared(elections) => elections.backend(Arc::clone(&self.clock), self.timing.request_timeout),
            Store::Cluster(client) => {
                let requests = Requests::new(client, Arc::clone(&self.clock), self.timing.request_timeout);
                Arc::new(requests.seeded(self.rng.next_u64()))
            }
        };
        let driver = Driver {
            namespace: self.namespace,
            config: Config {
                identity,
                lease_name: self.lease,
                session,
                mode: if self.direct { Mode::Direct } else { Mode::Coordinated },
                strategy,
                fallback: self.fallback,
                timing: self.timing,
                fail_open: self.fail_open,
                keeps_on_stop: self.keeps_on_stop,
            },
            nomination,
            key: self.key.unwrap_or_default(),
            backend,
            clock: self.clock,
            rng: self.rng,
            publisher: publisher.with_instance_lock(lock),
            witnesses,
            told: Arc::default(),
            shutdown: self.shutdown.clone(),
        };
        Ok(Elector::new(Task::Campaign(Box::new(driver)), stop_grace, leadership, self.shutdown))
    }
}

#[cfg(test)]
mod tests;
