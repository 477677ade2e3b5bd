//! `hustings sidecar` stands for a Lease on behalf of a program, and reports to it over HTTP whether it leads.
//!
//! The rule that must hold: the sidecar reports "leader" only while that is true.
//!
//! - It caches nothing. It builds each answer and each event from the [`Leadership`] when it writes them, also after the
//!   process was frozen.
//! - At the end of a term it reports the end and removes the label from the pod while it still renews the Lease. Only
//!   then it gives the Lease up.

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
use crate::access::Access;
use crate::candidacy::{Candidacy, range, snapshot};
use crate::cluster::Cluster;
use crate::ops;
use crate::ops::admin;
use crate::ops::health::Health;
use crate::ops::http::{self, ListenAddress};

/// The configuration of the sidecar.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica that it stands for.
    pub candidacy: Candidacy,
    /// Where it serves the program.
    pub listen: ListenAddress,
    /// Where it serves health, metrics and `/isleader`.
    pub admin_address: ListenAddress,
    /// The label to keep on this pod while it leads, and the pod.
    pub pod_label: Option<(PodLabel, Pod)>,
    /// How long it keeps the Lease after it reported the end of a term.
    pub handover_delay: Duration,
    /// Whether the time range continues after its end.
    pub fail_open: FailOpen,
}

/// The work of each term.
struct Work {
    leadership: Leadership,
    updates: Arc<Updates>,
    label: Option<Keeper>,
    handover_delay: Duration,
}

/// Stands for the Lease until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// Fails if an address is in use, the cluster configuration cannot be loaded, the pod cannot be labelled, or the
/// elector dies.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<()> {
    let Config { candidacy, listen, admin_address, pod_label, handover_delay, fail_open } = config;
    let shutdown = ops::stop_on_signals()?;
    // A sidecar that cannot serve its program must not stand for the Lease.
    let listener = listen.listen("listen").await?;
    let admin_listener = admin_address.listen("admin-address").await?;
    log_addresses(listener.local_addr()?, admin_listener.local_addr()?);
    let connection = candidacy.connect(access, "sidecar").await?;
    let mut registry = crate::ops::metrics::registry();
    let metrics = Metrics::register(&mut registry);
    let builder = candidacy.builder(&connection, &shutdown).metrics(&metrics).fail_open(fail_open);
    let elector = candidacy.build(builder)?;
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

    candidacy.check(&connection).await?;
    let label = match pod_label {
        Some((label, pod)) => {
            // The label is kept even without an election, which needs no cluster otherwise.
            let cluster = Cluster::connect(access, "sidecar").await?;
            Some(Keeper::start(cluster.leases, label, pod).await?)
        }
        None => None,
    };
    let work = Work { leadership, updates, label, handover_delay };
    elector_runs.pass();
    let campaign = elector.run(|term| work.lead(term)).await;
    elector_runs.fail("the elector has ended");
    over.cancel();
    // The servers end within a second. A panic in one of them does not matter any more.
    let _ = tokio::join!(server, admin_server);
    campaign?;
    tracing::info!("stopped");
    Ok(())
}

impl Work {
    /// Serves one term. The elector does not give the Lease up before this returns.
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
            // A term that is already lost cannot be extended.
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
        tracing::warn!(address = %listen, "--listen is not a loopback address: any client that reaches it can query the leader");
    }
}
