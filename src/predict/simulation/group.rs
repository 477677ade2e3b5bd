//! A group of replicas at the start of a simulation.

use std::time::Duration;

use hustings_core::elector::{CandidateConfig, Config, Durations, ElectorMode, Timing};
use hustings_core::model::{CandidateRecord, LeaseActs, RecordedStatus, Strategy};
use hustings_lab::{Lab, Replica, WorkStops};

use super::{connect, run};

/// How long the group may take to get a leader after its start.
const SETTLING: Duration = Duration::from_mins(1);

/// How long the group then runs.
pub(crate) const REST: Duration = Duration::from_secs(30);

/// The replicas of one Lease. The default is a group without replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The name of the Lease.
    pub(crate) lease: String,
    /// The live replicas, in the order of their creation. In direct mode, only the holder is known.
    pub(crate) replicas: Vec<ReplicaSpec>,
    /// The name of the replica that leads. It may be none of `replicas`.
    pub(crate) leader: Option<String>,
    /// The hold on the Lease.
    pub(crate) hold: Option<String>,
    /// The acts on the Lease.
    pub(crate) acts: LeaseActs,
    /// The strategy of the replicas.
    pub(crate) strategy: Strategy,
    /// Whether the replicas elect among themselves.
    pub(crate) is_direct: bool,
    /// The lease duration; `None` for the default.
    pub(crate) lease_seconds: Option<u32>,
    /// How long a replica's work takes to stop.
    pub(crate) shutdown: Duration,
}

/// A replica to start.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaSpec {
    pub(crate) name: String,
    pub(crate) binary_version: String,
    pub(crate) emulation_version: Option<String>,
    pub(crate) priority: Option<i32>,
    /// Its candidate in the cluster, if any.
    pub(crate) candidate: Option<CandidateRecord>,
}

impl Group {
    /// The timing of every elector: the defaults, scaled to the lease duration.
    pub(crate) fn timing(&self) -> Timing {
        let defaults = Durations::default();
        let lease_duration_seconds = self.lease_seconds.unwrap_or(defaults.lease_duration_seconds);
        let lease = Duration::from_secs(u64::from(lease_duration_seconds));
        let durations = Durations {
            lease_duration_seconds,
            renew_deadline: lease * 2 / 3,
            retry_period: lease * 2 / 15,
            ..defaults
        };
        // The scaled defaults satisfy every rule of `Timing`, whatever the lease duration is.
        Timing::new(durations.with_fitting_request_timeout()).unwrap_or_default()
    }

    /// Adds replicas of the same version, or removes some, until there are as many as wanted. The leader always stays.
    pub(crate) fn resize(&mut self, wanted: usize) {
        let Self { replicas, leader, .. } = self;
        while replicas.len() > wanted
            && let Some(index) = replicas.iter().rposition(|replica| Some(&replica.name) != leader.as_ref())
        {
            replicas.remove(index);
        }
        let like = replicas.first().cloned().unwrap_or_default();
        for number in replicas.len()..wanted {
            let name = format!("old-{}", number.saturating_add(1));
            replicas.push(ReplicaSpec { name, candidate: None, ..like.clone() });
        }
    }

    /// Starts the replicas, the leader first, and lets the group settle. Returns their numbers in the lab.
    pub(crate) fn start(&self, lab: &mut Lab) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.replicas.len()).collect();
        // The others start once the leader leads, so that the same replica leads as in the cluster.
        order.sort_by_key(|index| Some(&self.replicas[*index].name) != self.leader.as_ref());
        let mut numbers = vec![0; self.replicas.len()];
        for (position, index) in order.into_iter().enumerate() {
            numbers[index] = self.add(lab, self.replicas[index].clone());
            if position == 0 {
                run(lab, SETTLING, |lab| lab.leader().is_some());
                lab.edit_lease(|lease| {
                    lease.hold.clone_from(&self.hold);
                    lease.acts.clone_from(&self.acts);
                });
            }
        }
        run(lab, SETTLING, |lab| lab.leader().is_some());
        run(lab, REST, |_| false);
        numbers
    }

    /// Starts a further replica of this group. Returns its number in the lab.
    pub(crate) fn add(&self, lab: &mut Lab, spec: ReplicaSpec) -> usize {
        let ReplicaSpec { name, binary_version, emulation_version, priority, candidate } = spec;
        let strategy = Some(self.strategy.clone());
        let declared =
            CandidateConfig { binary_version, emulation_version, strategy, priority, pod: None, fallback: true };
        let mode = if self.is_direct { ElectorMode::Direct } else { ElectorMode::Coordinated(Box::new(declared)) };
        let config = Config {
            lease_name: self.lease.clone(),
            ..hustings_lab::config(&name, &format!("session-of-{name}"), mode, self.timing())
        };
        let mut replica = Replica::new(config, lab.now_micros);
        connect(&mut replica.process);
        replica.work_stops = WorkStops::After(self.shutdown);
        if let Some(candidate) = candidate {
            let record = lab.server.store.put_candidate(CandidateRecord {
                uid: String::new(),
                lease_name: self.lease.clone(),
                status: RecordedStatus::default(),
                ..candidate
            });
            let key = record.key();
            lab.candidate_changed(key);
        }
        lab.add(replica)
    }
}
