//! Building an elector. `build` validates every setting, so that no bad setting can end the campaign later.

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
use crate::telemetry::Observers;

mod problem;

use problem::emulation_version;
pub use problem::{InvalidElector, Problem};

/// Builds an [`Elector`]; see [`Elector::builder`].
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct ElectorBuilder {
    store: Store,
    namespace: String,
    lease: String,
    /// Built by [`Elections`], with watches and requests shared among the elections of this process.
    is_shared: bool,
    identity: Option<String>,
    /// The fallback for `identity`.
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

/// Where the Lease is stored.
pub(crate) enum Store {
    /// In a cluster, through this client.
    Cluster(Client),
    /// In this backend.
    Backend(Arc<dyn Backend>),
    /// In a cluster, together with the other elections of this process.
    Shared(Elections),
}

/// The identity of a process without an election and without a name.
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

    /// Sets the identity under which this replica holds the Lease. No other replica may have the same one.
    ///
    /// Default: the name of the pod (environment variable `POD_NAME`), else the [host name](crate::host_name).
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Sets the version of this program. The controller ranks candidates by it. Required except in direct mode.
    #[must_use]
    pub fn binary_version(mut self, version: impl Into<String>) -> Self {
        self.binary_version = Some(version.into());
        self
    }

    /// Sets the version whose behaviour this program emulates. Default under `OldestEmulationVersion`: the binary
    /// version.
    #[must_use]
    pub fn emulation_version(mut self, version: impl Into<String>) -> Self {
        self.emulation_version = Some(version.into());
        self
    }

    /// Sets the strategy by which this candidate asks to be elected. Default: `OldestEmulationVersion`.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.strategy = Some(strategy.into());
        self
    }

    /// Sets the priority with which the elector creates its candidate. An existing candidate keeps its priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Selects direct mode: the elector has no candidate, and claims the Lease when it finds it free, as client-go's
    /// electors do.
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    /// Sets this replica's preference in direct mode. Pass a number, or a `tokio::sync::watch::Receiver<Option<i64>>`
    /// if the key changes at run time or is not known yet.
    ///
    /// A replica whose key is strictly higher than the holder's asks the holder to hand over. It leads once the
    /// holder's work has stopped; see [`keys`](crate::keys).
    #[must_use]
    pub fn key<K: Into<Key>>(mut self, key: K) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets whether there is an election at all. Default: `true`.
    ///
    /// With `false`, this process leads from its start to its shutdown, and sends and watches nothing:
    /// - Functions run, [`is_leader`](crate::Leadership::is_leader) is true, and gates let every write pass.
    /// - [`number`](crate::Term::number) and [`token`](crate::Term::token) count the terms of this process from 1.
    /// - The builder validates all other settings as usual, but does not require an identity.
    ///
    /// Use it for a component that runs once, like `--leader-elect=false` of Kubernetes' components. Two such processes
    /// both lead.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Sets whether the candidates elect among themselves when no controller does. Default: `true`.
    ///
    /// The candidates start 25 s after the Lease was found without a holder. From then on they elect at once, until the
    /// elector observes a controller. With `false`, a Lease without a holder waits for a controller; a holder keeps
    /// leading.
    #[must_use]
    pub fn fallback(mut self, fallback: bool) -> Self {
        self.fallback = fallback;
        self
    }

    /// Publishes an event with reason `LeaderElection` on the Lease when a term of this elector begins and when it
    /// ends, in client-go's words.
    ///
    /// The client needs the permission to `create` and `patch` `events` of `events.k8s.io`. Without it, and while the
    /// API server is slow, the elector drops events; the election is not affected.
    ///
    /// Hustings' controller already reports which candidates became leaders. This setting is for Leases without a
    /// controller.
    #[must_use]
    pub fn events(mut self, client: Client) -> Self {
        self.events = Some(client);
        self
    }

    /// Sets whether the [time range](crate::time_range) of this replica continues after its end while no other replica
    /// is known to have taken over. Default: it does not. This setting does not affect whether the replica leads.
    #[must_use]
    pub fn fail_open(mut self, fail_open: FailOpen) -> Self {
        self.fail_open = fail_open;
        self
    }

    /// Lets the Lease expire when the elector stops, instead of releasing it. The reported end of a time range then
    /// stays valid, because the other replicas wait for it.
    ///
    /// A hand-over, a resignation (also one caused by a failed function) and a deletion of the Lease still end the
    /// range early. The elector deletes its candidate as usual.
    #[must_use]
    pub fn keep_on_stop(mut self) -> Self {
        self.keeps_on_stop = true;
        self
    }

    /// Sets durations and periods. Default: [`Timing::default`]. [`build`](Self::build) logs the [`Timing::warnings`].
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Sets the pod that owns the candidate, so that Kubernetes deletes the candidate with its pod.
    ///
    /// Default: the environment variables `POD_NAME` and `POD_UID`, if both are set and `POD_NAMESPACE` does not name
    /// another namespace than the Lease's. An owner must be in the namespace of the candidate; Kubernetes treats any
    /// other owner as deleted. The UID must be this pod's own, because it distinguishes processes with the same
    /// identity, wherever they run.
    ///
    /// A static pod owns no candidate, because the API server does not know the UID that the kubelet gave it. The
    /// elector deletes the candidate when it stops. If it cannot, the controller deletes the candidate after its
    /// validity.
    #[must_use]
    pub fn pod(mut self, name: impl Into<String>, uid: impl Into<String>) -> Self {
        self.pod = Some(Pod { name: name.into(), uid: uid.into() });
        self
    }

    /// Sets the name of the container that this process runs in. With it and the pod's UID, a restarted container takes
    /// its own Lease back at once, provided that nothing of its former life still runs.
    ///
    /// Default: the environment variable `CONTAINER_NAME`. Among the containers of a pod without a known name, only one
    /// at a time can take its Lease back at once.
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.container = Some(name.into());
        self
    }

    /// Sets the clocks to use instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the source of random numbers. Two electors must never draw the same numbers.
    #[must_use]
    pub fn rng(mut self, rng: impl Rng + Send + 'static) -> Self {
        self.rng = Box::new(rng);
        self
    }

    /// Sets the token whose cancellation stops the elector gracefully.
    #[must_use]
    pub fn shutdown(mut self, shutdown: &CancellationToken) -> Self {
        self.shutdown = shutdown.child_token();
        self
    }

    /// Adds this election to the metrics of the process (feature `metrics`).
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(mut self, metrics: &crate::metrics::Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Validates all settings, and reports every problem at once. Sends nothing: the elector sends its first request
    /// after it has started.
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
        let mut observers = Observers::new();
        #[cfg(feature = "metrics")]
        observers.extend(self.metrics.map(|metrics| metrics.observer(&leadership)));
        let events = self.events.take().filter(|_| self.enabled);
        observers.extend(events.map(|client| Events::observer(client, &self.namespace, &self.lease, &identity)));
        let stop_grace = self.timing.stop_grace;
        if !self.enabled {
            let (clock, shutdown) = (self.clock, self.shutdown.clone());
            let off = Off { identity, stop_grace, clock, publisher, observers, shutdown };
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
        // The garbage collector deletes a candidate whose owner the API server does not know.
        let pod = pod.filter(|pod| !is_static_pod_uid(&pod.uid));
        let random = format!("{:016x}{:016x}", self.rng.next_u64(), self.rng.next_u64());
        let Instance { session, lock } = Instance::new(pod_uid.as_deref(), container.as_deref(), &lease, &random);
        // `problems` has already rejected a strategy that does not parse.
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
            observers,
            failures: Arc::default(),
            shutdown: self.shutdown.clone(),
        };
        Ok(Elector::new(Task::Campaign(Box::new(driver)), stop_grace, leadership, self.shutdown))
    }
}

#[cfg(test)]
mod tests;
