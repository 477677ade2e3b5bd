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
pub(crate) mod config;
mod connected;
mod label;
mod routes;
mod term;
#[cfg(test)]
mod testing;
mod updates;

use hustings_client::metrics::Metrics;

use self::common::{Endpoints, Sidecar};
pub use self::config::Config;
pub use self::label::OwnPod;
use crate::base::access::Access;
use crate::base::signals;
use crate::serve::http::Socket;
use crate::serve::metrics::{ReleaseMetrics, registry};
use crate::serve::runtime::{Runtime, has_stopped};

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
    if config.while_connected {
        let releases = ReleaseMetrics::register(&mut registry);
        let sidecar = Sidecar::new(access, config, connection, metrics, Runtime::new(shutdown, registry));
        connected::run(&sidecar, endpoints, releases).await
    } else {
        let sidecar = Sidecar::new(access, config, connection, metrics, Runtime::new(shutdown, registry));
        always::run(&sidecar, endpoints).await
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
