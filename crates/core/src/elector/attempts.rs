//! The writes that may begin or extend a term, and which versions belong to a term.

use super::plan::PlannedRequest;
use crate::model::{LeaseRecord, SessionStamp, WireTime};

/// How many writes of unknown outcome on one version are remembered. It is safe to forget the oldest: a forgotten write
/// can no longer extend or begin a term.
const MOST_ATTEMPTS: usize = 8;

/// A take-up, claim or renewal that may have succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) request: PlannedRequest,
    /// The version on which it was conditional.
    pub(super) resource_version: u64,
    pub(super) term: AttemptedTerm,
}

/// The term that an attempt begins or extends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct AttemptedTerm {
    /// The renew time. No other attempt has the same renew time.
    pub(super) renew_time: WireTime,
    /// The start of the time range, if a term begins with this attempt.
    pub(super) range_start: WireTime,
    /// TERM of the session stamp that it writes.
    pub(super) ordinal: u64,
    /// The term's number, if one begins with this attempt.
    pub(super) number: u32,
    /// The term's token, if one begins with this attempt.
    pub(super) token: u64,
}

/// The attempts that may have succeeded. All of them were conditional on the newest version observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempts(Vec<Attempt>);

impl Attempts {
    pub(super) fn push(&mut self, attempt: Attempt) {
        if self.0.len() >= MOST_ATTEMPTS {
            self.0.remove(0);
        }
        self.0.push(attempt);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The latest renew time of an attempt that may have succeeded.
    pub(super) fn latest_renew_time(&self) -> Option<WireTime> {
        self.0.iter().map(|attempt| attempt.term.renew_time).max()
    }

    /// Returns the attempt that `record` proves to have succeeded. A newer version proves that attempts on older ones
    /// never will.
    pub(super) fn settle(&mut self, record: &LeaseRecord, identity: &str, session: &str) -> Option<Attempt> {
        let landed = self
            .0
            .iter()
            .find(|attempt| {
                is_mine(record, identity, session, attempt.term.ordinal)
                    && record.renew_time == Some(attempt.term.renew_time)
            })
            .cloned();
        self.0.retain(|attempt| attempt.resource_version >= record.resource_version);
        landed
    }
}

/// Whether a version belongs to this term of this elector instance. The name alone proves nothing.
pub(super) fn is_mine(record: &LeaseRecord, identity: &str, session: &str, ordinal: u64) -> bool {
    record.holder.as_deref() == Some(identity) && is_of_term(record, session, ordinal)
}

/// Whether the session of a version is that of this term, whatever name it has.
pub(super) fn is_of_term(record: &LeaseRecord, session: &str, ordinal: u64) -> bool {
    record.session.stamp().is_some_and(|stamp| stamp.session == session && stamp.term == ordinal)
}

/// Whether the session of a version is this instance's own, or that of an earlier instance in the same place, and the
/// version names this identity or was emptied by client-go. This instance holds the lock of that place now, so no other
/// living process can have such a session.
pub(super) fn is_reclaimable(record: &LeaseRecord, identity: &str, session: &str) -> bool {
    let place = SessionStamp::place(session);
    let is_same_place = |stamp: &SessionStamp| place.is_some() && SessionStamp::place(&stamp.session) == place;
    let is_own = |stamp: &SessionStamp| stamp.session == session || is_same_place(stamp);
    let may_be_named = record.holder.as_deref() == Some(identity) || record.has_release_form();
    may_be_named && record.session.stamp().is_some_and(is_own)
}

/// Whether a version names this identity and this session, in any term.
pub(super) fn names_session(record: &LeaseRecord, identity: &str, session: &str) -> bool {
    record.holder.as_deref() == Some(identity) && record.session.stamp().is_some_and(|stamp| stamp.session == session)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Attempt, AttemptedTerm, Attempts, PlannedRequest};
    use crate::elector::{Action, AttemptId, Config, Draw, Elector, ElectorMode, Observation, Outcome, Source};
    use crate::model::{LeaseRecord, Moment, Now, Request, SessionMark, Set, WireTime};

    fn term(renew_time: WireTime) -> AttemptedTerm {
        AttemptedTerm { renew_time, range_start: renew_time, ordinal: 1, number: 1, token: 1 }
    }

    #[test]
    fn attempts_on_one_version_have_different_renew_times_even_if_the_wall_clock_is_stopped() {
        let now = |seconds| Now {
            moment: Moment::from_micros(0).after(Duration::from_secs(seconds)),
            wall: WireTime::from_micros(1_000),
        };
        let config = Config { mode: ElectorMode::Direct, ..Config::of("a") };
        let mut elector = Elector::new(config, now(0));
        let record = LeaseRecord { resource_version: 7, session: SessionMark::Open, ..LeaseRecord::default() };
        elector.observe(now(0), Observation::Lease { record, source: Source::Watch });
        let mut renew_times = Vec::new();
        for seconds in [0, 3, 6, 9] {
            for action in elector.decide(now(seconds), Draw(0)).actions {
                let Action::Send { attempt, request: Request::WriteLease { write, .. } } = action else { continue };
                renew_times.push(write.renew_time);
                elector.observe(now(seconds), Observation::LeaseWritten { attempt, outcome: Outcome::Unknown });
            }
        }
        let micros = [1_000, 1_001, 1_002];
        assert_eq!(renew_times, micros.map(|micros| Set::To(WireTime::from_micros(micros))));
    }

    #[test]
    fn an_attempt_is_forgotten_when_a_newer_version_proves_that_it_never_succeeds() {
        let request = PlannedRequest { id: AttemptId(1), sent: Moment::from_micros(0), until: Moment::from_micros(5) };
        let time = WireTime::from_micros;
        let attempt = |resource_version, renewed| Attempt { request, resource_version, term: term(time(renewed)) };
        let mut attempts = Attempts::default();
        attempts.push(attempt(7, 1_000));
        attempts.push(attempt(8, 900));
        let record = LeaseRecord { resource_version: 8, ..LeaseRecord::default() };
        assert_eq!(attempts.settle(&record, "a", "s"), None);
        assert_eq!(attempts.latest_renew_time(), Some(time(900)), "one was made on this very version");
    }

    #[test]
    fn of_too_many_attempts_the_oldest_is_forgotten() {
        let request = PlannedRequest { id: AttemptId(1), sent: Moment::from_micros(0), until: Moment::from_micros(5) };
        let mut attempts = Attempts::default();
        for micros in 1..=9 {
            let term = term(WireTime::from_micros(micros));
            attempts.push(Attempt { request, resource_version: 7, term });
        }
        for micros in 1..=9 {
            let record = LeaseRecord {
                resource_version: 7,
                holder: Some("a".to_owned()),
                session: SessionMark::read(Some("s/1/15")),
                renew_time: Some(WireTime::from_micros(micros)),
                ..LeaseRecord::default()
            };
            assert_eq!(attempts.settle(&record, "a", "s").is_some(), micros > 1, "{micros}");
        }
    }
}
