//! One scenario of electors without a controller: its processes, and the events that may happen.

use hustings_core::elector::{Durations, ElectorMode};

use crate::process::{Rule, Seat, short_durations};
use crate::world::Left;

/// One configuration of the model.
#[allow(clippy::struct_excessive_bools, reason = "each is one thing that may happen or not")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The processes.
    pub seats: Vec<Seat>,
    /// Their timing.
    pub durations: Durations,
    /// How many times rare events may happen.
    pub left: Left,
    /// There is no Lease at first.
    pub starts_missing: bool,
    /// Requests may be lost on their way.
    pub loses: bool,
    /// Watches may lag behind by a version.
    pub stale_watch: bool,
    /// The answers to reads may also be late, and so show an old state. The effect is similar to that of a late watch.
    pub slow_reads: bool,
    /// A request is executed and answered, or lost, before time passes.
    pub answers_in_time: bool,
    /// Processes act, and watches show news, within the tick. Otherwise both may take any time.
    pub punctual: bool,
    /// Every request is answered within this number of ticks; `None` if perhaps never.
    pub longest_delay_ticks: Option<i64>,
    /// How many writes may be on their way to the server when time passes. They arrive late, without a limit.
    pub late_writes: usize,
    /// How long there may be no leader; `None` if that is not checked.
    pub vacant_at_most_ticks: Option<i64>,
    /// How long a past event can matter.
    pub memory_micros: i64,
    /// When true time ends; `None` if it never does.
    pub horizon_ticks: Option<i64>,
}

impl Seat {
    /// A process of the product in direct mode.
    pub const fn direct(identity: &'static str, fast_ppm: i64) -> Self {
        Self { identity, fast_ppm, key: None, mode: ElectorMode::Direct, rule: Rule::Hustings, place: None }
    }
}

impl Scenario {
    /// Two electors in direct mode whose clocks differ in rate by 2 in 1000. Any event may be late.
    pub fn direct() -> Self {
        Self {
            seats: vec![Seat::direct("a", -1_000), Seat::direct("b", 1_000)],
            durations: short_durations(),
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

    /// Two electors with client-go's rule and its durations, 15/10/2 s. Each request is lost, or answered within
    /// `longest_delay_ticks` seconds.
    pub fn client_go(longest_delay_ticks: i64) -> Self {
        let durations = Durations { jitter_percent: 0, ..Durations::default() };
        Self {
            seats: vec![Seat::direct("a", 0), Seat::direct("b", 0)],
            durations,
            loses: true,
            punctual: true,
            longest_delay_ticks: Some(longest_delay_ticks),
            late_writes: 2,
            memory_micros: 16_000_000,
            ..Self::direct()
        }
        .by(Rule::ClientGo)
    }

    /// All processes follow this rule.
    #[must_use]
    pub fn by(mut self, rule: Rule) -> Self {
        self.seats.iter_mut().for_each(|seat| seat.rule = rule);
        self
    }
}
