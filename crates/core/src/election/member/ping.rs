//! A ping of a candidate: from its sending to the answer, or to the end of the wait for one.

use crate::model::{CandidateRecord, Moment, Unparsed, WireTime};

/// `renewTime`, and its text if it is not exact.
type SignOfLife = (Option<WireTime>, Unparsed);

/// The ping of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::election) enum Ping {
    /// None is under way.
    Idle {
        /// The last one was computed from an old version, so it has to be repeated.
        is_overtaken: bool,
    },
    /// It was sent, and its outcome is still to come.
    Sent {
        time: WireTime,
        /// Until when an answer counts.
        deadline: Moment,
        /// It repeats one that was computed from an old version.
        is_repeated: bool,
    },
    /// The server has it.
    Landed {
        time: WireTime,
        deadline: Moment,
        /// The version that it created.
        version: u64,
        /// The last sign of life in that version.
        renewal: SignOfLife,
        wait: Wait,
    },
}

/// Whether an answer to a ping that has landed may still come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::election) enum Wait {
    /// It may.
    Open,
    /// A live read, sent after the deadline, showed none.
    Unanswered,
    /// That live read failed. It is unknown whether the candidate answered, and the election stops waiting for it
    /// (`live_read_fails.txt`).
    Abandoned,
}

/// What the answer to the write of a ping shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PingWritten {
    /// No ping was under way, or it had landed before.
    NotExpected,
    /// The server did not keep it.
    Dropped,
    /// The server has it.
    Kept,
}

impl Ping {
    pub(super) const IDLE: Self = Self::Idle { is_overtaken: false };

    /// Whether none is under way.
    pub(in crate::election) const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle { .. })
    }

    /// Whether the election no longer waits for its answer.
    pub(in crate::election) const fn is_abandoned(&self) -> bool {
        matches!(self, Self::Landed { wait: Wait::Abandoned, .. })
    }

    /// Until when an answer counts; `None` if none is under way.
    pub(in crate::election) const fn deadline(&self) -> Option<Moment> {
        match self {
            Self::Idle { .. } => None,
            Self::Sent { deadline, .. } | Self::Landed { deadline, .. } => Some(*deadline),
        }
    }

    /// The `pingTime` of the ping that is under way.
    pub(super) const fn time(&self) -> Option<WireTime> {
        match self {
            Self::Idle { .. } => None,
            Self::Sent { time, .. } | Self::Landed { time, .. } => Some(*time),
        }
    }

    /// A ping is sent.
    pub(super) const fn send(&mut self, time: WireTime, deadline: Moment) {
        *self = Self::Sent { time, deadline, is_repeated: matches!(self, Self::Idle { is_overtaken: true }) };
    }

    /// The write was answered with this version.
    pub(super) fn written(&mut self, record: &CandidateRecord) -> PingWritten {
        let Self::Sent { time, deadline, is_repeated } = *self else { return PingWritten::NotExpected };
        // No candidate can answer a ping that the server did not keep (`ping_without_effect.txt`).
        if record.ping_time != Some(time) {
            *self = Self::IDLE;
            return PingWritten::Dropped;
        }
        // A ping computed from an old version may equal another controller's ping, which may have been answered
        // already. So it is repeated once (`same_ping_twice.txt`). It is repeated only once, because a candidate whose
        // clock is ahead may answer before the watch shows the ping.
        let is_overtaken = !is_repeated && record.renewed_at().is_some_and(|at| time <= at);
        *self = if is_overtaken {
            Self::Idle { is_overtaken }
        } else {
            let (version, renewal) = (record.resource_version, record.renewal());
            Self::Landed { time, deadline, version, renewal, wait: Wait::Open }
        };
        PingWritten::Kept
    }

    /// Takes the answer that this version contains, if it does. Returns the `pingTime` that it answers.
    pub(super) fn take_answer(&mut self, record: &CandidateRecord) -> Option<WireTime> {
        let Self::Landed { time, version, renewal, .. } = *self else { return None };
        let is_answered =
            record.resource_version > version && record.renew_time.is_some() && record.renewal() != renewal;
        is_answered.then(|| {
            *self = Self::IDLE;
            time
        })
    }

    /// A live read that was sent at `sent` showed no answer.
    pub(super) fn read(&mut self, sent: Moment) {
        if let Self::Landed { deadline, wait, .. } = self
            && sent >= *deadline
        {
            *wait = Wait::Unanswered;
        }
    }

    /// A request about the candidate failed.
    pub(super) fn fail(&mut self, now: Moment) {
        match self {
            Self::Sent { .. } => *self = Self::IDLE,
            Self::Landed { deadline, wait: wait @ Wait::Open, .. } if *deadline <= now => *wait = Wait::Abandoned,
            Self::Idle { .. } | Self::Landed { .. } => {}
        }
    }
}
