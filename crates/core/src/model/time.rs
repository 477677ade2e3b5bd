//! Two kinds of time that never mix: the local clock, which measures everything, and the wall clock, whose values
//! travel in objects.
//!
//! A [`WireTime`] is compared only with other values of the same field, to detect a change or to write a later value.
//! No code subtracts it from a [`Moment`]. No rule that safety rests on compares it with the local wall clock.

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
