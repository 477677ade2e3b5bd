//! The real code in simulated worlds.

use std::time::Duration;

use hustings_world::world::{Mode, Setup, simulate};

#[test]
fn no_world_of_a_fixed_set_breaks_an_invariant() {
    let mut total = (0, 0, 0);
    for seed in 0..20 {
        let report = simulate(Setup { seed, lasts: Duration::from_hours(1), processes: 3, mode: Mode::Direct });
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
