//! What is explored of coordinated elections: who takes part, and what may go wrong.

use hustings_core::elector::Mode;

use super::{ChairRule, ChairSeat};
use crate::process::Seat;

/// One configuration of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The electors, in the order of their ranks.
    pub seats: Vec<Seat>,
    /// The controllers. The first one leads.
    pub chairs: Vec<ChairSeat>,
    /// The electors are of one version, and only their names tell who ranks first.
    pub are_equal: bool,
    /// What may go wrong.
    pub faults: Faults,
    /// Watches that are in order show everything at once, and all that a controller asks for is carried out and answered
    /// at once. What is then shown or answered later is a fault.
    pub is_prompt: bool,
    /// For how long nobody may lead once nothing is wrong, where that is checked.
    pub vacant_at_most_ticks: Option<i64>,
    /// How long anything waits.
    pub memory_micros: i64,
    /// Where true time ends. Otherwise it goes on for ever.
    pub horizon_ticks: Option<i64>,
}

/// How often something may still go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A request goes astray: it lands late, however late, or never, and is not answered.
    pub losses: u8,
    /// An elector stands still, perhaps for ever.
    pub sleeps: u8,
    /// A controller does.
    pub chair_sleeps: u8,
    /// The watches of a process fall silent, perhaps for ever.
    pub silences: u8,
    /// An elector dies, and another one starts in its place.
    pub crashes: u8,
    /// An elector dies, and nobody starts in its place.
    pub deaths: u8,
    /// A controller dies, and another one starts in its place.
    pub chair_crashes: u8,
    /// A person edits the Lease or deletes a candidate.
    pub edits: u8,
    /// A person deletes the Lease.
    pub deletions: u8,
    /// An elector is asked to stop.
    pub stops: u8,
    /// The second controller leads, and the first one does not know it.
    pub take_overs: u8,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        losses: 0,
        sleeps: 0,
        chair_sleeps: 0,
        silences: 0,
        crashes: 0,
        deaths: 0,
        chair_crashes: 0,
        edits: 0,
        deletions: 0,
        stops: 0,
        take_overs: 0,
    };
}

impl Scenario {
    /// So many electors whose clocks are too slow, and so many controllers whose clocks are too fast, by 1 in 1000 each.
    pub fn new(electors: usize, controllers: usize, faults: Faults) -> Self {
        let seat = |identity: &&'static str| Seat { mode: Mode::Coordinated, ..Seat::direct(identity, -1_000) };
        let chair = ChairSeat { fast_ppm: 1_000, wall_ahead_ticks: 0, rule: ChairRule::Hustings };
        Self {
            seats: super::IDENTITIES[..electors].iter().map(seat).collect(),
            chairs: vec![chair; controllers],
            are_equal: false,
            faults,
            is_prompt: true,
            vacant_at_most_ticks: Some(10),
            memory_micros: 31_000_000,
            horizon_ticks: None,
        }
    }

    /// All controllers go by this rule.
    #[must_use]
    pub fn by(mut self, rule: ChairRule) -> Self {
        self.chairs.iter_mut().for_each(|chair| chair.rule = rule);
        self
    }
}
