//! The real code in simulated worlds, the same in each run. `cargo run --release --example simulate` runs others.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use hustings_world::reach::wanted;
use hustings_world::world::{Kubelets, Mode, Setup, simulate};

/// How long the nemesis injects faults in each world.
const LASTS: Duration = Duration::from_mins(30);

/// The most Leases of a world. More worlds with more Leases need the example.
const MOST_LEASES: usize = 3;

/// The faults and paths that are too rare to be certain in a fixed set of worlds.
const RARE: [&str; 9] = [
    "creation of a Lease that was deleted",
    "deletion",
    "grant after evidence of the holder's death",
    "grant in place of one that was left unused",
    "grant of a third party",
    "hold",
    "missed take-up",
    "reclaim by a restarted container",
    "refused take-up",
];

/// How many times each fault, disturbance and path happened.
type Counts = BTreeMap<&'static str, u64>;

#[test]
fn no_world_of_a_fixed_set_breaks_an_invariant_and_together_they_reach_what_is_not_rare() {
    let counts = check(0..2);
    let missed: Vec<_> =
        wanted().into_iter().filter(|what| !counts.contains_key(what) && !RARE.contains(what)).collect();
    assert_eq!(missed, Vec::<&str>::new());
}

#[test]
fn a_seed_makes_the_same_world_again() {
    for mode in Mode::ALL {
        let setup = small(7, mode, Duration::from_mins(15));
        let (first, second) = (simulate(setup.clone()), simulate(setup));
        for (first, second) in first.trace.iter().zip(&second.trace) {
            assert_eq!(first, second, "{mode:?}");
        }
        assert_eq!(first, second, "{mode:?}");
    }
}

#[test]
fn a_kubelet_that_calls_silent_holders_dead_lets_two_lead() {
    let is_broken = |seed| {
        let setup = Setup { kubelets: Kubelets::Lying, ..small(seed, Mode::Coordinated, LASTS) };
        simulate(setup).violations.iter().any(|violation| violation.starts_with("S1"))
    };
    assert!((1..20).any(is_broken), "no lie was believed");
}

fn small(seed: u64, mode: Mode, lasts: Duration) -> Setup {
    let mut setup = Setup::new(seed, mode, lasts);
    setup.leases.truncate(MOST_LEASES);
    setup
}

fn check(seeds: Range<u64>) -> Counts {
    let mut counts = Counts::new();
    for mode in Mode::ALL {
        let (mut changes, mut faults) = (0, 0);
        for seed in seeds.clone() {
            let report = simulate(small(seed, mode, LASTS));
            let trace = report.trace.join("\n");
            assert_eq!(report.violations, Vec::<String>::new(), "{mode:?} world {seed}:\n{trace}");
            changes += report.changes_of_holder;
            faults += report.faults.values().sum::<u64>();
            for (what, count) in report.faults.into_iter().chain(report.disturbances).chain(report.paths) {
                *counts.entry(what).or_default() += count;
            }
        }
        // Worlds in which nothing happens prove nothing. Some are quiet, but each has a leader.
        assert!(changes >= 2 && faults >= 2, "{mode:?} worlds {seeds:?}: {changes} changes, {faults} faults");
    }
    counts
}
