//! `hustings sidecar` stands for a Lease on behalf of a program, and reports to it over HTTP whether it leads.
//!
//! This rule must hold: the sidecar reports "leader" only while that is true. Therefore:
//!
//! - It caches nothing. It builds each answer and each event from the [`Leadership`] at the time of writing. So both
//!   are true even after the process was frozen.
//! - At the end of a term it reports the end and removes the label from the pod while it still renews the Lease. Only
//!   then does it give up the Lease.
//!
//! It stands `always`, or only while the program is `connected`.
//!
//! [`Leadership`]: hustings_client::Leadership

mod always;
mod connected;
mod label;
mod routes;
mod term;
mod updates;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hustings_client::metrics::Metrics;
use hustings_client::{Elector, FailOpen, UNKNOWN_CONTAINER};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::label::Keeper;
pub use self::label::{Pod, PodLabel};
use crate::access::Access;
use crate::candidacy::{Candidacy, Connection};
use crate::cluster::Cluster;
use crate::hint::Hinted;
use crate::ops;
use crate::ops::admin;
use crate::ops::health::{Check, Health};
use crate::ops::http::{self, ListenAddress, Socket};
use crate::ops::metrics::ReleaseMetrics;

/// The configuration of the sidecar.
#[derive(Clone, Debug)]
pub struct Config {
    /// The replica for which it stands.
    pub candidacy: Candidacy,
    /// Where it serves the program.
    pub listen: ListenAddress,
    /// The Unix socket on which it also serves the program.
    pub socket: Option<PathBuf>,
    /// Where it serves health, metrics and `/isleader`.
    pub admin_address: ListenAddress,
    /// The label to keep on this pod while it leads, and the pod.
    pub pod_label: Option<(PodLabel, Pod)>,
    /// When it stands for the Lease.
    pub stands: Stands,
    /// Whether the time range continues after its end.
    pub fail_open: FailOpen,
}

/// When the sidecar stands for the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// From its start to its end.
    Always {
        /// How long it keeps the Lease after it reported the end of a term.
        handover_delay: Duration,
    },
    /// While a client holds a stream of `/term` open.
    WhileConnected,
}

/// The parts of the sidecar that do not depend on when it stands.
struct Sidecar<'a> {
    access: &'a Access,
    candidacy: Candidacy,
    connection: Connection,
    pod_label: Option<(PodLabel, Pod)>,
    fail_open: FailOpen,
    registry: Arc<Registry>,
    metrics: Metrics,
    health: Health,
    elector_runs: Check,
    /// Cancelled by a signal.
    shutdown: CancellationToken,
    /// Ends the servers and their streams.
    over: CancellationToken,
    servers: TaskTracker,
}

/// Where the sidecar listens.
struct Endpoints {
    program: TcpListener,
    socket: Option<(UnixListener, Socket)>,
    admin: TcpListener,
}

/// Stands for the Lease until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// Fails if an address is in use, the cluster configuration cannot be loaded, the pod cannot be labelled, or the
/// elector dies.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<()> {
    let Config { candidacy, listen, socket, admin_address, pod_label, stands, fail_open } = config;
    let shutdown = ops::stop_on_signals()?;
    // A sidecar that cannot serve its program must not stand for the Lease.
    let endpoints = Endpoints::listen(&listen, socket.as_deref(), &admin_address).await?;
    let connection = candidacy.connect(access, "sidecar").await?;
    let mut registry = crate::ops::metrics::registry();
    let metrics = Metrics::register(&mut registry);
    let health = Health::new();
    let elector_runs = health.check("elector");
    let sidecar = |registry| Sidecar {
        access,
        candidacy,
        connection,
        pod_label,
        fail_open,
        registry: Arc::new(registry),
        metrics,
        health,
        elector_runs,
        shutdown,
        over: CancellationToken::new(),
        servers: TaskTracker::new(),
    };
    match stands {
        Stands::Always { handover_delay } => always::run(&sidecar(registry), endpoints, handover_delay).await?,
        Stands::WhileConnected => {
            let releases = ReleaseMetrics::register(&mut registry);
            connected::run(&sidecar(registry), endpoints, releases).await?;
        }
    }
    tracing::info!("stopped");
    Ok(())
}

impl Sidecar<'_> {
    /// Builds an elector that stops gracefully when `stop` is cancelled.
    fn elector(&self, stop: &CancellationToken) -> Result<Elector, Hinted> {
        let builder = self.candidacy.builder(&self.connection, stop);
        // The program runs in another container. The end of this container is therefore no evidence of its death.
        let builder = builder.container(UNKNOWN_CONTAINER);
        self.candidacy.build(builder.metrics(&self.metrics).fail_open(self.fail_open))
    }

    /// Starts to serve `program`, and on the admin address `is_leader`, health and metrics. Then checks that this
    /// replica may stand. Returns the keeper of the label.
    async fn start(&self, endpoints: Endpoints, program: Router, is_leader: Router) -> anyhow::Result<Option<Keeper>> {
        let Endpoints { program: listener, socket, admin } = endpoints;
        if let Some((listener, socket)) = socket {
            let serving = http::serve_on(listener, program.clone(), self.over.clone());
            self.servers.spawn(async move {
                serving.await;
                drop(socket);
            });
        }
        self.servers.spawn(http::serve(listener, program, self.over.clone()));
        let router = admin::router(self.health.clone(), Arc::clone(&self.registry)).merge(is_leader);
        self.servers.spawn(http::serve(admin, router, self.over.clone()));

        self.candidacy.check(&self.connection).await?;
        let label = match self.pod_label.clone() {
            Some((label, pod)) => {
                // Keep the label even if the election is switched off. Only the label needs the cluster then.
                let cluster = Cluster::connect(self.access, "sidecar").await?;
                Some(Keeper::start(cluster.leases, label, pod).await?)
            }
            None => None,
        };
        self.elector_runs.pass();
        Ok(label)
    }

    /// Ends the servers, within a second.
    async fn finish(&self) {
        self.elector_runs.fail("the elector has ended");
        self.over.cancel();
        self.servers.close();
        self.servers.wait().await;
    }
}

impl Endpoints {
    async fn listen(program: &ListenAddress, socket: Option<&Path>, admin: &ListenAddress) -> anyhow::Result<Self> {
        let program = program.listen("listen").await?;
        let admin = admin.listen("admin-address").await?;
        let socket = match socket {
            Some(path) => Some(Socket::listen(path, "socket").await?),
            None => None,
        };
        let address = program.local_addr()?;
        tracing::info!(%address, "the sidecar listens");
        tracing::info!(address = %admin.local_addr()?, "the admin server listens");
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "--listen is not a loopback address: any client that reaches it can query the leader");
        }
        Ok(Self { program, socket, admin })
    }
}
