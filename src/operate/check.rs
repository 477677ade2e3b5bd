//! `hustings check` examines a cluster before and after the installation.
//!
//! Each check reports findings, with a hint for each problem. A check that lacks a permission reports that it was not
//! possible, and the other checks still run. The command creates only access reviews, which the API server does not
//! store.

mod bootstrap;
mod controllers;
mod crd;
mod elections;
mod installation;
mod limit;
mod own_lease;
mod report;
mod rights;
mod second_controller;
mod server;

use std::process::ExitCode;

pub use self::installation::ReadConfig;
pub(crate) use self::installation::{Installation, find as find_installations};
use self::limit::{TIMEOUT, timed_out, within};
pub(crate) use self::own_lease::{MOST_OBSERVED, list as list_own_leases, live_holder};
use self::report::{Finding, Verdict};
use crate::base::access::Access;
use crate::base::cluster::Cluster;
use crate::base::output::Output;
use crate::base::program::Program;
use crate::base::terminal::Styles;

/// Examines the cluster and reports each finding. The exit code is 1 if there is a problem, otherwise 2 if a check was
/// not possible, otherwise 0. With `--namespace` only that namespace is examined, and the controllers that elect there.
/// `read_config` reads the flags of the controllers.
///
/// # Errors
/// Fails if the cluster configuration cannot be loaded, or if the API server does not answer.
pub async fn run(access: &Access, output: Output, read_config: ReadConfig) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "check").await?.for_reading()?;
    let findings = Box::pin(examine(&cluster, access.namespace.as_deref(), read_config)).await?;
    output.print(&findings, || report::render(&findings, Program::current(), Styles::of_stdout()) + "\n")?;
    Ok(report::exit_code(&findings))
}

/// Runs all checks.
async fn examine(cluster: &Cluster, namespace: Option<&str>, read_config: ReadConfig) -> anyhow::Result<Vec<Finding>> {
    let mut findings = vec![server::check(cluster).await?];
    let crd = within("crd", crd::check(&cluster.leases)).await;
    let is_crd_missing = crd.iter().any(|finding| finding.verdict == Verdict::Fail);
    findings.extend(crd);

    let find = async |scope| {
        let found = installation::find(&cluster.leases, scope, read_config);
        tokio::time::timeout(TIMEOUT, found).await.unwrap_or_else(|_| Err(timed_out()))
    };
    let (mut scope, mut found, mut others) = (namespace, find(namespace).await, Vec::new());
    // The controllers of a namespace usually run in another one, where the user may have no rights.
    if let (Some(of), Ok([])) = (namespace, found.as_deref())
        && let Ok(everywhere) = find(None).await
    {
        let elects = |found: &Installation| found.config.as_ref().map_or(true, |config| config.watches(of));
        let (here, elsewhere) = everywhere.into_iter().partition(elects);
        (scope, found, others) = (None, Ok(here), elsewhere);
    }
    let is_installed = scope.is_some() || !others.is_empty() || found.as_ref().map_or(true, |found| !found.is_empty());
    findings.extend(within("rights", rights::check(cluster, namespace, is_installed)).await);
    let known = found.iter().flatten().chain(&others);
    let own_leases: Vec<_> = known.filter_map(Installation::own_lease).collect();
    findings.extend(controllers::check(&cluster.leases, scope, found, others).await);
    // Without the CRD there are no candidates, and the finding about the CRD is enough.
    if !is_crd_missing {
        findings.extend(within("elections", elections::check(cluster, namespace, &own_leases)).await);
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::cluster::testing;
    use crate::cli::controller_config;

    #[tokio::test(start_paused = true)]
    async fn a_check_that_the_server_does_not_answer_in_time_was_not_possible() {
        let version = json!({ "major": "1", "minor": "36", "gitVersion": "v1.36.1", "gitCommit": "", "gitTreeState": "",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "" });
        let cluster = testing::silent_cluster(move |sent| (sent.path == "/version").then(|| (200, version.clone())));
        let findings = examine(&cluster, Some("n"), controller_config).await.unwrap();
        let [server, others @ ..] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(server.verdict, Verdict::Ok);
        assert!(others.iter().all(|one| one.verdict == Verdict::Unknown), "{others:?}");
        let others: Vec<_> = others.iter().map(|one| (one.check, one.message.as_str())).collect();
        let expected = [
            ("crd", "no answer within 30 s"),
            ("rights", "cannot tell whether you may see the elections in namespace n: no answer within 5 s"),
            ("rights", "cannot tell whether you may stand for election in namespace n: no answer within 5 s"),
            ("deployment", "cannot list Deployments: no answer within 15 s"),
            ("own-lease", "cannot look for the Lease hustings-controller: no answer within 5 s"),
        ];
        assert_eq!((&others[..5], others[5].0), (&expected[..], "leases"), "{others:?}");
    }
}
