//! Which Pod and which Node belong to each candidate, and what they prove about the holder.

use std::sync::Arc;
use std::time::Duration;

use super::{Doubt, HolderEvidence, has_terminated, is_pod_of};
use crate::election::member::Member;
use crate::election::{Election, LeaseVerdict};
use crate::model::{CandidateKey, Evidence, Moment, NodeRecord, Observed, Pod, PodLabel, PodRecord};

/// Where the process of a candidate runs, as far as the watches have shown it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::election) struct CandidateHome {
    pod: Option<Arc<PodRecord>>,
    /// What the Pod's Node proves, and since when this is known.
    node_proof: Option<(Evidence, Moment)>,
}

impl Member {
    fn runs_on(&self, node: &str) -> bool {
        self.home.pod.as_ref().is_some_and(|pod| pod.node.as_deref() == Some(node))
    }
}

impl Election {
    /// Whether the Pod of a candidate runs on this Node.
    pub fn concerns_node(&self, node: &str) -> bool {
        self.members.values().any(|member| member.runs_on(node))
    }

    /// Records a version of a Pod, which may be its last one.
    pub(in crate::election) fn observe_pod(&mut self, pod: &Arc<PodRecord>) {
        for member in self.members.values_mut().filter(|member| member.record.runs_in(pod)) {
            if member.home.pod.as_ref().is_none_or(|known| known.uid != pod.uid) {
                member.home = CandidateHome::default();
            }
            member.home.pod = Some(Arc::clone(pod));
        }
        self.observe_assisted_pod(pod);
    }

    /// Records a version of a Node.
    pub(in crate::election) fn observe_node(&mut self, node: &NodeRecord, now: Moment) {
        let proof = node.proof();
        for member in self.members.values_mut().filter(|member| member.runs_on(&node.name)) {
            if member.home.node_proof.map(|(known, _)| known) != proof {
                member.home.node_proof = proof.map(|proof| (proof, now));
            }
        }
    }

    /// What proved the last holder dead, and how long after the last change of the Lease. `None` if nothing did.
    pub const fn evidence(&self) -> Option<(Evidence, Duration)> {
        self.holder_evidence.proof
    }

    /// Why the Pod of the holder proves nothing.
    pub const fn doubt(&self) -> Option<Doubt> {
        self.holder_evidence.doubt
    }

    /// The label that leads to the holder, if the Lease asks for a valid one.
    pub fn leader_label(&self) -> Option<&PodLabel> {
        self.lease.view.record().filter(|record| record.enrolled)?.acts.leader_label.as_deref()?.valid()
    }

    /// The Pod of a process that leads by this verdict, as far as it is known.
    pub fn holder_pod(&self, verdict: &LeaseVerdict) -> Option<Pod> {
        let record = self.lease.view.record()?;
        match verdict {
            LeaseVerdict::Held { holder, taken_up: true, .. } => {
                let member = self.members.get(holder)?;
                let own = |pod: &Arc<PodRecord>| is_pod_of(record, &member.record, pod).is_ok().then(|| reference(pod));
                member.record.pod.clone().or_else(|| member.home.pod.as_ref().and_then(own))
            }
            LeaseVerdict::Assisted { holder, .. } => self.identified_pod(holder).map(reference),
            _ => None,
        }
    }

    /// Checks what the evidence proves about the present holder.
    pub(in crate::election) fn judge_evidence(&mut self, now: Moment) {
        self.settle_assisted_holder();
        if !self.config.evidence.pods || self.holder_evidence.proof.is_some() {
            return;
        }
        let Some(changed_at) = self.lease.view.present().map(Observed::changed_at) else { return };
        let evidence = if self.is_assisted() {
            self.assisted_evidence()
        } else {
            let Some((observed, member)) = self.placed_holder() else { return };
            let evidence = self.evidence_about(observed, member);
            let is_free = evidence.is_ok() && self.lease.view.observe_death(now);
            evidence.and_then(|evidence| if is_free { Ok(evidence) } else { Err(Doubt::EarlierHolder) })
        };
        self.holder_evidence = HolderEvidence {
            doubt: evidence.err(),
            proof: evidence.ok().map(|evidence| (evidence, now.since(changed_at))),
        };
    }

    /// The Lease and the candidate of a holder whose session names a place.
    fn placed_holder(&self) -> Option<(&Observed, &Member)> {
        let observed = self.lease.view.present()?;
        let record = observed.record();
        record.session.pod_and_container()?;
        let member = self.members.get(&CandidateKey::hustings(record.holder.as_deref()?))?;
        Some((observed, member))
    }

    fn evidence_about(&self, observed: &Observed, member: &Member) -> Result<Evidence, Doubt> {
        let record = observed.record();
        let pod = member.home.pod.as_deref().ok_or(Doubt::PodUnknown)?;
        is_pod_of(record, &member.record, pod)?;
        // A holder that has renewed since then runs on a machine that is on.
        let by_node = member.home.node_proof.filter(|(_, since)| observed.changed_at() <= *since);
        match by_node.filter(|_| self.config.evidence.nodes) {
            Some((evidence, _)) => Ok(evidence),
            None => has_terminated(record, pod),
        }
    }
}

fn reference(pod: &Arc<PodRecord>) -> Pod {
    Pod { name: pod.name.to_string(), uid: pod.uid.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::{Config, EvidenceConfig, Observation, Source};
    use crate::model::{CandidateRecord, ContainerEnd, ContainerRecord, LeaseRecord, Now, Pod, SessionMark, WireTime};

    fn at(seconds: i64) -> Now {
        let micros = seconds * 1_000_000;
        Now { moment: Moment::from_micros(micros), wall: WireTime::from_micros(micros) }
    }

    /// An election whose holder's term began at 0 s, and whose holder renewed at these times.
    fn renewed(evidence: EvidenceConfig, renewals: &[i64]) -> Election {
        let mut election = Election::new(Config { evidence, ..Config::default() }, "n", "l");
        let candidate = CandidateRecord {
            name: "a".to_owned(),
            lease_name: "l".to_owned(),
            binary_version: "1.0".to_owned(),
            emulation_version: Some("1.0".to_owned()),
            session: Some("u.c.n.1".to_owned()),
            pod: Some(Pod { name: "a".to_owned(), uid: "u".to_owned() }),
            ..CandidateRecord::default()
        };
        election.observe(at(0), Observation::Candidate { record: candidate, source: Source::Watch });
        for seconds in [&[0], renewals].concat() {
            observe_renewal(&mut election, seconds);
        }
        election
    }

    fn observe_renewal(election: &mut Election, seconds: i64) {
        let record = LeaseRecord {
            resource_version: 5 + u64::try_from(seconds).unwrap(),
            holder: Some("a".to_owned()),
            session: SessionMark::read(Some("u.c.n.1/1/15")),
            acquire_time: Some(at(0).wall),
            renew_time: Some(at(seconds).wall),
            duration_seconds: 15,
            ..LeaseRecord::as_created()
        };
        election.observe(at(seconds), Observation::Lease { record, source: Source::Watch });
    }

    fn ended(seconds: i64) -> Observation {
        let containers = [ContainerRecord::ended("c", [ContainerEnd::at(at(seconds).wall, "Error")])].into();
        Observation::Pod { record: PodRecord { uid: "u".into(), containers, ..PodRecord::default() }.into() }
    }

    #[test]
    fn no_evidence_counts_unless_it_is_switched_on() {
        let evidence = EvidenceConfig::default();
        assert_eq!((evidence.pods, evidence.nodes), (false, false));
        let mut election = renewed(evidence, &[2]);
        election.observe(at(4), ended(3));
        assert_eq!((election.evidence(), election.doubt()), (None, None));
    }

    #[test]
    fn the_node_of_a_former_pod_proves_nothing_about_the_next_one() {
        let mut election = renewed(EvidenceConfig { pods: true, nodes: true }, &[2]);
        let pod = |uid: &str, node: &str| {
            let record = PodRecord { uid: uid.into(), node: Some(node.into()), ..PodRecord::default() };
            Observation::Pod { record: record.into() }
        };
        election.observe(at(3), pod("former", "m"));
        assert!(!election.concerns_node("m"), "that Pod is not the candidate's");
        election.observe(at(3), pod("u", "n"));
        let off = |node: &str| NodeRecord { name: node.to_owned(), is_out_of_service: true, is_ready: false };
        election.observe(at(3), Observation::Node { record: off("m") });
        assert_eq!(election.evidence(), None);
        election.observe(at(3), Observation::Node { record: off("n") });
        assert_eq!(election.evidence().map(|(evidence, _)| evidence), Some(Evidence::NodeOutOfService));
        let record = election.candidates().next().unwrap().clone();
        let owner = Some(Pod { name: "a".to_owned(), uid: "v".to_owned() });
        let moved = CandidateRecord { resource_version: 7, pod: owner, ..record };
        election.observe(at(4), Observation::Candidate { record: moved, source: Source::Watch });
        election.observe(at(4), pod("v", "o"));
        let home = &election.members.values().next().unwrap().home;
        assert!(home.node_proof.is_none() && election.concerns_node("o"));
    }

    #[test]
    fn the_pod_of_a_holder_is_known_by_its_candidate_or_the_session_of_a_static_pod_once_its_term_has_begun() {
        let held = |holder: &str, taken_up| LeaseVerdict::Held {
            holder: CandidateKey::hustings(holder),
            preferred: None,
            taken_up,
        };
        let mut election = renewed(EvidenceConfig::default(), &[]);
        let own = Some(Pod { name: "a".to_owned(), uid: "u".to_owned() });
        // The Pod itself need not be known.
        assert_eq!(election.holder_pod(&held("a", true)), own);
        for verdict in [held("a", false), held("b", true), LeaseVerdict::Foreign { holder: "a".into() }] {
            assert_eq!(election.holder_pod(&verdict), None, "{verdict:?}");
        }
        // A static pod owns no candidate.
        let record = election.candidates().next().unwrap().clone();
        let without_owner = CandidateRecord { resource_version: 7, pod: None, ..record };
        election.observe(at(1), Observation::Candidate { record: without_owner, source: Source::Watch });
        for (hash, expected) in [(None, None), (Some("v"), None), (Some("u"), Some("mirror"))] {
            let config_hash = hash.map(Into::into);
            let pod = PodRecord { name: "a".into(), uid: "mirror".into(), config_hash, ..PodRecord::default() };
            election.observe(at(1), Observation::Pod { record: pod.into() });
            let found = election.holder_pod(&held("a", true)).map(|pod| pod.uid);
            assert_eq!(found.as_deref(), expected, "{hash:?}");
        }
    }

    /// An administrator may be wrong, and the processes of the node may run.
    #[test]
    fn a_node_that_is_off_proves_nothing_about_a_holder_that_renews_afterwards() {
        let mut election = renewed(EvidenceConfig { pods: true, nodes: true }, &[2]);
        let running = PodRecord { uid: "u".into(), node: Some("n".into()), ..PodRecord::default() };
        election.observe(at(3), Observation::Pod { record: running.into() });
        let off = NodeRecord { name: "n".to_owned(), is_out_of_service: true, is_ready: false };
        election.observe(at(3), Observation::Node { record: off.clone() });
        assert!(election.evidence().is_some());
        observe_renewal(&mut election, 4);
        election.observe(at(5), Observation::Node { record: off.clone() });
        assert_eq!((election.evidence(), election.doubt()), (None, Some(Doubt::NotTerminated)));
        // It is declared off again.
        election.observe(at(6), Observation::Node { record: NodeRecord { is_ready: true, ..off.clone() } });
        election.observe(at(7), Observation::Node { record: off });
        assert!(election.evidence().is_some());
    }

    #[test]
    fn the_first_proof_counts_until_the_holder_renews_whatever_the_watches_show_first() {
        let mut election = renewed(EvidenceConfig { pods: true, ..EvidenceConfig::default() }, &[2]);
        assert_eq!(election.doubt(), Some(Doubt::PodUnknown));
        for seconds in [4, 8] {
            election.observe(at(seconds), ended(3));
            let proof = Some((Evidence::ContainerTerminated, Duration::from_secs(2)));
            assert_eq!(election.evidence(), proof, "at {seconds} s");
        }
        let asked = LeaseRecord {
            resource_version: 8,
            preferred_holder: Some("b".to_owned()),
            ..election.lease().unwrap().record().clone()
        };
        election.observe(at(8), Observation::Lease { record: asked, source: Source::Watch });
        assert!(election.evidence().is_some(), "a request to hand over is no renewal");
        // The watch of Leases was behind: the holder renewed before its container ended.
        observe_renewal(&mut election, 3);
        assert!(election.lease().unwrap().record().resource_version == 8, "an older version does not count");
        observe_renewal(&mut election, 9);
        assert_eq!((election.evidence(), election.doubt()), (None, Some(Doubt::RenewedAfterEnd)));
        election.observe(at(10), ended(9));
        assert!(election.evidence().is_some());
    }
}
