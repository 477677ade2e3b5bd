//! One elector of a scene: its clock, its network and its work.

use std::time::Duration;

use hustings_core::elector::{Config, Elector, Leading, Range};
use hustings_core::model::{Moment, Now, WireTime};

/// A hundred years: nothing later ever happens.
const FAR_AWAY_MICROS: i64 = 100 * 365 * 86_400 * 1_000_000;

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    /// How long it travels to the server.
    pub(crate) there: Duration,
    /// Whether the server executes it.
    pub(crate) executed: bool,
    /// How long the answer travels back.
    pub(crate) back: Duration,
    /// Whether the answer is lost: the elector is then told that nobody knows.
    pub(crate) answer_lost: bool,
}

impl Fate {
    pub(crate) const AT_ONCE: Self =
        Self { there: Duration::ZERO, executed: true, back: Duration::ZERO, answer_lost: false };
}

/// What the work of an elector does when it is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkStops {
    After(Duration),
    Never,
}

#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(crate) struct Actor {
    /// Its identity.
    pub(crate) name: String,
    /// What the transcript calls it.
    pub(crate) label: String,
    pub(crate) elector: Elector,
    /// The local clock is `offset + true time * (1 + drift)`.
    pub(crate) offset_micros: i64,
    pub(crate) drift_per_million: i64,
    pub(crate) wall_offset_micros: i64,
    pub(crate) fate: Fate,
    /// The server executes none of its requests to ask a holder.
    pub(crate) may_not_ask: bool,
    /// A proxy answers its writes of what exists: there is no such object.
    pub(crate) told_missing: bool,
    pub(crate) watch_delay: Option<Duration>,
    pub(crate) work_stops: WorkStops,
    pub(crate) leading: Option<Leading>,
    /// `spec.binaryVersion` of its candidate, and what it emulates.
    pub(crate) version: String,
    /// Its pod owns its candidate.
    pub(crate) has_owner: bool,
    pub(crate) range: Option<Range>,
    pub(crate) frozen_until: i64,
    /// It crashed or has finished.
    pub(crate) crashed: bool,
    /// The mistake of counting validity from the answer, for the negative control.
    pub(crate) counts_from_answer: bool,
    pub(super) wrongly_valid_until: Moment,
    pub(super) last_watch_at: i64,
    pub(super) next_wake: Option<i64>,
}

impl Actor {
    pub(crate) fn new(name: &str, config: Config, now_micros: i64) -> Self {
        let mut actor = Self {
            name: name.to_owned(),
            label: name.to_owned(),
            elector: Elector::new(config.clone(), now_of(now_micros, 0)),
            offset_micros: 0,
            drift_per_million: 0,
            wall_offset_micros: 0,
            fate: Fate::AT_ONCE,
            may_not_ask: false,
            told_missing: false,
            watch_delay: Some(Duration::ZERO),
            work_stops: WorkStops::After(Duration::ZERO),
            leading: None,
            version: "1.0".to_owned(),
            has_owner: false,
            range: None,
            frozen_until: 0,
            crashed: false,
            counts_from_answer: false,
            wrongly_valid_until: Moment::default(),
            last_watch_at: 0,
            next_wake: None,
        };
        actor.elector = Elector::new(config, actor.local(now_micros));
        actor
    }

    pub(crate) fn with_clock(
        mut self,
        offset_micros: i64,
        drift_per_million: i64,
        wall_offset_micros: i64,
        now: i64,
    ) -> Self {
        self.offset_micros = offset_micros;
        self.drift_per_million = drift_per_million;
        self.wall_offset_micros = wall_offset_micros;
        self.elector = Elector::new(self.elector.config().clone(), self.local(now));
        self
    }

    pub(crate) fn local(&self, true_micros: i64) -> Now {
        let local = self.offset_micros + true_micros + true_micros * self.drift_per_million / 1_000_000;
        now_of(local, self.wall_offset_micros - self.offset_micros)
    }

    /// The first true time at which the local clock shows `moment`.
    pub(super) fn true_micros(&self, moment: Moment) -> i64 {
        let local = i128::from(moment.as_micros()) - i128::from(self.offset_micros);
        let micros = local * 1_000_000 / i128::from(1_000_000 + self.drift_per_million) - 1;
        let mut micros = i64::try_from(micros).unwrap_or(FAR_AWAY_MICROS).min(FAR_AWAY_MICROS);
        while self.local(micros).moment < moment && micros < FAR_AWAY_MICROS {
            micros += 1;
        }
        micros
    }

    /// What `is_leader()` reads.
    pub(crate) fn reads_leading(&self, true_micros: i64) -> bool {
        let now = self.local(true_micros).moment;
        if self.crashed {
            return false;
        }
        if self.counts_from_answer {
            return now < self.wrongly_valid_until;
        }
        self.leading.is_some_and(|leading| now < leading.valid_until)
    }
}

fn now_of(local_micros: i64, wall_offset_micros: i64) -> Now {
    Now {
        moment: Moment::from_micros(local_micros),
        wall: WireTime::from_micros(1_000_000_000_000_000 + local_micros + wall_offset_micros),
    }
}
