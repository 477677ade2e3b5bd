//! One scenario of coordinated elections: its processes, and what may go wrong.

use super::{ControllerRule, ControllerSeat};
use crate::process::Seat;

/// One configuration of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The electors, in the order of their ranks.
    pub seats: Vec<Seat>,
    /// The controllers. The first one leads.
    pub controllers: Vec<ControllerSeat>,
    /// All electors have the same version, so only their names determine their ranks.
    pub are_equal: bool,
    /// The controllers watch Pods, and the kubelet may report the end of a container at any time,
    /// or never.
    pub watches_pods: bool,
    /// What may go wrong.
    pub faults: Faults,
    /// Healthy watches show everything at once, and all requests of a controller are executed and answered at once.
    /// Delays then count as faults.
    pub is_prompt: bool,
    /// How long there may be no leader while nothing is wrong; `None` if that is not checked.
    pub vacant_at_most_ticks: Option<i64>,
    /// The longest wait of any process.
    pub memory_micros: i64,
    /// When true time ends; `None` if it never does.
    pub horizon_ticks: Option<i64>,
}

/// How many more times each fault may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A request goes astray: it succeeds at any later time, or never, and its sender gets no answer.
    pub losses: u8,
    /// An elector freezes, perhaps forever.
    pub sleeps: u8,
    /// A controller freezes, perhaps forever.
    pub controller_sleeps: u8,
    /// The watches of a process fall silent, perhaps forever.
    pub silences: u8,
    /// An elector dies, and another one starts in its place.
    pub crashes: u8,
    /// An elector dies, and no other starts in its place.
    pub deaths: u8,
    /// A controller dies, and another one starts in its place.
    pub controller_crashes: u8,
    /// A person edits the Lease or deletes a candidate.
    pub edits: u8,
    /// A person deletes the Lease.
    pub deletions: u8,
    /// An elector is asked to stop.
    pub stops: u8,
    /// The second controller leads, and the first one does not know that yet.
    pub take_overs: u8,
    /// The kubelet reports the end of a container that is frozen.
    pub lies: u8,
}

impl Faults {
    /// Nothing goes wrong.
    pub const NONE: Self = Self {
        losses: 0,
        sleeps: 0,
        controller_sleeps: 0,
        silences: 0,
        crashes: 0,
        deaths: 0,
        controller_crashes: 0,
        edits: 0,
        deletions: 0,
        stops: 0,
        take_overs: 0,
        lies: 0,
    };
}

impl Scenario {
    /// A scenario with this number of electors, whose clocks are too slow, and of controllers, whose clocks are too
    /// fast, by 1 in 1000 each.
    pub fn new(electors: usize, controllers: usize, faults: Faults) -> Self {
        let seat = |identity: &&'static str| Seat::direct(identity, -1_000);
        let controller = ControllerSeat { fast_ppm: 1_000, wall_ahead_ticks: 0, rule: ControllerRule::Hustings };
        Self {
            seats: super::IDENTITIES[..electors].iter().map(seat).collect(),
            controllers: vec![controller; controllers],
            are_equal: false,
            watches_pods: false,
            faults,
            is_prompt: true,
            vacant_at_most_ticks: Some(10),
            memory_micros: 31_000_000,
            horizon_ticks: None,
        }
    }

    /// The same scenario with evidence.
    #[must_use]
    pub fn with_evidence(self) -> Self {
        Self { watches_pods: true, ..self }
    }

    /// All controllers follow this rule.
    #[must_use]
    pub fn by(mut self, rule: ControllerRule) -> Self {
        self.controllers.iter_mut().for_each(|controller| controller.rule = rule);
        self
    }
}
