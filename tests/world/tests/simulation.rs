//! The real code in simulated worlds. `cargo run --release --example simulate` runs more of them.

use std::time::{Duration, SystemTime};

use hustings_world::world::{Mode, Setup, simulate};

/// How long the nemesis is at work in each world.
const LASTS: Duration = Duration::from_mins(30);

#[test]
fn no_world_of_a_fixed_set_breaks_an_invariant() {
    (0..2).for_each(check);
}

#[test]
fn no_world_of_a_random_set_breaks_an_invariant() {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let seed = u64::try_from(now % 1_000_000_007).unwrap();
    (seed..seed + 2).for_each(check);
}

fn check(seed: u64) {
    for mode in Mode::ALL {
        let report = simulate(setup(seed, mode));
        let trace = report.trace.join("\n");
        assert_eq!(report.violations, Vec::<String>::new(), "{mode:?} world {seed}:\n{trace}");
        // A world in which nothing happens proves nothing.
        assert!(report.changes_of_holder >= 3 && report.faults.len() >= 5, "{mode:?} world {seed}:\n{trace}");
    }
}

const fn setup(seed: u64, mode: Mode) -> Setup {
    Setup { seed, lasts: LASTS, processes: 3, mode }
}
