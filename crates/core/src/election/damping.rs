//! Damping: a candidate that loses the Lease ranks last for a while, so that one that fails again and again does not
//! keep winning the Lease. These count as a loss:
//!
//! - The candidate did not take up a grant.
//! - Its term expired.
//! - It had to reclaim its own Lease.
//! - It gave the Lease up without leaving the election.

use std::time::Duration;

use super::Config;
use crate::model::{Moment, Now, WireTime};

/// What is known of the losses of one candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LossRecord {
    pub(super) damping: Damping,
    /// The end of the damping that was last read from its status.
    pub(super) adopted_end: Option<WireTime>,
    /// When this controller last observed that another one had counted a loss.
    pub(super) reported_at: Option<Moment>,
    /// It did not take up its last grant. That counts while it is damped.
    pub(super) forfeited: bool,
    /// Whether its status recorded the state Holder when it was first observed.
    pub(super) was_recorded_as_holder: bool,
}

/// How often a candidate lost the Lease, and until when it ranks last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Damping {
    pub(super) count: u32,
    last: Option<Last>,
}

/// The damping that the last loss started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Last {
    /// When the candidate lost the Lease.
    at: Moment,
    until: Moment,
    /// The same end by the wall clock, for the next controller.
    recorded: WireTime,
}

impl Damping {
    /// The damping that a candidate's status records. Its end is by the wall clock of the controller that wrote it. It
    /// never lasts longer from now than a damping that starts now, so a clock that is hours ahead excludes no
    /// candidate.
    pub(crate) fn recorded(count: u32, end: Option<WireTime>, now: Now, config: &Config) -> Self {
        let last = end.filter(|_| count > 0).map(|end| {
            let longest = period(count, config);
            let until = now.moment.after(now.wall.until(end).min(longest));
            Last { at: until.before(longest), until, recorded: end.min(now.wall.after(longest)) }
        });
        Self { count, last }
    }

    /// The damping that another controller has just begun. It lasts as long as one that this controller begins, since
    /// the two wall clocks may differ by hours.
    pub(super) fn observed(count: u32, end: Option<WireTime>, now: Now, config: &Config) -> Self {
        let begun = Last::begun(now, period(count, config));
        Self { count, last: end.map(|recorded| Last { recorded, ..begun }) }
    }

    /// Shows the end that another controller has recorded for the same loss.
    pub(super) fn adopt_end(&mut self, end: Option<WireTime>) {
        if let (Some(last), Some(recorded)) = (&mut self.last, end) {
            last.recorded = recorded;
        }
    }

    /// Counts one more loss.
    pub(super) fn add(&mut self, now: Now, config: &Config) {
        self.count = self.count.saturating_add(1);
        self.last = Some(Last::begun(now, period(self.count, config)));
    }

    /// Resets the count after a term at least as long as the damping.
    pub(super) fn reset_by(&mut self, term: Duration, config: &Config) {
        if term >= period(self.count, config) {
            *self = Self::default();
        }
    }

    /// Until when the candidate ranks last; `None` if it does not rank last at `now`.
    pub(super) fn until(&self, now: Moment) -> Option<Moment> {
        self.last_at(now).map(|last| last.until)
    }

    /// When the candidate last lost the Lease; `None` if it does not rank last at `now`.
    pub(crate) fn last_loss(&self, now: Moment) -> Option<Moment> {
        self.last_at(now).map(|last| last.at)
    }

    fn last_at(&self, now: Moment) -> Option<Last> {
        self.last.filter(|last| last.until > now)
    }

    /// The end of the last damping, for the candidate's status. A past end stays in the status: no reader would benefit
    /// from a write that removes it.
    pub(super) fn end(&self) -> Option<WireTime> {
        self.last.map(|last| last.recorded)
    }
}

impl Last {
    fn begun(now: Now, lasts: Duration) -> Self {
        Self { at: now.moment, until: now.moment.after(lasts), recorded: now.wall.after(lasts) }
    }
}

/// The first loss costs the shortest damping. Each further one doubles it, up to the longest.
fn period(count: u32, config: &Config) -> Duration {
    let doublings = count.saturating_sub(1).min(31);
    config.damping_min.saturating_mul(1_u32 << doublings).min(config.damping_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_doubles_the_damping_up_to_ten_minutes() {
        let config = Config::default();
        let seconds: Vec<u64> = [0, 1, 2, 5, 6, u32::MAX].map(|count| period(count, &config).as_secs()).into();
        assert_eq!(seconds, [30, 30, 60, 480, 600, 600]);
    }

    fn at(seconds: i64, wall_seconds: i64) -> Now {
        let (moment, wall) =
            (Moment::from_micros(seconds * 1_000_000), WireTime::from_micros(wall_seconds * 1_000_000));
        Now { moment, wall }
    }

    #[test]
    fn only_a_term_as_long_as_the_damping_resets_it() {
        let (config, now) = (Config::default(), at(0, 0));
        let mut damping = Damping::default();
        damping.add(now, &config);
        damping.add(now, &config);
        damping.reset_by(Duration::from_secs(59), &config);
        assert_eq!((damping.count, damping.until(now.moment)), (2, Some(at(60, 0).moment)));
        damping.reset_by(Duration::from_mins(1), &config);
        assert_eq!(damping, Damping::default());
    }

    #[test]
    fn a_recorded_damping_ends_as_recorded_and_never_lasts_longer_than_the_rule() {
        let now = at(50, 1000);
        let recorded = |count, end: i64| {
            let damping = Damping::recorded(count, Some(at(0, end).wall), now, &Config::default());
            let seconds = damping.until(now.moment).map(|until| until.since(now.moment).as_secs());
            (seconds, damping.end().map(|end| end.as_micros() / 1_000_000))
        };
        let lost_at = Damping::recorded(2, Some(at(0, 1010).wall), now, &Config::default()).last_loss(now.moment);
        assert_eq!(lost_at, Some(at(0, 0).moment), "its minute ends in 10 s");
        assert_eq!([recorded(2, 1010), recorded(2, 1060)], [(Some(10), Some(1010)), (Some(60), Some(1060))]);
        assert_eq!(recorded(2, 9999), (Some(60), Some(1060)), "a clock was hours ahead");
        assert_eq!([recorded(2, 1000), recorded(2, 0)], [(None, Some(1000)), (None, Some(0))]);
        assert_eq!(recorded(0, 1010), (None, None), "without a loss there is no damping");
        assert_eq!(Damping::recorded(1, None, now, &Config::default()).until(now.moment), None);
        assert_eq!(Damping::recorded(9, Some(WireTime::MIN), now, &Config::default()).until(now.moment), None);
    }
}
