//! `hustings status`: who leads, who would be next, and why the others do not.
//!
//! It reads and shows; nothing here decides. A single look cannot know how old a record is, and no timestamp of another
//! machine is compared with a clock here, so a Lease is said to expire *within* its duration. `--watch` measures it as
//! every elector does, from when it saw the record change.

mod snapshot;
mod table;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock, SystemClock};
use hustings_core::model::Observed;
use kube::Api;
use kube::api::ListParams;

pub use self::snapshot::{CandidateRow, LeaseRow, LeaseState};
use crate::cli::{GlobalFlags, Hinted};
use crate::cluster::Cluster;

/// How often `--watch` looks.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long one look may take.
const LOOK_LIMIT: Duration = Duration::from_secs(15);

/// What is to be shown.
#[derive(Clone, Debug)]
pub struct Config {
    /// One Lease; without it every Lease that takes part.
    pub lease: Option<String>,
    /// Whether Leases of all namespaces are shown.
    pub all_namespaces: bool,
    /// Whether to go on looking.
    pub watch: bool,
    /// In what form.
    pub output: Output,
}

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// For scripts.
    Json,
}

/// Shows the Leases. The exit code is 1 if one of them has no holder.
pub async fn run(flags: &GlobalFlags, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(flags).await?;
    let clock = SystemClock;
    let mut seen = BTreeMap::new();
    let mut shown = None;
    loop {
        let look = look(&cluster, &config, &clock, &mut seen);
        let rows = tokio::time::timeout(LOOK_LIMIT, look).await.context("the API server does not answer")??;
        let changed = shown.as_ref() != Some(&rows);
        if changed || (config.output == Output::Table && std::io::stdout().is_terminal()) {
            show(&config, &rows)?;
        }
        if !config.watch {
            let unheld = rows.iter().any(|row| !row.state.is_held());
            return Ok(if unheld { ExitCode::FAILURE } else { ExitCode::SUCCESS });
        }
        shown = Some(rows);
        tokio::select! {
            () = tokio::time::sleep(LOOK_PERIOD) => {}
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted.map(|()| ExitCode::SUCCESS)?),
        }
    }
}

async fn look(
    cluster: &Cluster,
    config: &Config,
    clock: &impl Clock,
    seen: &mut BTreeMap<(String, String), Observed>,
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
        None => ListParams::default(),
    };
    let candidates = match candidates.list(&of_lease("spec.leaseName")).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(Hinted::new(
                "this cluster does not know LeaseCandidates",
                "install the chart, or apply what `hustings crds` prints",
            )
            .into());
        }
        Err(error) => return Err(error).context("cannot list LeaseCandidates"),
    };
    let leases = leases.list(&of_lease("metadata.name")).await.context("cannot list Leases")?.items;
    let now = clock.now();
    let mut observed = BTreeMap::new();
    for lease in &leases {
        let key = snapshot::key(&lease.metadata);
        let entry = match seen.remove(&key) {
            Some(mut entry) => {
                entry.see(lease.record.clone(), now);
                entry
            }
            None => Observed::first(lease.record.clone(), now),
        };
        observed.insert(key, entry);
    }
    *seen = observed;
    let rows = snapshot::rows(leases, candidates, seen, now, config.lease.is_some());
    if let (Some(lease), true) = (&config.lease, rows.is_empty()) {
        let place =
            if config.all_namespaces { "any namespace".to_owned() } else { format!("namespace {}", cluster.namespace) };
        return Err(Hinted::new(
            format!("there is no Lease {lease} in {place}, and nobody stands for it"),
            "`hustings status --all-namespaces` shows every Lease that takes part",
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
    let mut stdout = std::io::stdout().lock();
    if config.watch && config.output == Output::Table && stdout.is_terminal() {
        // Home, and clear what is below, so that the page does not flicker.
        write!(stdout, "\x1b[H\x1b[J")?;
    }
    writeln!(stdout, "{text}")?;
    Ok(())
}
