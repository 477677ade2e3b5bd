//! `hustings status` shows who leads, who would be next, and why the others do not lead.
//!
//! This module reads and prints. Only for candidates without a status, those of Kubernetes' own components, it makes the
//! controller's decision itself, and carries out none of it. It never compares another machine's timestamp with the local
//! clock, so a single read cannot show how old a record is. One-shot `status` therefore reports that a Lease expires
//! *within* its duration. `--watch` measures expiry as every elector does: from its own observation of the last change.

mod native;
mod snapshot;
mod table;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock, SystemClock};
use hustings_core::election::NODE_LEASES;
use hustings_core::model::Observed;
use kube::Api;
use kube::api::ListParams;
use tokio_util::sync::CancellationToken;

pub(crate) use self::native::list as list_native;
pub use self::snapshot::{CandidateRow, LeaseRow, LeaseState};
pub(crate) use self::snapshot::{missing, rows};
use crate::access::Access;
use crate::cluster::{Cluster, candidates_unknown};
use crate::hint::Hinted;
use crate::terminal::print;

/// The pause between two reads of `--watch`.
const READ_PERIOD: Duration = Duration::from_secs(1);

/// How long one read of all Leases and candidates may take.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// What to show, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one Lease to show; `None` for every Lease that is enrolled or has candidates.
    pub lease: Option<String>,
    /// Whether to show the Leases of all namespaces.
    pub all_namespaces: bool,
    /// Whether to keep reading and show every change.
    pub watch: bool,
    /// The output format.
    pub output: Output,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

/// Shows the Leases. Without `--watch`, the exit code is 1 if one of them has no holder.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, if the first read fails, or if the Lease named does not exist.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "status").await?.for_reading()?;
    if config.watch { watch(&cluster, &config).await } else { show_once(&cluster, &config).await }
}

async fn show_once(cluster: &Cluster, config: &Config) -> anyhow::Result<ExitCode> {
    let rows = read(cluster, config, &mut BTreeMap::new()).await?;
    show(config, &rows)?;
    let unheld = rows.iter().any(|row| !row.state.is_held());
    Ok(if unheld { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Shows every change until it is interrupted. Only a failure of the first read ends it. A later one is logged once and
/// retried, so that the watch survives an outage of the API server.
async fn watch(cluster: &Cluster, config: &Config) -> anyhow::Result<ExitCode> {
    let interrupted = CancellationToken::new();
    tokio::spawn(interrupt(interrupted.clone()));
    let mut observed = BTreeMap::new();
    let mut shown: Option<Vec<LeaseRow>> = None;
    let mut failing = false;
    while let Some(rows) = interrupted.run_until_cancelled(read(cluster, config, &mut observed)).await {
        match rows {
            Ok(rows) => {
                failing = false;
                // The time until expiry shrinks with every read. That alone is not a change.
                let same = |shown: &Vec<LeaseRow>| {
                    shown.len() == rows.len()
                        && shown.iter().zip(&rows).all(|(one, other)| one.equals_except_expiry(other))
                };
                if shows_page(config) || !shown.as_ref().is_some_and(same) {
                    show(config, &rows)?;
                }
                shown = Some(rows);
            }
            Err(error) if shown.is_none() => return Err(error),
            Err(error) if !failing => {
                failing = true;
                tracing::warn!(reason = format!("{error:#}"), "cannot read the Leases; retrying");
            }
            Err(_) => {}
        }
        if interrupted.run_until_cancelled(tokio::time::sleep(READ_PERIOD)).await.is_none() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn interrupt(token: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        token.cancel();
    }
}

/// Reads the Leases. `observed` holds what former reads observed of each.
///
/// # Errors
/// Fails if a request fails, or if there is no answer in time.
pub(crate) async fn read(
    cluster: &Cluster,
    config: &Config,
    observed: &mut BTreeMap<(String, String), Observed>,
) -> anyhow::Result<Vec<LeaseRow>> {
    let rows = tokio::time::timeout(READ_TIMEOUT, read_rows(cluster, config, observed));
    let timed_out = || {
        let seconds = READ_TIMEOUT.as_secs();
        Hinted::new(format!("the API server did not answer within {seconds} s"), cluster.hint_on_server())
    };
    rows.await.map_err(|_| timed_out())?
}

async fn read_rows(
    cluster: &Cluster,
    config: &Config,
    observed: &mut BTreeMap<(String, String), Observed>,
) -> anyhow::Result<Vec<LeaseRow>> {
    let (leases, candidates): (Api<ReadLease>, Api<ReadCandidate>) = if config.all_namespaces {
        (Api::all(cluster.leases.clone()), Api::all(cluster.leases.clone()))
    } else {
        (
            Api::namespaced(cluster.leases.clone(), &cluster.namespace),
            Api::namespaced(cluster.leases.clone(), &cluster.namespace),
        )
    };
    let of_lease = |pointer: &str| match &config.lease {
        Some(name) => ListParams::default().fields(&format!("{pointer}={name}")),
        // In a large cluster most Leases are node heartbeats, and no controller elects there.
        None if config.all_namespaces => ListParams::default().fields(&format!("metadata.namespace!={NODE_LEASES}")),
        None => ListParams::default(),
    };
    let (mut candidates, unknown) = match candidates.list(&of_lease("spec.leaseName")).await {
        Ok(list) => (list.items, false),
        Err(error) if cluster.lacks_candidates(&error).await => (Vec::new(), true),
        Err(error) => return Err(cluster.explain("cannot list LeaseCandidates", error)),
    };
    // The server selects native candidates by no field of their own.
    let natives = if config.lease.is_some() { ListParams::default() } else { of_lease("") };
    let namespace = (!config.all_namespaces).then_some(cluster.namespace.as_str());
    let natives = native::list(&cluster.leases, namespace, &natives).await;
    let natives = natives.map_err(|error| cluster.explain("cannot list native LeaseCandidates", error))?;
    let lacks_natives = natives.is_none();
    let is_of_lease =
        |candidate: &ReadCandidate| config.lease.as_ref().is_none_or(|lease| candidate.record.lease_name == *lease);
    candidates.extend(natives.into_iter().flatten().filter(is_of_lease));
    let leases = leases.list(&of_lease("metadata.name")).await;
    let leases = leases.map_err(|error| cluster.explain("cannot list Leases", error))?.items;
    let now = SystemClock.both();
    let mut leases_observed = BTreeMap::new();
    for lease in &leases {
        let key = snapshot::key(&lease.metadata);
        let entry = match observed.remove(&key) {
            Some(mut entry) => {
                entry.observe(lease.record.clone(), now.moment);
                entry
            }
            None => Observed::first(lease.record.clone(), now.moment),
        };
        leases_observed.insert(key, entry);
    }
    *observed = leases_observed;
    let rows = snapshot::rows(leases, candidates, observed, now, config.lease.is_some());
    // A watch of one Lease shows its deletion and its creation.
    if config.watch && config.lease.is_some() && rows.is_empty() {
        return Ok(rows);
    }
    // Replicas in direct mode need no CRD, so a missing CRD is an error only if there is nothing to show.
    if unknown && rows.is_empty() {
        return Err(candidates_unknown().into());
    }
    if unknown && !config.watch {
        tracing::warn!("the LeaseCandidate CRD is not installed in this cluster: showing Leases only");
    }
    if lacks_natives && !config.watch && rows.iter().any(LeaseRow::has_unexplained_holder) {
        tracing::warn!(
            "you may not list leasecandidates.coordination.k8s.io: candidates of Kubernetes' own components are not shown"
        );
    }
    if let (Some(lease), true) = (&config.lease, rows.is_empty()) {
        let place =
            if config.all_namespaces { "any namespace".to_owned() } else { format!("namespace {}", cluster.namespace) };
        return Err(Hinted::new(
            format!("Lease {lease:?} does not exist in {place} and has no candidates"),
            "`hustings status --all-namespaces` shows every Lease that is enrolled or has candidates",
        )
        .into());
    }
    Ok(rows)
}

fn show(config: &Config, rows: &[LeaseRow]) -> anyhow::Result<()> {
    let text = match config.output {
        Output::Json if config.watch => serde_json::to_string(rows)?,
        Output::Json => serde_json::to_string_pretty(rows)?,
        Output::Table => table::render(rows, config.lease.is_some()),
    };
    // Move the cursor home and clear to the end. Clearing the whole screen first would flicker.
    let clear = if shows_page(config) { "\x1b[H\x1b[J" } else { "" };
    Ok(print(&format!("{clear}{text}\n"))?)
}

/// Whether each read redraws the terminal instead of appending to it.
fn shows_page(config: &Config) -> bool {
    config.watch && config.output == Output::Table && std::io::stdout().is_terminal()
}
