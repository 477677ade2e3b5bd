//! The controller: observations of LeaseCandidates and Leases in, what the election decides out.
//!
//! ```text
//! watch -> dispatcher -> contest (one election each) -> execute -> API server
//!             ^  queue: whose turn it is                   |
//!             +--------------- outcomes -------------------+
//! ```
//!
//! Nothing here decides who leads, and nothing is written but through the gate of the controllers' own Lease.

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

/// How much of what the watches tell may wait for the event loop; beyond that they wait too.
const MAX_QUEUED_OBSERVATIONS: usize = 1024;

/// What the controller is told on the command line.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespaces whose Leases are elected; empty for all.
    pub watch_namespaces: Vec<String>,
    /// Where health and metrics are served.
    pub admin_address: ListenAddress,
    /// The Lease among the controllers; `None` where this is the only one.
    pub own_lease: Option<OwnLease>,
    /// How long a Lease without a holder waits for further candidates.
    pub settling: Duration,
    /// How long a candidate without a living owner goes without proof that it lives.
    pub candidate_validity: Duration,
    /// How many Leases have metrics of their own.
    pub metrics_lease_limit: usize,
}

/// The Lease whose holder elects.
#[derive(Clone, Debug)]
pub struct OwnLease {
    /// Its name.
    pub name: String,
    /// Its namespace; `None` for that of the process.
    pub namespace: Option<String>,
    /// How it is held.
    pub timing: Timing,
}

/// Makes a client that passes a gate.
pub type GatedClient = Box<dyn Fn(&WriteGate) -> anyhow::Result<Client> + Send + Sync>;

/// What a controller stands on: everything of the world outside that it uses.
pub struct Surroundings {
    /// Its name among the controllers.
    pub identity: String,
    /// Where its own Lease is unless told otherwise.
    pub namespace: String,
    /// For lists, watches and all requests that pass no gate. It must not send anything twice of its own accord.
    pub leases: Client,
    /// A client like `leases` behind a gate.
    pub gated: GatedClient,
    /// The clocks.
    pub clock: Arc<dyn Clock>,
    /// Where random numbers come from.
    pub rng: StdRng,
    /// Where it shows that it works.
    pub health: Health,
    /// Where it counts.
    pub metrics: Metrics,
}

/// Runs until a signal tells it to stop.
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
            let client =
                lease_client(cluster.config.clone()).context("the configuration of the cluster cannot be used")?;
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

/// Elects until `stop` is cancelled. Nothing of it goes on when the future is dropped, but the campaign for its own
/// Lease, which stops in order.
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
    // The first of the checks and the last that can pass: until all are there, nothing is ready.
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
    // The write gate keeps as much of the own Lease's validity in hand.
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
        // It ends of its own accord only by a fault of its own, after which this process would stand by for ever.
        () = campaign.ended() => anyhow::bail!("the elector of the own Lease has died"),
    }
    // Elections have stopped, so the next controller may begin.
    campaign.stop().await;
    Ok(())
}

/// The CustomResourceDefinitions, as YAML.
pub fn crds() -> anyhow::Result<String> {
    Ok(serde_yaml::to_string(&hustings_client::api::crd())?)
}

/// The name of the pod; outside of one, a name that no other process has.
fn identity() -> String {
    variable("POD_NAME").unwrap_or_else(|| {
        let host = host_name().unwrap_or_else(|| "hustings".to_owned());
        format!("{host}_{:016x}", rand::random::<u64>())
    })
}
