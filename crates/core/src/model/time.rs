//! Two kinds of time that must never meet: the local clock, by which everything is measured, and the wall clock, whose
//! values travel in objects.
//!
//! A [`WireTime`] is compared with other values of the same field only, to see that it changed or to write a later one.
//! Nothing subtracts it from a [`Moment`], and nothing that safety rests on compares it with the local wall clock.

use std::time::Duration;

/// An instant of this process's own clock, in microseconds since an arbitrary start. It never runs backwards and counts
/// the time that the machine was suspended (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// The latest moment, which never comes.
    pub const NEVER: Self = Self(i64::MAX);

    /// The moment `micros` microseconds after the clock's start.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the clock's start.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment and `duration` more; saturates at [`Moment::NEVER`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros_of(duration)))
    }

    /// The time from `earlier` to this moment; zero if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A timestamp as objects carry it (`MicroTime`): microseconds since the Unix epoch, by the clock of whoever wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireTime(i64);

impl WireTime {
    /// The latest timestamp that every reader can parse: 9999-12-30T22:00:00Z. What lies beyond, or does not parse,
    /// is read as this.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    /// The earliest timestamp, which no clock shows.
    pub const MIN: Self = Self(i64::MIN);

    /// The timestamp `micros` microseconds after the Unix epoch, at most [`WireTime::MAX`].
    pub const fn from_micros(micros: i64) -> Self {
        if micros > Self::MAX.0 { Self::MAX } else { Self(micros) }
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This time and `duration` more; at most [`WireTime::MAX`].
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros_of(duration)))
    }

    /// The time from this one, which the local wall clock shows, to `end`, which an object records; zero if it has passed.
    /// It depends on two clocks. Only preference may rest on it, such as how long a candidate ranks last.
    pub fn until(self, end: Self) -> Duration {
        Duration::from_micros(u64::try_from(end.0.saturating_sub(self.0)).unwrap_or(0))
    }

    /// This time, or the first one later than `former` where it is not later. A field that stands at
    /// [`WireTime::MAX`] has no later value; it is given this time, which at least is another one.
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
    /// The local clock: what is measured, is measured by this.
    pub moment: Moment,
    /// The wall clock: what is written into objects.
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
