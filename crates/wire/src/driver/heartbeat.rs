//! The heartbeat of the code that a term is for.
//!
//! An elector renews in a task of its own. So it would hold the Lease for ever for a program whose work is stuck in a
//! system call: a write to a log that nobody reads, a file on a disk that is gone. With a heartbeat, the elector stops
//! proving that this replica is alive: it sends no renewal, no claim and no answer to a ping. The Lease then expires,
//! and another replica leads. A late beat costs nothing but the delay, since the withheld request is sent after it.

use std::time::Duration;

use hustings_core::elector::Timing;
use hustings_core::model::{Moment, Purpose, Request};

/// The shortest silence that counts.
const SHORTEST_SILENCE: Duration = Duration::from_secs(2);

/// The last beat, and the silence that counts.
#[derive(Clone, Copy, Debug)]
pub struct Supervision {
    last: Moment,
    longest_silence: Duration,
}

impl Supervision {
    /// Begins with a beat.
    pub fn new(timing: &Timing, now: Moment) -> Self {
        Self { last: now, longest_silence: (timing.renew_deadline() / 2).max(SHORTEST_SILENCE) }
    }

    pub(super) const fn beat(&mut self, at: Moment) {
        self.last = at;
    }

    /// How long ago the last beat was.
    pub(super) fn silence(&self, now: Moment) -> Duration {
        now.since(self.last)
    }

    pub(super) fn is_silent(&self, now: Moment) -> bool {
        self.silence(now) > self.longest_silence
    }
}

/// Whether the request shows others that this replica does, or may do, its work.
pub(super) const fn proves_life(request: &Request) -> bool {
    match request {
        Request::CreateLease { .. } | Request::CreateCandidate { .. } | Request::PatchCandidate { .. } => true,
        Request::WriteLease { write, .. } => !matches!(write.purpose, Purpose::HandOver | Purpose::Release),
        Request::ReadLease { .. }
        | Request::ReadCandidate { .. }
        | Request::ListCandidates { .. }
        | Request::DeleteCandidate { .. } => false,
    }
}
