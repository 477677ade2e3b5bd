//! The environment of one simulated process: its clocks, its connections, and their faults.

use std::time::Duration;

use hustings_client::testing::client_over;
use kube::Client;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::checker::grants::WELL_FOR;
use crate::clock::WorldClock;
use crate::faults::Faults;
use crate::link::Link;
use crate::process::NAMESPACE;
use crate::server::Server;
use crate::server::cache::Cache;
use crate::trouble::{Dial, Profile, Tally, Trouble};
use crate::webhook::Webhook;
use crate::wire::{Balancer, Connector};

/// The largest error of a clock's rate: 1 in 1000.
const LARGEST_ERROR_MICROS: i64 = 1_000;

/// The largest error of a date.
const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;

/// The environment that all processes share.
#[derive(Clone)]
pub struct Site {
    /// The server that all processes talk to.
    pub server: Server,
    /// The instances of the server, each with a cache of its own.
    pub instances: Vec<Cache>,
    /// When the world began.
    pub began: Instant,
    /// Counts the disturbances of requests.
    pub tally: Tally,
    /// The webhook that the server calls before it writes.
    pub webhook: Webhook,
}

/// The environment of one process, whatever runs in it.
#[derive(Clone)]
pub struct Machine {
    /// The link to the server.
    pub link: Link,
    /// The trouble on that link.
    pub dial: Dial,
    /// The load balancer for its connections.
    balancer: Balancer,
    /// Its clocks.
    pub clock: WorldClock,
    /// When it became healthy, if it is healthy now.
    well_since: Option<Instant>,
    /// It has had no fault so far.
    is_untouched: bool,
    /// When a fault last happened that alone does not cost a holder its term.
    hit_at: Option<Instant>,
    /// When a fault that may cost a holder its term last ended.
    harmed_at: Option<Instant>,
    server: Server,
    tally: Tally,
    webhook: Webhook,
    /// The seed for the random numbers of its process.
    pub seed: u64,
}

impl Machine {
    /// A machine for the process `name`. `rng` determines the errors of its clocks.
    pub fn new(site: &Site, name: &str, rng: &mut StdRng) -> Self {
        let link = Link::default();
        let base = Duration::from_secs(rng.random_range(1..1_000_000));
        let error = rng.random_range(-LARGEST_ERROR_MICROS..=LARGEST_ERROR_MICROS);
        let wall_offset = if rng.random_bool(0.3) { rng.random_range(-DAY_MICROS..=DAY_MICROS) } else { 0 };
        let clock = WorldClock::new(site.began, base, error, wall_offset, link.clone());
        let server = site.server.reached_by(name, Cache::default());
        let (tally, webhook) = (site.tally.clone(), site.webhook.clone());
        Self {
            link,
            dial: Dial::default(),
            balancer: Balancer::new(site.instances.clone(), rng.random()),
            clock,
            well_since: Some(Instant::now()),
            is_untouched: true,
            hit_at: None,
            harmed_at: None,
            server,
            tally,
            webhook,
            seed: rng.random(),
        }
    }

    /// Ends all faults of the machine, except the errors of its clocks.
    pub fn mend(&mut self) {
        self.link.spare();
        self.link.thaw();
        self.link.heal();
        self.dial.set(Profile::default());
        if self.well_since.is_none() {
            self.well_since = Some(Instant::now());
            self.harmed_at = Some(Instant::now());
        }
    }

    /// Records that a fault begins.
    pub fn spoil(&mut self) -> &Self {
        self.well_since = None;
        self.is_untouched = false;
        self
    }

    /// Records a fault that costs no holder its term, unless a similar fault has happened just before.
    pub fn hit(&mut self) -> &Self {
        let now = Instant::now();
        if self.hit_at.replace(now).is_some_and(|hit| now - hit < WELL_FOR) {
            self.harmed_at = Some(now);
        }
        self.well_since = self.well_since.map(|_| now);
        self.is_untouched = false;
        self
    }

    /// Makes its connections fall silent. New connections work at once.
    pub fn fail_over(&mut self) {
        self.hit().balancer.fail_over();
    }

    /// Whether no earlier fault can still cost a holder its term.
    pub fn keeps_terms(&self) -> bool {
        self.well_since.is_some() && self.harmed_at.is_none_or(|at| at.elapsed() >= WELL_FOR)
    }

    /// Whether no earlier fault has an effect any more.
    pub fn is_well(&self) -> bool {
        self.is_untouched && self.servers_well_for() == Duration::MAX || self.well_for() >= WELL_FOR
    }

    /// How long it has been healthy.
    pub fn well_for(&self) -> Duration {
        self.well_since.map_or(Duration::ZERO, |since| since.elapsed()).min(self.servers_well_for())
    }

    /// How long the instances of the server have been healthy. A lag of an instance costs no holder its term.
    fn servers_well_for(&self) -> Duration {
        self.balancer.instances().iter().map(Cache::well_for).min().unwrap_or(Duration::MAX)
    }

    /// A client whose requests are subject to all of these faults.
    pub fn client(&self) -> Client {
        let fates = Trouble::new(self.dial.clone(), self.webhook.clone(), self.tally.clone(), self.seed);
        let faults = Faults::new(fates, self.link.clone());
        client_over(Connector { server: self.server.clone(), faults, balancer: self.balancer.clone() }, NAMESPACE)
    }
}
