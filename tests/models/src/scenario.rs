//! What is explored: who takes part, what may happen, and what must hold.

use std::sync::Arc;

use hustings_core::elector::{Mode, Timing};
use stateright::{Model, Property};

use crate::process::{Rule, Seat, short_timing};
use crate::world::{Left, Step, World};

/// One configuration of the model.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that may happen or not")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The processes.
    pub seats: Vec<Seat>,
    /// Their times.
    pub timing: Timing,
    /// What may happen.
    pub left: Left,
    /// There is no Lease at first.
    pub starts_missing: bool,
    /// Requests may be lost on their way.
    pub loses: bool,
    /// Watches may lag behind by a version.
    pub stale_watch: bool,
    /// The answers to reads may be late, too, and so tell of the past. What a watch shows late is much the same.
    pub slow_reads: bool,
    /// A request is carried out and answered, or lost, before time passes.
    pub answers_in_time: bool,
    /// A process acts, and a watch speaks, within the tick. Otherwise when they like.
    pub punctual: bool,
    /// Every request is answered after so many ticks at the latest. Otherwise perhaps never.
    pub longest_delay_ticks: Option<i64>,
    /// How many writes may be on their way to the server when time passes. They land late, perhaps much too late.
    pub late_writes: usize,
    /// For how long nobody may lead, where that is checked.
    pub vacant_at_most_ticks: Option<i64>,
    /// How long anything can matter that is past.
    pub memory_micros: i64,
    /// Where true time ends. Otherwise it goes on for ever.
    pub horizon_ticks: Option<i64>,
}

/// Nobody else reads that it leads.
pub const ONE_LEADER: &str = "S1: two never lead at one instant";
/// Tokens grow.
pub const TOKENS_GROW: &str = "S2: tokens grow";
/// Nobody is deposed.
pub const NOBODY_IS_DEPOSED: &str = "S3: the Lease is taken from nobody who leads";
/// Somebody leads soon.
pub const SOMEBODY_LEADS: &str = "L1: somebody leads within the bound";

impl Seat {
    /// A process of the product in direct mode.
    pub const fn direct(identity: &'static str, fast_ppm: i64) -> Self {
        Self { identity, fast_ppm, key: None, mode: Mode::Direct, rule: Rule::Hustings, place: None }
    }
}

impl Scenario {
    /// Two electors in direct mode whose clocks differ in rate by 2 in 1000. Nothing is ever certain to be in time.
    pub fn direct() -> Self {
        Self {
            seats: vec![Seat::direct("a", -1_000), Seat::direct("b", 1_000)],
            timing: short_timing(),
            left: Left::default(),
            starts_missing: false,
            loses: false,
            stale_watch: false,
            slow_reads: false,
            answers_in_time: false,
            punctual: false,
            longest_delay_ticks: None,
            late_writes: 0,
            vacant_at_most_ticks: None,
            memory_micros: 3_500_000,
            horizon_ticks: None,
        }
    }

    /// Two electors by client-go's rule and its times, 15/10/2 s, of whose requests each may be lost, or takes
    /// `longest_delay_ticks` seconds at the most until it is answered.
    pub fn client_go(longest_delay_ticks: i64) -> Self {
        let timing = Timing { jitter_percent: 0, ..Timing::default() };
        Self {
            seats: vec![Seat::direct("a", 0), Seat::direct("b", 0)],
            timing,
            loses: true,
            punctual: true,
            longest_delay_ticks: Some(longest_delay_ticks),
            late_writes: 2,
            memory_micros: 16_000_000,
            ..Self::direct()
        }
        .by(Rule::ClientGo)
    }

    /// All processes go by this rule.
    #[must_use]
    pub fn by(mut self, rule: Rule) -> Self {
        self.seats.iter_mut().for_each(|seat| seat.rule = rule);
        self
    }
}

/// What Stateright explores.
#[derive(Clone, Debug)]
pub struct Exploration(pub Arc<Scenario>);

impl Model for Exploration {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.0)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        next.take(step);
        Some(next)
    }

    fn within_boundary(&self, world: &World) -> bool {
        self.0.horizon_ticks.is_none_or(|horizon| world.ticks() <= horizon)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_LEADER, |_, world: &World| world.leading().count() <= 1),
            Property::always(TOKENS_GROW, |_, world: &World| world.tokens_grow()),
            Property::always(NOBODY_IS_DEPOSED, |_, world: &World| world.nobody_is_deposed()),
            Property::always(SOMEBODY_LEADS, |Exploration(scenario), world: &World| {
                scenario.vacant_at_most_ticks.is_none_or(|bound| world.vacant_ticks() <= bound)
            }),
            // What shows that a world is not void: the second process leads, and the first one after it.
            Property::sometimes("the first leads", |_, world: &World| world.leading().any(|who| who == 0)),
            Property::sometimes("the second leads", |_, world: &World| world.leading().any(|who| who == 1)),
        ]
    }
}
