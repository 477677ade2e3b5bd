//! `hustings sidecar`: stands for a Lease beside a program, and tells that program by HTTP whether it leads.
//!
//! The rule that must hold: nothing here says "leader" that is not true at the instant at which it is said. So nothing
//! is kept: each answer and each event is made from the [`Leadership`] when it is written, also after the process was
//! frozen. A term's end is told, and the label taken off the pod, while the Lease is still renewed; it is given up after
//! that.

mod label;
mod routes;
mod updates;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hustings_client::metrics::Metrics;
use hustings_client::{FailOpen, Leadership, Term};
use tokio_util::sync::CancellationToken;

use self::label::Keeper;
pub use self::label::{Pod, PodLabel};
use self::updates::Updates;
use crate::candidacy::{self, Candidacy, range, snapshot};
use crate::cli::GlobalFlags;
use crate::cluster::Cluster;
use crate::ops;
use crate::ops::admin;
use crate::ops::health::Health;
use crate::ops::http::{self, ListenAddress};

/// What the sidecar is told on the command line.
#[derive(Clone, Debug)]
pub struct Config {
    /// For what it stands.
    pub candidacy: Candidacy,
    /// Where the program asks.
    pub listen: ListenAddress,
    /// Where health, metrics and `/isleader` are served.
    pub admin_address: ListenAddress,
    /// The label that its own pod has while it leads, and that pod.
    pub pod_label: Option<(PodLabel, Pod)>,
    /// How long the program has to notice that it leads no more before another one may lead.
    pub handover_delay: Duration,
    /// Whether the time range goes on after its end.
    pub fail_open: FailOpen,
}

/// What is done in each term.
struct Work {
    leadership: Leadership,
    updates: Arc<Updates>,
    label: Option<Keeper>,
    handover_delay: Duration,
}

/// Stands until a signal tells it to stop.
pub async fn run(global: &GlobalFlags, config: Config) -> anyhow::Result<()> {
    let Config { candidacy, listen, admin_address, pod_label, handover_delay, fail_open } = config;
    let shutdown = ops::stop_on_signals()?;
    // Whoever cannot be asked shall not stand.
    let listener = listen.listen("listen").await?;
    let admin_listener = admin_address.listen("admin-address").await?;
    log_addresses(listener.local_addr()?, admin_listener.local_addr()?);
    let stage = candidacy.stage(global, "sidecar").await?;
    let mut registry = crate::ops::metrics::registry();
    let metrics = Metrics::register(&mut registry);
    let builder = candidacy.builder(&stage, &shutdown).metrics(&metrics).fail_open(fail_open);
    let elector = candidacy::build(builder)?;
    let leadership = elector.leadership();

    let updates = Arc::new(Updates::new(leadership.clone(), shutdown.clone()));
    let health = Health::new();
    let elector_runs = health.check("elector");
    tokio::spawn(Arc::clone(&updates).follow(health.clone()));
    let over = CancellationToken::new();
    let server = tokio::spawn(http::serve(
        listener,
        routes::program(&updates, &over).merge(range::routes({
            let leadership = leadership.clone();
            move || Some(leadership.clone())
        })),
        over.clone(),
    ));
    let admin = admin::router(health, Arc::new(registry)).merge(snapshot::routes({
        let updates = Arc::clone(&updates);
        move || Some(updates.snapshot())
    }));
    let admin_server = tokio::spawn(http::serve(admin_listener, admin, over.clone()));

    candidacy.check(&stage).await?;
    let label = match pod_label {
        Some((label, pod)) => {
            // A pod has a label also where nobody is elected.
            let cluster = Cluster::connect(global, "sidecar").await?;
            Some(Keeper::start(cluster.leases, label, pod).await?)
        }
        None => None,
    };
    let work = Work { leadership, updates, label, handover_delay };
    elector_runs.pass();
    let campaign = elector.run(|term| work.lead(term)).await;
    elector_runs.fail("it has ended");
    over.cancel();
    // They end within a second, and a server that has died changes nothing now.
    let _ = tokio::join!(server, admin_server);
    campaign?;
    tracing::info!("stopped");
    Ok(())
}

impl Work {
    /// One term. The Lease is not given up before this returns.
    async fn lead(&self, term: Term) {
        self.updates.term_begins();
        if let Some(label) = &self.label {
            label.put_on();
        }
        term.cancelled().await;
        let taken_off = async {
            if let Some(label) = &self.label {
                label.take_off().await;
            }
        };
        let noticed = async {
            // A term that is lost already cannot be held for longer.
            if self.leadership.is_leader() {
                tokio::time::sleep(self.handover_delay).await;
            }
        };
        tokio::join!(self.updates.term_ends(), taken_off, noticed);
    }
}

fn log_addresses(listen: SocketAddr, admin: SocketAddr) {
    tracing::info!(address = %listen, "the sidecar listens");
    tracing::info!(address = %admin, "the admin server listens");
    if !listen.ip().is_loopback() {
        tracing::warn!(address = %listen, "everybody who reaches this address can ask who leads: --listen is no loopback address");
    }
}
