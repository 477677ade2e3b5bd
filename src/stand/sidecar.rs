//! `hustings sidecar` stands for a Lease on behalf of a program, and reports to it over HTTP whether it leads.
//!
//! This rule must hold: the sidecar reports "leader" only while that is true. Therefore:
//!
//! - It caches nothing. It builds each answer and each event from the [`Leadership`] at the time of writing. So both
//!   are true even after the process was frozen.
//! - At the end of a term it reports the end and removes the label from the pod while it still renews the Lease. Only
//!   then does it give up the Lease.
//!
//! A sidecar of `always` stands from its start to its end, and one of `connected` only while its program is connected.
//! `common` contains what both need.
//!
//! [`Leadership`]: hustings_client::Leadership

mod always;
mod common;
mod connected;
mod label;
mod routes;
mod term;
#[cfg(test)]
mod testing;
mod updates;

use std::path::PathBuf;
use std::time::Duration;

use hustings_client::FailOpen;
use hustings_client::metrics::Metrics;
use hustings_core::model::PodLabel;

use self::common::{Endpoints, Sidecar};
pub use self::label::OwnPod;
use crate::base::access::Access;
use crate::base::signals;
use crate::serve::http::{ListenAddress, Socket};
use crate::serve::metrics::{ReleaseMetrics, registry};
use crate::serve::runtime::{Runtime, has_stopped};
use crate::stand::candidacy::Candidacy;

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
    pub pod_label: Option<(PodLabel, OwnPod)>,
    /// When it stands for the Lease.
    pub stands: StandsWhen,
    /// Whether the time range continues after its end.
    pub fail_open: FailOpen,
}

/// When the sidecar stands for the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandsWhen {
    /// From its start to its end.
    Always {
        /// How long it keeps the Lease after it reported the end of a term.
        handover_delay: Duration,
    },
    /// While a client holds a stream of `/term` open.
    WhileConnected,
}

/// Stands for the Lease until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// Fails if an address is in use, the cluster configuration cannot be loaded, the pod cannot be labelled, or the
/// elector dies.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<()> {
    let ended = stand(access, config).await;
    if has_stopped(&ended) {
        tracing::info!("stopped");
    }
    ended
}

async fn stand(access: &Access, config: Config) -> anyhow::Result<()> {
    let shutdown = signals::stop_on_signals()?;
    // A sidecar that cannot serve its program must not stand for the Lease.
    let endpoints = endpoints(&config).await?;
    let connection = config.candidacy.connect(access, "sidecar", &shutdown).await?;
    let mut registry = registry();
    let metrics = Metrics::register(&mut registry);
    match config.stands {
        StandsWhen::Always { handover_delay } => {
            let sidecar = Sidecar::new(access, config, connection, metrics, Runtime::new(shutdown, registry));
            always::run(&sidecar, endpoints, handover_delay).await
        }
        StandsWhen::WhileConnected => {
            let releases = ReleaseMetrics::register(&mut registry);
            let sidecar = Sidecar::new(access, config, connection, metrics, Runtime::new(shutdown, registry));
            connected::run(&sidecar, endpoints, releases).await
        }
    }
}

/// Listens for the program and for administrators.
async fn endpoints(config: &Config) -> anyhow::Result<Endpoints> {
    let program = config.listen.listen("listen").await?;
    let admin = config.admin_address.listen("admin-address").await?;
    let socket = match &config.socket {
        Some(path) => Some(Socket::listen(path, "socket").await?),
        None => None,
    };
    let address = program.local_addr()?;
    tracing::info!(%address, "the sidecar listens");
    tracing::info!(address = %admin.local_addr()?, "the admin server listens");
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "--listen is not a loopback address: any client that reaches it can query the leader");
    }
    Ok(Endpoints { program, socket, admin })
}
