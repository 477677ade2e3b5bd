//! Damping: a candidate that left a grant unused, let the Lease lapse, had to take it back or gave it up without leaving
//! the election ranks last for a while, so that one that fails again and again does not drag the Lease along.

use std::time::Duration;

use super::Config;
use crate::model::Moment;

/// How often a candidate lost the Lease, and until when it ranks last for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Damping {
    pub(super) count: u32,
    until: Option<Moment>,
}

impl Damping {
    /// What the status of an earlier controller tells: the count, and whether the candidate ranked last at that time.
    /// When that was to end is not told, so it is served once more.
    pub(super) fn recorded(count: u32, damped: bool, now: Moment, config: &Config) -> Self {
        let until = (damped && count > 0).then(|| now.after(period(count, config)));
        Self { count, until }
    }

    /// Counts one more loss.
    pub(super) fn add(&mut self, now: Moment, config: &Config) {
        self.count = self.count.saturating_add(1);
        self.until = Some(now.after(period(self.count, config)));
    }

    /// A term as long as the damping wipes it out.
    pub(super) fn reset_by(&mut self, term: Duration, config: &Config) {
        if self.count > 0 && term >= period(self.count, config) {
            *self = Self::default();
        }
    }

    /// Until when the candidate ranks last, if it does at `now`.
    pub(super) fn until(&self, now: Moment) -> Option<Moment> {
        self.until.filter(|until| *until > now)
    }
}

/// The first count costs the shortest damping, and each further one twice the former, up to the longest.
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

    #[test]
    fn only_a_term_as_long_as_the_damping_resets_it() {
        let (config, now) = (Config::default(), Moment::from_micros(0));
        let mut damping = Damping::default();
        damping.add(now, &config);
        damping.add(now, &config);
        damping.reset_by(Duration::from_secs(59), &config);
        assert_eq!((damping.count, damping.until(now)), (2, Some(now.after(Duration::from_mins(1)))));
        damping.reset_by(Duration::from_mins(1), &config);
        assert_eq!(damping, Damping::default());
    }

    #[test]
    fn whoever_has_lost_nothing_does_not_rank_last_for_it() {
        let now = Moment::from_micros(0);
        assert_eq!(Damping::recorded(0, true, now, &Config::default()).until(now), None);
        assert!(Damping::recorded(1, true, now, &Config::default()).until(now).is_some());
    }
}
