//! Two kinds of time that never mix: the local clock, which measures everything, and the wall clock, whose values
//! travel in objects.
//!
//! A [`WireTime`] is compared only with other values of the same field, to detect a change or to write a later value.
//! No code subtracts it from a [`Moment`]. No rule that safety rests on compares it with the local wall clock.

use std::fmt;
use std::time::Duration;

/// An instant of this process's clock, in microseconds since an arbitrary start. The clock never runs backwards, and it
/// counts the time for which the machine was suspended (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// The latest moment, which is never reached.
    pub const NEVER: Self = Self(i64::MAX);

    /// The moment `micros` microseconds after the clock's start.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's start.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment plus `duration`; saturates at [`Moment::NEVER`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros_of(duration)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A timestamp in an object (`MicroTime`): microseconds since the Unix epoch, by the clock of its writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireTime(i64);

impl WireTime {
    /// The latest timestamp that every reader can parse: 9999-12-30T22:00:00Z. A later timestamp, or one that does not
    /// parse, is read as this one.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// Earlier than every timestamp of a clock.
    pub const MIN: Self = Self(i64::MIN);

    /// The timestamp `micros` microseconds after the Unix epoch, at most [`WireTime::MAX`].
    pub const fn from_micros(micros: i64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This time plus `duration`; at most [`WireTime::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros_of(duration)))
    }

    /// The time from this one, which the local wall clock shows, to `end`, which an object records; zero if `end` has
    /// passed. The result depends on two clocks. Only preference may rest on it, such as how long a candidate ranks
    /// last.
    pub fn until(self, end: Self) -> Duration {
        Duration::from_micros(u64::try_from(end.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// This time, or the first time after `former` if this one is not later. [`WireTime::MAX`] has no later value: a
    /// field with that value gets this time, which is at least a different one.
    #[must_use]
    pub fn later_than(self, former: Option<Self>) -> Self {
        match former {
            Some(former) if former < Self::MAX => self.max(Self(former.0.saturating_add(1))),
            _ => self,
        }
    }
}

/// The time in UTC, in whole seconds, as RFC 3339 has it.
impl fmt::Display for WireTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000_000);
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// The year, month and day of the Gregorian calendar, `days` after 1970-01-01. The calendar repeats every 400 years,
/// and a year that begins in March ends with the leap day.
const fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    const DAYS_FROM_MARCH_OF_YEAR_0: i64 = 719_468;
    let days = days.saturating_add(DAYS_FROM_MARCH_OF_YEAR_0);
    let (era, day_of_era) = (days.div_euclid(DAYS_IN_400_YEARS), days.rem_euclid(DAYS_IN_400_YEARS));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// The two clocks of one process at one instant, as an argument of every decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Now {
    /// The local clock, which measures.
    pub moment: Moment,
    /// The wall clock, for timestamps in objects.
    pub wall: WireTime,
}

fn micros_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_as_rfc_3339_has_it() {
        let texts = [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_399_000_000, "2000-02-28T23:59:59Z"),
            (951_782_400_999_999, "2000-02-29T00:00:00Z"),
            (951_868_800_000_000, "2000-03-01T00:00:00Z"),
            (1_798_761_599_000_000, "2026-12-31T23:59:59Z"),
            (-2_203_891_200_000_000, "1900-03-01T00:00:00Z"),
        ];
        for (micros, text) in texts {
            assert_eq!(WireTime::from_micros(micros).to_string(), text);
        }
        assert_eq!(WireTime::MAX.to_string(), "9999-12-30T22:00:00Z");
        assert!(WireTime::MIN.to_string().starts_with('-'), "it does not panic");
    }

    #[test]
    fn moments_saturate() {
        assert_eq!(Moment::NEVER.after(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::from_micros(5).since(Moment::from_micros(9)), Duration::ZERO);
        assert_eq!(Moment::from_micros(9).since(Moment::from_micros(5)), Duration::from_micros(4));
        assert_eq!(Moment::from_micros(0).after(Duration::from_secs(1)).as_micros(), 1_000_000);
    }

    #[test]
    fn a_written_time_is_later_than_the_one_it_replaces_even_when_that_lies_in_the_future() {
        let now = WireTime::from_micros(100);
        assert_eq!(now.later_than(None), now);
        assert_eq!(now.later_than(Some(WireTime::from_micros(40))), now);
        assert_eq!(now.later_than(Some(now)), WireTime::from_micros(101));
        assert_eq!(now.later_than(Some(WireTime::from_micros(7_000))), WireTime::from_micros(7_001));
        assert_eq!(now.later_than(Some(WireTime::from_micros(i64::MAX))), now);
        assert_eq!(WireTime::from_micros(i64::MAX), WireTime::MAX);
    }
}
