//! `hustings history` shows the terms of a Lease, how each ended, and the gaps between them.
//!
//! An annotation of the Lease records the last terms. As long as the cluster keeps them, events show when older terms
//! began, but not when or how these terms ended. The command changes nothing.

mod events;
mod table;
mod terms;
mod timeline;

use std::process::ExitCode;

use hustings_client::api::ReadLease;
use hustings_client::clock::{Clock as _, SystemClock};
use kube::Api;

pub use self::terms::{PastTerms, TermRow, TermSource};
pub(crate) use self::timeline::length;
use crate::base::access::Access;
use crate::base::cluster::{Cluster, api_error};
use crate::base::output::Output;
use crate::base::terminal::{Styles, width};
use crate::operate::explain::READ_TIMEOUT;

/// Shows the terms of the Lease.
///
/// # Errors
/// Fails if the Lease cannot be read, or does not exist.
pub async fn run(access: &Access, lease: &str, output: Output) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(access, "history").await?.for_reading()?;
    let terms = cluster.within(READ_TIMEOUT, read(&cluster, lease)).await?;
    let now = SystemClock.both().wall;
    output.print(&terms, || table::render(&terms, now, width(), Styles::of_stdout()))?;
    Ok(ExitCode::SUCCESS)
}

async fn read(cluster: &Cluster, name: &str) -> anyhow::Result<PastTerms> {
    let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    let read = leases.get_opt(name).await.map_err(|error| cluster.explain("cannot read the Lease", error))?;
    let Some(lease) = read else { return Err(cluster.no_such_lease(name).await.into()) };
    let events = events::read(cluster, name).await.unwrap_or_else(|error| {
        let reason = api_error(error).to_string();
        tracing::warn!(reason, "cannot list events.events.k8s.io: showing only the terms that the Lease records");
        Vec::new()
    });
    Ok(PastTerms::new(&cluster.namespace, name, &lease.record, &events))
}
