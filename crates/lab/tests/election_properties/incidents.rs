//! Incidents that may happen to a component and its Lease.

use hustings_core::model::{CandidateRecord, LeaseActs, LeaseRecord, Pod};
use proptest::prelude::*;
use proptest::sample::select;

use crate::acts;
use crate::election_world::World;

/// One event in the life of a component.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Incident {
    Join { name: usize, emulation: u64, live: bool, lease_seconds: u32, clock_seconds: i64 },
    Kill(usize),
    Revive(usize),
    Leave,
    Release,
    DeleteCandidate(usize),
    DeleteLease,
    CreateLeaseAgain,
    ClaimByClientGo,
    Unlabel,
    EditDuration(u32),
    EditHolder(usize),
    EditPriority(usize, i32),
    Dissent(usize),
    Pause,
    Act(acts::Incident),
    Restart,
    TakeOver,
    Fail(usize),
}

pub(crate) fn incident() -> impl Strategy<Value = Incident> {
    let join = ((0..4_usize, 28..33_u64), (any::<bool>(), select(vec![15, 15, 30]), select(vec![-3600, 0, 0, 3600])));
    prop_oneof![
        6 => join.prop_map(|((name, emulation), (live, lease_seconds, clock_seconds))| {
            Incident::Join { name, emulation, live, lease_seconds, clock_seconds }
        }),
        2 => (0..4_usize).prop_map(Incident::Kill),
        3 => (0..4_usize).prop_map(Incident::Revive),
        2 => Just(Incident::Leave),
        1 => Just(Incident::Release),
        1 => (0..4_usize).prop_map(Incident::DeleteCandidate),
        1 => Just(Incident::DeleteLease),
        1 => Just(Incident::CreateLeaseAgain),
        1 => Just(Incident::ClaimByClientGo),
        1 => Just(Incident::Unlabel),
        1 => select(vec![1, 7, 40]).prop_map(Incident::EditDuration),
        1 => (0..4_usize).prop_map(Incident::EditHolder),
        1 => (0..4_usize, 0..3).prop_map(|(name, priority)| Incident::EditPriority(name, priority)),
        1 => (0..4_usize).prop_map(Incident::Dissent),
        1 => Just(Incident::Pause),
        4 => acts::incident().prop_map(Incident::Act),
        1 => Just(Incident::Restart),
        1 => Just(Incident::TakeOver),
        1 => (1..5_usize).prop_map(Incident::Fail),
    ]
}

pub(crate) fn name(index: usize) -> String {
    format!("c-{index}")
}

pub(crate) fn happen(world: &mut World, incident: Incident) {
    match incident {
        Incident::Join { name: index, emulation, live, lease_seconds, clock_seconds } => {
            let record = CandidateRecord {
                name: name(index),
                lease_name: "l".to_owned(),
                owned: true,
                pod: Some(Pod { name: name(index), uid: name(index) }),
                binary_version: "1.32".to_owned(),
                emulation_version: Some(format!("1.{emulation}")),
                lease_duration_seconds: Some(lease_seconds),
                ..CandidateRecord::default()
            };
            if world.candidate(&record.name).is_none() {
                world.put_candidate(record, |bare| {
                    (bare.process.crashed, bare.lease_seconds) = (!live, lease_seconds);
                    bare.process.set_clock(0, 0, clock_seconds * 1_000_000);
                });
            }
        }
        Incident::Kill(index) => {
            world.kill(&name(index));
            world.report_end(&name(index));
        }
        Incident::Revive(index) => world.revive(&name(index)),
        Incident::Leave | Incident::Release => {
            let holder = world.lease().and_then(|lease| lease.holder.clone());
            if let Some(holder) = holder.filter(|holder| world.is_leading(holder)) {
                if matches!(incident, Incident::Leave) {
                    world.leave(&holder);
                } else {
                    world.release(&holder);
                }
            }
        }
        // Premise: nobody deletes a held Lease before the status of a candidate shows its term.
        Incident::DeleteCandidate(index) if world.lease().is_some() => world.delete_candidate(&name(index)),
        Incident::DeleteLease | Incident::CreateLeaseAgain if world.status_tells_of_holder() => {
            world.lab.delete_lease();
            if matches!(incident, Incident::CreateLeaseAgain) {
                world.put_lease(LeaseRecord::as_created());
            }
        }
        Incident::DeleteCandidate(_) | Incident::DeleteLease | Incident::CreateLeaseAgain => {}
        Incident::EditPriority(index, priority) => {
            world.edit_candidate(&name(index), |record| record.priority = priority);
        }
        Incident::Dissent(index) => {
            world.edit_candidate(&name(index), |record| record.strategy = Some("example.com/Mine".to_owned()));
        }
        Incident::Unlabel
        | Incident::EditDuration(_)
        | Incident::EditHolder(_)
        | Incident::ClaimByClientGo
        | Incident::Pause => {
            if let Some(mut lease) = world.lease().cloned().filter(|lease| lease.holder.is_some() && !lease.is_open()) {
                match incident {
                    Incident::EditDuration(seconds) => lease.duration_seconds = seconds,
                    Incident::EditHolder(index) => lease.holder = Some(name(index)),
                    // client-go keeps the annotations, and relies on its own duration, even if a person shortened it.
                    Incident::ClaimByClientGo => {
                        lease.holder = Some("client-go".to_owned());
                        lease.duration_seconds = 15;
                        lease.transitions = lease.transitions.saturating_add(1);
                    }
                    Incident::Pause => lease.hold = Some("maintenance".to_owned()),
                    _ => lease.enrolled = false,
                }
                world.put_lease(lease);
            }
        }
        Incident::Act(act) => acts::happen(world, act),
        Incident::Restart => world.restart(),
        Incident::TakeOver => world.take_over(),
        Incident::Fail(count) => world.lab.server.faults.failing = count,
    }
}

/// Ends all disagreement: no candidate wants another strategy, no act of an administrator applies, and elections are
/// not paused.
pub(crate) fn agree(world: &mut World) {
    for index in 0..4 {
        world.edit_candidate(&name(index), |record| {
            record.strategy = None;
            record.acts.exclude = None;
        });
    }
    if let Some(lease) =
        world.lease().cloned().filter(|lease| lease.hold.is_some() || lease.acts != LeaseActs::default())
    {
        world.put_lease(LeaseRecord { hold: None, acts: LeaseActs::default(), ..lease });
    }
}
