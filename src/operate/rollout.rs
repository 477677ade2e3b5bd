//! `hustings rollout` predicts which replica leads at which time during a rolling upgrade, and for how long none leads.
//!
//! The command runs the core's real election and electors in a lab (`src/predict/simulation.rs`). It creates and stops
//! replicas as a Deployment does (`upgrade`). It changes nothing, and without LEASE it needs no cluster. It assumes
//! that the network is fast, that no process crashes, and that no administrator acts on the Lease.

mod config;
mod outcome;
mod render;
#[cfg(test)]
mod tests;
mod upgrade;

use std::process::ExitCode;

use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::model::WireTime;

pub use self::config::{Config, Order};
pub use self::outcome::{LeaderlessGap, TimelineEntry, UpgradeOutcome, UpgradeTerm, What};
use self::upgrade::Upgrade;
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::hint::Hinted;
use crate::base::terminal::Styles;
use crate::operate::explain::{READ_TIMEOUT, read_election};
use crate::predict::simulation::group::Group;
use crate::predict::simulation::{MOST_REPLICAS, cluster};

/// The number of replicas if neither a flag nor the Lease gives one.
const REPLICAS: usize = 3;

/// Simulates the upgrade. The exit code is 1 if it does not end, or if nobody leads in the end.
///
/// # Errors
/// Fails if the Lease cannot be read, or if the simulation cannot reproduce how its replicas elect.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let group = match &config.lease {
        Some(lease) => {
            let cluster = Cluster::connect(access, "rollout").await?.for_reading()?;
            let (read, candidates) = cluster.within(READ_TIMEOUT, Box::pin(read_election(&cluster, lease))).await?;
            Some(cluster::group(lease, read.as_ref(), &candidates)?)
        }
        None => None,
    };
    let outcome = simulate(&config, group, SystemClock.both().wall)?;
    config.output.print(&outcome, || render::render(&outcome, Styles::of_stdout()))?;
    let leads = outcome.terms.last().is_some_and(|term| term.until_seconds.is_none());
    Ok(if leads && outcome.seconds.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn simulate(config: &Config, group: Option<Group>, wall: WireTime) -> Result<UpgradeOutcome, Hinted> {
    let outcome = upgrade::simulate(&upgrade(config, group, wall)?);
    Ok(UpgradeOutcome { lease: config.lease.clone(), ..outcome })
}

/// Builds the upgrade from the configuration and from the group in the cluster.
fn upgrade(config: &Config, group: Option<Group>, wall: WireTime) -> Result<Upgrade<'_>, Hinted> {
    let offline = || Group { lease: "lease".to_owned(), is_direct: config.direct, ..Group::default() };
    let mut group = group.unwrap_or_else(offline);
    let found = group.replicas.len();
    let wanted = config.replicas.unwrap_or(if found == 0 || group.is_direct { REPLICAS } else { found });
    if wanted > MOST_REPLICAS {
        let message =
            format!("the Lease has {wanted} live candidates, but the simulation supports at most {MOST_REPLICAS}");
        return Err(Hinted::new(message, format!("pass --replicas {MOST_REPLICAS}, or fewer")));
    }
    group.resize(wanted);
    if let Some(from) = &config.from {
        for replica in &mut group.replicas {
            replica.binary_version.clone_from(from);
            replica.emulation_version = Some(from.clone());
        }
    }
    group.lease_seconds = config.lease_seconds.or(group.lease_seconds);
    group.shutdown = config.shutdown;
    Ok(Upgrade { config, group, wall })
}
