//! For how long an elector sends no requests to a failing server.
//!
//! An overloaded server still processes requests whose senders have given up. If every elector retries as soon as it
//! gives up, the server never recovers. So an elector that does not lead pauses after consecutive failures, twice as
//! long each time. It continues as soon as anything arrives from the server, even a watch event. A single failure
//! causes no pause. A holder does not pause, because its deadline is near.

use std::time::Duration;

use super::config::{Draw, Timing};
use super::{AttemptId, Observation, Outcome};
use crate::backoff::doubled;
use crate::model::Moment;

/// The number of consecutive failures that starts a pause. An elector usually has two pending requests, which fail
/// together.
const FIRST_PAUSE: u32 = 2;

/// The maximum number of times that the first pause, one retry period, is doubled. If the server recovers but sends
/// nothing, the elector notices that at most one pause late.
const MOST_DOUBLINGS: u32 = 2;

/// The longest pause, before its jitter, however long the retry period is.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The consecutive failures of one elector, and the pause after the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FailurePause {
    failures: u32,
    /// `None` from a failure until the next decision. A request that fails before this time was sent before the pause.
    until: Option<Moment>,
}

impl FailurePause {
    /// Records a failed request.
    pub(super) fn fail(&mut self, now: Moment) {
        if self.until.is_none_or(|until| now >= until) {
            self.failures = self.failures.saturating_add(1).min(FIRST_PAUSE + MOST_DOUBLINGS);
            self.until = None;
        }
    }

    /// Records that something arrived from the server.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// When the server may be asked again.
    pub(super) fn until(&mut self, timing: &Timing, now: Moment, draw: Draw) -> Moment {
        let Some(doublings) = self.failures.checked_sub(FIRST_PAUSE) else { return now };
        let pause = doubled(timing.retry_period(), doublings, LONGEST_PAUSE);
        *self.until.get_or_insert_with(|| now.after(timing.jittered(pause, draw)))
    }
}

/// What an observation shows about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// The server works. A conflict is an answer like any other.
    Answers,
    /// The server did not do what this request asked.
    Fails(AttemptId),
    /// The observation is not about the server.
    None,
}

impl Sign {
    pub(super) const fn of(observation: &Observation) -> Self {
        match observation {
            Observation::LeaseWritten { attempt, outcome: Outcome::Refused | Outcome::Unknown }
            | Observation::CandidateWritten { attempt, outcome: Outcome::Refused | Outcome::Unknown }
            | Observation::ReadFailed(attempt) => Self::Fails(*attempt),
            Observation::LeaseWritten { .. }
            | Observation::CandidateWritten { .. }
            | Observation::Lease { .. }
            | Observation::LeaseMissing { .. }
            | Observation::Candidate { .. }
            | Observation::CandidateMissing { .. }
            | Observation::Candidates { .. } => Self::Answers,
            Observation::Key(_) | Observation::WorkStopped | Observation::Resign | Observation::Stop(_) => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elector::{Durations, Source};

    fn at(seconds: i64) -> Moment {
        Moment::from_micros(seconds * 1_000_000)
    }

    fn until(pause: &mut FailurePause, now: i64) -> i64 {
        pause.until(&Timing::default(), at(now), Draw(0)).as_micros() / 1_000_000
    }

    /// The pauses after consecutive failures, in seconds.
    fn pauses<const FAILURES: usize>(timing: &Timing) -> [i64; FAILURES] {
        let mut pause = FailurePause::default();
        let mut now = 0;
        [(); FAILURES].map(|()| {
            now += 100;
            pause.fail(at(now));
            pause.until(timing, at(now), Draw(0)).as_micros() / 1_000_000 - now
        })
    }

    #[test]
    fn each_failure_but_the_first_doubles_the_pause_up_to_four_retry_periods() {
        assert_eq!(pauses(&Timing::default()), [0, 2, 4, 8, 8, 8]);
    }

    #[test]
    fn no_pause_is_longer_than_half_a_minute() {
        let timing = Timing::new(Durations {
            lease_duration_seconds: 137,
            renew_deadline: Duration::from_secs(107),
            retry_period: Duration::from_secs(26),
            ..Durations::default()
        });
        assert_eq!(pauses(&timing.unwrap()), [0, 26, 30]);
    }

    #[test]
    fn failures_of_requests_that_were_sent_before_a_pause_count_once() {
        let mut pause = FailurePause::default();
        pause.fail(at(0));
        pause.fail(at(5));
        assert_eq!(until(&mut pause, 5), 7);
        pause.fail(at(6));
        assert_eq!(until(&mut pause, 6), 7);
        pause.fail(at(12));
        assert_eq!(until(&mut pause, 12), 16);
    }

    #[test]
    fn anything_from_the_server_ends_the_pause_and_resets_the_count() {
        let mut pause = FailurePause::default();
        pause.fail(at(0));
        pause.fail(at(5));
        assert_eq!(until(&mut pause, 5), 7);
        pause.end();
        assert_eq!(until(&mut pause, 6), 6);
        pause.fail(at(6));
        assert_eq!(until(&mut pause, 6), 6);
    }

    #[test]
    fn a_conflict_and_a_watch_event_are_answers() {
        let attempt = AttemptId(1);
        for (observation, sign) in [
            (Observation::LeaseWritten { attempt, outcome: Outcome::Conflict }, Sign::Answers),
            (Observation::LeaseWritten { attempt, outcome: Outcome::Refused }, Sign::Fails(attempt)),
            (Observation::CandidateWritten { attempt, outcome: Outcome::Missing }, Sign::Answers),
            (Observation::CandidateWritten { attempt, outcome: Outcome::Refused }, Sign::Fails(attempt)),
            (Observation::CandidateWritten { attempt, outcome: Outcome::Unknown }, Sign::Fails(attempt)),
            (Observation::ReadFailed(attempt), Sign::Fails(attempt)),
            (Observation::LeaseMissing { source: Source::Watch }, Sign::Answers),
            (Observation::WorkStopped, Sign::None),
        ] {
            assert_eq!(Sign::of(&observation), sign, "{observation:?}");
        }
    }
}
