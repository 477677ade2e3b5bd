//! `hustings survey` shows every Lease of a cluster that is a lock: what a crash of its holder costs, and whether
//! Hustings can assist it.
//!
//! Nothing needs to be installed, and the command only reads. It decides nothing, so it may compare the times on a Lease
//! with the local clock. A Lease that seems not to be renewed gets a second look before the command calls it stuck.

mod lock;
mod pods;
mod progress;
mod read;
mod render;
mod rights;
mod values;

use std::process::ExitCode;
use std::time::Duration;

use self::lock::{Lock, LockState};
use self::progress::Progress;
pub(in crate::operate) use self::read::is_lock;
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::program::Program;
use crate::base::terminal::{Styles, print};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurveyOutput {
    /// For people.
    Table,
    /// For scripts: an array.
    Json,
    /// Values of the chart, as YAML.
    Values,
}

/// Shows the locks of all namespaces, or of the one that the user names. It watches Leases that seem not to be renewed
/// for `watch_for`. The exit code is 1 if a lock is stuck, otherwise 2 if Pods could not be read.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, or if a read other than that of Pods fails.
pub async fn run(access: &Access, output: SurveyOutput, watch_for: Duration) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "survey").await?.for_reading()?;
    let progress = Progress::on_stderr();
    let inventory = read::read(&cluster, access.namespace.as_deref(), watch_for, &progress).await?;
    drop(progress);
    let locks = lock::locks(&inventory);
    print(&match output {
        SurveyOutput::Table => Program::current().rename(&render::render(&locks, Styles::of_stdout())).into_owned(),
        SurveyOutput::Json => serde_json::to_string_pretty(&locks)? + "\n",
        SurveyOutput::Values => values::render(&locks)?,
    })?;
    for missing in rights::missing(&inventory, access.namespace.as_deref()) {
        tracing::warn!("{}", Program::current().rename(&missing));
    }
    Ok(exit_code(&locks))
}

fn exit_code(locks: &[Lock]) -> ExitCode {
    let has = |state| locks.iter().any(|lock| lock.state == state);
    match (has(LockState::Stuck), has(LockState::Unread)) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(2),
        (false, false) => ExitCode::SUCCESS,
    }
}
