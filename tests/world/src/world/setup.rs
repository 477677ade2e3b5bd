//! What is simulated, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hustings_client::{Durations, Timing};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::purpose;

/// How many Leases the two controllers of a world elect: they cost as much as two or three Leases do.
const LEASES_OF_CONTROLLERS: usize = 8;

/// Lease duration in seconds, renew deadline, retry period and request timeout in milliseconds, as often as they stand
/// here: Kubernetes' defaults, what busy clusters are given, what OpenShift gives its operators, and short ones.
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
    // Shorter than a grant.
    (3, 2_000, 400, 1_000),
];

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// From which everything follows.
    pub seed: u64,
    /// How long the nemesis is at work.
    pub lasts: Duration,
    /// How many processes want each Lease.
    pub processes: usize,
    /// Which of its Leases there are, by their numbers.
    pub leases: Vec<usize>,
    /// How the processes stand.
    pub mode: Mode,
    /// The faults that are left out, by their numbers.
    pub without: BTreeSet<u64>,
}

/// How the processes of a world stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Without candidates and controllers.
    Direct,
    /// Without them, each with a preference.
    Preferring,
    /// As candidates, and two controllers elect.
    Coordinated,
    /// As candidates where there never was a controller.
    Alone,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often something happened to a request, an answer or a watch.
    pub disturbances: BTreeMap<&'static str, u64>,
    /// How often each path of the product was taken.
    pub paths: BTreeMap<&'static str, u64>,
    /// How many faults were thought of, of which each has a number.
    pub numbers: u64,
    /// How often somebody else came to hold a Lease.
    pub changes_of_holder: u64,
    /// How many versions of Leases were written.
    pub versions: u64,
    /// How many grants were held against those that had proved themselves live.
    pub judged_grants: u64,
    /// How long it lasted, of which each Lease has its own.
    pub lasted: Duration,
    /// The sum over its Leases of how long it lasted.
    pub lease_time: Duration,
    /// What went wrong.
    pub violations: Vec<String>,
    /// What happened at the end, as far as it concerns what went wrong.
    pub trace: Vec<String>,
    /// Of everything that happened: each change of each object by whom and when, and each line of the trace.
    pub digest: u64,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Preferring, Self::Coordinated, Self::Alone];

    /// How many Leases a world of this mode has.
    pub const fn leases(self) -> usize {
        if matches!(self, Self::Coordinated) { LEASES_OF_CONTROLLERS } else { 1 }
    }

    /// As the command line spells it.
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
    /// A world of three processes for each Lease.
    pub fn new(seed: u64, mode: Mode, lasts: Duration) -> Self {
        Self { seed, lasts, processes: 3, leases: (0..mode.leases()).collect(), mode, without: BTreeSet::new() }
    }

    /// The times of those who want the Lease of this number.
    pub(super) fn timing(&self, lease: usize) -> Timing {
        let mut rng = self.rng([purpose::TIMING, lease as u64, 0]);
        let (lease_duration_seconds, deadline, period, timeout) =
            TIMINGS.choose(&mut rng).copied().unwrap_or(TIMINGS[0]);
        let [renew_deadline, retry_period, request_timeout] = [deadline, period, timeout].map(Duration::from_millis);
        let given =
            Durations { lease_duration_seconds, renew_deadline, retry_period, request_timeout, ..Durations::default() };
        Timing::new(given).expect("valid durations")
    }

    /// Random numbers for one purpose. What is drawn for one does not move what is drawn for another, so that a fault
    /// that is left out leaves the others as they were.
    pub(super) fn rng(&self, purpose: [u64; 3]) -> StdRng {
        StdRng::seed_from_u64(purpose.into_iter().fold(mixed(self.seed), |seed, part| mixed(seed ^ mixed(part))))
    }
}

/// Numbers that lie close together, far apart (SplitMix64).
const fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
