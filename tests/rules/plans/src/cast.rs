//! The processes: real controllers and real electors, each with a connection of its own that dies with it.
//!
//! A process that dies restarts under its name, as a kubelet restarts a container, unless it was stopping.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use hustings::controller::{Config, NativeMode, OwnLease, Surroundings, elect};
use hustings::serve::health::Health;
use hustings::serve::http::ListenAddress;
use hustings::serve::metrics::{ControllerMetrics, DEFAULT_LEASE_LIMIT};
use hustings_client::clock::SystemClock;
use hustings_client::{Campaign, Durations, Elector, Leadership, Timing};
use hustings_core::election;
use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Layer;

use crate::program::{Program, Programs};
use crate::purpose::OWN_LEASE;
use crate::tap::Tap;

/// The Lease of the election.
pub const LEASE: &str = "web";

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It elects.
    Controller,
    /// Without candidates.
    Direct,
    /// Without candidates, with this preference.
    Preferring(i64),
    /// As a candidate of these versions.
    As {
        /// `binaryVersion`.
        binary: &'static str,
        /// `emulationVersion`.
        emulation: &'static str,
    },
    /// As a candidate under a third party's strategy.
    ByStrategy(&'static str),
}

/// The intended state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It runs, and restarts when it dies.
    Running,
    /// It is stopping.
    Stopping,
    /// It does not run.
    Gone,
}

/// One process.
pub struct Process {
    /// How it stands.
    pub stands: Stands,
    /// Its intended state.
    pub wanted: Wanted,
    /// Its connection.
    pub tap: Tap,
    body: Body,
}

enum Body {
    Controller(JoinHandle<()>),
    Program(Program),
    Elector { leadership: Leadership, campaign: Option<Campaign> },
}

/// The shortest times that work on a busy machine.
pub fn durations() -> Durations {
    Durations {
        lease_duration_seconds: 5,
        renew_deadline: Duration::from_millis(4_500),
        retry_period: Duration::from_millis(800),
        jitter_percent: 20,
        request_timeout: Duration::from_secs(2),
        stop_grace: Duration::from_secs(4),
    }
}

impl Stands {
    /// Distinguishes it from processes of equal rank.
    pub fn merit(self) -> String {
        match self {
            Self::Controller => "controller".to_owned(),
            Self::Direct => "replica".to_owned(),
            Self::Preferring(key) => format!("key {key}"),
            Self::As { binary, emulation } => format!("{emulation} of {binary}"),
            Self::ByStrategy(strategy) => strategy.to_owned(),
        }
    }
}

impl Process {
    /// Starts a process behind `tap`: in this one, or as a program of its own.
    pub fn start(stands: Stands, tap: Tap, namespace: &str, programs: Option<&Programs>) -> Result<Self> {
        let body = if let Some(programs) = programs {
            Body::Program(programs.start(stands, &tap, namespace)?)
        } else if stands == Stands::Controller {
            Body::Controller(controller(&tap, namespace)?)
        } else {
            let campaign = elector(stands, &tap, namespace)?.start();
            Body::Elector { leadership: campaign.leadership(), campaign: Some(campaign) }
        };
        Ok(Self { stands, wanted: Wanted::Running, tap, body })
    }

    /// The handle that reports whether it leads.
    pub fn leadership(&self) -> Option<Leadership> {
        match &self.body {
            Body::Controller(_) | Body::Program(_) => None,
            Body::Elector { leadership, .. } => Some(leadership.clone()),
        }
    }

    /// The term that it leads at this instant, by the flag that its work would check.
    pub fn leads(&self) -> Option<u64> {
        let leadership = self.leadership().filter(|_| self.tap.link.is_awake())?;
        let number = leadership.terms();
        // No term has begun meanwhile, so the flag belongs to this one.
        (leadership.is_leader() && leadership.terms() == number).then_some(number)
    }

    /// The token of the term that it leads, or reports to lead.
    pub fn says_that_it_leads(&self) -> Option<u64> {
        if !self.tap.link.is_awake() {
            return None;
        }
        match &self.body {
            Body::Controller(_) => None,
            Body::Program(program) => program.leads(),
            Body::Elector { leadership, .. } => leadership.term().map(|term| term.token),
        }
    }

    /// Ends it at once. What it has sent may still arrive.
    pub fn kill(&mut self) {
        self.tap.link.kill();
        match &self.body {
            Body::Controller(task) => task.abort(),
            Body::Program(program) => program.kill(),
            Body::Elector { campaign: Some(campaign), .. } => campaign.abort(),
            Body::Elector { campaign: None, .. } => {}
        }
    }

    /// Asks it to end in order; the future completes when it has.
    pub fn stop(&mut self) -> impl Future<Output = ()> + use<> {
        self.wanted = Wanted::Stopping;
        let (campaign, program) = match &mut self.body {
            Body::Controller(_) => (None, None),
            Body::Program(program) => (None, Some(program.process())),
            Body::Elector { campaign, .. } => (campaign.take(), None),
        };
        async move {
            if let Some(campaign) = campaign {
                drop(campaign.stop().await);
            }
            if let Some(program) = program {
                drop(program.stop().await);
            }
        }
    }
}

fn elector(stands: Stands, tap: &Tap, namespace: &str) -> Result<Elector> {
    let direct = || Elector::direct(tap.client(namespace), namespace, LEASE);
    let candidate = |version: &str| Elector::coordinated(tap.client(namespace), namespace, LEASE, version);
    let builder = match stands {
        Stands::Preferring(key) => direct().key(key),
        Stands::As { binary, emulation } => candidate(binary).emulation_version(emulation),
        Stands::ByStrategy(strategy) => candidate("1.0.0").strategy(strategy),
        Stands::Direct | Stands::Controller => direct(),
    };
    Ok(builder.identity(&*tap.role).timing(durations()).build()?)
}

fn controller(tap: &Tap, namespace: &str) -> Result<JoinHandle<()>> {
    let timing = Timing::new(durations()).expect("valid durations");
    let config = Config {
        watch_namespaces: vec![namespace.to_owned()],
        admin_address: ListenAddress::read("127.0.0.1:0").map_err(anyhow::Error::msg)?,
        ui: None,
        own_lease: Some(OwnLease { name: OWN_LEASE.to_owned(), namespace: None, timing }),
        native: NativeMode::Off,
        election: election::Config::default(),
        evidence_pod_selector: None,
        leader_labels: false,
        assist: Vec::new(),
        metrics_lease_limit: DEFAULT_LEASE_LIMIT,
    };
    let (service, own) = (tap.clone(), namespace.to_owned());
    let surroundings = Surroundings {
        identity: tap.role.to_string(),
        namespace: namespace.to_owned(),
        leases: tap.client(namespace),
        gated: Box::new(move |gate| Ok(Client::new(gate.layer(service.clone()), own.clone()))),
        clock: SystemClock::shared(),
        rng: rand::make_rng(),
        health: Health::new(),
        metrics: ControllerMetrics::new().0,
        page: None,
    };
    let (ledger, role) = (Arc::clone(&tap.ledger), Arc::clone(&tap.role));
    Ok(tokio::spawn(async move {
        if let Err(error) = elect(&config, surroundings, CancellationToken::new()).await {
            ledger.violate(format!("{role} ended: {error:#}"));
        }
    }))
}
