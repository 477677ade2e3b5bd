//! One exploration from its beginning to its end, with its statistics.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::coordinated::{self, Cluster};
use crate::exploration::{Exploration, State};
use crate::scenario;
use crate::world::World;

/// The subject of an exploration.
#[derive(Clone, Debug)]
pub enum Subject {
    /// Electors without a controller.
    Direct(scenario::Scenario),
    /// Electors and controllers.
    Coordinated(coordinated::Scenario),
}

/// The limits of an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Threads.
    pub threads: NonZeroUsize,
    /// Steps from one state to another.
    pub steps: usize,
    /// Wall-clock time.
    pub time: Duration,
}

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Steps from one state to another.
    pub steps: usize,
    /// The length of the longest of all shortest paths to a state.
    pub depth: usize,
    /// The duration of the exploration.
    pub time: Duration,
    /// No limit was reached, so these are all states.
    pub is_complete: bool,
    /// For each broken rule, the steps that lead to its violation.
    pub broken: BTreeMap<&'static str, Vec<String>>,
    /// The expected situations that occurred.
    pub possible: Vec<&'static str>,
    /// The expected situations that never occurred.
    pub impossible: Vec<&'static str>,
}

/// Explores `subject` until the rule `sought` is broken (any rule if it is `None`), a limit is reached or no state is
/// left. Calls `progress` now and then with the numbers of states and the depth.
pub fn explore(
    subject: Subject,
    limits: Limits,
    sought: Option<&'static str>,
    progress: &mut dyn FnMut(usize, usize),
) -> Report {
    match subject {
        Subject::Direct(scenario) => check::<World>(scenario, limits, sought, progress),
        Subject::Coordinated(scenario) => check::<Cluster>(scenario, limits, sought, progress),
    }
}

fn check<S: State>(
    scenario: S::Scenario,
    limits: Limits,
    sought: Option<&'static str>,
    progress: &mut dyn FnMut(usize, usize),
) -> Report {
    let model = Exploration::<S>(Arc::new(scenario));
    let properties = model.properties();
    let start = Instant::now();
    let checker = model
        .checker()
        .threads(limits.threads.get())
        .target_state_count(limits.steps)
        .timeout(limits.time)
        .finish_when(sought.map_or(HasDiscoveries::AnyFailures, |rule| HasDiscoveries::AnyOf([rule].into())))
        .spawn_bfs();
    while !checker.is_done() {
        progress(checker.unique_state_count(), checker.max_depth());
        std::thread::sleep(Duration::from_millis(20));
    }
    let time = start.elapsed();
    let met_limit = time >= limits.time || checker.state_count() >= limits.steps;
    let mut discoveries: BTreeMap<_, _> = checker.discoveries().into_iter().collect();
    let (failures, examples): (Vec<_>, Vec<_>) =
        properties.iter().partition(|property| property.expectation.discovery_is_failure());
    let (possible, impossible) =
        examples.into_iter().map(|property| property.name).partition(|name| discoveries.contains_key(name));
    let broken: BTreeMap<_, _> = failures
        .into_iter()
        .filter_map(|property| {
            let steps = discoveries.remove(property.name)?.into_actions();
            Some((property.name, steps.iter().map(|step| format!("{step:?}")).collect()))
        })
        .collect();
    Report {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        time,
        is_complete: !met_limit && broken.is_empty(),
        broken,
        possible,
        impossible,
    }
}
