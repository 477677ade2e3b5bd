//! W1: when nothing changes any more, the writes come to rest, whoever else writes the same objects.

#[path = "election_world/world.rs"]
mod election_world;

use std::time::Duration;

use election_world::World;
use hustings_core::election::{Config, EvidenceConfig};
use hustings_core::model::{Annotation, CandidateRecord, Exclusion};

const MINUTE: Duration = Duration::from_mins(1);

/// The most writes of each kind by all controllers in ten minutes at rest.
const MOST_AT_REST: usize = 2;

/// The most writes if the pause must stay short: one in half a minute.
const MOST_OF_AN_ELECTION: usize = 21;

fn candidate(world: &mut World, name: &str, emulation: &str, live: bool, takes_up: bool) {
    let record = CandidateRecord {
        name: name.to_owned(),
        lease_name: "l".to_owned(),
        binary_version: "1.35".to_owned(),
        emulation_version: Some(emulation.to_owned()),
        owned: name != "unowned",
        ..CandidateRecord::default()
    };
    world.put_candidate(record, |bare| (bare.process.crashed, bare.takes_up) = (!live, takes_up));
}

/// How many candidates there are.
const CANDIDATES: usize = 16;

/// Crashes, upgrades and acts.
fn play(world: &mut World, takes_up: bool) {
    candidate(world, "a", "1.31", true, takes_up);
    candidate(world, "b", "1.32", true, takes_up);
    world.run(MINUTE);
    for index in 0..12 {
        candidate(world, &format!("dead-{index}"), "1.29", false, takes_up);
    }
    candidate(world, "unowned", "1.29", false, takes_up);
    world.run(MINUTE);
    world.kill("a");
    world.run(MINUTE);
    candidate(world, "c", "1.30", true, takes_up);
    world.run(MINUTE);
    let until = world.now().wall.after(30 * MINUTE);
    world.edit_candidate("c", |record| {
        let reason = "drain".to_owned();
        record.acts.exclude = Some(Annotation::Valid(Exclusion { until, reason }));
    });
    world.run(2 * MINUTE);
    world.edit_candidate("a", |record| record.priority = 3);
    world.run(MINUTE);
}

/// The writes of the Lease, pings and statuses in ten minutes.
fn writes_at_rest(world: &mut World) -> [usize; 3] {
    (world.lease_writes, world.pings, world.status_patches) = (0, 0, 0);
    world.run(10 * MINUTE);
    [world.lease_writes, world.pings, world.status_patches]
}

#[test]
fn two_controllers_that_both_lead_come_to_rest() {
    let config = Config::default;
    let seconds = Duration::from_secs;
    let evidence = EvidenceConfig { pods: true, nodes: true };
    for (difference, second, clock_seconds) in [
        ("none", config(), 0),
        ("an hour ahead", config(), 3_600),
        ("an hour behind", config(), -3_600),
        ("settling", Config { settling: seconds(0), ..config() }, 1),
        ("short windows", Config { window: seconds(1), ..config() }, 1),
        ("evidence", Config { evidence, ..config() }, 1),
        ("short damping", Config { damping_min: seconds(1), damping_max: seconds(2), ..config() }, 1),
    ] {
        for is_late in [false, true] {
            let mut world = World::new(Config::default());
            if is_late {
                play(&mut world, true);
            }
            world.lead_twice(second.clone(), clock_seconds);
            if !is_late {
                play(&mut world, true);
            }
            world.run(60 * MINUTE);
            let writes = writes_at_rest(&mut world);
            assert!(writes.iter().all(|count| *count <= MOST_AT_REST), "{difference}, late: {is_late}: {writes:?}");
        }
    }
}

#[test]
fn whatever_another_client_reverts_is_written_ever_more_rarely() {
    for (field, most) in [
        ("label", MOST_AT_REST),
        ("strategy", MOST_AT_REST),
        ("native-fields", MOST_AT_REST),
        ("preferred", MOST_AT_REST),
        ("hold", MOST_AT_REST),
        ("transfer", MOST_AT_REST),
        ("reason", MOST_AT_REST),
        ("status", MOST_AT_REST * CANDIDATES),
        // Two live candidates prove themselves anew every 15 s.
        ("grant", MOST_OF_AN_ELECTION * 4),
        // Only live candidates are pinged again.
        ("ping", MOST_OF_AN_ELECTION * 3),
        ("renewal", MOST_OF_AN_ELECTION * 3),
    ] {
        let mut world = World::new(Config::default());
        world.undo([field.to_owned()].into());
        // Otherwise a grant is taken up before the client observes it.
        play(&mut world, field != "grant");
        world.run(60 * MINUTE);
        let writes = writes_at_rest(&mut world);
        assert!(writes.iter().all(|count| *count <= most), "{field}: {writes:?}");
    }
}
