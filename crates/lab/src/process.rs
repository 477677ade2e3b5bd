//! What electors and controllers have in common: clocks, a network, and watches.

use std::time::Duration;

use hustings_core::model::{Moment, Now, WireTime};

/// A hundred years: no event is later.
const FAR_AWAY_MICROS: i64 = 100 * 365 * 86_400 * 1_000_000;

/// The wall clock at the start of the true time.
const WALL_START_MICROS: i64 = 1_000_000_000_000_000;

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
    /// The name; for an elector, its identity.
    pub name: String,
    /// The name in reports.
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
            frozen_until: i64::MIN,
            crashed: false,
            offset_micros: 0,
            drift_per_million: 0,
            wall_offset_micros: 0,
            last_watch_at: i64::MIN,
            next_wake: None,
        }
    }

    /// Sets its clocks: the offset and the drift of both, and the further offset of the wall clock.
    pub const fn set_clock(&mut self, offset_micros: i64, drift_per_million: i64, wall_offset_micros: i64) {
        (self.offset_micros, self.drift_per_million, self.wall_offset_micros) =
            (offset_micros, drift_per_million, wall_offset_micros);
    }

    /// What its clocks show at this true time.
    pub const fn local(&self, true_micros: i64) -> Now {
        let shown = true_micros.saturating_add(true_micros.saturating_mul(self.drift_per_million) / 1_000_000);
        let wall = WALL_START_MICROS.saturating_add(shown).saturating_add(self.wall_offset_micros);
        Now { moment: Moment::from_micros(self.offset_micros.saturating_add(shown)), wall: WireTime::from_micros(wall) }
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

/// The time that a correct wall clock shows at this true time.
pub const fn wall_at(true_micros: i64) -> WireTime {
    WireTime::from_micros(WALL_START_MICROS.saturating_add(true_micros))
}

/// The true time at which a correct wall clock shows this time.
pub(crate) const fn true_micros_at(wall: WireTime) -> i64 {
    wall.as_micros().saturating_sub(WALL_START_MICROS)
}

/// A duration in microseconds.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(FAR_AWAY_MICROS)
}

/// Microseconds as seconds, with milliseconds.
pub fn seconds(micros: i64) -> String {
    format!("{}.{:03}", micros / 1_000_000, micros % 1_000_000 / 1000)
}
