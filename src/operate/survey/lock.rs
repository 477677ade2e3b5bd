//! What the command says about each lock.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use hustings_client::api::{ReadLease, names};
use hustings_core::assist::{AssistOptions, Identification, Unidentified, host_name};
use hustings_core::model::{Annotation, UNDECLARED_DURATION_SECONDS, WireTime};
use kube::ResourceExt as _;
use serde::Serialize;

use super::pods::SurveyedPod;
use super::read::{Inventory, LeaseName, name};
use crate::base::words::words;
use crate::operate::assisted::{as_text, is_default, is_own_lease};
use crate::operate::history::length;
use crate::predict::client_go::{ASSISTED_CRASH_COSTS, crash_costs};

/// By how much the clock of a holder may differ from the local one without a remark.
const TOLERANCE: Duration = Duration::from_secs(2);

/// The container of many controllers.
const USUAL_CONTAINER: &str = "manager";

/// One lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lock {
    pub(super) namespace: String,
    pub(super) lease: String,
    /// A guess.
    pub(super) component: String,
    pub(super) state: LockState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) duration_seconds: Option<u32>,
    pub(super) transitions: u32,
    /// What a crash of the holder costs today.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) crash_seconds: Option<u32>,
    /// What it costs with assistance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) assisted_seconds: Option<u32>,
    /// Why the state is not `ready`, or what to know about the holder's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The options with which to assist it: of an ambiguous lock, likely ones.
    #[serde(skip_serializing_if = "is_default", serialize_with = "as_text")]
    pub(super) options: AssistOptions,
}

words! {
    /// Whether Hustings can assist the holder of a lock.
    pub(super) enum LockState {
        /// It can.
        Ready = "ready",
        /// It can, once the user names the container.
        Ambiguous = "ambiguous",
        /// It cannot, because it does not know where the holder runs.
        Unidentified = "unidentified",
        /// Unknown: the user may not list the Pods.
        Unread = "unread",
        /// It does so already.
        Assisted = "assisted",
        /// It cannot, because a controller elects the holder: one of Hustings, or that of Kubernetes.
        Elected = "elected",
        /// The Lease has no holder.
        Free = "free",
        /// It has a holder that does not renew it.
        Stuck = "stuck",
    }
}

/// The locks, those first where a crash costs most.
pub(super) fn locks(inventory: &Inventory) -> Vec<Lock> {
    let mut locks: Vec<_> = inventory.leases.iter().map(|(lease, renewed)| lock(lease, *renewed, inventory)).collect();
    let key = |lock: &Lock| (Reverse(lock.crash_seconds), lock.state, lock.namespace.clone(), lock.lease.clone());
    locks.sort_by_cached_key(key);
    locks
}

/// Whether the command looks at the holder of a Lease: it has one, and no controller elects it.
pub(super) fn is_surveyed(lease: &ReadLease, with_candidates: &BTreeSet<LeaseName>) -> bool {
    lease.record.holder.is_some() && !is_elected(lease, with_candidates)
}

/// The namespace of the holder's Pod.
pub(super) fn pod_namespace(lease: &ReadLease) -> String {
    let namespace = lease.namespace().unwrap_or_default();
    options(lease).map_or_else(|_| namespace.clone(), |options| options.namespace_of_pods(&namespace).to_owned())
}

/// Whether the last renewal is not within the last lease, by the local clock.
pub(super) fn is_off_clock(lease: &ReadLease, now: WireTime) -> bool {
    let renewed = lease.record.renew_time.unwrap_or_default();
    renewed.until(now) > duration(lease) + TOLERANCE || now.until(renewed) > TOLERANCE
}

fn is_elected(lease: &ReadLease, with_candidates: &BTreeSet<LeaseName>) -> bool {
    let key = name(lease);
    with_candidates.contains(&key) || is_own_lease((&key.0, &key.1), lease.record.token, &[])
}

fn options(lease: &ReadLease) -> Result<AssistOptions, &str> {
    match &lease.record.acts.assist {
        None => Ok(AssistOptions::default()),
        Some(Annotation::Valid(options)) => Ok(options.clone()),
        Some(Annotation::Malformed(malformed)) => Err(&malformed.why),
    }
}

fn duration(lease: &ReadLease) -> Duration {
    let seconds = match lease.record.duration_seconds {
        0 => UNDECLARED_DURATION_SECONDS,
        declared => declared,
    };
    Duration::from_secs(seconds.into())
}

fn lock(lease: &ReadLease, renewed: bool, inventory: &Inventory) -> Lock {
    let record = &lease.record;
    let (namespace, name) = name(lease);
    let mut lock = Lock {
        component: name.clone(),
        namespace,
        lease: name,
        state: LockState::Free,
        holder: record.holder.clone(),
        pod: None,
        container: None,
        duration_seconds: Some(record.duration_seconds).filter(|seconds| *seconds > 0),
        transitions: record.transitions,
        crash_seconds: None,
        assisted_seconds: None,
        reason: None,
        options: AssistOptions::default(),
    };
    if is_elected(lease, &inventory.with_candidates) {
        lock.state = LockState::Elected;
        return lock;
    }
    let Some(holder) = &record.holder else { return lock };
    identify(&mut lock, lease, holder, inventory);
    if is_off_clock(lease, inventory.now) {
        if renewed {
            let clock = format!("the holder renews, but its clock is {} this machine's", offset(lease, inventory.now));
            lock.reason = Some(lock.reason.map_or_else(|| clock.clone(), |reason| format!("{reason}; {clock}")));
        } else {
            let pod = lock.pod.map(|pod| format!("Pod {pod} exists")).or(lock.reason);
            let reason = [Some(silence(lease, inventory)), pod].into_iter().flatten().collect::<Vec<_>>().join("; ");
            let options = AssistOptions::default();
            return Lock { state: LockState::Stuck, reason: Some(reason), pod: None, container: None, options, ..lock };
        }
    }
    let is_known = matches!(lock.state, LockState::Ready | LockState::Assisted);
    lock.assisted_seconds = is_known.then(assisted_seconds);
    lock.crash_seconds = match lock.state {
        LockState::Assisted => lock.assisted_seconds,
        _ => crash_costs(record).map(seconds),
    };
    lock
}

/// What a crash costs with assistance.
pub(super) fn assisted_seconds() -> u32 {
    seconds(ASSISTED_CRASH_COSTS)
}

fn seconds(cost: Duration) -> u32 {
    u32::try_from(cost.as_secs()).unwrap_or(u32::MAX)
}

/// Finds the container of the holder.
fn identify(lock: &mut Lock, lease: &ReadLease, holder: &str, inventory: &Inventory) {
    lock.state = LockState::Unidentified;
    match options(lease) {
        Ok(options) => lock.options = options,
        Err(error) => {
            lock.reason = Some(format!("the annotation {} is wrong: {error}", names::ASSIST));
            return;
        }
    }
    let namespace = pod_namespace(lease);
    let Some(Some(pods)) = inventory.pods.get(&namespace) else {
        lock.state = LockState::Unread;
        return;
    };
    let identify = |options: &AssistOptions| {
        let pod = pods.get(&options.pod_name(holder));
        (options.identify(holder, pod.map(|pod| &pod.record)), pod)
    };
    let (mut found, mut pod) = identify(&lock.options);
    let mut why = None;
    if lock.options.pod_prefix.is_none() && matches!(found, Identification::Unidentified(Unidentified::NoPod(_))) {
        let host = host_name(holder);
        let suffix = format!("-{host}");
        let statics = pods.values().filter(|pod| pod.is_static && is_on(pod, host));
        let prefixes: Vec<_> = statics.filter_map(|pod| pod.record.name.strip_suffix(&suffix)).collect();
        if prefixes.contains(&lock.lease.as_str()) {
            lock.options.pod_prefix = Some(lock.lease.clone());
            (found, pod) = identify(&lock.options);
        } else if !prefixes.is_empty() {
            let prefixes = prefixes.join(", ");
            why = Some(format!("the holder names node {host}: if its Pod is static, pod-prefix is one of {prefixes}"));
        } else if pods.values().any(|pod| pod.record.host_network && is_on(pod, host)) {
            why = Some(format!("the holder names node {host}, because its Pod uses the network of its host"));
        }
    }
    if let Some(component) = pod.and_then(|pod| pod.component.clone()) {
        lock.component = component;
    }
    lock.pod = pod.map(|pod| pod.record.name.to_string());
    // Without the label, no controller watches the Lease.
    let is_assisted = lease.record.enrolled && lease.record.acts.assist.is_some();
    match &found {
        Identification::Identified { container, .. } => {
            lock.state = if is_assisted { LockState::Assisted } else { LockState::Ready };
            lock.container = Some(container.clone());
        }
        Identification::Ambiguous(containers) => {
            let likely = likely(containers, &lock.lease, &lock.component);
            lock.options.container = likely.map(str::to_owned);
            lock.state = LockState::Ambiguous;
            lock.reason = Some(found.to_string());
        }
        Identification::Unidentified(_) => lock.reason = Some(why.unwrap_or_else(|| found.to_string())),
    }
}

fn is_on(pod: &SurveyedPod, node: &str) -> bool {
    pod.record.node.as_deref() == Some(node)
}

/// The container that most likely holds the Lease, judged by its name.
fn likely<'a>(containers: &'a [String], lease: &str, component: &str) -> Option<&'a str> {
    let in_lease = containers.iter().filter(|name| lease.contains(*name)).max_by_key(|name| name.len());
    let named = |wanted| containers.iter().find(|name| *name == wanted);
    in_lease.or_else(|| named(component)).or_else(|| named(USUAL_CONTAINER)).map(String::as_str)
}

/// How far the time of the last renewal is from the local clock.
fn offset(lease: &ReadLease, now: WireTime) -> String {
    match lease.record.renew_time.unwrap_or_default() {
        renewed if renewed > now => format!("{} ahead of", length(now.until(renewed))),
        renewed => format!("{} behind", length(renewed.until(now))),
    }
}

fn silence(lease: &ReadLease, Inventory { now, watched_for, .. }: &Inventory) -> String {
    let watched = || format!("while this command watched for {} s", watched_for.as_secs_f64());
    let text = match lease.record.renew_time {
        None => "never renewed".to_owned(),
        Some(renewed) if renewed > *now => format!("last renewed {} in the future", length(now.until(renewed))),
        Some(renewed) => format!("last renewed {} ago", length(renewed.until(*now))),
    };
    if watched_for.is_zero() { text } else { format!("{text}, and not {}", watched()) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A lock in namespace `n` that costs 17 s.
    pub(in super::super) fn lock(name: &str, state: LockState) -> Lock {
        Lock {
            namespace: "n".to_owned(),
            lease: name.to_owned(),
            component: name.to_owned(),
            state,
            holder: Some("h_1".to_owned()),
            pod: Some("h".to_owned()),
            container: Some("c".to_owned()),
            duration_seconds: Some(15),
            transitions: 1,
            crash_seconds: Some(17),
            assisted_seconds: Some(3),
            reason: Some("Why.".to_owned()),
            options: AssistOptions { container: Some("c".to_owned()), ..AssistOptions::default() },
        }
    }

    #[test]
    fn the_guide_describes_each_field_and_state() {
        let guide = include_str!("../../../docs/guides/survey.md");
        let row = serde_json::to_value(lock("a", LockState::Ready)).unwrap();
        for field in row.as_object().unwrap().keys() {
            assert!(guide.contains(&format!("`{field}`")), "{field}");
        }
        for state in LockState::ALL {
            assert!(guide.contains(&format!("| `{}` |", state.as_str())), "{state:?}");
        }
    }
}
