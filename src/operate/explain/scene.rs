//! The input of an explanation: the Lease, its candidates, the controllers and the holder's Pod. To read it, the command
//! also watches for a renewal.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_core::model::{LeaseRecord, LeaseStage, Moment, Now, Observed, PodRecord, Step};
use kube::Api;
use kube::api::ListParams;

use crate::base::cluster::{Cluster, api_error, candidates_unknown};
use crate::controller::{NativeMode, OWN_LEASE, ReadPod};
use crate::operate::check::{
    Installation, MOST_OBSERVED, ReadConfig, find_installations, list_own_leases, live_holder,
};
use crate::operate::status::{Assistance, NATIVES_NOT_SHOWN, list_candidates};
use crate::predict::forecast::usual_interval;

/// The pause between two reads of the Lease while the command waits for a renewal.
const PERIOD: Duration = Duration::from_millis(250);

/// The longest wait for a renewal, unless the user asks for another. For those of controllers, he cannot.
pub(super) const LONGEST_WATCH: Duration = Duration::from_secs(10);

/// How long the search for the Deployments of controllers may take.
const CONTROLLERS_TIMEOUT: Duration = Duration::from_secs(5);

/// One process's observations of one Lease, until `now`.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The namespace.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// The Lease; `None` if it does not exist.
    pub lease: Option<ReadLease>,
    /// Its candidates, of both APIs.
    pub candidates: Vec<ReadCandidate>,
    /// The Lease, with the local time of its last observed change.
    pub observed: Option<Observed>,
    /// Whether the holder renewed the Lease while the process watched.
    pub has_renewed: bool,
    /// How long the process watched the Lease.
    pub watched_for: Duration,
    /// The controllers.
    pub controllers: Controllers,
    /// The Pod of the holder.
    pub pod: HolderPod,
    /// What is known of the holder, if the Lease is assisted.
    pub assist: Option<Assistance>,
    /// The clocks of the observer.
    pub now: Now,
}

/// The controllers of the cluster, as far as the observer knows them.
#[derive(Clone, Debug)]
pub enum Controllers {
    /// The observer could not search for them, for this reason.
    Unknown(String),
    /// All controllers that the observer found.
    Found(Vec<ControllerInstallation>),
}

/// One installation of the controller.
#[derive(Clone, Debug, Default)]
pub struct ControllerInstallation {
    /// Its kind and place, such as `Deployment hustings in namespace hustings-system`.
    pub place: String,
    /// The numbers of available and of wanted replicas; `None` if they are unknown.
    pub available: Option<(i32, i32)>,
    /// A controller that renewed the controllers' own Lease while the command watched, although no replica counts as
    /// available.
    pub leader: Option<String>,
    /// Its flags; `None` if they are unknown.
    pub flags: Option<LeaseElectionFlags>,
}

/// The flags of a controller that concern one Lease.
#[derive(Clone, Debug, Default)]
pub struct LeaseElectionFlags {
    /// Whether it elects in the namespace of the Lease.
    pub elects_here: bool,
    /// Whether it elects native candidates.
    pub elects_native: bool,
    /// Whether the end of a container counts as evidence in the namespace of the holder's Pod.
    pub evidence: bool,
    /// The labels that a Pod must have for that; `None` for any.
    pub pod_selector: Option<String>,
}

/// The Pod of the holder.
#[derive(Clone, Debug, Default)]
pub enum HolderPod {
    /// No object names it.
    #[default]
    Unnamed,
    /// The observer may not read it, or the read failed, for this reason.
    Unread(String),
    /// The Pod; `None` if it does not exist.
    Read(Option<PodRecord>),
}

/// Reads the Lease and all other input.
///
/// # Errors
/// Fails if the Lease or its candidates cannot be read, or if neither exists.
pub(super) async fn read(
    cluster: &Cluster,
    name: &str,
    watch: Option<Duration>,
    read_config: ReadConfig,
) -> anyhow::Result<Scene> {
    let sent = SystemClock.both().moment;
    let (lease, candidates) = read_election(cluster, name).await?;
    let record = lease.as_ref().map(|lease| lease.record.clone());
    let controllers = async {
        let found = tokio::time::timeout(CONTROLLERS_TIMEOUT, find_installations(&cluster.leases, None, read_config));
        let seconds = CONTROLLERS_TIMEOUT.as_secs();
        let late = |_| Err(format!("the search for Deployments did not end within {seconds} s"));
        let found = found.await.unwrap_or_else(late);
        let own_leases: Vec<_> = found.iter().flatten().filter_map(Installation::own_lease).collect();
        let assist = assist(cluster, (&cluster.namespace, name), record.as_ref(), &candidates, &own_leases).await;
        let pod = assist.as_ref().and_then(|assist| assist.pod.as_deref()?.split_once('/'));
        let of_pods = pod.map_or(&*cluster.namespace, |(namespace, _)| namespace);
        (controllers(cluster, found, of_pods).await, assist)
    };
    // What follows may take longer, and the holder renews meanwhile.
    let watched = async { (renewal(cluster, name, lease, watch, sent).await, SystemClock.both()) };
    let ((controllers, assist), pod, (watched, now)) =
        tokio::join!(controllers, pod(cluster, record.as_ref(), &candidates), watched);
    let (lease, observed, has_renewed) = watched?;
    Ok(Scene {
        namespace: cluster.namespace.clone(),
        name: name.to_owned(),
        // With a limit of zero, the command has read the Lease only once.
        watched_for: if watch == Some(Duration::ZERO) { Duration::ZERO } else { now.moment.since(sent) },
        lease,
        candidates,
        observed,
        has_renewed,
        controllers,
        pod,
        assist,
        now,
    })
}

/// Reads the Lease and its candidates, of both APIs.
///
/// # Errors
/// Fails if they cannot be read, or if neither exists.
pub(crate) async fn read_election(
    cluster: &Cluster,
    name: &str,
) -> anyhow::Result<(Option<ReadLease>, Vec<ReadCandidate>)> {
    let candidates = candidates(cluster, name).await?;
    let lease = lease(cluster, name).await?;
    if lease.is_none() && candidates.is_empty() {
        return Err(cluster.no_such_lease(name).await.into());
    }
    Ok((lease, candidates))
}

async fn lease(cluster: &Cluster, name: &str) -> anyhow::Result<Option<ReadLease>> {
    let leases: Api<ReadLease> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    let list = leases.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await;
    Ok(list.map_err(|error| cluster.explain("cannot list Leases", error))?.items.into_iter().next())
}

async fn candidates(cluster: &Cluster, lease: &str) -> anyhow::Result<Vec<ReadCandidate>> {
    let listed = list_candidates(cluster, Some(lease), Some(&cluster.namespace)).await;
    let listed = listed.map_err(|(attempt, error)| cluster.explain(attempt, error))?;
    if listed.lacks_crd {
        tracing::warn!("{}", candidates_unknown());
    }
    if listed.lacks_right {
        tracing::warn!("{NATIVES_NOT_SHOWN}");
    }
    Ok(listed.all)
}

/// Reads the Lease until its record changes, by default for a quarter longer than the usual renewal interval. Returns
/// the newest version, the observation of it, and whether the change was a renewal.
async fn renewal(
    cluster: &Cluster,
    name: &str,
    lease: Option<ReadLease>,
    watch: Option<Duration>,
    sent: Moment,
) -> anyhow::Result<(Option<ReadLease>, Option<Observed>, bool)> {
    let Some(mut newest) = lease else { return Ok((None, None, false)) };
    let first = newest.record.clone();
    let mut observed = Observed::first(first.clone(), sent);
    let end = sent.after(watch.unwrap_or_else(|| longest_watch(first.declared_seconds())));
    while newest.record.stage(None) == LeaseStage::InTerm && SystemClock.both().moment < end {
        tokio::time::sleep(PERIOD).await;
        let sent = SystemClock.both().moment;
        let Some(next) = self::lease(cluster, name).await? else { return Ok((None, None, false)) };
        if next.record.resource_version > newest.record.resource_version {
            observed.observe(next.record.clone(), sent);
            newest = next;
        }
        if !newest.record.is_same_record(&first) {
            let is_renewal = matches!(Step::between(&first, &newest.record, |_| None), Step::Renewed | Step::Changed);
            return Ok((Some(newest), Some(observed), is_renewal));
        }
    }
    Ok((Some(newest), Some(observed), false))
}

/// How long to watch a Lease of this duration, unless the user asks for another time.
fn longest_watch(lease_seconds: u32) -> Duration {
    let usual = usual_interval(lease_seconds).saturating_mul(5) / 4;
    usual.saturating_add(2 * PERIOD).min(LONGEST_WATCH)
}

/// The controllers by their Deployments; without one, by their own Lease. `of_pods` is the namespace of the holder's Pod.
async fn controllers(cluster: &Cluster, found: Result<Vec<Installation>, String>, of_pods: &str) -> Controllers {
    let found = match found {
        Ok(found) => found,
        Err(reason) => return Controllers::Unknown(reason),
    };
    if !found.is_empty() {
        let installed = found.into_iter().map(|found| installed(cluster, found, of_pods));
        return Controllers::Found(futures::future::join_all(installed).await);
    }
    match list_own_leases(&cluster.leases, None).await {
        Ok(found) => {
            let newest = found.first().and_then(|lease| lease.metadata.namespace.clone());
            let held = found.into_iter().filter(|lease| lease.record.holder.is_some());
            let held = held.take(MOST_OBSERVED).map(async |lease| {
                let place = lease.metadata.namespace.unwrap_or_default();
                let limit = (longest_watch(lease.record.declared_seconds()) * 2).min(LONGEST_WATCH);
                let (key, listed) = ((&*place, OWN_LEASE), lease.record.holder);
                let holder = live_holder(&cluster.leases, key, limit, listed).await?;
                let place = format!("The controller {holder}, by the Lease {OWN_LEASE} in namespace {place}");
                Some(ControllerInstallation { place, ..ControllerInstallation::default() })
            });
            let mut live: Vec<_> = futures::future::join_all(held).await.into_iter().flatten().collect();
            if let (true, Some(namespace)) = (live.is_empty(), newest) {
                let place = format!("The Lease {OWN_LEASE} in namespace {namespace}");
                live.push(ControllerInstallation {
                    place,
                    available: Some((0, 0)),
                    ..ControllerInstallation::default()
                });
            }
            Controllers::Found(live)
        }
        Err(error) => Controllers::Unknown(format!("cannot list Leases of all namespaces: {:#}", api_error(error))),
    }
}

async fn installed(cluster: &Cluster, found: Installation, of_pods: &str) -> ControllerInstallation {
    // A Deployment may lag behind its Pods, for example while no kubelet reports.
    let own_lease = if found.available == 0 { found.own_lease() } else { None };
    let leader = match own_lease {
        Some((namespace, name)) => live_holder(&cluster.leases, (&namespace, &name), LONGEST_WATCH, None).await,
        None => None,
    };
    let flags = found.config.ok().map(|config| LeaseElectionFlags {
        elects_here: config.watches(&cluster.namespace),
        elects_native: config.native != NativeMode::Off,
        evidence: config.uses_evidence_in(of_pods),
        pod_selector: config.evidence_pod_selector,
    });
    let place = format!("Deployment {} in namespace {}", found.name, found.namespace);
    ControllerInstallation { place, available: Some((found.available, found.replicas)), leader, flags }
}

/// Reads the holder's Pod, which the candidate names as its owner. A static pod is not an owner, but it has the
/// candidate's name.
async fn pod(cluster: &Cluster, record: Option<&LeaseRecord>, candidates: &[ReadCandidate]) -> HolderPod {
    let Some(record) = record.filter(|record| record.stage(None) == LeaseStage::InTerm) else {
        return HolderPod::Unnamed;
    };
    let names_place = record.session.pod_and_container().is_some();
    let holder = candidates.iter().find(|candidate| Some(&candidate.record.name) == record.holder.as_ref());
    let Some(holder) = holder.filter(|_| names_place) else { return HolderPod::Unnamed };
    let name = holder.record.pod_name();
    let pods: Api<ReadPod> = Api::namespaced(cluster.leases.clone(), &cluster.namespace);
    match pods.get_opt(name).await {
        Ok(pod) => HolderPod::Read(pod.map(|pod| pod.record)),
        Err(error) => HolderPod::Unread(format!("cannot read the Pod {name}: {:#}", api_error(error))),
    }
}

async fn assist(
    cluster: &Cluster,
    key: (&str, &str),
    record: Option<&LeaseRecord>,
    candidates: &[ReadCandidate],
    own_leases: &[(String, String)],
) -> Option<Assistance> {
    let mut assist = Assistance::of(key, record?, candidates, own_leases)?;
    assist.complete(cluster).await;
    Some(assist)
}

#[cfg(test)]
mod tests;
