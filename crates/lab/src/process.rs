//! What electors and controllers have in common: clocks, a network, and watches.

use std::time::Duration;

use hustings_core::model::{Moment, Now, WireTime};

/// A hundred years: no event is later.
const FAR_AWAY_MICROS: i64 = 100 * 365 * 86_400 * 1_000_000;

/// The wall clock at the start of the true time.
pub(crate) const WALL_START_MICROS: i64 = 1_000_000_000_000_000;

/// What the network does with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// How long the request takes to reach the server.
    pub there: Duration,
    /// Whether the server executes it.
    pub executed: bool,
    /// How long the answer takes to come back.
    pub back: Duration,
    /// Whether the answer is lost: the outcome is then unknown to the process.
    pub answer_lost: bool,
}

/// One process: its clocks, its network and its watches.
#[derive(Clone, Debug)]
pub struct Process {
    /// The name in the script; for an elector, its identity.
    pub name: String,
    /// The name in the transcript.
    pub label: String,
    /// What the network does with its requests from now on.
    pub fate: Fate,
    /// The delay of its watches; `None` while they are silent.
    pub watch_delay: Option<Duration>,
    /// Until when it is frozen, in true time.
    pub frozen_until: i64,
    /// Whether it crashed or has finished.
    pub crashed: bool,
    /// The local clock shows `offset + true time * (1 + drift)`.
    offset_micros: i64,
    drift_per_million: i64,
    wall_offset_micros: i64,
    /// When its watch of the Lease delivers last.
    pub(crate) last_watch_at: i64,
    pub(crate) next_wake: Option<i64>,
}

impl Fate {
    /// The network is perfect.
    pub const AT_ONCE: Self = Self { there: Duration::ZERO, executed: true, back: Duration::ZERO, answer_lost: false };
}

impl Process {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            label: name.to_owned(),
            fate: Fate::AT_ONCE,
            watch_delay: Some(Duration::ZERO),
            frozen_until: 0,
            crashed: false,
            offset_micros: 0,
            drift_per_million: 0,
            wall_offset_micros: 0,
            last_watch_at: 0,
            next_wake: None,
        }
    }

    pub(crate) const fn set_clock(&mut self, offset_micros: i64, drift_per_million: i64, wall_offset_micros: i64) {
        (self.offset_micros, self.drift_per_million, self.wall_offset_micros) =
            (offset_micros, drift_per_million, wall_offset_micros);
    }

    /// What its clocks show at this true time.
    pub const fn local(&self, true_micros: i64) -> Now {
        let drift = true_micros * self.drift_per_million / 1_000_000;
        let wall = WALL_START_MICROS + true_micros + drift + self.wall_offset_micros;
        Now { moment: Moment::from_micros(self.offset_micros + true_micros + drift), wall: WireTime::from_micros(wall) }
    }

    /// The first true time at which the local clock shows `moment`.
    pub(crate) fn true_micros(&self, moment: Moment) -> i64 {
        let local = i128::from(moment.as_micros()) - i128::from(self.offset_micros);
        let micros = local * 1_000_000 / i128::from(1_000_000 + self.drift_per_million) - 1;
        let mut micros = i64::try_from(micros).unwrap_or(FAR_AWAY_MICROS).min(FAR_AWAY_MICROS);
        while self.local(micros).moment < moment && micros < FAR_AWAY_MICROS {
            micros += 1;
        }
        micros
    }
}
