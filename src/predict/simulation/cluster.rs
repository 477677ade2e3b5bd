//! Reads the input of a simulation from a Lease and its candidates: the replicas, their versions, the timing and the
//! acts.

use std::time::Duration;

use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_core::model::{CandidateKind, CandidateRecord, CandidateState, Hold, LeaseActs, Strategy, Transfer};
use hustings_core::ranking::Rule;

use super::group::{Group, ReplicaSpec};
use crate::base::hint::Hinted;

/// Builds the group of this Lease.
///
/// # Errors
/// Fails if the simulation cannot reproduce how the group elects.
pub(crate) fn group(name: &str, lease: Option<&ReadLease>, candidates: &[ReadCandidate]) -> Result<Group, Hinted> {
    const OFFLINE: &str = "simulate without the cluster: leave out LEASE, and pass --from, --to and --replicas";
    if candidates.iter().any(|candidate| candidate.record.kind == CandidateKind::Native) {
        let message = "the Lease has candidates of coordination.k8s.io, which this command cannot simulate";
        return Err(Hinted::new(message, OFFLINE));
    }
    let record = lease.map(|lease| &lease.record);
    let hold = record.and_then(|record| Hold::read(record.hold.as_deref()));
    let strategy = candidates.iter().find_map(|candidate| {
        let Strategy::ThirdParty(name) = candidate.record.standing().ok()?.strategy else { return None };
        Some(name)
    });
    if let Some(strategy) = strategy {
        return Err(Hinted::new(
            format!("a candidate asks for the strategy {strategy:?} of another controller"),
            OFFLINE,
        ));
    }
    let mut live: Vec<&CandidateRecord> =
        candidates.iter().map(|candidate| &candidate.record).filter(|record| lives(record)).collect();
    live.sort_by(|one, other| (one.creation_time, &one.name).cmp(&(other.creation_time, &other.name)));
    let mut replicas: Vec<_> = live.iter().map(|record| spec(record)).collect();
    let holder = record.and_then(|record| record.holder.clone());
    let is_direct = candidates.is_empty();
    if is_direct {
        let (Some(name), true) = (holder.clone(), record.is_some_and(|record| record.token.is_some())) else {
            return Err(Hinted::new(
                "the Lease has no live candidate, so it is not part of any Hustings election",
                OFFLINE,
            ));
        };
        replicas.push(ReplicaSpec { name, ..ReplicaSpec::default() });
    }
    if replicas.is_empty() {
        return Err(Hinted::new("none of the candidates is known to be live and admissible", OFFLINE));
    }
    let standings: Vec<_> = live.iter().filter_map(|record| record.standing().ok()).collect();
    let rule = Rule::of(standings.iter().map(|standing| (&standing.binary_version, &standing.strategy)));
    let strategy = rule.strategy().clone();
    let declared = live.iter().filter_map(|record| record.lease_duration_seconds).max();
    let of_lease = record.filter(|record| record.session.stamp().is_some()).map(|record| record.duration_seconds);
    Ok(Group {
        lease: name.to_owned(),
        replicas,
        leader: holder,
        // The simulated controller writes the other kinds of hold itself.
        hold: hold.filter(|hold| matches!(hold, Hold::Pause(_))).map(|hold| hold.to_string()),
        acts: acts(record.map(|record| record.acts.clone()).unwrap_or_default()),
        strategy,
        is_direct,
        lease_seconds: of_lease.or(declared),
        shutdown: Duration::ZERO,
    })
}

/// Drops a transfer to a named replica, which may not be part of the simulation.
fn acts(acts: LeaseActs) -> LeaseActs {
    LeaseActs { transfer: acts.transfer.filter(|to| *to == Transfer::Any), ..acts }
}

fn lives(record: &CandidateRecord) -> bool {
    let is_out = matches!(record.status.state, Some(CandidateState::Unresponsive | CandidateState::Invalid));
    !is_out && record.standing().is_ok()
}

fn spec(record: &CandidateRecord) -> ReplicaSpec {
    ReplicaSpec {
        name: record.name.clone(),
        binary_version: record.binary_version.clone(),
        emulation_version: record.emulation_version.clone(),
        priority: Some(record.priority),
        candidate: Some(record.clone()),
    }
}
