//! Properties of every election with native candidates, whatever happens: S3 to S5, W1, L1 and L2.
//!
//! The world checks S3 and S4 at each write: no grant is written while a holder relies on the Lease, and none goes to a
//! candidate that has not proved itself live. client-go itself must ensure S1 among native holders.

#[path = "election_world/world.rs"]
mod election_world;

use std::time::Duration;

use election_world::World;
use hustings_core::election::Config;
use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord};
use hustings_lab::client_go::Stands;
use proptest::prelude::*;
use proptest::sample::select;

/// After a person has deleted a native candidate or its `renewTime`, client-go restores it within this time.
const RESTORES: Duration = Duration::from_secs(301);

/// One event in the life of a component.
#[derive(Clone, Copy, Debug)]
enum Incident {
    /// A replica with a native candidate starts, or restarts under the same name.
    Native {
        name: usize,
        emulation: u64,
        clock_seconds: i64,
    },
    /// A replica with a candidate of `hustings.io` starts.
    Hustings {
        name: usize,
        emulation: u64,
    },
    /// A replica of plain client-go starts, perhaps under the name of a candidate.
    Plain {
        name: usize,
    },
    Kill(usize),
    Stop(usize),
    KillHustings(usize),
    Revive(usize),
    LeaveOrRelease(bool),
    DeleteCandidate(usize),
    /// A person replaces a native candidate with one without times.
    Unrenew(usize),
    DeleteLease,
    Unlabel,
    Pause,
    Gate(bool),
    Restart,
    TakeOver,
    Fail(usize),
}

fn incident() -> impl Strategy<Value = Incident> {
    let native = (0..3_usize, 28..33_u64, select(vec![-3600, 0, 0, 3600]));
    prop_oneof![
        8 => native.prop_map(|(name, emulation, clock_seconds)| Incident::Native { name, emulation, clock_seconds }),
        4 => (0..3_usize, 28..33_u64).prop_map(|(name, emulation)| Incident::Hustings { name, emulation }),
        2 => (0..5_usize).prop_map(|name| Incident::Plain { name }),
        3 => (0..5_usize).prop_map(Incident::Kill),
        3 => (0..5_usize).prop_map(Incident::Stop),
        1 => (0..3_usize).prop_map(Incident::KillHustings),
        2 => (0..3_usize).prop_map(Incident::Revive),
        1 => any::<bool>().prop_map(Incident::LeaveOrRelease),
        1 => (0..3_usize).prop_map(Incident::DeleteCandidate),
        1 => (0..3_usize).prop_map(Incident::Unrenew),
        1 => Just(Incident::DeleteLease),
        1 => Just(Incident::Unlabel),
        1 => Just(Incident::Pause),
        2 => any::<bool>().prop_map(Incident::Gate),
        1 => Just(Incident::Restart),
        1 => Just(Incident::TakeOver),
        1 => (1..5_usize).prop_map(Incident::Fail),
    ]
}

fn native(index: usize) -> String {
    format!("n-{index}")
}

fn hustings(index: usize) -> String {
    format!("h-{index}")
}

fn candidate(kind: CandidateKind, name: String, emulation: u64) -> CandidateRecord {
    CandidateRecord {
        kind,
        name,
        lease_name: "l".to_owned(),
        owned: kind == CandidateKind::Hustings,
        binary_version: "1.32".to_owned(),
        emulation_version: Some(format!("1.{emulation}")),
        ..CandidateRecord::default()
    }
}

fn happen(world: &mut World, incident: Incident) {
    match incident {
        Incident::Native { name, emulation, clock_seconds } => {
            let name = native(name);
            let index = world.lab.start_native(&name, Stands::Coordinated, 15, clock_seconds * 1_000_000);
            // client-go does not change the versions of an existing candidate.
            if world.lab.server.store.candidate(CandidateKey::native(&name)).is_none() {
                world.lab.put_native_candidate(index, candidate(CandidateKind::Native, name, emulation));
            } else {
                world.ack(&name);
            }
        }
        Incident::Hustings { name, emulation } => {
            let record = candidate(CandidateKind::Hustings, hustings(name), emulation);
            if world.candidate(&record.name).is_none() {
                world.put_candidate(record, |_| {});
            }
        }
        Incident::Plain { name } => {
            world.lab.start_native(&native(name), Stands::Plain, 15, 0);
        }
        Incident::Kill(name) => world.kill(&native(name)),
        Incident::Stop(name) => world.stop_native(&native(name)),
        Incident::KillHustings(name) => world.kill(&hustings(name)),
        Incident::Revive(name) => world.revive(&hustings(name)),
        Incident::LeaveOrRelease(leaves) => {
            let holder = world.lease().and_then(|lease| lease.holder.clone());
            if let Some(holder) = holder.filter(|holder| holder.starts_with("h-") && world.is_leading(holder)) {
                if leaves { world.leave(&holder) } else { world.release(&holder) }
            }
        }
        // Premise: nobody deletes a held Lease before the status of a candidate shows its term.
        Incident::DeleteCandidate(name) if world.lease().is_some() => world.delete_candidate(&native(name)),
        Incident::DeleteLease if world.status_tells_of_holder() => world.lab.delete_lease(),
        // A ping is conditional only on the uid, so a controller with a late watch may still send one.
        Incident::Unrenew(name) if world.lag.is_zero() => {
            world.edit_candidate(&native(name), |record| (record.ping_time, record.renew_time) = (None, None));
        }
        Incident::DeleteCandidate(_) | Incident::DeleteLease | Incident::Unrenew(_) => {}
        Incident::Unlabel | Incident::Pause => {
            if let Some(mut lease) = world.lease().cloned().filter(|lease| lease.holder.is_some() && !lease.is_open()) {
                if matches!(incident, Incident::Pause) {
                    lease.hold = Some("maintenance".to_owned());
                } else {
                    lease.enrolled = false;
                }
                world.put_lease(lease);
            }
        }
        Incident::Gate(is_on) => world.lab.server.store.keep_native_fields(is_on),
        Incident::Restart => world.restart(),
        Incident::TakeOver => world.take_over(),
        Incident::Fail(count) => world.lab.server.faults.failing = count,
    }
}

/// Ends all disturbances: the gate is on, elections are not paused, and plain electors are gone.
fn calm(world: &mut World) {
    world.lab.server.faults.failing = 0;
    world.lab.server.store.keep_native_fields(true);
    for native in &mut world.lab.natives {
        native.process.crashed |= native.elector.stands() == Stands::Plain;
    }
    if let Some(lease) = world.lease().cloned().filter(|lease| lease.hold.is_some()) {
        world.put_lease(hustings_core::model::LeaseRecord { hold: None, ..lease });
    }
    world.run(RESTORES);
}

fn leader(world: &World) -> Option<String> {
    world.candidates().map(|record| &record.name).find(|name| world.is_leading(name)).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_best_live_candidate_of_either_kind_leads_in_the_end_and_then_nothing_is_written(
        incidents in proptest::collection::vec((incident(), 0..12_000_u64), 1..14),
        lag_millis in select(vec![0, 0, 20, 700, 3_000]),
    ) {
        let mut world = World::in_namespace(Config::default(), "default", Duration::from_millis(lag_millis));
        world.lab.server.store.keep_native_fields(true);
        world.stand_by();
        let count = incidents.len();
        for (incident, pause) in incidents {
            happen(&mut world, incident);
            world.run(Duration::from_millis(pause));
        }
        calm(&mut world);
        let anybody = world.candidates().any(|record| world.is_live(record));
        world.run(Duration::from_secs(50));
        prop_assert_eq!(leader(&world).is_some(), anybody, "within 50 s a live candidate leads\n{}", world.take_log());
        world.run(Duration::from_secs(650));
        let better = world.better_than_holder();
        prop_assert!(better.is_empty(), "within 10 min {better:?} leads\n{}", world.take_log());
        let holder = leader(&world);
        prop_assert_eq!(holder.is_some(), world.candidates().any(|record| world.is_live(record)), "\n{}", world.take_log());
        let (pings, bound) = (world.pings, 6 * (count + 1));
        prop_assert!(pings <= bound, "{pings} pings, {bound} at the most\n{}", world.take_log());
        world.check_rest(|world| world.candidates().count(), holder.as_deref())?;
    }
}
