//! The real code in simulated worlds.

use std::time::Duration;

use hustings_world::world::{Mode, Setup, simulate};

#[test]
fn no_world_of_a_fixed_set_breaks_an_invariant() {
    let mut total = (0, 0, 0);
    let first = std::env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
    for seed in first..first + std::env::var("SEEDS").map_or(10, |seeds| seeds.parse::<u64>().unwrap()) {
        let mode = if seed % 2 == 0 { Mode::Direct } else { Mode::Coordinated };
        let report = simulate(Setup { seed, lasts: Duration::from_hours(1), processes: 3, mode });
        let trace = report.trace.join("\n");
        assert_eq!(report.violations, Vec::<String>::new(), "seed {seed}\n{trace}");
        total = (
            total.0 + report.faults.values().sum::<u64>(),
            total.1 + report.changes_of_holder,
            total.2 + report.versions,
        );
    }
    eprintln!("{total:?}");
}

#[test]
fn a_seed_makes_the_same_world_again() {
    for (seed, mode) in [(3, Mode::Direct), (4, Mode::Coordinated)] {
        let setup = Setup { seed, lasts: Duration::from_mins(20), processes: 3, mode };
        assert_eq!(simulate(setup), simulate(setup), "seed {seed}");
    }
}

#[test]
fn show() {
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    let report = simulate(Setup { seed, lasts: Duration::from_mins(20), processes: 3, mode: Mode::Coordinated });
    println!("{}\n{:?}", report.trace.join("\n"), report.faults);
}
