//! Assisted Leases: the release of a Lease whose holder is a component that knows nothing of Hustings.
//!
//! Such a holder names no place. Its identity begins with the host name of its Pod, and the Pod's kubelet reports the
//! start and the end of each instance of a container. An instance that covers the term was the holder's process.
//!
//! A Pod of the same name may replace another one whose process lives on, on a node that is cut off. So the UID counts
//! that the Pod had when this controller first observed the holder. It is kept for the last few holders, because one may
//! acquire the Lease again after its Pod was replaced.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::{Doubt, TRUNCATION, is_end_of_term};
use crate::assist::{AssistOptions, Identification, Unidentified, names_process};
use crate::election::eligibility::Conditions;
use crate::election::plan::Plan;
use crate::election::{Election, writes};
use crate::model::{Annotation, ContainerEnd, ContainerRecord, Evidence, LeaseRecord, PodRecord, WireTime};

/// By how much `startedAt` may be later than `acquireTime`. The container runtime records the start once the process runs,
/// and on a busy machine the process is faster.
const START_RECORDED_WITHIN: Duration = Duration::from_secs(3);

/// How many holders are remembered with their Pods.
const REMEMBERED_HOLDERS: usize = 16;

/// What an election knows about the holders of an assisted Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::election) struct HolderHomes {
    /// The Pod that has the name of the holder's Pod now.
    newest: Option<Arc<PodRecord>>,
    /// The last holders, each with the newest version of its own Pod, oldest first.
    pods_of: VecDeque<(String, Arc<PodRecord>)>,
}

impl HolderHomes {
    fn observe(&mut self, pod: &Arc<PodRecord>) {
        self.newest = Some(Arc::clone(pod));
        for (_, known) in self.pods_of.iter_mut().filter(|(_, known)| known.uid == pod.uid) {
            *known = Arc::clone(pod);
        }
    }

    /// Records in which Pod the holder runs, unless that is known. `name` is the name of that Pod.
    fn settle(&mut self, record: &LeaseRecord, name: &str) {
        let pod = self.newest.as_ref().filter(|pod| *pod.name == *name);
        let Some((holder, pod)) = record.holder.as_deref().zip(pod) else { return };
        self.pods_of.retain(|(known, former)| known != holder || former.uid == pod.uid || !has_left(record, former));
        if self.pod_of(holder).is_none() {
            self.pods_of.push_back((holder.to_owned(), Arc::clone(pod)));
            self.pods_of.drain(..self.pods_of.len().saturating_sub(REMEMBERED_HOLDERS));
        }
    }

    fn pod_of(&self, holder: &str) -> Option<&Arc<PodRecord>> {
        self.pods_of.iter().find(|(known, _)| known == holder).map(|(_, pod)| pod)
    }
}

impl Election {
    /// Whether the Lease is assisted. A candidate always has a better proof, and its Lease needs a grant.
    pub fn is_assisted(&self) -> bool {
        self.members.is_empty() && self.assist_options().is_some()
    }

    /// Whether this controller would observe the end of a holder.
    pub const fn uses_evidence(&self) -> bool {
        self.config.evidence.pods
    }

    /// Why the end of no container would prove the holder of an assisted Lease dead.
    pub(in crate::election) fn unprovable(&self) -> Option<Doubt> {
        if !self.uses_evidence() {
            return Some(Doubt::NotWatched);
        }
        self.doubt().filter(|doubt| {
            matches!(
                doubt,
                Doubt::PodUnknown | Doubt::HostNetwork | Doubt::SharedProcesses | Doubt::NoContainer | Doubt::Ambiguous
            )
        })
    }

    /// The name of the Pod in which the holder of an assisted Lease runs, and its namespace.
    pub fn assisted_pod(&self) -> Option<(&str, String)> {
        let options = self.assist_options().filter(|_| self.members.is_empty())?;
        let holder = self.lease.view.record()?.holder.as_deref()?;
        Some((options.namespace_of_pods(&self.namespace), options.pod_name(holder)))
    }

    /// The namespace of the Pods in which the holders of this Lease run.
    pub fn namespace_of_pods(&self) -> &str {
        let options = self.assist_options().filter(|_| self.is_assisted());
        options.map_or(&self.namespace, |options| options.namespace_of_pods(&self.namespace))
    }

    fn assist_options(&self) -> Option<&AssistOptions> {
        self.lease.view.record()?.acts.assist.as_ref().and_then(Annotation::valid)
    }

    /// Forgets where the holders run if the options name other Pods than before.
    pub(in crate::election) fn observe_assist_options(&mut self, before: Option<&LeaseRecord>) {
        fn places(record: &LeaseRecord) -> Option<(&Option<String>, &Option<String>)> {
            let options = record.acts.assist.as_ref()?.valid()?;
            Some((&options.pod_namespace, &options.pod_prefix))
        }
        if before.and_then(places) != self.lease.view.record().and_then(places) {
            self.holder_homes = HolderHomes::default();
        }
    }

    pub(super) fn observe_assisted_pod(&mut self, pod: &Arc<PodRecord>) {
        if self.assisted_pod().is_some_and(|(_, name)| *pod.name == *name) {
            self.holder_homes.observe(pod);
        }
    }

    /// Notes in which Pod the holder of an assisted Lease runs.
    pub(super) fn settle_assisted_holder(&mut self) {
        let name = self.assisted_pod().map(|(_, name)| name);
        // Without a holder in it, this election is not shown the Pod that takes its name.
        self.holder_homes.newest.take_if(|pod| name.as_deref() != Some(&*pod.name));
        if let Some((name, record)) = name.zip(self.lease.view.record()) {
            self.holder_homes.settle(record, &name);
        }
    }

    /// The Pod of this holder of an assisted Lease, if its name is certain to mean this Pod.
    pub(super) fn identified_pod(&self, holder: &str) -> Option<&Arc<PodRecord>> {
        let options = self.assist_options().filter(|_| self.is_assisted())?;
        let pod = self.holder_homes.pod_of(holder)?;
        // Which of its containers holds the Lease does not matter.
        let is_of_host = Identification::Unidentified(Unidentified::HostNetwork(pod.name.to_string()));
        (options.identify(holder, Some(pod)) != is_of_host).then_some(pod)
    }

    /// What the Pod of the holder proves.
    pub(super) fn assisted_evidence(&self) -> Result<Evidence, Doubt> {
        let (options, record) = self.assist_options().zip(self.lease.view.record()).ok_or(Doubt::PodUnknown)?;
        let holder = record.holder.as_deref().ok_or(Doubt::PodUnknown)?;
        let pod = self.holder_homes.pod_of(holder).ok_or(Doubt::PodUnknown)?;
        // The identity may already be that of a process in the next Pod, which was not shown yet.
        let is_newest = self.holder_homes.newest.as_ref().is_some_and(|newest| newest.uid == pod.uid);
        if !is_newest && !is_of_one_process(holder, pod) {
            return Err(Doubt::AnotherPod);
        }
        match options.identify(holder, Some(pod)) {
            Identification::Identified { container, .. } => covers_term(record, pod, &container),
            Identification::Unidentified(why) => Err((&why).into()),
            Identification::Ambiguous(_) => Err(Doubt::Ambiguous),
        }
    }

    /// Releases an assisted Lease whose holder is proven dead.
    pub(in crate::election) fn assist(&mut self, conditions: &Conditions, plan: &mut Plan) {
        let Some((evidence, _)) = self.evidence().filter(|_| self.is_assisted()) else { return };
        if let Some(record) = self.lease.view.record()
            && let Some(holder) = record.holder.as_deref()
            && record.enrolled
            && conditions.hold.is_none()
            && !plan.writes_lease()
        {
            let lease = (record, self.lease.view.history());
            let (write, event) = writes::release(lease, holder, evidence, plan.now.wall);
            self.write_lease(write, Some(event), plan);
        }
    }
}

impl From<&Unidentified> for Doubt {
    fn from(why: &Unidentified) -> Self {
        match why {
            Unidentified::NoPod(_) => Self::PodUnknown,
            Unidentified::HostNetwork(_) => Self::HostNetwork,
            Unidentified::SharedProcesses(_) => Self::SharedProcesses,
            Unidentified::NoContainer { .. } => Self::NoContainer,
            // The kubelet reports a container before its end.
            Unidentified::NoContainerYet(_) => Self::NotTerminated,
        }
    }
}

/// Whether no other process can have this identity. That of the next one in the Pod may end with the same UID of the Pod.
fn is_of_one_process(holder: &str, pod: &PodRecord) -> bool {
    names_process(holder) && !holder.to_ascii_lowercase().ends_with(&format!("_{}", pod.uid))
}

/// Whether the holder has renewed since the last process in this Pod ended, so that it runs in another one.
fn has_left(record: &LeaseRecord, pod: &PodRecord) -> bool {
    let has_ended = |container: &ContainerRecord| {
        let ended = pod.ends(&container.name).filter_map(|end| end.finished_at).max();
        ended.is_some_and(|ended| record.renew_time > Some(ended.after(TRUNCATION)))
    };
    pod.is_over && !pod.containers.is_empty() && pod.containers.iter().all(has_ended)
}

/// Checks whether an instance of this container that has ended covers the whole term, so that it was the holder. An
/// instance that ended before the holder acquired the Lease is a former one: the next one may start in the same second.
fn covers_term(record: &LeaseRecord, pod: &PodRecord, container: &str) -> Result<Evidence, Doubt> {
    let starts_in_time =
        |start: WireTime| record.acquire_time.is_some_and(|at| start <= at.after(START_RECORDED_WITHIN));
    let is_of_one_process = record.holder.as_deref().is_some_and(|holder| is_of_one_process(holder, pod));
    let covers = |end: &ContainerEnd| {
        is_end_of_term(record, pod, end)?;
        // A renewal in the second of the end may be that of the next process of this identity.
        if !is_of_one_process && record.renew_time >= end.finished_at {
            return Err(Doubt::RenewedAfterEnd);
        }
        if end.started_at.is_some_and(starts_in_time) {
            Ok(Evidence::ContainerTerminated)
        } else {
            Err(Doubt::StartedAfterTerm)
        }
    };
    let none = Err(Doubt::NotTerminated);
    pod.ends(container).map(covers).fold(none, |found, next| if found.is_ok() { found } else { next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::{Config, LeaseVerdict, Observation, Source};
    use crate::model::{LeaseActs, Moment, Now};

    fn observe(election: &mut Election, observation: Observation) {
        election.observe(Now { moment: Moment::from_micros(0), wall: WireTime::from_micros(0) }, observation);
    }

    fn show(election: &mut Election, pod: PodRecord) {
        observe(election, Observation::Pod { record: pod.into() });
    }

    /// A Lease with this holder and these options.
    fn show_lease(election: &mut Election, resource_version: u64, holder: Option<&str>, options: &str) {
        let record = record(resource_version, holder, options);
        observe(election, Observation::Lease { record, source: Source::Watch });
    }

    fn show_lease_renewed(election: &mut Election, resource_version: u64, renewed: WireTime) {
        let record = LeaseRecord { renew_time: Some(renewed), ..record(resource_version, Some("web-0_1"), "") };
        observe(election, Observation::Lease { record, source: Source::Watch });
    }

    fn record(resource_version: u64, holder: Option<&str>, options: &str) -> LeaseRecord {
        let options = AssistOptions::read(options).unwrap();
        LeaseRecord {
            uid: "l".to_owned(),
            resource_version,
            holder: holder.map(str::to_owned),
            duration_seconds: 15,
            acquire_time: Some(WireTime::from_micros(0)),
            renew_time: Some(WireTime::from_micros(0)),
            transitions: 4,
            enrolled: true,
            acts: LeaseActs { assist: Some(Annotation::Valid(options)), ..LeaseActs::default() },
            ..LeaseRecord::default()
        }
    }

    #[test]
    fn the_pod_of_an_assisted_holder_is_known_without_evidence_and_whichever_container_it_runs_in() {
        let mut election = Election::new(Config::default(), "n", "l");
        show_lease(&mut election, 5, Some("web-0_1"), "");
        let verdict =
            LeaseVerdict::Assisted { holder: "web-0_1".into(), unprovable: Some(Doubt::NotWatched), hold: None };
        assert_eq!(election.holder_pod(&verdict), None);
        let pod = |uid: &str| PodRecord { name: "web-0".into(), uid: uid.into(), ..PodRecord::default() };
        let two = [ContainerRecord::ended("a", []), ContainerRecord::ended("b", [])].into();
        show(&mut election, PodRecord { containers: two, ..pod("old") });
        show(&mut election, pod("new"));
        let uid = |election: &Election| election.holder_pod(&verdict).map(|pod| pod.uid);
        assert_eq!(uid(&election).as_deref(), Some("old"), "a later Pod of its name is another one");
        // Its process cannot be in a Pod in which everything had ended before it renewed.
        let time = |seconds: i64| WireTime::from_micros(seconds * 1_000_000);
        let ended = ContainerRecord::ended("a", [ContainerEnd::at(time(3), "Error")]);
        show(&mut election, PodRecord { containers: [ended].into(), is_over: true, ..pod("old") });
        show(&mut election, pod("new"));
        for (renewed, expected) in [(4, "old"), (5, "new")] {
            show_lease_renewed(&mut election, 5 + renewed, time(i64::try_from(renewed).unwrap()));
            assert_eq!(uid(&election).as_deref(), Some(expected), "renewed after {renewed} s");
        }
        let mut election = Election::new(Config::default(), "n", "l");
        show_lease(&mut election, 5, Some("web-0_1"), "");
        show(&mut election, pod("old"));
        show(&mut election, PodRecord { host_network: true, ..pod("old") });
        assert_eq!(uid(&election), None, "its host name is that of the node");

        assert_eq!(election.namespace_of_pods(), "n");
        show_lease(&mut election, 6, None, "pod-namespace=m");
        assert_eq!((election.namespace_of_pods(), election.assisted_pod()), ("m", None));
    }
}
