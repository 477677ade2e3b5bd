//! The controller watches Leases and LeaseCandidates, and carries out the decisions of their elections.
//!
//! ```text
//! watch -> dispatcher (one election for each Lease) -> execute -> API server
//!             ^  queue: which Lease is next               |
//!             +--------------- outcomes ------------------+
//!             `-> reporting: metrics, events, log, page
//! ```
//!
//! Two rules must hold:
//!
//! - Only `hustings-core` decides who leads.
//! - Every write to an elected Lease or to a candidate passes the write gate of the controllers' own Lease, unless this
//!   is the only controller.

mod assist;
mod config;
mod dispatcher;
mod display;
mod events;
mod evidence;
mod execute;
mod failure;
mod key;
mod leader_labels;
mod leading;
mod measurements;
mod namespaces;
mod native;
mod outage;
mod permissions;
mod queue;
mod reporting;
mod slots;
mod status;
mod statuses;
mod stores;
mod watch;
mod watched;

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use hustings_client::api::{ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_client::clock::SystemClock;
use hustings_client::host_name;
use hustings_client::store::{Kubernetes, lease_client};
use hustings_core::elector::Timing;
use hustings_core::stand_in;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::assist::AssistList;
pub(crate) use self::config::OWN_LEASE;
pub use self::config::{AssistedLease, Config, EvidenceConfig, GatedClient, NativeMode, OwnLease, Surroundings};
use self::dispatcher::{Dispatcher, DispatcherParts};
use self::events::EventPublisher;
use self::evidence::ReadNode;
pub(crate) use self::evidence::ReadPod;
use self::execute::Executor;
use self::leader_labels::{LabelRequests, LeaderLabels};
use self::leading::{Electing, OwnCampaign};
use self::namespaces::Namespaces;
pub(crate) use self::native::{LEASE as NATIVE_ELECTOR, NAMESPACE as SYSTEM_NAMESPACE};
use self::native::{NativeParts, NativeWatch};
pub(crate) use self::permissions::{Missing, PermissionPurpose, Requirements, missing};
use self::reporting::Reporting;
use self::stores::Stores;
use self::watch::{Watch, WatchContext};
use self::watched::Scope;
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::environment::variable;
use crate::base::signals;
use crate::serve::metrics::ControllerMetrics;
use crate::serve::page::{Hosts, Page};
use crate::serve::runtime::{Runtime, has_stopped};

/// The most watch events that may wait for the dispatcher. While the queue is full, the watches wait.
const MAX_QUEUED_EVENTS: usize = 1024;

/// Runs the controller until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, the admin address is in use, the elector of the controllers' own
/// Lease cannot start or dies, or another task dies.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<()> {
    let ended = serve(access, config).await;
    if has_stopped(&ended) {
        tracing::info!("stopped");
    }
    ended
}

async fn serve(access: &Access, config: Config) -> anyhow::Result<()> {
    let stop = signals::stop_on_signals()?;
    let cluster = Cluster::connect_until(access, "controller", Some(&stop)).await?;
    let (metrics, registry) = ControllerMetrics::with_lease_limit(config.metrics_lease_limit);
    let listener = config.admin_address.listen("admin-address").await?;
    let address = listener.local_addr()?;
    tracing::info!(%address, "the admin server listens");
    let runtime = Runtime::new(stop, registry);
    let mut routes = Router::new();
    let hosts = hosts_of_page(config.ui, address.ip());
    let page = hosts.map(|_| Page::new());
    if let (Some(page), Some(hosts)) = (&page, hosts) {
        routes = page.router(hosts, runtime.shutdown.clone());
        tracing::info!(url = format!("http://{address}/ui/"), "the admin server serves the page");
    }
    runtime.serve_admin(listener, routes);
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
        health: runtime.health.clone(),
        metrics,
        page,
    };
    let ended = elect(&config, surroundings, runtime.shutdown.clone()).await;
    runtime.finish().await;
    ended
}

/// Elects until `stop` is cancelled, then releases the controllers' own Lease.
///
/// Dropping the future ends all of its tasks except the campaign for that Lease, which stops gracefully.
///
/// # Errors
/// Fails if the elector of that Lease cannot be built, or if it or another task dies.
pub async fn elect(config: &Config, mut surroundings: Surroundings, stop: CancellationToken) -> anyhow::Result<()> {
    let campaign = match &config.own_lease {
        Some(own_lease) => Some(OwnCampaign::start(own_lease, &mut surroundings)?),
        None => None,
    };
    let (writes, leading) = match &campaign {
        Some(campaign) => campaign.gated(&surroundings)?,
        None => (surroundings.leases.clone(), Electing::Always),
    };
    let Surroundings { identity, leases: client, clock, mut rng, health, metrics, page, .. } = surroundings;
    // Add this check first. It can pass only after every other check was added, so the process is not ready too early.
    let permitted = health.check("permissions");
    let mut tasks = JoinSet::new();
    if let Some(campaign) = &campaign {
        tasks.spawn(leading::check(campaign.leadership(), health.check("own-lease")));
    }

    let scopes = config.scopes();
    let (sender, events) = mpsc::channel(MAX_QUEUED_EVENTS);
    let crd = health.check("crd");
    let namespaces = Namespaces::new(&scopes);
    if !config.watch_namespaces.is_empty() {
        tasks.spawn(namespaces.clone().watch(client.clone(), health.check("namespaces")));
    }
    let watching = WatchContext {
        sender,
        health: health.clone(),
        metrics: metrics.clone(),
        namespaces: namespaces.clone(),
        clock: Arc::clone(&clock),
        // Pages of large objects that arrive together would fill the memory.
        pages: Arc::new(Semaphore::new(1)),
    };
    let mut native_version = None;
    let mut stores = Stores::default();
    for scope in &scopes {
        let leases = Watch::<ReadLease>::new(scope.clone(), &watching, None, StdRng::from_rng(&mut rng));
        stores.add_leases(scope, leases.store());
        tasks.spawn(leases.run(client.clone()));
        let crd = Some(crd.clone());
        let candidates = Watch::<ReadCandidate>::new(scope.clone(), &watching, crd, StdRng::from_rng(&mut rng));
        stores.add_candidates(scope, candidates.store());
        tasks.spawn(candidates.run(client.clone()));
        if config.native != NativeMode::Off {
            let native = Watch::<ReadNativeCandidate>::new(scope.clone(), &watching, None, StdRng::from_rng(&mut rng));
            native_version.get_or_insert(native.served());
            stores.add_native(scope, native.store());
            tasks.spawn(native.run(client.clone()));
        }
    }
    if config.election.evidence.pods || config.leader_labels {
        for scope in &scopes {
            let pods = Watch::<ReadPod>::new(scope.clone(), &watching, None, StdRng::from_rng(&mut rng))
                .with_labels(config.evidence_pod_selector.clone());
            tasks.spawn(pods.run(client.clone()));
        }
    }
    if config.election.evidence.nodes {
        let nodes = Watch::<ReadNode>::new(Scope::Cluster, &watching, None, StdRng::from_rng(&mut rng));
        tasks.spawn(nodes.run(client.clone()));
    }
    let own_lease = campaign.as_ref().map(|campaign| campaign.key().clone());
    let permissions = permissions::Requirements::new(config, &scopes, own_lease.as_ref());
    let native = (config.native != NativeMode::Off).then(|| {
        let group = own_lease.as_ref().map_or_else(|| identity.clone(), ToString::to_string);
        let controller = stand_in::Controller { group: group.into(), identity: identity.as_str().into() };
        let stands_in = config.native == NativeMode::StandIn;
        let watch = NativeWatch::new(NativeParts {
            controller,
            stands_in,
            leading: leading.clone(),
            reads: client.clone(),
            writes: writes.clone(),
            clock: Arc::clone(&clock),
            check: health.check("native"),
            metrics: metrics.clone(),
        });
        let elects = watch.elects();
        tasks.spawn(watch.run());
        elects
    });

    let (publisher, publishing) = EventPublisher::new(client.clone(), &identity, metrics.clone());
    tasks.spawn(publishing);
    // The write gate reserves the same request timeout from the validity of the controllers' own Lease.
    let timing = config.own_lease.as_ref().map_or_else(Timing::default, |own_lease| own_lease.timing);
    let mut store = Kubernetes::new(writes.clone(), Arc::clone(&clock), timing.request_timeout());
    if let Some(served) = native_version {
        store = store.native_version(served);
    }
    let executor = Executor::new(store, Arc::clone(&clock), publisher.clone(), metrics.clone());
    let labels = config.leader_labels.then(|| {
        let (reads, timeout, executor) = (client.clone(), timing.request_timeout(), executor.clone());
        LeaderLabels::new(LabelRequests { reads, writes, timeout, executor }, &config.assist)
    });
    tasks.spawn(permissions::watch(client, permissions, namespaces, executor.forbidden(), permitted));
    if !config.assist.is_empty() {
        let list = AssistList::new(&config.assist, own_lease.as_ref(), stores.clone(), executor.clone());
        tasks.spawn(list.run(leading.clone()));
    }
    let reporting = Reporting::new(publisher, metrics, &health, page.map(|page| (identity, page)));
    let parts = DispatcherParts {
        config: config.election.clone(),
        own_lease,
        clock,
        leading,
        native,
        stores,
        executor,
        labels,
        reporting,
        health,
    };
    let dispatcher = Box::pin(Dispatcher::new(parts, &scopes).run(events, stop));
    let elections = async {
        tokio::select! {
            biased;
            () = dispatcher => Ok(()),
            // Without a watch, this process would lead and be ready, but observe nothing.
            error = death(&mut tasks) => Err(error),
        }
    };
    let Some(campaign) = campaign else { return elections.await };
    let ended = tokio::select! {
        biased;
        ended = elections => ended,
        // The campaign ends by itself only because of a bug. Without it, this process would be a standby for ever.
        () = campaign.ended() => anyhow::bail!("the elector of the controllers' own Lease died"),
    };
    // Elections have stopped, so the next controller may begin.
    campaign.stop().await;
    ended
}

/// Waits until one of the tasks ends, which happens only because of a bug.
async fn death(tasks: &mut JoinSet<()>) -> anyhow::Error {
    const MESSAGE: &str = "a task of the controller died";
    match tasks.join_next().await {
        Some(Err(error)) => anyhow::Error::new(error).context(MESSAGE),
        Some(Ok(())) | None => anyhow::anyhow!(MESSAGE),
    }
}

/// The CustomResourceDefinitions as YAML. A test generates the file.
pub const CRDS: &str = include_str!("../crds/leasecandidates.yaml");

/// The values of the header `Host` for which the page is served; `None` if it is not served.
fn hosts_of_page(ui: Option<bool>, address: IpAddr) -> Option<Hosts> {
    let is_loopback = address.is_loopback();
    ui.unwrap_or(is_loopback).then_some(if is_loopback { Hosts::Loopback } else { Hosts::Any })
}

/// The name of the pod. Outside a pod, it is the host name with a random suffix, so that it is unique.
fn identity() -> String {
    variable("POD_NAME").unwrap_or_else(|| {
        let host = host_name().unwrap_or_else(|| "hustings".to_owned());
        format!("{host}_{:016x}", rand::random::<u64>())
    })
}

#[cfg(test)]
mod tests;
