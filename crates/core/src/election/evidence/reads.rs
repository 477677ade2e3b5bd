//! When an election reads the Pod or the Node of a silent holder, and what the answers change.

use std::time::Duration;

use super::{Doubt, has_terminated, is_pod_of, place};
use crate::election::plan::Plan;
use crate::election::{Action, Election, LeaseVerdict, Timer};
use crate::model::{
    CandidateKey, CandidateKind, CandidateRecord, Evidence, LeaseRecord, Moment, NodeRecord, Observed, PodRecord,
};

impl Election {
    /// Reads the Pod of a silent holder, alternating with its Node, if the configuration allows that.
    pub(in crate::election) fn seek_evidence(&mut self, verdict: &LeaseVerdict, plan: &mut Plan) {
        let LeaseVerdict::Held { holder, taken_up: true, .. } = verdict else { return };
        if !self.config.evidence.pods || holder.kind == CandidateKind::Native {
            return;
        }
        let (Some(observed), Some(member)) = (self.lease.view.present(), self.members.get(holder)) else { return };
        if place(observed.record()).is_none() {
            return;
        }
        // A static pod's mirror owns no candidate, and the candidate usually has the mirror's name.
        let pod = member.record.pod.as_ref().map_or(&member.record.name, |pod| &pod.name).as_str().into();
        let now = plan.now.moment;
        let silent_from = self.holder_watch.silent_from(observed);
        let due = self.holder_watch.read_at.map_or(silent_from, |at| at.after(self.config.evidence.interval));
        if now < due {
            plan.wake_at(Timer::Evidence, due);
            return;
        }
        self.holder_watch.read_at = Some(now);
        plan.wake_at(Timer::Evidence, now.after(self.config.evidence.interval));
        let reads_node = self.config.evidence.nodes && !self.holder_watch.has_read_node;
        let node = self.holder_watch.node.clone().filter(|_| reads_node);
        self.holder_watch.has_read_node = node.is_some();
        plan.act(node.map_or(Action::ReadPod { pod }, |node| Action::ReadNode { node }));
    }

    /// Records the Pod that a read returned; `None` if it is gone.
    pub(in crate::election) fn observe_pod(&mut self, pod: Option<&PodRecord>, now: Moment) {
        let Some((record, candidate)) = self.silent_holder() else { return };
        let own = pod.ok_or(Doubt::PodMissing).and_then(|pod| is_pod_of(record, candidate, pod).map(|()| pod));
        let termination = own.and_then(|pod| has_terminated(record, pod));
        if let Ok(pod) = own {
            self.holder_watch.node = pod.node.as_deref().map(Into::into);
        }
        self.judge_evidence(termination, now);
    }

    /// Records the Node that a read returned; `None` if it is gone. A missing Node proves nothing: no administrator has
    /// declared it out of service.
    pub(in crate::election) fn observe_node(&mut self, node: Option<&NodeRecord>, now: Moment) {
        let is_asked = |node: &&NodeRecord| self.holder_watch.node.as_deref() == Some(&node.name);
        if node.filter(is_asked).is_some_and(|node| node.is_out_of_service && !node.is_ready) {
            self.judge_evidence(Ok(Evidence::NodeOutOfService), now);
        }
    }

    /// What proved the last holder dead, and after how long a silence. `None` if nothing did.
    pub const fn evidence(&self) -> Option<(Evidence, Duration)> {
        self.holder_watch.proof
    }

    /// Why the last read of the holder's Pod proved nothing.
    pub const fn doubt(&self) -> Option<Doubt> {
        self.holder_watch.doubt
    }

    /// The usual interval between two renewals of the holder, once one was observed.
    pub const fn renewal_interval(&self) -> Option<Duration> {
        self.holder_watch.interval
    }

    fn judge_evidence(&mut self, evidence: Result<Evidence, Doubt>, now: Moment) {
        let Some(changed_at) = self.lease.view.present().map(Observed::changed_at) else { return };
        let counted = evidence.and_then(|evidence| {
            let is_free = self.lease.view.observe_death(now);
            if is_free { Ok((evidence, now.since(changed_at))) } else { Err(Doubt::EarlierHolder) }
        });
        self.holder_watch.doubt = counted.err();
        self.holder_watch.proof = self.holder_watch.proof.or(counted.ok());
    }

    /// The record and the candidate of a holder whose Pod is being read.
    fn silent_holder(&self) -> Option<(&LeaseRecord, &CandidateRecord)> {
        self.holder_watch.read_at?;
        let record = self.lease.view.record()?;
        let member = self.members.get(&CandidateKey::hustings(record.holder.as_deref()?))?;
        Some((record, &member.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::{Config, EvidenceConfig, Observation, Source};
    use crate::model::{ContainerEnd, Now, Pod, SessionMark, WireTime};

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
            pod: Some(Pod { name: "a".to_owned(), uid: "u".to_owned() }),
            ..CandidateRecord::default()
        };
        election.observe(at(0), Observation::Candidate { record: candidate, source: Source::Watch });
        for seconds in [&[0], renewals].concat() {
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
        election
    }

    #[test]
    fn no_evidence_counts_unless_it_is_switched_on() {
        let evidence = EvidenceConfig::default();
        assert_eq!((evidence.pods, evidence.nodes), (false, false));
        assert_eq!(renewed(evidence, &[2, 4]).renewal_interval(), None);
    }

    #[test]
    fn the_first_proof_of_a_death_counts() {
        let mut election = renewed(EvidenceConfig { pods: true, ..EvidenceConfig::default() }, &[2]);
        let decision = election.decide(at(6));
        assert!(decision.actions.contains(&Action::ReadPod { pod: "a".into() }), "{:?}", decision.actions);
        let end = ContainerEnd { container: "c".to_owned(), finished_at: Some(at(3).wall), reason: "Error".to_owned() };
        let pod = PodRecord { uid: "u".to_owned(), ends: vec![end], ..PodRecord::default() };
        for seconds in [6, 8] {
            election.observe(at(seconds), Observation::Pod { record: Some(pod.clone()) });
            let silence = Duration::from_secs(4);
            assert_eq!(election.evidence(), Some((Evidence::ContainerTerminated, silence)), "at {seconds} s");
        }
        let asked = LeaseRecord {
            resource_version: 8,
            preferred_holder: Some("b".to_owned()),
            ..election.lease().unwrap().record().clone()
        };
        election.observe(at(8), Observation::Lease { record: asked, source: Source::Watch });
        assert!(election.evidence().is_some(), "a request to hand over is no renewal");
        let renewed = LeaseRecord {
            resource_version: 9,
            renew_time: Some(at(9).wall),
            ..election.lease().unwrap().record().clone()
        };
        election.observe(at(9), Observation::Lease { record: renewed, source: Source::Watch });
        election.observe(at(9), Observation::Pod { record: Some(pod) });
        assert_eq!((election.evidence(), election.doubt()), (None, None), "that answer is older than the renewal");
    }
}
