//! The controller: observations of LeaseCandidates and Leases in, what the election decides out.

#[cfg(test)]
mod queue;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hustings_core::elector::Timing;

use crate::cli::{GlobalFlags, Hinted};
use crate::cluster::Cluster;
use crate::ops;
use crate::ops::admin::{self, AdminAddress};
use crate::ops::health::Health;
use crate::ops::metrics::Metrics;

/// What the controller is told on the command line.
#[derive(Clone, Debug)]
pub struct Config {
    /// The namespaces whose Leases are elected; empty for all.
    pub watch_namespaces: Vec<String>,
    /// Where health and metrics are served.
    pub admin_address: AdminAddress,
    /// The Lease among the controllers; `None` where this is the only one.
    pub own_lease: Option<OwnLease>,
    /// How long a Lease without a holder waits for further candidates.
    pub settling: Duration,
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
    let _cluster = Cluster::connect(global).await?;
    let health = Health::new();
    let (_metrics, registry) = Metrics::new();
    let listener = config.admin_address.bind().await.with_context(|| {
        Hinted::new(format!("cannot listen on {}", config.admin_address), "choose another --admin-address")
    })?;
    tracing::info!(address = %listener.local_addr()?, "the admin server listens");
    tokio::spawn(admin::serve(listener, health, Arc::new(registry), stop.clone()));
    stop.cancelled().await;
    Ok(())
}

/// The CustomResourceDefinitions, as YAML.
pub fn crds() -> anyhow::Result<String> {
    Ok(serde_yaml::to_string(&hustings_client::api::crd())?)
}
