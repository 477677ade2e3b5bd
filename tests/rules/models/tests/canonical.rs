//! Worlds that are treated as equal must continue alike. Otherwise an exploration would skip states.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_types, reason = "the order in which worlds are found does not matter")]

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use hustings_models::coordinated::Cluster;
use hustings_models::{Exploration, State, Subject, World, case};
use stateright::Model;

/// The cases, each with the number of its worlds to compare.
const CASES: [(&str, usize); 9] = [
    ("direct", 4_000),
    ("live", 4_000),
    ("client-go-4s", 4_000),
    ("elected-crash", 12_000),
    ("controller-sleep", 8_000),
    ("elected-edit", 8_000),
    ("elected-deletion", 8_000),
    ("take-over", 20_000),
    ("evidence-crash", 12_000),
];

/// All sequences of the next steps, with the leaders after each.
fn future<S: State>(model: &Exploration<S>, world: &S, depth: usize) -> Vec<(Vec<S::Step>, Vec<usize>)> {
    let mut found = Vec::new();
    let mut left = vec![(Vec::new(), world.clone())];
    while let Some((way, world)) = left.pop() {
        found.push((way.clone(), world.leading().collect()));
        if way.len() < depth {
            left.extend(model.next_steps(&world).into_iter().map(|(step, next)| ([&way[..], &[step]].concat(), next)));
        }
    }
    found
}

/// Every world that is reached a second time in another form must have the same future as the first time.
fn compare<S: State>(name: &str, most_worlds: usize, scenario: S::Scenario) {
    let model = Exploration::<S>(Arc::new(scenario));
    let mut known: HashMap<u64, S> = HashMap::new();
    let mut left: VecDeque<S> = model.init_states().into();
    let mut twins = 0;
    while let Some(world) = left.pop_front().filter(|_| known.len() < most_worlds) {
        let mut hasher = DefaultHasher::new();
        world.hash(&mut hasher);
        let spelled = hasher.finish();
        match known.get(&spelled) {
            Some(twin) if *twin != world => {
                twins += 1;
                let are_alike = future(&model, twin, 3) == future(&model, &world, 3);
                assert!(are_alike, "{name}: {twin:?}\n{world:?}");
            }
            Some(_) => {}
            None => {
                left.extend(model.next_states(&world));
                known.insert(spelled, world);
            }
        }
    }
    println!("{name}: {twins} twins among {} worlds", known.len());
    assert!(twins > 20, "{name}: only {twins} twins");
}

#[test]
fn twins_have_the_same_future() {
    for (name, worlds) in CASES {
        match case(name).unwrap().subject {
            Subject::Direct(scenario) => compare::<World>(name, worlds, scenario),
            Subject::Coordinated(scenario) => compare::<Cluster>(name, worlds, scenario),
        }
    }
}
