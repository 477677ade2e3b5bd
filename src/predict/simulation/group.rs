//! A group of replicas at the start of a simulation.

use std::time::Duration;

use hustings_core::elector::{self, Durations, ElectorMode, FailOpen, Timing};
use hustings_core::model::{CandidateRecord, LeaseActs, Nomination, RecordedStatus, Strategy};

use super::{NewReplica, Simulation};

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
        let renew_deadline = lease * 2 / 3;
        let durations = Durations {
            lease_duration_seconds,
            renew_deadline,
            retry_period: lease * 2 / 15,
            request_timeout: defaults.request_timeout.min(renew_deadline / 2),
            ..defaults
        };
        // The scaled defaults satisfy every rule of `Timing`, whatever the lease duration is.
        Timing::new(durations).unwrap_or_default()
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

    /// Starts the replicas, the leader first, and lets the group settle. Returns their numbers in the simulation.
    pub(crate) fn start(&self, simulation: &mut Simulation) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.replicas.len()).collect();
        // The others start once the leader leads, so that the same replica leads as in the cluster.
        order.sort_by_key(|index| Some(&self.replicas[*index].name) != self.leader.as_ref());
        let mut numbers = vec![0; self.replicas.len()];
        for (position, index) in order.into_iter().enumerate() {
            numbers[index] = simulation.start(self.replica(self.replicas[index].clone()));
            if position == 0 {
                simulation.run_until(SETTLING, |simulation| simulation.leader().is_some());
                simulation.edit_lease(|lease| {
                    lease.hold.clone_from(&self.hold);
                    lease.acts.clone_from(&self.acts);
                });
            }
        }
        simulation.run_until(SETTLING, |simulation| simulation.leader().is_some());
        simulation.run_until(REST, |_| false);
        numbers
    }

    /// A further replica of this group.
    pub(crate) fn replica(&self, spec: ReplicaSpec) -> NewReplica {
        let ReplicaSpec { name, binary_version, emulation_version, priority, candidate } = spec;
        let candidate = candidate.map(|candidate| CandidateRecord {
            uid: String::new(),
            lease_name: self.lease.clone(),
            status: RecordedStatus::default(),
            ..candidate
        });
        let (session, timing) = (format!("session-of-{name}"), self.timing());
        let strategy = &self.strategy;
        let config = elector::Config {
            identity: name.clone(),
            lease_name: self.lease.clone(),
            session: session.clone(),
            mode: if self.is_direct { ElectorMode::Direct } else { ElectorMode::Coordinated },
            strategy: strategy.clone(),
            fallback: true,
            timing,
            fail_open: FailOpen::Off,
            keeps_on_stop: false,
        };
        let nomination = Nomination {
            name,
            lease_name: self.lease.clone(),
            binary_version,
            emulation_version,
            strategy: Some(strategy.as_str().to_owned()),
            priority,
            lease_duration_seconds: timing.lease_duration_seconds(),
            session,
            pod: None,
        };
        NewReplica { config, nomination, shutdown: self.shutdown, candidate }
    }
}
