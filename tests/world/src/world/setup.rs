//! The setup of a simulation, and its result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hustings_client::{Durations, Timing};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::purpose;

/// How many Leases the two controllers of a world elect. The controllers cost as much as two or three Leases.
const LEASES_OF_CONTROLLERS: usize = 8;

/// The timings: lease duration in seconds; renew deadline, retry period and request timeout in milliseconds. A timing
/// that occurs several times is more likely. The list contains Kubernetes' defaults, values for busy clusters,
/// OpenShift's values for its operators, and short ones.
const TIMINGS: [(u32, u64, u64, u64); 16] = [
    (15, 10_000, 2_000, 5_000),
    (15, 10_000, 2_000, 5_000),
    (15, 10_000, 2_000, 5_000),
    (15, 10_000, 2_000, 5_000),
    (15, 10_000, 2_000, 5_000),
    (30, 20_000, 5_000, 5_000),
    (30, 20_000, 5_000, 5_000),
    (30, 20_000, 5_000, 5_000),
    (60, 40_000, 10_000, 5_000),
    (60, 40_000, 10_000, 5_000),
    (137, 107_000, 26_000, 5_000),
    (137, 107_000, 26_000, 5_000),
    (137, 107_000, 26_000, 5_000),
    (6, 4_000, 1_000, 1_500),
    (6, 4_000, 1_000, 1_500),
    // A lease that is shorter than a grant.
    (3, 2_000, 400, 1_000),
];

/// The setup of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// The seed, which determines everything else.
    pub seed: u64,
    /// How long the nemesis injects faults.
    pub lasts: Duration,
    /// The number of processes for each Lease.
    pub processes: usize,
    /// The Leases of the world, by number.
    pub leases: Vec<usize>,
    /// How the processes stand.
    pub mode: Mode,
    /// What the kubelets report to the controllers.
    pub kubelets: Kubelets,
    /// The faults to leave out, by number.
    pub without: BTreeSet<u64>,
}

/// What the kubelets of a world report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelets {
    /// Nothing: the controllers watch no Pods.
    Unwatched,
    /// The ends of containers, late or never.
    Truthful,
    /// That the container of every process that is cut off has ended: a control, which must break S1.
    Lying,
}

/// How the processes of a world stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// In direct mode.
    Direct,
    /// In direct mode, each with a key.
    Preferring,
    /// As candidates of two controllers.
    Coordinated,
    /// As candidates that never had a controller.
    Alone,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many times each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How many times each kind of trouble happened to a request, an answer or a watch.
    pub disturbances: BTreeMap<&'static str, u64>,
    /// How many times each path of the product was taken.
    pub paths: BTreeMap<&'static str, u64>,
    /// How many faults were numbered, including those left out.
    pub numbers: u64,
    /// How many times the holder of a Lease changed.
    pub changes_of_holder: u64,
    /// How many versions of Leases were written.
    pub versions: u64,
    /// How many grants were checked against the candidates that had proved themselves live.
    pub judged_grants: u64,
    /// The duration in virtual time.
    pub lasted: Duration,
    /// The sum of that duration over all Leases.
    pub lease_time: Duration,
    /// The violations of the invariants.
    pub violations: Vec<String>,
    /// The last events before the violation, as far as they concern it.
    pub trace: Vec<String>,
    /// A digest of all events: each change of each object with its author and time, and each line of the trace.
    pub digest: u64,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Preferring, Self::Coordinated, Self::Alone];

    /// How many Leases a world of this mode has.
    pub const fn leases(self) -> usize {
        if matches!(self, Self::Coordinated) { LEASES_OF_CONTROLLERS } else { 1 }
    }

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Preferring => "preferring",
            Self::Coordinated => "coordinated",
            Self::Alone => "alone",
        }
    }
}

impl Setup {
    /// A world with three processes for each Lease. The controllers watch Pods in every second world that has
    /// controllers.
    pub fn new(seed: u64, mode: Mode, lasts: Duration) -> Self {
        let kubelets =
            if mode == Mode::Coordinated && seed % 2 == 1 { Kubelets::Truthful } else { Kubelets::Unwatched };
        Self {
            seed,
            lasts,
            processes: 3,
            leases: (0..mode.leases()).collect(),
            mode,
            kubelets,
            without: BTreeSet::new(),
        }
    }

    /// The timing of the processes that stand for the Lease of this number.
    pub(super) fn timing(&self, lease: usize) -> Timing {
        let mut rng = self.rng([purpose::TIMING, lease as u64, 0]);
        let (lease_duration_seconds, deadline, period, timeout) =
            TIMINGS.choose(&mut rng).copied().unwrap_or(TIMINGS[0]);
        let [renew_deadline, retry_period, request_timeout] = [deadline, period, timeout].map(Duration::from_millis);
        let given =
            Durations { lease_duration_seconds, renew_deadline, retry_period, request_timeout, ..Durations::default() };
        Timing::new(given).expect("valid durations")
    }

    /// Random numbers for one purpose. Each purpose has its own, so leaving a fault out does not change the others.
    pub(super) fn rng(&self, purpose: [u64; 3]) -> StdRng {
        StdRng::seed_from_u64(purpose.into_iter().fold(mixed(self.seed), |seed, part| mixed(seed ^ mixed(part))))
    }
}

/// Maps numbers that lie close together to numbers that lie far apart (SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
