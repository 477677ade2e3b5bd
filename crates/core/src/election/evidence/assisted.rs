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

use super::{Doubt, is_last_sign_of_life, observed_end};
use crate::assist::{AssistOptions, Identification, Unidentified};
use crate::election::eligibility::Conditions;
use crate::election::plan::Plan;
use crate::election::{Election, writes};
use crate::model::{Annotation, ContainerEnd, Evidence, LeaseRecord, PodRecord};

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

    /// Records in which Pod a holder runs that was not observed before. `name` is the name of that Pod.
    fn settle(&mut self, holder: &str, name: &str) {
        let pod = self.newest.as_ref().filter(|pod| *pod.name == *name);
        if let Some(pod) = pod.filter(|_| self.pod_of(holder).is_none()) {
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

    /// Whether this controller would observe that the holder of an assisted Lease is dead.
    pub const fn uses_evidence(&self) -> bool {
        self.config.evidence.pods
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

    pub(super) fn observe_assisted_pod(&mut self, pod: &Arc<PodRecord>) {
        if self.assisted_pod().is_some_and(|(_, name)| *pod.name == *name) {
            self.holder_homes.observe(pod);
        }
    }

    /// Notes in which Pod the holder of an assisted Lease runs.
    pub(super) fn settle_assisted_holder(&mut self) {
        let name = self.assisted_pod().map(|(_, name)| name);
        if let Some((name, holder)) = name.zip(self.lease.view.record().and_then(|record| record.holder.as_deref())) {
            self.holder_homes.settle(holder, &name);
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
        match options.identify(holder, Some(pod)) {
            Identification::Identified { container, .. } => covers_term(record, pod, &container),
            Identification::Unidentified(_) => Err(Doubt::Unidentified),
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

/// Checks whether an instance of this container that has ended covers the whole term, so that it was the holder.
fn covers_term(record: &LeaseRecord, pod: &PodRecord, container: &str) -> Result<Evidence, Doubt> {
    let covers = |end: &ContainerEnd| {
        is_last_sign_of_life(record, observed_end(end)?)?;
        let started_before = end.started_at.zip(record.acquire_time).is_some_and(|(start, acquired)| start <= acquired);
        if started_before { Ok(Evidence::ContainerTerminated) } else { Err(Doubt::StartedAfterTerm) }
    };
    let none = Err(Doubt::NotTerminated);
    pod.ends(container).map(covers).fold(none, |found, next| if found.is_ok() { found } else { next })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::{Action, Config, Event, EvidenceConfig, LeaseVerdict, Observation, Source};
    use crate::model::{
        CandidateRecord, ContainerRecord, Ending, LeaseActs, Moment, Now, Request, SessionMark, Set, WireTime,
    };

    const TERMINATED: Result<Evidence, Doubt> = Ok(Evidence::ContainerTerminated);

    fn at(seconds: i64) -> Now {
        let micros = seconds * 1_000_000;
        Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
    }

    /// The container `app` of Pod `web-0` with this uid. It ended between these seconds.
    fn pod(uid: &str, ends: &[(i64, i64)]) -> PodRecord {
        let end = |(from, to): &(i64, i64)| ContainerEnd {
            started_at: Some(at(*from).wall),
            finished_at: Some(at(*to).wall),
            reason: "Error".into(),
        };
        let containers = [ContainerRecord::ended("app", ends.iter().map(end))].into();
        PodRecord { name: "web-0".into(), uid: uid.into(), containers, ..PodRecord::default() }
    }

    /// A Lease that `holder` acquired at the first of these seconds and renewed at the second one.
    fn held(holder: &str, acquired: i64, renewed: i64) -> LeaseRecord {
        let assist = Some(Annotation::Valid(AssistOptions::default()));
        LeaseRecord {
            uid: "l".to_owned(),
            resource_version: u64::try_from(renewed).unwrap(),
            holder: Some(holder.to_owned()),
            duration_seconds: 15,
            acquire_time: Some(at(acquired).wall),
            renew_time: Some(at(renewed).wall),
            transitions: 4,
            enrolled: true,
            acts: LeaseActs { assist, ..LeaseActs::default() },
            ..LeaseRecord::default()
        }
    }

    fn election(record: LeaseRecord) -> Election {
        let evidence = EvidenceConfig { pods: true, ..EvidenceConfig::default() };
        let mut election = Election::new(Config { evidence, ..Config::default() }, "n", "l");
        observe(&mut election, record);
        election
    }

    fn observe(election: &mut Election, record: LeaseRecord) {
        let seconds = i64::try_from(record.resource_version).unwrap();
        election.observe(at(seconds), Observation::Lease { record, source: Source::Watch });
    }

    fn show(election: &mut Election, seconds: i64, pod: PodRecord) {
        election.observe(at(seconds), Observation::Pod { record: pod.into() });
    }

    /// What the election decides at this second: the write of the Lease and its event.
    fn write(election: &mut Election, seconds: i64) -> Option<(crate::model::LeaseWrite, Event)> {
        election.decide(at(seconds)).actions.into_iter().find_map(|action| match action {
            Action::Send { request: Request::WriteLease { write, .. }, event } => Some((*write, event?)),
            _ => None,
        })
    }

    #[test]
    fn a_dead_holder_is_released_as_client_go_does_it_and_the_history_says_why() {
        let mut election = election(held("web-0_1", 10, 12));
        assert_eq!(election.assisted_pod(), Some(("n", "web-0".to_owned())));
        show(&mut election, 12, pod("u", &[]));
        assert_eq!((write(&mut election, 12), election.doubt()), (None, Some(Doubt::NotTerminated)));
        show(&mut election, 13, pod("u", &[(5, 12)]));
        let (write, event) = write(&mut election, 13).unwrap();
        assert_eq!(
            (&write.holder, &write.duration_seconds, &write.transitions),
            (&Set::Remove, &Set::To(1), &Set::Keep)
        );
        assert_eq!((&write.acquire_time, &write.renew_time), (&Set::To(at(13).wall), &Set::To(at(13).wall)));
        let released = write.applied_to(election.lease().unwrap().record(), 14);
        assert!(released.has_release_form());
        assert_eq!(released.history.newest(4).unwrap().ending, Ending::ProvenDead(Evidence::ContainerTerminated));
        assert_eq!(event.to_string(), "The Lease of web-0_1 was released: the container of the holder terminated.");
        observe(&mut election, released);
        assert_eq!(election.decide(at(14)).actions, [], "it is written once");
    }

    #[test]
    fn an_ended_instance_counts_if_it_covers_the_term() {
        for (ends, expected) in [
            (&[(5, 12)][..], TERMINATED),
            (&[(10, 11)], TERMINATED),
            (&[(20, 21), (5, 12)], TERMINATED),
            (&[(5, 12), (20, 21)], TERMINATED),
            (&[(5, 10)], Err(Doubt::RenewedAfterEnd)),
            (&[(11, 12)], Err(Doubt::StartedAfterTerm)),
            (&[(1, 4), (11, 13)], Err(Doubt::StartedAfterTerm)),
            (&[], Err(Doubt::NotTerminated)),
        ] {
            let mut election = election(held("web-0_1", 10, 12));
            show(&mut election, 13, pod("u", ends));
            let found = election.evidence().map(|(evidence, _)| evidence).ok_or_else(|| election.doubt().unwrap());
            assert_eq!(found, expected, "{ends:?}");
        }
    }

    #[test]
    fn what_the_kubelet_has_not_observed_proves_nothing() {
        for change in [
            |pod: &mut PodRecord| pod.containers[0].ends[0].started_at = None,
            |pod: &mut PodRecord| pod.containers[0].ends[0].finished_at = None,
            |pod: &mut PodRecord| pod.containers[0].ends[0].reason = "ContainerStatusUnknown".into(),
            |pod: &mut PodRecord| pod.host_pid = true,
            |pod: &mut PodRecord| pod.share_process_namespace = true,
            |pod: &mut PodRecord| pod.host_network = true,
            |pod: &mut PodRecord| pod.name = "web-1".into(),
            |pod: &mut PodRecord| pod.containers = [pod.containers[0].clone(), ContainerRecord::ended("b", [])].into(),
        ] {
            let mut election = election(held("web-0_1", 10, 12));
            let mut dead = pod("u", &[(5, 12)]);
            change(&mut dead);
            show(&mut election, 13, dead);
            assert_eq!((election.evidence(), write(&mut election, 13)), (None, None));
        }
    }

    /// The old process may live on, on a node that is cut off.
    #[test]
    fn a_later_pod_of_the_same_name_proves_nothing_about_the_holder_even_when_it_leads_again() {
        let mut election = election(held("web-0_1", 10, 12));
        show(&mut election, 12, pod("old", &[]));
        show(&mut election, 13, pod("new", &[(5, 12)]));
        assert_eq!((election.evidence(), election.doubt()), (None, Some(Doubt::NotTerminated)));
        observe(&mut election, held("web-1_1", 20, 21));
        observe(&mut election, held("web-0_1", 30, 31));
        show(&mut election, 32, pod("new", &[(5, 31)]));
        assert_eq!(election.evidence(), None, "it has acquired the Lease again");
        // A process of the new Pod.
        observe(&mut election, held("web-0_2", 40, 41));
        show(&mut election, 42, pod("new", &[(35, 41)]));
        assert!(election.evidence().is_some());
    }

    #[test]
    fn the_last_state_of_a_deleted_pod_counts_although_another_one_has_its_name() {
        let mut election = election(held("web-0_1", 10, 12));
        show(&mut election, 12, pod("old", &[]));
        show(&mut election, 15, pod("old", &[(5, 14)]));
        show(&mut election, 15, pod("new", &[]));
        assert!(election.evidence().is_some());
        observe(&mut election, held("web-0_1", 10, 14));
        assert!(election.evidence().is_some(), "the watch of Leases was behind");
    }

    #[test]
    fn a_lease_is_assisted_only_with_a_valid_annotation_and_the_label_and_without_candidates_or_a_pause() {
        for change in [
            |record: &mut LeaseRecord| record.acts.assist = None,
            |record: &mut LeaseRecord| record.acts.assist = Some(Annotation::Malformed("on".to_owned())),
            |record: &mut LeaseRecord| record.enrolled = false,
            |record: &mut LeaseRecord| record.hold = Some("works".to_owned()),
        ] {
            let mut record = held("web-0_1", 10, 12);
            change(&mut record);
            let mut election = election(record);
            show(&mut election, 13, pod("u", &[(5, 12)]));
            assert_eq!(write(&mut election, 13), None);
        }
        let mut election = election(held("web-0_1", 10, 12));
        let candidate =
            CandidateRecord { name: "c".to_owned(), lease_name: "l".to_owned(), ..CandidateRecord::default() };
        election.observe(at(12), Observation::Candidate { record: candidate, source: Source::Watch });
        show(&mut election, 13, pod("u", &[(5, 12)]));
        assert_eq!(election.assisted_pod(), None);
        assert_eq!(write(&mut election, 13), None);
    }

    #[test]
    fn the_pod_of_an_assisted_holder_is_known_without_evidence_and_whichever_container_it_runs_in() {
        let mut election = Election::new(Config::default(), "n", "l");
        observe(&mut election, held("web-0_1", 10, 12));
        let verdict = LeaseVerdict::Foreign { holder: "web-0_1".into() };
        assert_eq!(election.holder_pod(&verdict), None);
        let two = [ContainerRecord::ended("a", []), ContainerRecord::ended("b", [])].into();
        show(&mut election, 12, PodRecord { containers: two, ..pod("old", &[]) });
        show(&mut election, 13, pod("new", &[]));
        let uid = |election: &Election| election.holder_pod(&verdict).map(|pod| pod.uid);
        assert_eq!(uid(&election).as_deref(), Some("old"), "a later Pod of its name is another one");
        let on_host = PodRecord { host_network: true, ..pod("old", &[]) };
        show(&mut election, 14, on_host);
        assert_eq!(uid(&election), None, "its host name is that of the node");

        assert_eq!(election.namespace_of_pods(), "n");
        let mut elsewhere = held("", 10, 15);
        elsewhere.acts.assist = Some(Annotation::Valid(AssistOptions::read("pod-namespace=m").unwrap()));
        observe(&mut election, LeaseRecord { holder: None, ..elsewhere });
        assert_eq!((election.namespace_of_pods(), election.assisted_pod()), ("m", None));
    }

    #[test]
    fn a_release_removes_the_session_that_an_earlier_holder_left() {
        let session = SessionMark::read(Some("u.c.n.1/1/15"));
        let mut election = election(LeaseRecord { session, ..held("web-0_1", 10, 12) });
        show(&mut election, 13, pod("u", &[(5, 12)]));
        assert_eq!(write(&mut election, 13).unwrap().0.session, Set::Remove);
    }
}
