//! Two kinds of time that never mix: the local clock, which measures all durations, and the wall clock, whose values
//! are written into objects.
//!
//! A [`WireTime`] is compared only with other values of the same field, to detect a change or to write a later value.
//! No code subtracts it from a [`Moment`]. No safety rule compares it with the local wall clock.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
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

    /// This moment minus `duration`; saturates at the earliest moment.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros_of(duration)))
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

    /// The duration from this time to `end`; zero if `end` is not later. If an object records `end` and this is the
    /// local wall clock, the result depends on two clocks. Then only a preference may depend on it, such as how long a
    /// candidate ranks last.
    pub fn until(self, end: Self) -> Duration {
        Duration::from_micros(u64::try_from(end.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// This time, or the first time after `former` if this one is not later. [`WireTime::MAX`] has no later value:
    /// after it, this returns `self`, so that the value at least changes.
    #[must_use]
    pub fn later_than(self, former: Option<Self>) -> Self {
        match former {
            Some(former) if former < Self::MAX => self.max(Self(former.0.saturating_add(1))),
            _ => self,
        }
    }
}

/// The time in UTC in the format of RFC 3339: in whole seconds, or with as many fractional digits as the precision
/// specifies, at most six. Further digits are cut off.
impl fmt::Display for WireTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if let Some(digits @ 1..) = f.precision().map(|digits| digits.min(6)) {
            write!(f, ".{:0digits$}", micros / 10_i64.pow(6 - u32::try_from(digits).unwrap_or(6)))?;
        }
        f.write_str("Z")
    }
}

/// Parses a time of the years 0 to 9999 in the format of [`Display`](fmt::Display): in UTC, with at most six fractional
/// digits.
impl FromStr for WireTime {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.strip_suffix('Z').ok_or(())?;
        let (date, time) = text.split_once('T').ok_or(())?;
        let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let [year, month, day] = numbers(date, '-', [4, 2, 2]).ok_or(())?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2]).ok_or(())?;
        let micros = digits(fraction, 1..=6).ok_or(())? * 10_i64.pow(6 - u32::try_from(fraction.len()).map_err(drop)?);
        let days = days_until(year, month, day);
        if civil(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
            return Err(());
        }
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
        Ok(Self::from_micros(seconds * 1_000_000 + micros))
    }
}

/// The numbers of `text` between separators. `lengths` is the number of digits of each.
fn numbers(text: &str, separator: char, lengths: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; 3];
    for (number, length) in numbers.iter_mut().zip(lengths) {
        *number = digits(parts.next()?, length..=length)?;
    }
    parts.next().is_none().then_some(numbers)
}

fn digits(text: &str, length: RangeInclusive<usize>) -> Option<i64> {
    let is_number = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

const DAYS_IN_400_YEARS: i64 = 146_097;

/// The days from the first of March in the year 0 to 1970-01-01.
const DAYS_FROM_MARCH_OF_YEAR_0: i64 = 719_468;

/// The inverse of [`civil`], for years from 0 and months from 1 to 12. For any other date, it returns a day for which
/// `civil` returns a different date.
const fn days_until(year: i64, month: i64, day: i64) -> i64 {
    let (year, month_from_march) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_IN_400_YEARS + day_of_era - DAYS_FROM_MARCH_OF_YEAR_0
}

/// The year, month and day of the Gregorian calendar, `days` after 1970-01-01. The calendar repeats every 400 years,
/// and a year that begins in March ends with the leap day.
const fn civil(days: i64) -> (i64, i64, i64) {
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

/// The two clocks of one process at one instant. Every decision gets them as an argument.
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
    fn a_time_is_displayed_in_the_format_of_rfc_3339() {
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
    fn a_displayed_time_parses_to_the_same_time() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_123_456, "2000-02-29T00:00:00.123456Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
            (WireTime::MAX.as_micros(), "9999-12-30T22:00:00.000000Z"),
        ] {
            let time = WireTime::from_micros(micros);
            assert_eq!((format!("{time:.6}").as_str(), text.parse()), (text, Ok(time)));
        }
        let time = WireTime::from_micros(1_798_761_599_120_999);
        assert_eq!(format!("{time:.3}"), "2026-12-31T23:59:59.120Z", "digits are cut, not rounded");
        assert_eq!(format!("{time:.9}"), "2026-12-31T23:59:59.120999Z", "a MicroTime has six digits at most");
        assert_eq!("2026-12-31T23:59:59.12Z".parse(), Ok(WireTime::from_micros(1_798_761_599_120_000)));
        assert_eq!("2026-12-31T23:59:59Z".parse(), Ok(WireTime::from_micros(1_798_761_599_000_000)));
        for day in -800_000..800_000 {
            let (year, month, date) = civil(day);
            assert_eq!(days_until(year, month, date), day);
        }
    }

    #[test]
    fn a_text_that_is_not_a_time_does_not_parse() {
        for text in [
            "",
            "Z",
            "T.Z",
            "2026-12-31",
            "2026-12-31T23:59:59",
            "2026-12-31T23:59:59+01:00",
            "2026-12-31 23:59:59Z",
            "2026-13-31T23:59:59Z",
            "2026-00-31T23:59:59Z",
            "2026-02-29T23:59:59Z",
            "2026-12-00T23:59:59Z",
            "2026-12-31T24:59:59Z",
            "2026-12-31T23:60:59Z",
            "2026-12-31T23:59:60Z",
            "2026-12-31T23:59:59.Z",
            "2026-12-31T23:59:59.1234567Z",
            "2026-12-31T23:59:59.-1Z",
            "2026-12-31T23:59:+9Z",
            "2026-12-31-01T23:59:59Z",
            "12026-12-31T23:59:59Z",
            "-026-12-31T23:59:59Z",
        ] {
            assert_eq!(text.parse::<WireTime>(), Err(()), "{text:?}");
        }
    }

    #[test]
    fn moments_saturate() {
        assert_eq!(Moment::NEVER.after(Duration::MAX), Moment::NEVER);
        assert_eq!(Moment::from_micros(5).since(Moment::from_micros(9)), Duration::ZERO);
        assert_eq!(Moment::from_micros(9).since(Moment::from_micros(5)), Duration::from_micros(4));
        assert_eq!(Moment::from_micros(0).after(Duration::from_secs(1)).as_micros(), 1_000_000);
    }

    #[test]
    fn a_written_time_is_later_than_the_one_it_replaces_even_if_that_is_in_the_future() {
        let now = WireTime::from_micros(100);
        assert_eq!(now.later_than(None), now);
        assert_eq!(now.later_than(Some(WireTime::from_micros(40))), now);
        assert_eq!(now.later_than(Some(now)), WireTime::from_micros(101));
        assert_eq!(now.later_than(Some(WireTime::from_micros(7_000))), WireTime::from_micros(7_001));
        assert_eq!(now.later_than(Some(WireTime::from_micros(i64::MAX))), now);
        assert_eq!(WireTime::from_micros(i64::MAX), WireTime::MAX);
    }
}
