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
