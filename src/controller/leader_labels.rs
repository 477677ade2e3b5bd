//! Keeps the labels that lead to the leaders: for each Lease with `hustings.io/leader-label`, on the Pod of its holder.
//!
//! A label has one job at a time, which lists the Pods that have the label, takes it from all others, and adds it to the
//! Pod of the holder. The core decides each step. A job is due when the holder's Pod changes, when a watched Pod has
//! the label and should not, or lacks it and should have it, and after a failure.
//!
//! Only a controller that leads has jobs. It forgets everything when it no longer leads, and knows nothing of labels
//! whose annotation was removed before.

mod requests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use hustings_core::model::{Pod, PodLabel, PodRecord};
use tokio::time::Instant;
use tokio_util::task::JoinMap;

pub(super) use self::requests::LabelRequests;
use self::requests::{HasWritten, JobFailure};
use super::config::AssistedLease;
use super::dispatcher::Homes;
use super::key::{LeaseKey, ObjectKey};
use super::slots::Slots;

/// The most jobs at a time.
const CONCURRENT_JOBS: usize = 32;

/// The pause after a job that fails, or that restores what another program has changed. Each further one doubles it. A
/// change of the holder's Pod is carried out at once.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// How often the removal of a label that no Lease asks for any more is tried: for about twelve minutes. Its namespace may
/// be gone with the permissions there.
const MOST_DOUBLINGS: u32 = 16;

/// The most labels that are being removed because no Lease asks for them any more.
const MOST_LEAVING: usize = 1024;

/// For how long a label must be left alone before it begins with the shortest pause again.
const CALM: Duration = Duration::from_mins(2);

/// A label in a namespace of Pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LabelKey {
    pub(super) namespace: Arc<str>,
    pub(super) label: PodLabel,
}

/// The labels, and the jobs that keep them.
pub(super) struct LeaderLabels {
    requests: LabelRequests,
    slots: Slots,
    /// The listed Leases that may label Pods of another namespace, since who installed the controller says so.
    listed: Vec<AssistedLease>,
    desired: BTreeMap<LeaseKey, DesiredLabel>,
    labels: HashMap<LabelKey, LabelState>,
    /// Where each label belongs.
    homes: Homes<LabelKey>,
    /// The job of each label that has one. It returns whether it restored what another program had changed.
    jobs: JoinMap<LabelKey, Result<bool, JobFailure>>,
}

/// What keeps the label of a Lease from its place, or that nothing does any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProblemChange {
    pub(super) lease: LeaseKey,
    pub(super) problem: Option<String>,
}

/// Why a job is due, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trigger {
    /// A Pod was observed to have the label wrongly or to lack it, or the last job failed.
    Disturbance,
    /// The Pod of the holder has changed.
    Move,
}

/// What a Lease asks for.
struct DesiredLabel {
    key: LabelKey,
    holder: Option<Pod>,
    problem: Option<String>,
}

/// The state of one label.
struct LabelState {
    /// The Lease to whose holder it leads.
    lease: LeaseKey,
    /// Whether that Lease still asks for it. If not, no Pod may have it.
    is_wanted: bool,
    holder: Option<Pod>,
    /// Why the next job is due.
    due: Option<Trigger>,
    /// How often the pause was doubled.
    doublings: u32,
    disturbed_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl LeaderLabels {
    /// Keeps labels by these requests. `assist` are the Leases that `--assist` lists.
    pub(super) fn new(requests: LabelRequests, assist: &[AssistedLease]) -> Self {
        Self {
            requests,
            slots: Slots::new(CONCURRENT_JOBS),
            listed: assist.iter().filter(|lease| lease.options.pod_namespace.is_some()).cloned().collect(),
            desired: BTreeMap::new(),
            labels: HashMap::new(),
            homes: Homes::new(),
            jobs: JoinMap::new(),
        }
    }

    /// Records what a Lease asks for: its label with the Pod of its holder.
    pub(super) fn set_desired(
        &mut self,
        lease: &LeaseKey,
        wanted: Option<(LabelKey, Option<Pod>)>,
    ) -> Option<ProblemChange> {
        let former = self.desired.get(lease);
        if former.map(|wanted| (&wanted.key, &wanted.holder)) == wanted.as_ref().map(|(key, holder)| (key, holder)) {
            return None;
        }
        let former_problem = former.and_then(|wanted| wanted.problem.clone());
        let is_kept = former.zip(wanted.as_ref()).is_some_and(|(former, (key, _))| former.key == *key);
        if !is_kept {
            self.release(lease);
        }
        let Some((key, holder)) = wanted else {
            self.start_due();
            return former_problem.map(|_| ProblemChange { lease: lease.clone(), problem: None });
        };
        let problem = match self.conflict(lease, &key) {
            None => {
                self.assign(lease, &key, holder.clone());
                // Only its job ends another problem.
                former_problem.clone().filter(|_| is_kept)
            }
            conflict => conflict,
        };
        self.desired.insert(lease.clone(), DesiredLabel { key, holder, problem: problem.clone() });
        self.start_due();
        (problem != former_problem).then(|| ProblemChange { lease: lease.clone(), problem })
    }

    /// Observes the labels of a watched Pod.
    pub(super) fn observe(&mut self, namespace: &Arc<str>, pod: &PodRecord, labels: &[PodLabel]) {
        if self.labels.is_empty() {
            return;
        }
        let mut disturbed = Vec::new();
        let is_home = |state: &LabelState| state.holder.as_ref().is_some_and(|holder| *holder.uid == *pod.uid);
        for label in labels {
            let key = LabelKey { namespace: Arc::clone(namespace), label: label.clone() };
            disturbed.extend(self.labels.get(&key).filter(|state| !is_home(state)).map(|_| key));
        }
        let homes = self.homes.residents(namespace, &pod.name).filter(|key| !labels.contains(&key.label));
        disturbed.extend(homes.filter(|key| self.labels.get(key).is_some_and(is_home)).cloned());
        if disturbed.is_empty() {
            return;
        }
        for key in disturbed {
            self.labels.entry(key).and_modify(|state| state.is_due_because(Trigger::Disturbance));
        }
        self.start_due();
    }

    /// This controller no longer leads. A job in progress ends by itself, at the latest with its validity.
    pub(super) fn clear(&mut self) {
        self.desired.clear();
        self.labels.clear();
        self.homes = Homes::new();
    }

    /// Starts the jobs that are due.
    pub(super) fn start_due(&mut self) {
        let now = Instant::now();
        // Another value follows on the same key only after the former one is gone, or cannot be removed.
        let is_leaving = |state: &LabelState| !state.is_wanted && state.disturbed_at.is_none();
        let leaving: HashSet<_> =
            self.labels.iter().filter(|(_, state)| is_leaving(state)).map(|(key, _)| key.place()).collect();
        for (key, state) in self.labels.iter_mut().filter(|(_, state)| state.is_due(now)) {
            let must_wait = state.is_wanted && leaving.contains(&key.place());
            let Some(trigger) = state.due.filter(|_| !must_wait && !self.jobs.contains_key(key)) else { continue };
            state.due = None;
            let (requests, slots, job) = (self.requests.clone(), self.slots.clone(), key.clone());
            let (lease, holder) = (state.lease.clone(), state.holder.clone());
            self.jobs.spawn(key.clone(), async move {
                let _slot = slots.take(&job.namespace).await;
                let HasWritten(has_written) = requests.keep(&lease, &job, holder.as_ref()).await?;
                Ok(has_written && trigger == Trigger::Disturbance)
            });
        }
    }

    /// Waits until a job ends. Never returns while there is no job. This function is cancel safe.
    pub(super) async fn finished(&mut self) -> Option<ProblemChange> {
        let Some((key, finished)) = self.jobs.join_next().await else { return std::future::pending().await };
        let result = finished.unwrap_or_else(|error| {
            tracing::error!(%error, "a label could not be kept");
            Err(JobFailure::Failed("the job panicked".to_owned()))
        });
        let changed = self.finish(&key, result);
        self.start_due();
        changed
    }

    /// Waits until the jobs in progress have ended, so that the next controller finds their writes.
    pub(super) async fn stop(&mut self) {
        self.clear();
        let ended = async { while self.jobs.join_next().await.is_some() {} };
        // The next controller sweeps what a job that takes longer may still write.
        let _ = tokio::time::timeout(self.requests.timeout, ended).await;
    }

    fn finish(&mut self, key: &LabelKey, result: Result<bool, JobFailure>) -> Option<ProblemChange> {
        let state = self.labels.get_mut(key)?;
        let problem = match result {
            Ok(has_restored) => {
                if has_restored {
                    state.pause();
                }
                None
            }
            // No Lease asks for the label, and none was ever written.
            Err(JobFailure::Refused(_)) if !state.is_wanted => None,
            Err(failure) => {
                state.is_due_because(Trigger::Disturbance);
                state.pause();
                Some(format!("The label {} is not kept: {failure}", key.label))
            }
        };
        if !state.is_wanted {
            if let Some(problem) = problem.filter(|_| state.doublings >= MOST_DOUBLINGS) {
                tracing::warn!(namespace = %key.namespace, problem, "gave up the removal of a label");
                state.due = None;
            }
            if state.due.is_none() {
                self.labels.remove(key);
            }
            return None;
        }
        let wanted = self.desired.get_mut(&state.lease)?;
        if wanted.problem == problem {
            return None;
        }
        wanted.problem.clone_from(&problem);
        Some(ProblemChange { lease: state.lease.clone(), problem })
    }

    /// Why this Lease may not have the label.
    fn conflict(&self, lease: &LeaseKey, key: &LabelKey) -> Option<String> {
        let LabelKey { namespace, label } = key;
        let is_listed = self.listed.iter().any(|listed| {
            (&*listed.namespace, &*listed.name) == (&**lease.namespace(), &**lease.name())
                && listed.options.pod_namespace.as_deref() == Some(&**namespace)
        });
        if namespace != lease.namespace() && !is_listed {
            return Some(format!(
                "The label {label} is not kept: the Pods are in another namespace than the Lease. Only a Lease that the \
                 chart's value assist.leases lists with podNamespace: {namespace} may have a label there"
            ));
        }
        let owner = &self.labels.get(key).filter(|state| state.is_wanted && state.lease != *lease)?.lease;
        Some(format!("The label {label} is not kept: the Lease {owner} has it already. Use another label"))
    }

    /// Lets the label lead to this Lease.
    fn assign(&mut self, lease: &LeaseKey, key: &LabelKey, holder: Option<Pod>) {
        let state = self.labels.entry(key.clone()).or_insert_with(|| LabelState::new(lease));
        if !state.is_wanted || state.holder != holder {
            state.is_due_because(Trigger::Move);
        }
        state.lease.clone_from(lease);
        state.is_wanted = true;
        match &holder {
            Some(pod) => {
                let home = ObjectKey { namespace: Arc::clone(&key.namespace), name: pod.name.as_str().into() };
                self.homes.settle(key, home);
            }
            None => self.homes.leave(key),
        }
        state.holder = holder;
    }

    /// Forgets what this Lease asked for. The label goes to another Lease that asks for it, or from all Pods.
    fn release(&mut self, lease: &LeaseKey) {
        let Some(DesiredLabel { key, .. }) = self.desired.remove(lease) else { return };
        let Some(state) = self.labels.get_mut(&key).filter(|state| state.is_wanted && state.lease == *lease) else {
            return;
        };
        (state.is_wanted, state.holder, state.disturbed_at) = (false, None, None);
        state.is_due_because(Trigger::Move);
        self.homes.leave(&key);
        let next =
            self.desired.iter().find(|(other, wanted)| wanted.key == key && self.conflict(other, &key).is_none());
        if let Some((next, holder)) = next.map(|(next, wanted)| (next.clone(), wanted.holder.clone())) {
            self.assign(&next, &key, holder);
        } else if self.labels.values().filter(|state| !state.is_wanted).count() > MOST_LEAVING {
            tracing::warn!(namespace = %key.namespace, label = %key.label, "too many labels to remove: left one as it is");
            self.labels.remove(&key);
        }
    }
}

impl LabelKey {
    /// The namespace and the key, which has one value on each Pod.
    fn place(&self) -> (Arc<str>, String) {
        (Arc::clone(&self.namespace), self.label.key.clone())
    }
}

impl LabelState {
    fn new(lease: &LeaseKey) -> Self {
        Self {
            lease: lease.clone(),
            is_wanted: false,
            holder: None,
            due: None,
            doublings: 0,
            disturbed_at: None,
            not_before: None,
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        match self.due {
            Some(Trigger::Move) => true,
            Some(Trigger::Disturbance) => self.not_before.is_none_or(|earliest| earliest <= now),
            None => false,
        }
    }

    fn is_due_because(&mut self, trigger: Trigger) {
        self.due = self.due.max(Some(trigger));
    }

    /// Puts off the next job.
    fn pause(&mut self) {
        let now = Instant::now();
        let is_calm = self.disturbed_at.is_none_or(|last| now.duration_since(last) >= CALM);
        self.doublings = if is_calm { 0 } else { self.doublings.saturating_add(1) };
        self.disturbed_at = Some(now);
        let pause = SHORTEST_PAUSE.saturating_mul(1 << self.doublings.min(MOST_DOUBLINGS)).min(LONGEST_PAUSE);
        self.not_before = Some(now + pause);
    }
}

#[cfg(test)]
pub(super) mod tests;
