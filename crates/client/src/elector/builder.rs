//! The builder of an elector. `build` validates every setting, so that no invalid setting can end the campaign later.

use std::sync::Arc;

use hustings_core::elector::{Durations, FailOpen};
use hustings_core::model::Pod;
use kube::Client;
use rand::Rng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, SystemClock};
use crate::elector::campaign::Elector;
use crate::elector::heartbeat::Heartbeat;
use crate::elector::host::{host_name, variable};
use crate::elector::keys::Key;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::shared::Elections;

mod assembly;
mod mode;
mod problem;

pub use mode::{Coordinated, Direct, Mode, Undecided};
pub use problem::{InvalidElector, SettingProblem};

/// Builds an [`Elector`]; see [`Elector::builder`]. `M` is the mode, which is how the elector gets the right to lead. A
/// new builder has [no mode](Undecided) yet, and cannot build without one.
pub struct ElectorBuilder<M = Undecided> {
    mode: M,
    settings: Settings,
}

/// The settings that every mode has.
struct Settings {
    storage: Storage,
    namespace: String,
    lease: String,
    identity: Option<String>,
    /// The fallback for `identity`.
    host_name: Option<String>,
    enabled: bool,
    events: Option<Client>,
    fail_open: FailOpen,
    keeps_on_stop: bool,
    durations: Durations,
    pod: Option<Pod>,
    container: Option<String>,
    clock: Arc<dyn Clock>,
    rng: Box<dyn Rng + Send>,
    shutdown: CancellationToken,
    heartbeat: Option<Heartbeat>,
    #[cfg(feature = "metrics")]
    metrics: Option<crate::metrics::Metrics>,
}

/// Where the Lease is stored.
enum Storage {
    /// In a cluster, through this client.
    Cluster(Client),
    /// In this store.
    Given(Arc<dyn Store>),
    /// In a cluster, together with the other elections of this process.
    Shared(Elections),
}

/// The identity of a process without an election and without a name.
const UNELECTED: &str = "unelected";

impl Elector {
    /// Returns a builder for an elector of this Lease.
    ///
    /// The client should be a [`lease_client`](crate::lease_client). Retries by the client would use up the validity of
    /// a term, and would hide the pause that the server asks for.
    pub fn builder(client: Client, namespace: impl Into<String>, lease: impl Into<String>) -> ElectorBuilder {
        ElectorBuilder::new(Storage::Cluster(client), namespace.into(), lease.into())
    }

    /// Returns a builder for an elector of a Lease that `store` keeps.
    pub fn on(store: impl Store, namespace: impl Into<String>, lease: impl Into<String>) -> ElectorBuilder {
        ElectorBuilder::new(Storage::Given(Arc::new(store)), namespace.into(), lease.into())
    }

    /// Returns a builder for an elector of a Lease that `store` holds in memory, for tests: see
    /// [`testing`](crate::testing). The elector uses the clock of the store, and random numbers from a seed of the
    /// store.
    pub fn in_memory(store: &MemoryStore, namespace: impl Into<String>, lease: impl Into<String>) -> ElectorBuilder {
        Self::on(store.clone(), namespace, lease).clock(store.clock()).rng(store.rng())
    }
}

impl Elections {
    /// Returns a builder for an elector of one more Lease.
    ///
    /// If the elector has a candidate, the builder appends `.LEASE` to its identity. One process has one candidate for
    /// each Lease, and each needs its own name.
    pub fn builder(&self, lease: impl Into<String>) -> ElectorBuilder {
        ElectorBuilder::new(Storage::Shared(self.clone()), self.namespace().to_owned(), lease.into())
    }
}

impl ElectorBuilder {
    fn new(storage: Storage, namespace: String, lease: String) -> Self {
        let settings = Settings {
            storage,
            namespace,
            lease,
            identity: None,
            host_name: None,
            enabled: true,
            events: None,
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
            durations: Durations::default(),
            pod: None,
            container: None,
            clock: SystemClock::shared(),
            rng: Box::new(rand::make_rng::<StdRng>()),
            shutdown: CancellationToken::new(),
            heartbeat: None,
            #[cfg(feature = "metrics")]
            metrics: None,
        };
        Self { mode: Undecided, settings }
    }

    /// Selects coordinated mode: the elector has a candidate with this version of the program. The controller ranks
    /// candidates by it.
    #[must_use]
    pub fn binary_version(self, version: impl Into<String>) -> ElectorBuilder<Coordinated> {
        ElectorBuilder { mode: Coordinated::new(version.into()), settings: self.settings }
    }

    /// Selects direct mode: the elector has no candidate, and claims the Lease when it finds it free, as client-go's
    /// electors do.
    #[must_use]
    pub fn direct(self) -> ElectorBuilder<Direct> {
        ElectorBuilder { mode: Direct::default(), settings: self.settings }
    }
}

impl ElectorBuilder<Coordinated> {
    /// Sets the version whose behaviour this program emulates. Default under `OldestEmulationVersion`: the binary
    /// version.
    #[must_use]
    pub fn emulation_version(mut self, version: impl Into<String>) -> Self {
        self.mode.emulation_version = Some(version.into());
        self
    }

    /// Sets the strategy by which this candidate asks to be elected. Default: `OldestEmulationVersion`.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Into<String>) -> Self {
        self.mode.strategy = Some(strategy.into());
        self
    }

    /// Sets the priority with which the elector creates its candidate. An existing candidate keeps its priority.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.mode.priority = Some(priority);
        self
    }

    /// Sets whether the candidates elect among themselves when no controller does. Default: `true`.
    ///
    /// The candidates start 25 s after the Lease was found without a holder. From then on they elect at once, until the
    /// elector observes a controller. With `false`, a Lease without a holder waits for a controller; a holder keeps
    /// leading.
    #[must_use]
    pub fn fallback(mut self, fallback: bool) -> Self {
        self.mode.fallback = fallback;
        self
    }
}

impl ElectorBuilder<Direct> {
    /// Sets this replica's preference. Pass a number, or a `tokio::sync::watch::Receiver<Option<i64>>`
    /// if the key changes at run time or is not known yet.
    ///
    /// A replica whose key is strictly higher than the holder's asks the holder to hand over. It leads once the
    /// holder's work has stopped; see [`Key`].
    #[must_use]
    pub fn key<K: Into<Key>>(mut self, key: K) -> Self {
        self.mode.key = key.into();
        self
    }
}

impl<M> ElectorBuilder<M> {
    /// Sets the identity under which this replica holds the Lease. No other replica may have the same identity.
    ///
    /// Default: the name of the pod (environment variable `POD_NAME`), else the [host name](crate::host_name).
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.settings.identity = Some(identity.into());
        self
    }

    /// Sets whether there is an election at all. Default: `true`.
    ///
    /// With `false`, this process leads from its start to its shutdown, and sends no request:
    /// - Functions run, [`is_leader`](crate::Leadership::is_leader) is true, and gates let every write pass.
    /// - [`number`](crate::Term::number) and [`token`](crate::Term::token) count the terms of this process from 1.
    /// - The builder validates all other settings as usual, but does not require an identity.
    ///
    /// Use it for a component with a single replica, like `--leader-elect=false` of Kubernetes' components. Two such
    /// processes both lead.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.settings.enabled = enabled;
        self
    }

    /// Publishes an event on the Lease when a term of this elector begins and when it ends. The reason
    /// (`LeaderElection`) and the text are those of client-go's events.
    ///
    /// The client needs the permission to `create` and `patch` `events` of `events.k8s.io`. Without it, and while the
    /// API server is slow, the elector drops events; the election is not affected.
    ///
    /// Hustings' controller already reports which candidates became leaders. This setting is for Leases without a
    /// controller.
    #[must_use]
    pub fn events(mut self, client: Client) -> Self {
        self.settings.events = Some(client);
        self
    }

    /// Sets whether the [time range](crate::TimeRange) of this replica continues after its end while no other replica
    /// is known to have taken over. Default: it does not. This setting does not affect whether the replica leads.
    #[must_use]
    pub fn fail_open(mut self, fail_open: FailOpen) -> Self {
        self.settings.fail_open = fail_open;
        self
    }

    /// Lets the Lease expire when the elector stops, instead of releasing it. The reported end of a time range then
    /// stays valid, because the other replicas wait for it.
    ///
    /// A hand-over, a resignation (including one caused by a failed function) and a deletion of the Lease still end the
    /// range early. The elector deletes its candidate as usual.
    #[must_use]
    pub fn keep_on_stop(mut self) -> Self {
        self.settings.keeps_on_stop = true;
        self
    }

    /// Sets durations and periods. Default: [`Durations::default`]. [`build`](Self::build) reports
    /// [invalid](crate::Timing::new) durations, and logs the [warnings](crate::Timing::warnings) about valid ones.
    #[must_use]
    pub fn timing(mut self, durations: impl Into<Durations>) -> Self {
        self.settings.durations = durations.into();
        self
    }

    /// Sets the pod that owns the candidate, so that Kubernetes deletes the candidate with its pod.
    ///
    /// Default: the environment variables `POD_NAME` and `POD_UID`, if both are set. They are ignored if the pod is not
    /// in the namespace of the Lease: Kubernetes treats an owner in another namespace as deleted. `POD_NAMESPACE` names
    /// the namespace of the pod; without it, the files of the service account do. Without those, it is the namespace of
    /// the Lease.
    /// The UID must be this pod's own, because it distinguishes processes with the same identity, wherever they run.
    ///
    /// A static pod owns no candidate, because the API server does not know the UID that the kubelet gave it. The
    /// elector deletes the candidate when it stops. If it cannot, the controller deletes the candidate later, once the
    /// candidate has given no sign of life for an hour.
    #[must_use]
    pub fn pod(mut self, name: impl Into<String>, uid: impl Into<String>) -> Self {
        self.settings.pod = Some(Pod { name: name.into(), uid: uid.into() });
        self
    }

    /// Sets the name of the container that this process runs in. With it and the pod's UID, a restarted container takes
    /// its own Lease back at once, provided that no process of its former run is alive.
    ///
    /// Default: the environment variable `CONTAINER_NAME`. If several containers of a pod have no known name, only one
    /// of them at a time can take its Lease back at once.
    ///
    /// A controller with evidence switched on grants the Lease to another candidate as soon as this container has
    /// terminated. If the work of a term may continue outside of this container, pass
    /// [`UNKNOWN_CONTAINER`](crate::UNKNOWN_CONTAINER).
    #[must_use]
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.settings.container = Some(name.into());
        self
    }

    /// Sets the clocks to use instead of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets the source of random numbers. Two electors must never draw the same numbers.
    #[must_use]
    pub fn rng(mut self, rng: impl Rng + Send + 'static) -> Self {
        self.settings.rng = Box::new(rng);
        self
    }

    /// Sets the token whose cancellation stops the elector gracefully.
    #[must_use]
    pub fn shutdown(mut self, shutdown: &CancellationToken) -> Self {
        self.settings.shutdown = shutdown.child_token();
        self
    }

    /// Sets the heartbeat of the code that a term is for. While it is silent, the elector does not prove that this replica
    /// is alive, so that the Lease of a program that is stuck expires. Default: none, and only the elector's own task
    /// must run.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: &Heartbeat) -> Self {
        self.settings.heartbeat = Some(heartbeat.clone());
        self
    }

    /// Adds this election to the metrics of the process (feature `metrics`).
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(mut self, metrics: &crate::metrics::Metrics) -> Self {
        self.settings.metrics = Some(metrics.clone());
        self
    }

    /// Validates all settings and builds the elector. Sends nothing: the elector sends its first request after it has
    /// started.
    ///
    /// # Errors
    /// Returns all problems of the settings at once.
    pub fn build(mut self) -> Result<Elector, InvalidElector>
    where
        M: Mode,
    {
        self.settings.host_name = host_name();
        self.build_in(variable)
    }

    /// An empty environment variable counts as missing.
    fn build_in(self, environment: impl Fn(&str) -> Option<String>) -> Result<Elector, InvalidElector>
    where
        M: Mode,
    {
        self.settings.build(self.mode.chosen(), |name| environment(name).filter(|value| !value.is_empty()))
    }
}

#[cfg(test)]
mod tests;
