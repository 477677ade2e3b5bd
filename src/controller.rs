//! The controller watches Leases and LeaseCandidates, and carries out what their elections decide.
//!
//! ```text
//! watch -> dispatcher -> contest (one election each) -> execute -> API server
//!             ^  queue: which Lease is next                |
//!             +--------------- outcomes -------------------+
//! ```
//!
//! The rules that must hold: only `hustings-core` decides who leads. Every write to an elected Lease or to a candidate
//! passes the write gate of the controllers' own Lease, unless this is the only controller.

mod contest;
mod dispatcher;
mod events;
mod execute;
mod failure;
mod key;
mod leading;
mod permissions;
mod queue;
mod slots;
mod status;
mod statuses;
mod stores;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::requests::{Requests, lease_client};
use hustings_client::{WriteGate, host_name};
use hustings_core::election;
use hustings_core::elector::Timing;
use kube::Client;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::dispatcher::{Dispatcher, Parts};
use self::events::Publisher;
use self::execute::Executor;
use self::leading::{Leading, OwnCampaign};
use self::stores::Stores;
use self::watch::{Scope, Watch};
use crate::cli::GlobalFlags;
use crate::cluster::Cluster;
use crate::environment::variable;
use crate::ops;
use crate::ops::admin;
use crate::ops::health::Health;
use crate::ops::http::ListenAddress;
use crate::ops::metrics::Metrics;

/// How many observations of the watches may wait for the event loop. Beyond that the watches wait.
const MAX_QUEUED_OBSERVATIONS: usize = 1024;

/// The configuration of the controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespaces in which this controller elects; empty for all.
    pub watch_namespaces: Vec<String>,
    /// Where the admin server listens.
    pub admin_address: ListenAddress,
    /// The Lease whose holder is the leading controller; `None` if this is the only controller.
    pub own_lease: Option<OwnLease>,
    /// How long an election without a holder waits for further candidates after the first appeared.
    pub settling: Duration,
    /// How long a candidate without a live owner may stay silent before the controller pings it.
    pub candidate_validity: Duration,
    /// How many Leases have series of their own in the metrics.
    pub metrics_lease_limit: usize,
}

/// The controllers' own Lease: only its holder elects.
#[derive(Clone, Debug)]
pub struct OwnLease {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for the namespace of the process.
    pub namespace: Option<String>,
    /// The durations with which it is held.
    pub timing: Timing,
}

/// Builds a client whose writes pass the gate.
pub type GatedClient = Box<dyn Fn(&WriteGate) -> anyhow::Result<Client> + Send + Sync>;

/// Everything outside the process that a controller uses. Simulations replace it.
pub struct Surroundings {
    /// Its name among the controllers.
    pub identity: String,
    /// The namespace of its own Lease, unless [`OwnLease::namespace`] names another.
    pub namespace: String,
    /// The client for lists, watches and all requests that pass no gate. It must not retry on its own.
    pub leases: Client,
    /// Builds a client like `leases` behind a gate.
    pub gated: GatedClient,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// The source of random numbers.
    pub rng: StdRng,
    /// The checks of this controller.
    pub health: Health,
    /// The metrics of this controller.
    pub metrics: Metrics,
}

/// Runs the controller until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, the admin address is in use, or the elector of the own Lease
/// cannot start or dies.
pub async fn run(global: &GlobalFlags, config: Config) -> anyhow::Result<()> {
    let stop = ops::stop_on_signals()?;
    let cluster = Cluster::connect(global, "controller").await?;
    let health = Health::new();
    let (metrics, registry) = Metrics::with_lease_limit(config.metrics_lease_limit);
    let listener = config.admin_address.listen("admin-address").await?;
    tracing::info!(address = %listener.local_addr()?, "the admin server listens");
    tokio::spawn(admin::serve(listener, health.clone(), Arc::new(registry), stop.clone()));
    let surroundings = Surroundings {
        identity: identity(),
        namespace: cluster.namespace,
        leases: cluster.leases,
        gated: Box::new(move |gate| {
            let client = lease_client(cluster.config.clone())
                .context("cannot create a client from the cluster configuration")?;
            Ok(gate.gate(client))
        }),
        clock: SystemClock::shared(),
        rng: rand::make_rng(),
        health,
        metrics,
    };
    elect(&config, surroundings, stop).await?;
    tracing::info!("stopped");
    Ok(())
}

/// Elects until `stop` is cancelled, then releases the own Lease.
///
/// Dropping the future ends all of its tasks except the campaign for the own Lease, which stops gracefully.
///
/// # Errors
/// Fails if the elector of the own Lease cannot be built, or if it dies.
pub async fn elect(config: &Config, mut surroundings: Surroundings, stop: CancellationToken) -> anyhow::Result<()> {
    let campaign = match &config.own_lease {
        Some(own_lease) => Some(OwnCampaign::start(own_lease, &mut surroundings)?),
        None => None,
    };
    let (writes, leading) = match &campaign {
        Some(campaign) => campaign.gated(&surroundings)?,
        None => (surroundings.leases.clone(), Leading::Always),
    };
    let Surroundings { identity, leases: client, clock, mut rng, health, metrics, .. } = surroundings;
    // Add this check first. It can pass only after every other check was added, so the process is not ready too early.
    let permitted = health.check("permissions");
    let mut tasks = JoinSet::new();
    if let Some(campaign) = &campaign {
        tasks.spawn(leading::check(campaign.leadership(), health.check("own-lease")));
    }

    let scopes = Scope::all_of(&config.watch_namespaces);
    let (sender, seen) = mpsc::channel(MAX_QUEUED_OBSERVATIONS);
    let crd = health.check("crd");
    let mut stores = Stores::default();
    for scope in &scopes {
        let parts = || (scope.clone(), sender.clone(), metrics.clone());
        let leases = Watch::<ReadLease>::new(parts(), &health, None, StdRng::from_rng(&mut rng));
        stores.add_leases(scope.clone(), leases.store());
        tasks.spawn(leases.run(client.clone()));
        let crd = Some(crd.clone());
        let candidates = Watch::<ReadCandidate>::new(parts(), &health, crd, StdRng::from_rng(&mut rng));
        stores.add_candidates(scope.clone(), candidates.store());
        tasks.spawn(candidates.run(client.clone()));
    }
    let own_lease = campaign.as_ref().map(|campaign| campaign.key().clone());
    let permissions = permissions::Requirements::new(&scopes, own_lease.as_ref());

    let (publisher, publishing) = Publisher::new(client.clone(), &identity, metrics.clone());
    tasks.spawn(publishing);
    // The write gate reserves the same request timeout from the validity of the own Lease.
    let timing = config.own_lease.as_ref().map_or_else(Timing::default, |own_lease| own_lease.timing);
    let requests = Requests::new(writes, Arc::clone(&clock), timing.request_timeout);
    let executor = Executor::new(requests, Arc::clone(&clock), publisher.clone(), metrics.clone());
    tasks.spawn(permissions::watch(client, permissions, executor.forbidden(), permitted));
    let election = election::Config {
        settling: config.settling,
        validity: config.candidate_validity,
        ..election::Config::default()
    };
    let parts = Parts { config: election, own_lease, clock, leading, stores, executor, publisher, metrics, health };
    let dispatcher = Dispatcher::new(parts, &scopes).run(seen, stop);
    let Some(campaign) = campaign else {
        dispatcher.await;
        return Ok(());
    };
    tokio::select! {
        biased;
        () = dispatcher => {}
        // The campaign ends by itself only because of a bug. Without it this process would be a standby for ever.
        () = campaign.ended() => anyhow::bail!("the elector of the controllers' own Lease died"),
    }
    // Elections have stopped, so the next controller may begin.
    campaign.stop().await;
    Ok(())
}

/// The CustomResourceDefinitions as YAML. They are generated, so that only a test renders them.
pub const CRDS: &str = include_str!("../crds/leasecandidates.yaml");

/// The name of the pod; outside a pod, the host name and a random suffix, so that no other process has it.
fn identity() -> String {
    variable("POD_NAME").unwrap_or_else(|| {
        let host = host_name().unwrap_or_else(|| "hustings".to_owned());
        format!("{host}_{:016x}", rand::random::<u64>())
    })
}
