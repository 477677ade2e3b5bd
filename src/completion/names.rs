//! The names in the cluster that complete an argument.
//!
//! The flags before the word determine the cluster and the namespace. This module reads them from the arguments of this
//! process, because clap does not pass them to a completer.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use hustings_client::api::names::{ENROLLED, ENROLLED_LABEL};
use hustings_client::api::{ReadCandidate, ReadLease};
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{ListParams, ObjectMeta};
use kube::config::Kubeconfig;
use kube::{Api, Resource};

use super::flag;
use crate::access::Access;
use crate::cluster::Cluster;
use crate::terminal::visible;

/// How long the cluster may take. Users who would wait longer type the name instead.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most objects to read. More would not help in a terminal.
const LIMIT: u32 = 500;

/// The enrolled Leases.
pub(super) fn leases() -> Vec<CompletionCandidate> {
    names(async |cluster| {
        let enrolled = first_ones().labels(&format!("{ENROLLED_LABEL}={ENROLLED}"));
        let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
        let leases = leases.list(&enrolled).await?;
        let of_lease = |lease: ReadLease| {
            let holder = lease.record.holder.map(|holder| format!("held by {holder}"));
            (name(&lease.metadata), holder.unwrap_or_else(|| "without a holder".to_owned()))
        };
        Ok(leases.items.into_iter().map(of_lease).collect())
    })
}

/// The candidates of all Leases.
pub(super) fn candidates() -> Vec<CompletionCandidate> {
    names(async |cluster| {
        let candidates: Api<ReadCandidate> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
        let candidates = candidates.list(&first_ones()).await?;
        let of_candidate = |candidate: ReadCandidate| {
            let state = candidate.status.state.map(|state| format!(" ({state})")).unwrap_or_default();
            (name(&candidate.metadata), format!("stands for {}{state}", candidate.record.lease_name))
        };
        Ok(candidates.items.into_iter().map(of_candidate).collect())
    })
}

/// The namespaces of the cluster.
pub(super) fn namespaces() -> Vec<CompletionCandidate> {
    names(async |cluster| list_names::<Namespace>(cluster).await)
}

/// The nodes of the cluster.
pub(super) fn nodes() -> Vec<CompletionCandidate> {
    names(async |cluster| list_names::<Node>(cluster).await)
}

/// The contexts of the kubeconfig file.
pub(super) fn contexts() -> Vec<CompletionCandidate> {
    let read = access().kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
    let contexts = read.map(|kubeconfig| kubeconfig.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| CompletionCandidate::new(visible(&context.name))).collect()
}

/// The names that a request returns, each with its meaning. A request that fails or takes too long returns none.
fn names<F: Future<Output = kube::Result<BTreeMap<String, String>>>>(
    list: impl FnOnce(Cluster) -> F,
) -> Vec<CompletionCandidate> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let found = runtime.block_on(async {
        let found = async { list(Cluster::connect(&access(), "completion").await.ok()?).await.ok() };
        tokio::time::timeout(PATIENCE, found).await.ok().flatten()
    });
    let candidate = |(name, meaning): (String, String)| {
        let help = (!meaning.is_empty()).then(|| visible(&meaning).into());
        CompletionCandidate::new(visible(&name)).help(help)
    };
    found.unwrap_or_default().into_iter().map(candidate).collect()
}

async fn list_names<K>(cluster: Cluster) -> kube::Result<BTreeMap<String, String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let objects = Api::<K>::all(cluster.leases).list(&first_ones()).await?;
    Ok(objects.items.iter().map(|object| (name(object.meta()), String::new())).collect())
}

fn first_ones() -> ListParams {
    ListParams::default().limit(LIMIT)
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

/// The access from the arguments of this process, or else from their environment variables.
fn access() -> Access {
    let words: Vec<OsString> = std::env::args_os().collect();
    let given = |long: &str, short| {
        let variable = crate::cli::variable_name(long.trim_start_matches('-'));
        let value = flag(&words, long, short).or_else(|| std::env::var(variable).ok());
        value.filter(|value| !value.is_empty())
    };
    Access {
        kubeconfig: given("--kubeconfig", None),
        context: given("--context", None),
        namespace: given("--namespace", Some("-n")),
    }
}
