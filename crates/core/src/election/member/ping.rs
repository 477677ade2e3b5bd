//! A ping of a candidate.

use crate::model::{Moment, Unparsed, WireTime};

/// `renewTime`, and its text if it is not exact.
pub(super) type Renewal = (Option<WireTime>, Unparsed);

/// A ping that has not been answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::election) struct Ping {
    pub(super) time: WireTime,
    /// Until when an answer counts.
    pub(in crate::election) deadline: Moment,
    /// The version that the ping created, and its last sign of life.
    pub(super) landed: Option<(u64, Renewal)>,
    /// This ping repeats one that was computed from an old version.
    pub(super) is_remade: bool,
    /// A live read, sent after the deadline, showed no answer.
    pub(super) unanswered: bool,
    /// That live read failed. It is unknown whether the candidate answered, and the election stops waiting for it
    /// (`live_read_fails.txt`).
    pub(in crate::election) abandoned: bool,
}

impl Ping {
    /// Its time, the version that it created, and the last sign of life in that version.
    pub(super) fn landed(&self) -> Option<(WireTime, (u64, Renewal))> {
        Some(self.time).zip(self.landed)
    }
}
