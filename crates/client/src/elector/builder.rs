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

use hustings_wire::settings::CandidateSettings;
pub use hustings_wire::settings::{InvalidElector, SettingProblem};

/// Builds an [`Elector`]; see [`Elector::coordinated`] and [`Elector::direct`].
///
/// ```no_run
/// # use hustings_client::{Elector, testing::MemoryStore};
/// # let store = MemoryStore::new();
/// Elector::coordinated(&store, "default", "web", "1.31.4").identity("web-0").priority(1).build()?;
/// Elector::direct(&store, "default", "web").identity("web-0").key(7).build()?;
/// # Ok::<_, hustings_client::InvalidElector>(())
/// ```
pub struct ElectorBuilder {
    mode: Mode,
    /// The settings that belong to the other mode.
    misplaced: Vec<SettingProblem>,
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

/// How the elector gets the right to lead.
enum Mode {
    Coordinated(CandidateSettings),
    Direct(Key),
}

/// Where an elector finds its Lease. It is made from one of these:
/// - a [`Client`], for a cluster. It should be a [`lease_client`](crate::lease_client): retries by the client would use
///   up the validity of a term, and would hide the pause that the server asks for.
/// - a [`MemoryStore`], for tests: see [`testing`](crate::testing). The elector uses the clock of the store, and random
///   numbers from a seed of the store.
/// - an [`Arc`] of any other [`Store`].
pub struct Storage(Place);

enum Place {
    Cluster(Client),
    Memory(MemoryStore),
    Custom(Arc<dyn Store>),
    /// In a cluster, together with the other elections of this process.
    Shared(Elections),
}

impl From<Client> for Storage {
    fn from(client: Client) -> Self {
        Self(Place::Cluster(client))
    }
}

impl From<&MemoryStore> for Storage {
    fn from(store: &MemoryStore) -> Self {
        Self(Place::Memory(store.clone()))
    }
}

impl<S: Store> From<Arc<S>> for Storage {
    fn from(store: Arc<S>) -> Self {
        Self(Place::Custom(store))
    }
}

impl Elector {
    /// Returns a builder for an elector in coordinated mode: it has a candidate with this version of the program, and a
    /// controller elects among the candidates.
    pub fn coordinated(
        storage: impl Into<Storage>,
        namespace: impl Into<String>,
        lease: impl Into<String>,
        binary_version: impl Into<String>,
    ) -> ElectorBuilder {
        let mode = Mode::coordinated(binary_version.into());
        ElectorBuilder::new(mode, storage.into(), namespace.into(), lease.into())
    }

    /// Returns a builder for an elector in direct mode: it has no candidate, and claims the Lease when it finds it free,
    /// as client-go's electors do.
    pub fn direct(
        storage: impl Into<Storage>,
        namespace: impl Into<String>,
        lease: impl Into<String>,
    ) -> ElectorBuilder {
        ElectorBuilder::new(Mode::Direct(Key::default()), storage.into(), namespace.into(), lease.into())
    }
}

impl Elections {
    /// Returns a builder for an elector of one more Lease, in [coordinated mode](Elector::coordinated).
    ///
    /// The builder appends `.LEASE` to the identity. One process has one candidate for each Lease, and each needs its
    /// own name.
    pub fn coordinated(&self, lease: impl Into<String>, binary_version: impl Into<String>) -> ElectorBuilder {
        self.builder(Mode::coordinated(binary_version.into()), lease.into())
    }

    /// Returns a builder for an elector of one more Lease, in [direct mode](Elector::direct).
    pub fn direct(&self, lease: impl Into<String>) -> ElectorBuilder {
        self.builder(Mode::Direct(Key::default()), lease.into())
    }

    fn builder(&self, mode: Mode, lease: String) -> ElectorBuilder {
        ElectorBuilder::new(mode, Storage(Place::Shared(self.clone())), self.namespace().to_owned(), lease)
    }
}

impl Mode {
    const fn coordinated(binary_version: String) -> Self {
        Self::Coordinated(CandidateSettings::new(binary_version))
    }
}

impl ElectorBuilder {
    fn new(mode: Mode, storage: Storage, namespace: String, lease: String) -> Self {
        let mut builder = Self {
            mode,
            misplaced: Vec::new(),
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
        if let Place::Memory(store) = &builder.storage.0 {
            builder.clock = store.clock();
            builder.rng = Box::new(store.rng());
        }
        builder
    }

    /// Changes the candidate, which only a coordinated elector has.
    fn with_candidate(mut self, setting: &'static str, set: impl FnOnce(&mut CandidateSettings)) -> Self {
        match &mut self.mode {
            Mode::Coordinated(candidate) => set(candidate),
            Mode::Direct(_) => self.misplaced.push(SettingProblem::CandidateMissing(setting)),
        }
        self
    }

    /// Sets the version whose behaviour this program emulates. Default, unless another's strategy is set: the binary
    /// version.
    #[must_use]
    pub fn emulation_version(self, version: impl Into<String>) -> Self {
        self.with_candidate("emulation version", |candidate| candidate.emulation_version = Some(version.into()))
    }

    /// Sets the strategy by which this candidate asks to be elected. Default: `OldestEmulationVersion`.
    #[must_use]
    pub fn strategy(self, strategy: impl Into<String>) -> Self {
        self.with_candidate("strategy", |candidate| candidate.strategy = Some(strategy.into()))
    }

    /// Sets the priority with which the elector creates its candidate. An existing candidate keeps its priority.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.with_candidate("priority", |candidate| candidate.priority = Some(priority))
    }

    /// Sets whether the candidates elect among themselves when no controller does. Default: `true`.
    ///
    /// The candidates start 25 s after the Lease was found without a holder. From then on they elect at once, until the
    /// elector observes a controller. With `false`, a Lease without a holder waits for a controller; a holder keeps
    /// leading.
    #[must_use]
    pub fn fallback(self, fallback: bool) -> Self {
        self.with_candidate("fallback", |candidate| candidate.fallback = fallback)
    }

    /// Sets this replica's preference, in direct mode. Pass a number, or a `tokio::sync::watch::Receiver<Option<i64>>`
    /// if the key changes at run time or is not known yet.
    ///
    /// A replica whose key is strictly higher than the holder's asks the holder to hand over. It leads once the
    /// holder's work has stopped; see [`Key`].
    #[must_use]
    pub fn key(mut self, key: impl Into<Key>) -> Self {
        match &mut self.mode {
            Mode::Direct(former) => *former = key.into(),
            Mode::Coordinated(_) => self.misplaced.push(SettingProblem::KeyOfCandidate),
        }
        self
    }

    /// Sets the identity under which this replica holds the Lease. No other replica may have the same identity.
    ///
    /// Default: the name of the pod (environment variable `POD_NAME`), else the [host name](crate::host_name).
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
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
        self.enabled = enabled;
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
        self.events = Some(client);
        self
    }

    /// Sets whether the [time range](crate::TimeRange) of this replica continues after its end while no other replica
    /// is known to have taken over. Default: it does not. This setting does not affect whether the replica leads.
    #[must_use]
    pub fn fail_open(mut self, fail_open: FailOpen) -> Self {
        self.fail_open = fail_open;
        self
    }

    /// Lets the Lease expire when the elector stops, instead of releasing it. The reported end of a time range then
    /// stays valid, because the other replicas wait for it.
    ///
    /// A hand-over, a resignation (including one caused by a failed function) and a deletion of the Lease still end the
    /// range early. The elector deletes its candidate as usual.
    #[must_use]
    pub fn keep_on_stop(mut self) -> Self {
        self.keeps_on_stop = true;
        self
    }

    /// Sets durations and periods. Default: [`Durations::default`]. [`build`](Self::build) reports
    /// [invalid](crate::Timing::new) durations, and logs the [warnings](crate::Timing::warnings) about valid ones.
    #[must_use]
    pub fn timing(mut self, durations: impl Into<Durations>) -> Self {
        self.durations = durations.into();
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
        self.pod = Some(Pod { name: name.into(), uid: uid.into() });
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

    /// Sets the heartbeat of the code that a term is for. While it is silent, the elector does not prove that this replica
    /// is alive, so that the Lease of a program that is stuck expires. Default: none, and only the elector's own task
    /// must run.
    #[must_use]
    pub fn heartbeat(mut self, heartbeat: &Heartbeat) -> Self {
        self.heartbeat = Some(heartbeat.clone());
        self
    }

    /// Adds this election to the metrics of the process (feature `metrics`).
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(mut self, metrics: &crate::metrics::Metrics) -> Self {
        self.metrics = Some(metrics.clone());
        self
    }

    /// Validates all settings and builds the elector. Sends nothing: the elector sends its first request after it has
    /// started.
    ///
    /// # Errors
    /// Returns all problems of the settings at once.
    pub fn build(mut self) -> Result<Elector, InvalidElector> {
        self.host_name = host_name();
        self.build_in(variable)
    }
}

#[cfg(test)]
mod tests;
