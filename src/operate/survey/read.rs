//! Reads the locks of a cluster, and the Pods in their namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::election::NODE_LEASES;
use hustings_core::model::WireTime;
use kube::api::ListParams;
use kube::{Error, ResourceExt as _};

use super::lock::{is_off_clock, is_surveyed, pod_namespace};
use super::pods::{self, SurveyedPod};
use super::progress::Progress;
use super::rights;
use crate::base::cluster::{Cluster, scoped};
use crate::base::pages::Pages;
use crate::operate::status::list_natives;

/// The label of the Leases by which API servers know each other.
const API_SERVER: &str = "apiserver.kubernetes.io/identity";

/// How many namespaces to read at once.
const NAMESPACES_AT_ONCE: usize = 8;

/// The namespace and the name of a Lease.
pub(super) type LeaseName = (String, String);

/// What the command has read.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// The locks, and whether the command has observed a renewal.
    pub(super) leases: Vec<(ReadLease, bool)>,
    /// The Leases with candidates, of both APIs. If the caller may not list those of `hustings.io`, the label tells.
    pub(super) with_candidates: BTreeSet<LeaseName>,
    /// Whether the caller may not list candidates of `hustings.io`.
    pub(super) lacks_candidates: bool,
    /// Whether the caller may not list native candidates.
    pub(super) lacks_natives: bool,
    /// The Pods of each namespace that was read, by name; `None` if the caller may not list them.
    pub(super) pods: BTreeMap<String, Option<BTreeMap<String, SurveyedPod>>>,
    /// The local time of the last read.
    pub(super) now: WireTime,
    /// How long the command watched Leases that seem not to be renewed.
    pub(super) watched_for: Duration,
}

/// Reads the locks in one namespace or in all.
///
/// # Errors
/// Fails with a hint if a request fails. The rights to list Pods and candidates may be missing.
pub(super) async fn read(
    cluster: &Cluster,
    namespace: Option<&str>,
    watch_for: Duration,
    progress: &Progress,
) -> anyhow::Result<Inventory> {
    let leases = leases(cluster, namespace, progress).await?;
    let (mut candidates, lacks_candidates) = candidates(cluster, namespace).await?;
    let natives = list_natives(&cluster.leases, namespace, &params(namespace)).await;
    let natives = natives.map_err(|error| cluster.explain("cannot list native LeaseCandidates", error))?;
    let lacks_natives = natives.is_none();
    candidates.extend(natives.into_iter().flatten());
    let of = |one: ReadCandidate| (one.metadata.namespace.unwrap_or_default(), one.record.lease_name);
    let labelled = leases.iter().filter(|lease| lacks_candidates && lease.record.enrolled);
    let labelled = labelled.filter(|lease| lease.record.acts.assist.is_none()).map(name);
    let with_candidates = candidates.into_iter().map(of).chain(labelled).collect();
    let now = SystemClock.wall();
    let mut inventory = Inventory { with_candidates, lacks_candidates, lacks_natives, now, ..Inventory::default() };
    let surveyed = || leases.iter().filter(|lease| is_surveyed(lease, &inventory.with_candidates));
    let suspects = surveyed().filter(|lease| is_off_clock(lease, inventory.now)).count();
    let namespaces: BTreeSet<_> = surveyed().map(pod_namespace).collect();

    let watch = async {
        if suspects > 0 {
            tokio::time::sleep(watch_for).await;
        }
        Ok(())
    };
    let (pods, ()) = tokio::try_join!(Box::pin(all_pods(cluster, namespaces, suspects, progress)), watch)?;
    inventory.pods = pods;
    let latest = if suspects > 0 && !watch_for.is_zero() {
        inventory.watched_for = watch_for;
        let latest = self::leases(cluster, namespace, progress).await?;
        inventory.now = SystemClock.wall();
        latest.into_iter().map(|lease| (name(&lease), lease)).collect()
    } else {
        BTreeMap::new()
    };
    inventory.leases = with_renewals(leases, latest);
    Ok(inventory)
}

/// The newest version of each Lease, and whether its holder or its time of renewal has changed.
fn with_renewals(leases: Vec<ReadLease>, mut latest: BTreeMap<LeaseName, ReadLease>) -> Vec<(ReadLease, bool)> {
    let renewed = |lease: ReadLease| match latest.remove(&name(&lease)) {
        Some(newer) => {
            let sign = |lease: &ReadLease| (lease.record.renew_time, lease.record.holder.clone());
            let has_changed = sign(&newer) != sign(&lease);
            (newer, has_changed)
        }
        None => (lease, false),
    };
    leases.into_iter().map(renewed).collect()
}

async fn leases(cluster: &Cluster, namespace: Option<&str>, progress: &Progress) -> anyhow::Result<Vec<ReadLease>> {
    let mut pages = Pages::new(scoped(cluster.leases.clone(), namespace), params(namespace));
    let mut leases: Vec<ReadLease> = Vec::new();
    loop {
        progress.show(&format!("reading Leases: {}", leases.len()));
        match pages.next().await {
            Ok(Some(page)) => leases.extend(page.into_iter().filter(is_lock)),
            Ok(None) => return Ok(leases),
            Err(error) if is_forbidden(&error) => return Err(rights::no_leases(cluster, namespace, error).await),
            Err(error) => return Err(cluster.explain("cannot list Leases", error)),
        }
    }
}

/// Whether a Lease is a lock: neither the heartbeat of a node nor the identity of an API server.
pub(in crate::operate) fn is_lock(lease: &ReadLease) -> bool {
    let namespace = lease.metadata.namespace.as_deref().unwrap_or_default();
    let is_identity = namespace == "kube-system" && lease.labels().contains_key(API_SERVER);
    namespace != NODE_LEASES && !is_identity
}

/// The candidates of `hustings.io`, and whether the caller may not list these. Without the CRD, there are none.
async fn candidates(cluster: &Cluster, namespace: Option<&str>) -> anyhow::Result<(Vec<ReadCandidate>, bool)> {
    let pages = Pages::<ReadCandidate>::new(scoped(cluster.leases.clone(), namespace), params(namespace));
    match pages.all().await {
        Ok(all) => Ok((all, false)),
        Err(error) if cluster.lacks_candidates(&error).await => Ok((Vec::new(), false)),
        Err(error) if is_forbidden(&error) => Ok((Vec::new(), true)),
        Err(error) => Err(cluster.explain("cannot list LeaseCandidates", error)),
    }
}

async fn all_pods(
    cluster: &Cluster,
    namespaces: BTreeSet<String>,
    suspects: usize,
    progress: &Progress,
) -> anyhow::Result<BTreeMap<String, Option<BTreeMap<String, SurveyedPod>>>> {
    let count = namespaces.len();
    let lists = stream::iter(namespaces).map(|namespace| async {
        match pods::list(cluster, &namespace).await {
            Ok(pods) => Ok((namespace, Some(pods))),
            Err(error) if is_forbidden(&error) => Ok((namespace, None)),
            Err(error) => Err(cluster.explain(&format!("cannot list Pods in namespace {namespace}"), error)),
        }
    });
    let mut lists = lists.buffer_unordered(NAMESPACES_AT_ONCE);
    let mut pods = BTreeMap::new();
    while let Some((namespace, list)) = lists.try_next().await? {
        pods.insert(namespace, list);
        progress.show(&format!("reading Pods: {} of {count} namespaces", pods.len()));
    }
    if suspects > 0 {
        progress.show(&format!("watching for renewals of Leases that seem not to be renewed: {suspects}"));
    }
    Ok(pods)
}

fn params(namespace: Option<&str>) -> ListParams {
    // In a large cluster most Leases are heartbeats of nodes.
    let without_nodes = || ListParams::default().fields(&format!("metadata.namespace!={NODE_LEASES}"));
    namespace.map_or_else(without_nodes, |_| ListParams::default())
}

fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 403)
}

/// The namespace and the name of a Lease.
pub(super) fn name(lease: &ReadLease) -> LeaseName {
    (lease.metadata.namespace.clone().unwrap_or_default(), lease.metadata.name.clone().unwrap_or_default())
}
