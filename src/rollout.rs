//! `hustings rollout` predicts which replica leads when during a rolling upgrade, and for how long none does.
//!
//! The command runs the core's real election and electors in virtual time (`simulation`). It creates and stops replicas
//! as a Deployment does (`upgrade`). It changes nothing, and without LEASE it needs no cluster. It assumes that the
//! network is fast, that no process crashes, and that nobody else acts on the Lease.

mod cluster;
mod crash;
mod outcome;
mod render;
mod simulation;
#[cfg(test)]
mod tests;
mod upgrade;

use std::process::ExitCode;
use std::time::Duration;

use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::elector::{Durations, Timing};
use hustings_core::model::WireTime;

use self::cluster::Group;
pub(crate) use self::crash::after_crash;
pub use self::outcome::{Entry, Gap, Outcome, Term, What};
pub use self::upgrade::Order;
use self::upgrade::{OldReplica, Upgrade};
use crate::access::Access;
use crate::cluster::Cluster;
use crate::explain::{READ_TIMEOUT, read_election};
use crate::hint::Hinted;
use crate::terminal::{Styles, print};

/// The most replicas that the command simulates. That takes about a second.
pub const MOST_REPLICAS: usize = 100;

/// The number of replicas if neither a flag nor the Lease gives one.
const REPLICAS: usize = 3;

/// What to simulate, and how to report it.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Lease from which replicas, versions, timing and acts are taken; `None` to read nothing.
    pub lease: Option<String>,
    /// The old version; `None` for the candidates' own versions.
    pub from: Option<String>,
    /// The new version.
    pub to: String,
    /// The version that the new replicas emulate; `None` for their own.
    pub emulates: Option<String>,
    /// The number of replicas; `None` for that of the Lease, or three.
    pub replicas: Option<usize>,
    /// Whether the replicas elect among themselves.
    pub direct: bool,
    /// How many replicas may run beyond the wanted number (`maxSurge`).
    pub surge: usize,
    /// How many of the wanted replicas may be unavailable (`maxUnavailable`).
    pub unavailable: usize,
    /// The order in which the old replicas stop.
    pub order: Order,
    /// How long a new replica takes until it stands and is ready.
    pub readiness: Duration,
    /// How long a replica's work takes to stop.
    pub shutdown: Duration,
    /// The lease duration in seconds; `None` for that of the Lease, or 15.
    pub lease_seconds: Option<u32>,
    /// The output format.
    pub output: Output,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Tables for people.
    Text,
    /// One JSON object for scripts.
    Json,
}

/// Simulates the upgrade. The exit code is 1 if it does not end, or if nobody leads in the end.
///
/// # Errors
/// Fails if the Lease cannot be read, or if the simulation cannot reproduce how its replicas elect.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let group = match &config.lease {
        Some(lease) => {
            let cluster = Cluster::connect(access, "rollout").await?.for_reading()?;
            let (lease, candidates) = cluster.within(READ_TIMEOUT, Box::pin(read_election(&cluster, lease))).await?;
            Some(cluster::group(lease.as_ref(), &candidates)?)
        }
        None => None,
    };
    let outcome = simulate(&config, group, SystemClock.both().wall)?;
    print(&match config.output {
        Output::Text => render::render(&outcome, Styles::of_stdout()),
        Output::Json => serde_json::to_string_pretty(&outcome)? + "\n",
    })?;
    let leads = outcome.terms.last().is_some_and(|term| term.until_seconds.is_none());
    Ok(if leads && outcome.seconds.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn simulate(config: &Config, group: Option<Group>, wall: WireTime) -> Result<Outcome, Hinted> {
    let outcome = upgrade::simulate(&upgrade(config, group, wall)?);
    Ok(Outcome { lease: config.lease.clone(), ..outcome })
}

/// Builds the upgrade from the configuration and from the group in the cluster.
fn upgrade(config: &Config, group: Option<Group>, wall: WireTime) -> Result<Upgrade, Hinted> {
    let group = group.unwrap_or_else(|| Group { is_direct: config.direct, ..Group::default() });
    let Group { replicas: found, leader, hold, acts, is_direct, lease_seconds } = group;
    let wanted = config.replicas.unwrap_or(if found.is_empty() || is_direct { REPLICAS } else { found.len() });
    if wanted > MOST_REPLICAS {
        let message = format!("the Lease has {wanted} live candidates, and the simulation takes {MOST_REPLICAS}");
        return Err(Hinted::new(message, format!("pass --replicas {MOST_REPLICAS}, or fewer")));
    }
    let mut old = fit(found, leader.as_deref(), wanted);
    if let Some(from) = &config.from {
        for replica in &mut old {
            replica.binary_version.clone_from(from);
            replica.emulation_version = Some(from.clone());
        }
    }
    let seconds = config.lease_seconds.or(lease_seconds).unwrap_or(Durations::default().lease_duration_seconds);
    Ok(Upgrade {
        lease: config.lease.clone().unwrap_or_else(|| "lease".to_owned()),
        old,
        leader,
        hold,
        acts,
        to: config.to.clone(),
        emulates: config.emulates.clone().unwrap_or_else(|| config.to.clone()),
        is_direct,
        timing: timing(seconds),
        wall,
        surge: config.surge,
        unavailable: config.unavailable,
        readiness: config.readiness,
        shutdown: config.shutdown,
        order: config.order,
    })
}

/// Adds replicas of the same version, or removes some, until there are as many as wanted. The leader always stays.
fn fit(mut found: Vec<OldReplica>, leader: Option<&str>, wanted: usize) -> Vec<OldReplica> {
    while found.len() > wanted
        && let Some(index) = found.iter().rposition(|replica| Some(&*replica.name) != leader)
    {
        found.remove(index);
    }
    let like = found.first().cloned().unwrap_or_default();
    for number in found.len()..wanted {
        let name = format!("old-{}", number.saturating_add(1));
        found.push(OldReplica { name, candidate: None, ..like.clone() });
    }
    found
}

/// The default timing, scaled to this lease duration.
fn timing(lease_seconds: u32) -> Timing {
    let lease = Duration::from_secs(u64::from(lease_seconds));
    let renew_deadline = lease * 2 / 3;
    let defaults = Durations::default();
    let durations = Durations {
        lease_duration_seconds: lease_seconds,
        renew_deadline,
        retry_period: lease * 2 / 15,
        request_timeout: defaults.request_timeout.min(renew_deadline / 2),
        ..defaults
    };
    // The scaled defaults satisfy every rule of `Timing`, whatever the lease duration is.
    Timing::new(durations).unwrap_or_default()
}
