//! `hustings status` shows who leads, who would be next, and why the others do not lead.
//!
//! This module reads and prints. Candidates of Kubernetes' own components have no status. For these it runs the
//! controller's decision itself, and carries out nothing.
//!
//! It never compares another machine's timestamp with the local clock, so a single read cannot show how old a record
//! is. One-shot `status` therefore reports that a Lease expires *within* its duration. `--watch` measures expiry as
//! every elector does: from its own observation of the last change.

mod native;
mod output;
mod pages;
mod read;
mod snapshot;
mod table;
mod watch;

use std::process::ExitCode;

pub(crate) use self::native::api_group;
use self::output::Printer;
pub(crate) use self::read::{NATIVES_NOT_SHOWN, list_candidates, read};
pub use self::snapshot::{CandidateRow, LeaseRow, LeaseState};
pub(crate) use self::snapshot::{missing, rows};
use crate::access::Access;
use crate::cluster::Cluster;

/// What to show, and how.
#[derive(Clone, Debug)]
pub struct Config {
    /// The one Lease to show; `None` for every Lease that is enrolled or has candidates.
    pub lease: Option<String>,
    /// Whether to show the Leases of all namespaces.
    pub all_namespaces: bool,
    /// Whether to go on and show every change.
    pub watch: bool,
    /// The output format.
    pub output: Output,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Table,
    /// For people, with more columns.
    Wide,
    /// For scripts: an array.
    Json,
    /// The same as YAML.
    Yaml,
    /// Only the names, for kubectl.
    Name,
}

/// Shows the Leases. Without `--watch`, the exit code is 1 if one of them has no holder.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, if a read fails, or if the Lease named does not exist. With
/// `--watch`, only a failure of the first read ends it.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "status").await?.for_reading()?;
    if config.watch {
        watch::watch(&cluster, &config).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut printer = Printer::new(&config);
    let mut unheld = false;
    let show = |rows: Vec<LeaseRow>| {
        unheld |= rows.iter().any(|row| !row.state.is_held());
        printer.page(&rows)
    };
    read::read_pages(&cluster, &config, show).await?;
    printer.end()?;
    Ok(if unheld { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
