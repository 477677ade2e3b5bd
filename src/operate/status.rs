//! `hustings status` shows who leads, who would be next, and why the others do not lead.
//!
//! This module reads and prints. Candidates of Kubernetes' own components have no status. For these it runs the
//! controller's decision itself, and carries out nothing.
//!
//! It never compares another machine's timestamp with the local clock, so a single read cannot show how old a record
//! is. One-shot `status` therefore reports that a Lease expires *within* its duration. `--watch` measures expiry as
//! every elector does: from its own observation of the last change.

mod color;
mod config;
mod native;
mod output;
mod read;
mod snapshot;
mod table;
mod watch;

use std::process::ExitCode;

pub(crate) use self::color::{color_of, color_of_candidate};
pub use self::config::{Config, StatusOutput};
pub(crate) use self::native::{api_group, list as list_natives};
use self::output::Printer;
pub(crate) use self::read::{CandidateLists, NATIVES_NOT_SHOWN, list_candidates, read};
pub use self::snapshot::{CandidateRow, LeaseRow, LeaseState};
pub(crate) use self::snapshot::{election, missing, rows};
pub use super::assisted::{Assistance, AssistanceState};
use crate::base::access::Access;
use crate::base::cluster::Cluster;

/// Shows the Leases. Without `--watch`, the exit code is 1 if one of them has no holder.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, if a read fails, or if the named Lease does not exist. With
/// `--watch`, only a failure of the first read ends the command.
pub async fn run(access: &Access, config: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "status").await?.for_reading()?;
    if config.watch {
        watch::watch(&cluster, &config).await?;
        return Ok(ExitCode::SUCCESS);
    }
    print_once(&cluster, &config).await
}

/// Prints all pages. The exit code is 1 if any Lease has no holder.
async fn print_once(cluster: &Cluster, config: &Config) -> anyhow::Result<ExitCode> {
    let mut printer = Printer::new(config, read::place(cluster, config));
    let mut unheld = false;
    let show = |rows: Vec<LeaseRow>| {
        unheld |= rows.iter().any(|row| !row.state.is_held());
        printer.page(&rows)
    };
    read::read_pages(cluster, config, show).await?;
    printer.end()?;
    Ok(if unheld { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::cluster::testing::{cluster, list};

    #[tokio::test]
    async fn a_lease_without_a_holder_on_any_page_decides_the_exit_code() {
        let lease = |holder: &str| {
            let metadata = json!({ "name": "l", "namespace": "n", "labels": { "hustings.io/enrolled": "true" } });
            json!({ "metadata": metadata, "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15 } })
        };
        for (holders, expected) in
            [(["a", "a"], ExitCode::SUCCESS), (["", "a"], ExitCode::FAILURE), (["a", ""], ExitCode::FAILURE)]
        {
            let (cluster, _) = cluster(move |request| {
                if request.path.contains("hustings.io") {
                    return Some(list(&[]));
                }
                let is_second = request.path.contains("continue=more");
                let (code, mut page) = list(&[lease(holders[usize::from(is_second)])]);
                page["metadata"]["continue"] = if is_second { Value::Null } else { json!("more") };
                request.path.contains("/leases?").then_some((code, page))
            });
            let config = Config { lease: None, all_namespaces: false, watch: false, output: StatusOutput::Name };
            assert_eq!(print_once(&cluster, &config).await.unwrap(), expected, "{holders:?}");
        }
    }
}
