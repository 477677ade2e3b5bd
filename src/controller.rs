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
mod status;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::SystemClock;
use hustings_client::requests::Requests;
use hustings_core::election;
use hustings_core::elector::Timing;
use tokio::sync::mpsc;

use self::dispatcher::{Dispatcher, Parts};
use self::events::Publisher;
use self::execute::Executor;
use self::leading::{Leading, OwnCampaign};
use self::watch::{Scope, Seen, Watch};
use crate::cli::GlobalFlags;
use crate::cluster::Cluster;
use crate::ops;
use crate::ops::admin;
use crate::ops::health::Health;
use crate::ops::http::ListenAddress;
use crate::ops::metrics::Metrics;

/// How much of what the watches tell may wait for the event loop; beyond that they wait too.
const SEEN_WAITING: usize = 1024;

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

/// Runs until SIGTERM or SIGINT.
pub async fn run(global: &GlobalFlags, config: Config) -> anyhow::Result<()> {
    let stop = ops::stop_on_signals()?;
    let cluster = Cluster::connect(global).await?;
    let health = Health::new();
    let (metrics, registry) = Metrics::new();
    let listener = config.admin_address.listen("admin-address").await?;
    tracing::info!(address = %listener.local_addr()?, "the admin server listens");
    tokio::spawn(admin::serve(listener, health.clone(), Arc::new(registry), stop.clone()));

    let clock = SystemClock::shared();
    let identity = identity();
    let campaign = match &config.own_lease {
        Some(own_lease) => Some(OwnCampaign::start(own_lease, &cluster, &identity, &clock, &health, &metrics)?),
        None => None,
    };
    let (writes, leading) = match &campaign {
        Some(campaign) => campaign.gated(&cluster)?,
        None => (cluster.leases.clone(), Leading::Always),
    };

    let scopes = Scope::all_of(&config.watch_namespaces);
    let seen = watch_all(&scopes, &cluster, &health, &metrics);
    let own_lease = campaign.as_ref().map(|campaign| campaign.key().clone());
    let permissions = permissions::Questions::new(&scopes, own_lease.as_ref());
    tokio::spawn(permissions::watch(cluster.leases.clone(), permissions, health.check("permissions")));

    let publisher = Publisher::start(cluster.leases.clone(), &identity, metrics.clone());
    // The write gate keeps as much of the own Lease's validity in hand.
    let timing = config.own_lease.as_ref().map_or_else(Timing::default, |own_lease| own_lease.timing);
    let requests = Requests::new(writes, Arc::clone(&clock), timing.request_timeout);
    let executor = Executor::new(requests, Arc::clone(&clock), publisher.clone(), metrics.clone());
    let election = election::Config {
        settling: config.settling,
        validity: config.candidate_validity,
        ..election::Config::default()
    };
    let parts = Parts { config: election, own_lease, clock, leading, executor, publisher, metrics, health };
    let dispatcher = Dispatcher::new(parts, &scopes).run(seen, stop);
    match campaign {
        None => dispatcher.await,
        Some(campaign) => {
            tokio::select! {
                () = dispatcher => {}
                // It ends of its own accord only by a fault of its own, after which this process would stand by for ever.
                () = campaign.ended() => anyhow::bail!("the elector of the own Lease has died"),
            }
            // Elections have stopped, so the next controller may begin.
            campaign.stop().await;
        }
    }
    tracing::info!("stopped");
    Ok(())
}

/// The CustomResourceDefinitions, as YAML.
pub fn crds() -> anyhow::Result<String> {
    Ok(serde_yaml::to_string(&hustings_client::api::crd())?)
}

/// Watches both kinds in every scope.
fn watch_all(scopes: &[Scope], cluster: &Cluster, health: &Health, metrics: &Metrics) -> mpsc::Receiver<Seen> {
    let (sender, receiver) = mpsc::channel(SEEN_WAITING);
    let crd = health.check("crd");
    for scope in scopes {
        let leases = Watch::new::<ReadLease>(scope.clone(), sender.clone(), health, None, metrics.clone());
        tokio::spawn(leases.run::<ReadLease>(cluster.watches.clone()));
        let crd = Some(crd.clone());
        let candidates = Watch::new::<ReadCandidate>(scope.clone(), sender.clone(), health, crd, metrics.clone());
        tokio::spawn(candidates.run::<ReadCandidate>(cluster.watches.clone()));
    }
    receiver
}

/// The name of the pod; outside of one, a name that no other process has.
fn identity() -> String {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    named("POD_NAME").unwrap_or_else(|| {
        let host = named("HOSTNAME").unwrap_or_else(|| "hustings".to_owned());
        format!("{host}_{:016x}", rand::random::<u64>())
    })
}
