//! Excludes or includes candidates: some by name, or all whose Pods run on one node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::StreamExt as _;
use hustings_client::api::{ReadCandidate, ReadLease, ReadNativeCandidate, exclusion_patch};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_client::store::discover_native;
use hustings_core::model::{Annotation, CandidateKind, CandidateRecord, Exclusion, PodRecord, WireTime};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Error};

use super::config::{ActExpiry, Config, Targets, note_on_end};
use super::outcome::{Goal, wait};
use super::plan::ActRequest;
use super::report::ActReport;
use super::requests::{REFUSED, explain, explain_write, refused, within};
use super::scene::{candidates, known_candidates};
use crate::base::cluster::{Cluster, scoped};
use crate::base::hint::Hinted;
use crate::base::nearest;
use crate::operate::explain::read_election;
use crate::predict::forecast::{HolderForecast, Objects, forecast};

/// The most Pods that one request reads.
const PODS: u32 = 1_000;

/// The most attempts of a write. The controller's pings and statuses may create new versions between them.
const ATTEMPTS: usize = 5;

/// The most Leases to wait for at a time.
const MOST_WAITS: usize = 64;

/// An act on candidates of one Lease, after its writes.
struct WrittenAct {
    cluster: Cluster,
    lease: String,
    candidates: BTreeSet<String>,
    sent: Instant,
}

/// Excludes or includes the targets one after the other. Adds the report of each to `reports`, also before an error.
/// Then waits for all Leases at the same time, so that the timeout limits the whole wait.
///
/// # Errors
/// Fails with the name of the candidate at which it stopped. The exit code is that of a refusal only if nothing was
/// written.
pub(super) async fn carry_out(
    cluster: &Cluster,
    targets: &Targets,
    end: Option<ActExpiry>,
    config: &Config,
    user: Option<&str>,
    reports: &mut Vec<ActReport>,
) -> anyhow::Result<()> {
    let found = find(cluster, targets, end.is_none()).await?;
    let until = end.map(|end| end.at(SystemClock.both().wall)).transpose()?;
    let reason = config.reason.clone().unwrap_or_default();
    let exclusion = until.map(|until| Exclusion { until, reason });
    let asked_by = ActRequest { user, reason: config.reason.as_deref().filter(|_| end.is_none()) }.asked_by();
    let mut written = BTreeMap::new();
    for (namespace, found) in found {
        let cluster = Cluster { namespace, ..cluster.clone() };
        let mut by_lease: BTreeMap<String, Vec<ReadCandidate>> = BTreeMap::new();
        for candidate in found {
            by_lease.entry(candidate.record.lease_name.clone()).or_default().push(candidate);
        }
        for (lease, candidates) in by_lease {
            let (exclusion, asked_by) = (exclusion.as_ref(), asked_by.as_deref());
            let of_lease = of_lease(&cluster, &lease, candidates, exclusion, asked_by, config, reports).await?;
            // The last report of a Lease shows the effect.
            written.insert(reports.len().saturating_sub(1), of_lease);
        }
    }
    match config.wait {
        Some(timeout) if !config.dry_run => wait_for_all(written, exclusion.is_some(), timeout, reports).await,
        _ => Ok(()),
    }
}

/// Finds the target candidates, by namespace. With `includes`, only excluded candidates count.
async fn find(
    cluster: &Cluster,
    targets: &Targets,
    includes: bool,
) -> anyhow::Result<BTreeMap<String, Vec<ReadCandidate>>> {
    let Some(node) = &targets.node else {
        let all = known_candidates(cluster).await?;
        let mut found: Vec<ReadCandidate> = Vec::new();
        for name in &targets.names {
            let Some(candidate) = all.iter().find(|candidate| candidate.record.name == *name) else {
                let existing = all.iter().map(|candidate| candidate.record.name.as_str());
                let message = format!("candidate {name:?} does not exist in namespace {}", cluster.namespace);
                return Err(refused(message, nearest::hint(name, "candidates", existing)).into());
            };
            if includes && candidate.record.acts.exclude.is_none() {
                let message = format!("candidate {name:?} is not excluded");
                let (lease, namespace) = (&candidate.record.lease_name, &cluster.namespace);
                let hint = format!("`hustings status {lease} --namespace {namespace}` shows the candidates that are");
                return Err(refused(message, hint).into());
            }
            if !found.iter().any(|other| other.record.key() == candidate.record.key()) {
                found.push(candidate.clone());
            }
        }
        return Ok(BTreeMap::from([(cluster.namespace.clone(), found)]));
    };
    let mut found = BTreeMap::new();
    let pods = pods(cluster, targets, &format!("spec.nodeName={node}")).await?;
    let has_pods = !pods.is_empty();
    for (namespace, pods) in by_namespace(pods) {
        let here = Cluster { namespace: namespace.clone(), ..cluster.clone() };
        let mut on_node = known_candidates(&here).await?;
        on_node.retain(|candidate| is_target(&candidate.record, &pods, includes));
        if !on_node.is_empty() {
            found.insert(namespace, on_node);
        }
    }
    if found.is_empty() {
        let place = if targets.all_namespaces { "in any namespace" } else { "in this namespace" };
        let what = if includes { "excluded candidate" } else { "candidate" };
        let message = format!("no {what} {place} has its Pod on node {node:?}");
        let similar = if has_pods { None } else { nearest_node(cluster, targets, node).await };
        let nodes = || "`kubectl get nodes` lists the nodes; --all-namespaces finds more".to_owned();
        return Err(refused(message, similar.unwrap_or_else(nodes)).into());
    }
    Ok(found)
}

/// A hint that proposes a node with a similar name. Returns `None` if there is no such node, or if Pods cannot be read.
async fn nearest_node(cluster: &Cluster, targets: &Targets, node: &str) -> Option<String> {
    let pods = pods(cluster, targets, "spec.nodeName!=").await.ok()?;
    let nodes: BTreeSet<String> = pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    nearest::proposal(node, nodes.iter().map(String::as_str))
}

/// The Pods that match the field selector, in the namespaces of the targets.
async fn pods(cluster: &Cluster, targets: &Targets, fields: &str) -> anyhow::Result<Vec<Pod>> {
    let namespace = (!targets.all_namespaces).then_some(&*cluster.namespace);
    let pods: Api<Pod> = scoped(cluster.leases.clone(), namespace);
    match within(pods.list(&ListParams::default().fields(fields).limit(PODS))).await {
        Ok(list) => Ok(list.items),
        Err(Error::Api(status)) if status.code == 403 => {
            let message =
                format!("you may not list the Pods of node {:?}", targets.node.as_deref().unwrap_or_default());
            let hint = "grant the verb list on pods, or name the candidates";
            Err(anyhow::anyhow!("{} (403)", status.message).context(Hinted::new(message, hint)))
        }
        Err(error) => Err(explain(cluster, "cannot list Pods", error)),
    }
}

/// Whether the candidate runs in one of these Pods. With `includes`, it must also be excluded now.
fn is_target(candidate: &CandidateRecord, pods: &[PodRecord], includes: bool) -> bool {
    pods.iter().any(|pod| candidate.runs_in(pod)) && (!includes || candidate.acts.exclude.is_some())
}

/// The names and uids of these Pods, by namespace.
fn by_namespace(pods: Vec<Pod>) -> BTreeMap<String, Vec<PodRecord>> {
    let mut found: BTreeMap<String, Vec<PodRecord>> = BTreeMap::new();
    for pod in pods {
        if let (Some(namespace), Some(name), Some(uid)) = (pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        {
            let pod = PodRecord { name: name.into(), uid: uid.into(), ..PodRecord::default() };
            found.entry(namespace).or_default().push(pod);
        }
    }
    found
}

/// Excludes or includes these candidates of one Lease.
async fn of_lease(
    cluster: &Cluster,
    lease: &str,
    candidates: Vec<ReadCandidate>,
    exclusion: Option<&Exclusion>,
    asked_by: Option<&str>,
    config: &Config,
    reports: &mut Vec<ActReport>,
) -> anyhow::Result<WrittenAct> {
    let sent = Instant::now();
    let wall = SystemClock.both().wall;
    for candidate in &candidates {
        let name = candidate.record.name.clone();
        let mut report = ActReport {
            namespace: cluster.namespace.clone(),
            lease: lease.to_owned(),
            candidate: Some(name.clone()),
            act: exclusion.map_or_else(
                || "may be elected again".to_owned(),
                |exclusion| format!("is excluded until {exclusion}{}", note_on_end(exclusion.until)),
            ),
            until: exclusion.map(|exclusion| exclusion.until.to_string()),
            replaces: exclusion.and(stands(candidate, wall)),
            ..ActReport::default()
        };
        if !config.dry_run {
            let is_first = reports.is_empty();
            report.written = write(cluster, candidate, exclusion, asked_by, is_first).await?;
            report.happened = (!report.written).then_some(true);
        }
        reports.push(report);
    }
    if let (true, Some(report)) = (config.dry_run, reports.last_mut()) {
        report.forecast = predict(cluster, lease, &candidates, exclusion, asked_by, wall).await?;
    }
    let candidates = candidates.into_iter().map(|candidate| candidate.record.name).collect();
    Ok(WrittenAct { cluster: cluster.clone(), lease: lease.to_owned(), candidates, sent })
}

/// Waits for at most `timeout` until all these acts take effect. The keys are the positions of the reports.
async fn wait_for_all(
    mut written: BTreeMap<usize, WrittenAct>,
    excludes: bool,
    timeout: Duration,
    reports: &mut [ActReport],
) -> anyhow::Result<()> {
    let began = tokio::time::Instant::now();
    let waits = reports.iter_mut().enumerate().filter_map(|(position, report)| {
        let written = written.remove(&position)?;
        Some(wait_for(written, excludes, began, timeout, report))
    });
    let ends: Vec<anyhow::Result<()>> = futures::stream::iter(waits).buffer_unordered(MOST_WAITS).collect().await;
    ends.into_iter().collect()
}

async fn wait_for(
    WrittenAct { cluster, lease, candidates, sent }: WrittenAct,
    excludes: bool,
    began: tokio::time::Instant,
    timeout: Duration,
    report: &mut ActReport,
) -> anyhow::Result<()> {
    let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    let read = within(leases.get_opt(&lease)).await;
    if let Some(read) = read.map_err(|error| explain(&cluster, "cannot read the Lease", error))? {
        let goal = if excludes { Goal::LeadsNot(candidates) } else { Goal::Written };
        wait(&leases, read, &goal, sent, timeout.saturating_sub(began.elapsed()), report).await;
    }
    Ok(())
}

/// Predicts what the controller would report if all these candidates were changed.
async fn predict(
    cluster: &Cluster,
    lease: &str,
    changed: &[ReadCandidate],
    exclusion: Option<&Exclusion>,
    asked_by: Option<&str>,
    wall: WireTime,
) -> anyhow::Result<Vec<String>> {
    // Candidates may stand for a Lease that nobody has created yet.
    let (found, mut standing) = read_election(cluster, lease).await?;
    for candidate in &mut standing {
        if changed.iter().any(|other| other.record.key() == candidate.record.key()) {
            candidate.record.acts.exclude = exclusion.cloned().map(Annotation::Valid);
            candidate.record.acts.asked_by = asked_by.map(str::to_owned);
        }
    }
    let objects = Objects {
        key: (&cluster.namespace, lease),
        lease: found.as_ref().map(|lease| &lease.record),
        candidates: standing.iter().map(|candidate| &candidate.record).collect(),
        unchanged_for: Duration::ZERO,
    };
    let forecast = forecast(objects, HolderForecast::Lives, wall);
    Ok(forecast.events.iter().map(ToString::to_string).collect())
}

/// Writes the exclusion on the version that was read. After a conflict it retries with the newest version, unless the
/// administrator has excluded the candidate otherwise. Returns whether it wrote: an exclusion that has ended meanwhile
/// need not be removed. `is_first`: the command has written no candidate before.
async fn write(
    cluster: &Cluster,
    read: &ReadCandidate,
    exclusion: Option<&Exclusion>,
    asked_by: Option<&str>,
    is_first: bool,
) -> anyhow::Result<bool> {
    let name = &read.record.name;
    // With --node -A, candidates of several namespaces may have this name.
    let named = format!("{name:?} in namespace {}", cluster.namespace);
    let attempt = format!("cannot write LeaseCandidate {named}");
    let mut version = read.record.resource_version;
    for _ in 0..ATTEMPTS {
        let patch = Patch::Merge(exclusion_patch(version, exclusion, asked_by));
        match within(patch_candidate(cluster, read.record.kind, name, &patch)).await {
            Ok(()) => return Ok(true),
            Err(Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(explain_write(cluster, &attempt, error)),
        }
        let all = candidates(cluster).await.with_context(|| attempt.clone())?;
        // Another candidate of this name belongs to another process, perhaps on another node.
        let is_same =
            |other: &&ReadCandidate| other.record.key() == read.record.key() && other.record.uid == read.record.uid;
        let Some(newest) = all.iter().find(is_same) else {
            let hint = "`hustings status` shows those that exist";
            let deleted = Hinted::new(format!("candidate {named} was deleted"), hint);
            return Err(if is_first { deleted.with_exit_code(REFUSED) } else { deleted }.into());
        };
        let now = &newest.record.acts.exclude;
        if now.is_none() && exclusion.is_none() {
            return Ok(false);
        }
        if now.is_some() && *now != read.record.acts.exclude {
            let now =
                stands(newest, SystemClock.both().wall).unwrap_or_else(|| "an exclusion that has ended".to_owned());
            return Err(Hinted::new(
                format!("another administrator was faster. Candidate {named} now has: {now}"),
                "run the command again to replace that",
            )
            .into());
        }
        version = newest.record.resource_version;
    }
    Err(Hinted::new(
        format!("candidate {named} changed {ATTEMPTS} times before it could be written"),
        "run the command again",
    )
    .into())
}

async fn patch_candidate(
    cluster: &Cluster,
    kind: CandidateKind,
    name: &str,
    patch: &Patch<serde_json::Value>,
) -> Result<(), Error> {
    let client = cluster.leases.clone();
    let namespace = &cluster.namespace;
    let params = PatchParams::default();
    match kind {
        CandidateKind::Hustings => {
            let api: Api<ReadCandidate> = Api::namespaced(client, namespace);
            api.patch(name, &params, patch).await.map(drop)
        }
        CandidateKind::Native => {
            let version = discover_native(&client).await?.unwrap_or_default();
            let api: Api<ReadNativeCandidate> = Api::namespaced_with(client, namespace, &version);
            api.patch(name, &params, patch).await.map(drop)
        }
    }
}

/// Describes the exclusion that is on the candidate now, unless it has ended.
fn stands(candidate: &ReadCandidate, wall: WireTime) -> Option<String> {
    let text = match candidate.record.acts.standing_exclusion(wall)? {
        Annotation::Valid(exclusion) => exclusion.to_string(),
        Annotation::Malformed(malformed) => malformed.text.clone(),
    };
    let by = candidate.record.acts.asked_by.as_ref().map_or_else(String::new, |name| format!(" (asked by {name})"));
    Some(format!("exclusion until {text}{by}"))
}

#[cfg(test)]
mod tests;
