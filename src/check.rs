//! `hustings check` examines a cluster before and after the installation.
//!
//! Each check reports findings, with a hint for each problem. A check that lacks a permission reports that it was not
//! possible, and the others go on. The command creates only access reviews, which the API server does not store.

mod controllers;
mod crd;
mod elections;
mod installation;
mod own_lease;
mod report;
mod rights;
mod server;

use std::future::Future;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) use self::installation::{Installation, find as find_installations};
use self::report::{Finding, Verdict};
use crate::access::Access;
use crate::cluster::Cluster;
use crate::program::Program;
use crate::terminal::print;

/// How long one check may take, apart from the watch of the controllers' own Lease.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The configuration of the command.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The output format.
    pub output: Output,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people: one line for each check.
    Text,
    /// For scripts.
    Json,
}

/// Examines the cluster and reports each finding. The exit code is 1 if there is a problem, otherwise 2 if a check was
/// not possible, otherwise 0. With `--namespace` only that namespace is examined.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, or if the API server does not answer.
pub async fn run(access: &Access, Config { output }: Config) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "check").await?.for_reading()?;
    let namespace = access.namespace.as_deref();
    let mut findings = vec![server::check(&cluster).await?];
    let crd = within("crd", crd::check(&cluster.leases)).await;
    let is_crd_missing = crd.iter().any(|finding| finding.verdict == Verdict::Fail);
    findings.extend(crd);

    let found = tokio::time::timeout(TIMEOUT, installation::find(&cluster.leases, namespace)).await;
    let found = found.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())));
    let is_installed = found.as_ref().map_or(true, |found| !found.is_empty());
    findings.extend(within("rights", rights::check(&cluster, namespace, is_installed)).await);
    findings.extend(controllers::check(&cluster.leases, namespace, found).await);
    // Without the CRD there are no candidates, and the finding about the CRD is enough.
    if !is_crd_missing {
        findings.extend(within("elections", elections::check(&cluster, namespace)).await);
    }

    let text = match output {
        Output::Json => serde_json::to_string_pretty(&findings)?,
        Output::Text => {
            let colours = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            report::render(&findings, Program::current(), colours)
        }
    };
    print(&format!("{text}\n"))?;
    Ok(report::exit_code(&findings))
}

/// Returns the findings of a check, or one that says that the check took too long.
async fn within(check: &'static str, findings: impl Future<Output = Vec<Finding>>) -> Vec<Finding> {
    let timed_out = |_| vec![Finding::unknown(check, format!("no answer within {} s", TIMEOUT.as_secs()))];
    tokio::time::timeout(TIMEOUT, findings).await.unwrap_or_else(timed_out)
}
