//! Runs a group ahead of time: real electors and a real election, in a lab of its own.
//!
//! The network is perfect and takes [`LATENCY`] in each direction; a watch event takes as long. All processes have the
//! same clock.

pub(crate) mod cluster;
pub(crate) mod crash;
pub(crate) mod group;

use std::time::Duration;

use hustings_core::election::{Config, Election};
use hustings_core::model::WireTime;
use hustings_lab::{Controller, Fate, Lab, Process, micros};

/// The most replicas that a command simulates. To simulate that many takes about a second.
pub(crate) const MOST_REPLICAS: usize = 100;

/// How long a request takes to the server, an answer back, and a watch event to its process.
const LATENCY: Duration = Duration::from_millis(5);

/// The most events that a simulation processes. A rollout of 100 replicas over an hour takes a tenth of them.
const MOST_EVENTS: usize = 20_000_000;

/// Creates a lab for a group without replicas, at the wall-clock time `wall`. Without a `controller`, the replicas elect
/// themselves.
pub(crate) fn lab(lease: &str, controller: Option<Config>, wall: WireTime) -> Lab {
    let mut lab = Lab::new(lease, wall);
    // The jitter of every elector is half of the longest possible.
    lab.chance = Box::new(|| u32::MAX / 2);
    if let Some(config) = controller {
        let mut controller = Controller::new("controller", Election::new(config, "default", lease), true);
        connect(&mut controller.process);
        lab.add_controller(controller);
    }
    lab
}

fn connect(process: &mut Process) {
    process.fate = Fate { there: LATENCY, back: LATENCY, ..Fate::AT_ONCE };
    process.watch_delay = Some(LATENCY);
}

/// Runs the lab until `is_done`, for at most `limit`.
pub(crate) fn run(lab: &mut Lab, limit: Duration, is_done: impl Fn(&Lab) -> bool) {
    let until = lab.now_micros.saturating_add(micros(limit));
    if !lab.run_until(until, MOST_EVENTS, is_done) {
        lab.now_micros = until;
    }
}

/// The time between two instants of a lab, in microseconds; zero if the second one is not later.
pub(crate) fn between(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}
