//! One simulated process that stands for the Lease.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use hustings::controller::{Config, EvidenceConfig, NativeMode, OwnLease, Surroundings, elect};
use hustings::serve::health::Health;
use hustings::serve::http::ListenAddress;
use hustings::serve::metrics::{ControllerMetrics, DEFAULT_LEASE_LIMIT};
use hustings_client::clock::Clock;
use hustings_client::{Campaign, Elector, FailOpen, Heartbeat, Leadership, Timing};
use hustings_core::election;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::checker::ranges::Owned;
use crate::kubelet::CONTAINER;
use crate::machine::Machine;
use crate::work::Works;

/// The namespace of the Leases.
pub const NAMESPACE: &str = "n";

/// The controllers' own Lease.
pub const CONTROLLERS_LEASE: &str = "hustings-controller";

/// The namespace of the controllers.
pub const CONTROLLERS_NAMESPACE: &str = "hustings";

/// The strategy of a third party.
pub const THEIRS: &str = "example.com/Theirs";

/// How a process stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stands {
    /// Without candidates.
    Direct,
    /// Without candidates, with this preference.
    Preferring(i64),
    /// As a candidate with this emulation version.
    As(String),
    /// As a candidate of this version that wants the third party's strategy.
    Theirs(String),
}

impl Stands {
    /// The merit of a process; the least is the best. `None` if all processes are equal.
    pub fn merit(&self) -> Option<String> {
        match self {
            Self::Direct => None,
            Self::Preferring(key) => Some(format!("key {:03}", 100 - key)),
            Self::As(version) | Self::Theirs(version) => Some(format!("version {version}")),
        }
    }
}

/// The further properties of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// How long its work continues after it was asked to stop.
    pub drain: Duration,
    /// The UID of its pod, if it runs in a pod whose containers have locks.
    pub pod_uid: Option<String>,
    /// Whether its time range fails open.
    pub fail_open: FailOpen,
}

/// One controller.
pub struct ControllerProcess {
    /// Its identity.
    pub name: String,
    /// Its environment.
    pub machine: Machine,
    task: Option<JoinHandle<()>>,
    stop: CancellationToken,
}

/// One process.
pub struct Process {
    /// Its identity.
    pub name: String,
    /// How it stands.
    pub stands: Stands,
    /// Its environment.
    pub machine: Machine,
    /// The handle that reports whether it leads.
    pub leadership: Leadership,
    /// The work that it does while it leads.
    pub works: Works,
    /// Its habits.
    pub habits: Habits,
    /// The token of its term at the last check.
    term: Option<u64>,
    campaign: Option<Campaign>,
}

impl ControllerProcess {
    /// Starts a controller of this name in the installation of this namespace. It waits for `settling`, and watches Pods as
    /// evidence if `watches_pods`.
    ///
    /// # Panics
    /// Panics if an address does not parse.
    pub fn start(name: &str, namespace: &str, (settling, watches_pods): (Duration, bool), machine: Machine) -> Self {
        let config = Config {
            watch_namespaces: Vec::new(),
            admin_address: ListenAddress::read("127.0.0.1:0").expect("an address"),
            ui: None,
            own_lease: Some(OwnLease {
                name: CONTROLLERS_LEASE.to_owned(),
                namespace: None,
                timing: Timing::default(),
            }),
            native: NativeMode::Off,
            evidence_pod_selector: None,
            leader_labels: false,
            assist: Vec::new(),
            election: election::Config {
                settling,
                evidence: EvidenceConfig { pods: watches_pods, nodes: false },
                ..election::Config::default()
            },
            metrics_lease_limit: DEFAULT_LEASE_LIMIT,
        };
        let gated = machine.client();
        let surroundings = Surroundings {
            identity: name.to_owned(),
            namespace: namespace.to_owned(),
            leases: machine.client(),
            gated: Box::new(move |gate| Ok(gate.gate(gated.clone()))),
            clock: Arc::new(machine.clock.clone()),
            rng: StdRng::seed_from_u64(machine.seed),
            health: Health::new(),
            metrics: ControllerMetrics::new().0,
            page: None,
        };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move { drop(elect(&config, surroundings, stopped).await) });
        Self { name: name.to_owned(), machine, task: Some(task), stop }
    }

    /// Ends the controller at once.
    pub fn kill(&mut self) {
        self.machine.link.kill();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Asks the controller to stop gracefully.
    pub fn stop(&mut self) {
        self.stop.cancel();
        self.task = None;
    }

    /// Whether it was killed, or is stopping.
    pub const fn has_ended(&self) -> bool {
        self.task.is_none()
    }

    /// Whether it ended on its own.
    pub fn has_failed(&self) -> bool {
        self.task.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Process {
    /// Starts a process.
    ///
    /// # Panics
    /// Panics if the elector cannot be built, which is a bug of the simulation.
    pub fn start(
        name: &str,
        (lease, timing): (&str, Timing),
        stands: &Stands,
        habits: Habits,
        machine: Machine,
    ) -> Self {
        let heartbeat = Heartbeat::new();
        let direct = || Elector::direct(machine.client(), NAMESPACE, lease);
        let candidate = |version: &str| Elector::coordinated(machine.client(), NAMESPACE, lease, version);
        let builder = match stands {
            Stands::Direct => direct(),
            Stands::Preferring(key) => direct().key(*key),
            Stands::As(version) => candidate(version),
            Stands::Theirs(version) => candidate(version).strategy(THEIRS),
        };
        let builder = builder
            .identity(name)
            .heartbeat(&heartbeat)
            .timing(timing)
            .fail_open(habits.fail_open)
            .clock(Arc::new(machine.clock.clone()))
            .rng(StdRng::seed_from_u64(machine.seed));
        let builder = match &habits.pod_uid {
            Some(uid) => builder.pod(name, uid.as_str()).container(CONTAINER),
            None => builder,
        };
        let campaign = builder.build().expect("a valid elector").start();
        let leadership = campaign.leadership();
        let works = Works::start(&leadership, machine.link.clone(), habits.drain, heartbeat);
        let (name, stands) = (name.to_owned(), stands.clone());
        Self { name, stands, machine, leadership, works, habits, term: None, campaign: Some(campaign) }
    }

    /// Ends all faults of the process, except the errors of its clocks.
    pub fn mend(&mut self) {
        self.machine.mend();
        self.works.set_drain(self.habits.drain);
        self.works.set_stalled(false);
    }

    /// Kills the process. Requests that it has sent may still arrive.
    pub fn kill(&mut self) {
        self.machine.link.kill();
        if let Some(campaign) = self.campaign.take() {
            campaign.abort();
        }
    }

    /// Stops the process gracefully. The caller must await or spawn the returned future.
    pub fn stop(&mut self) -> impl Future<Output = ()> + use<> {
        let campaign = self.campaign.take();
        async move {
            if let Some(campaign) = campaign {
                drop(campaign.stop().await);
            }
        }
    }

    /// Whether it was killed, or is stopping.
    pub const fn has_ended(&self) -> bool {
        self.campaign.is_none()
    }

    /// Whether no task of the process is left.
    pub fn is_over(&self) -> bool {
        self.machine.link.is_dead() || self.leadership.ended().now_or_never().is_some()
    }

    /// Whether it runs, and no earlier fault has an effect any more.
    pub fn is_well(&self) -> bool {
        self.machine.is_well() && self.machine.link.is_awake() && !self.has_ended()
    }

    /// The token of the term that has ended since the last call, if no fault of the process explains its loss.
    pub fn lost_term(&mut self) -> Option<u64> {
        let term = self.leadership.term().map(|term| term.token);
        let former = std::mem::replace(&mut self.term, term)?;
        let is_healthy = self.machine.keeps_terms() && self.machine.link.is_awake() && !self.has_ended();
        (is_healthy && term != Some(former)).then_some(former)
    }

    /// Whether it ended on its own.
    pub fn has_failed(&self) -> bool {
        self.campaign.is_some() && self.leadership.ended().now_or_never().is_some()
    }

    /// The first instant of the time range of its last term.
    pub fn range_start(&self) -> Option<(u64, Timestamp)> {
        Some((self.machine.seed, self.leadership.range()?.start))
    }

    /// The instants that it owns, of all that its clock has shown. `None` while it fails open, because another process
    /// may then own the same instants.
    pub fn owns(&self) -> Option<Owned> {
        let range = self.leadership.range().filter(|_| self.machine.link.is_awake())?;
        let shown = Timestamp::from_microsecond(self.machine.clock.wall().as_micros()).ok()?;
        let last = shown.min(range.end?.checked_sub(Duration::from_micros(1)).ok()?);
        let is_own = self.leadership.contains(last);
        let (process, name, first) = (self.machine.seed, self.name.clone(), range.start);
        (is_own && !range.is_failing_open).then_some(Owned { process, name, first, last })
    }

    /// Whether its process lives, and last led in the term with this token.
    pub fn lives_in_term(&self, token: Option<u64>) -> bool {
        !self.machine.link.is_dead() && self.leadership.term().map(|term| term.token) == token
    }

    /// Whether it runs and `is_leader()` is true at this instant.
    pub fn leads(&self) -> bool {
        self.machine.link.is_awake() && self.leadership.is_leader()
    }
}
