//! The clocks of a process. Every caller passes them in, so that a test can control them.
//!
//! The clock that measures the validity of a term counts the time of a suspension, but timers stop during a suspension.
//! So code never relies on a timer alone: it reads the clock again.

pub(crate) mod tokio_clock;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hustings_core::model::{Moment, Now, WireTime};
use rustix::time::{ClockId, clock_gettime};

/// How long a timer may run before the clock is read again. After a suspension, a sleep ends late by at most this.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// The kernel's clock behind [`SystemClock::now`].
#[cfg(target_os = "linux")]
const LOCAL: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const LOCAL: ClockId = ClockId::Monotonic;

/// The clocks of a process.
pub trait Clock: Send + Sync + 'static {
    /// The local clock. It never runs backwards, and counts the time of a suspension.
    fn now(&self) -> Moment;

    /// The wall clock. Its values are written into objects, and compared only with times that this process wrote.
    fn wall(&self) -> WireTime;

    /// Completes at `moment`, or as soon as possible afterwards.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// Both clocks, read one after the other.
    fn both(&self) -> Now {
        Now { moment: self.now(), wall: self.wall() }
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// Whether [`Clock::now`] counts the time of a suspension. On Linux it does.
    pub const COUNTS_SUSPENSION: bool = !matches!(LOCAL, ClockId::Monotonic);

    /// Returns the machine's clocks as a shared [`Clock`].
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment::from_micros(micros(LOCAL))
    }

    fn wall(&self) -> WireTime {
        WireTime::from_micros(micros(ClockId::Realtime))
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = *self;
        sleep_by(move || clock.now(), moment).boxed()
    }
}

/// Sleeps until `now` shows this moment, however far it advances while timers are stopped.
async fn sleep_by(now: impl Fn() -> Moment, moment: Moment) {
    loop {
        let left = moment.since(now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LONGEST_TIMER)).await;
    }
}

fn micros(id: ClockId) -> i64 {
    let time = clock_gettime(id);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::testing::HandClock;

    #[tokio::test]
    async fn a_sleep_ends_when_the_clock_has_reached_its_end_and_not_before() {
        let clock = SystemClock;
        let end = clock.now().after(Duration::from_millis(30));
        clock.sleep_until(end).await;
        assert!(clock.now() >= end);
        clock.sleep_until(end).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_that_a_suspension_cuts_short_ends_at_most_a_second_after_it() {
        let clock = HandClock::at_seconds(100);
        let an_hour_later = Moment::from_micros(3_700_000_000);
        let suspension = async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            clock.set_seconds(3_700);
        };
        let began = tokio::time::Instant::now();
        tokio::join!(sleep_by(|| clock.now(), an_hour_later), suspension);
        assert!(began.elapsed() <= Duration::from_secs(12), "{:?}", began.elapsed());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_local_clock_counts_the_time_of_a_suspension() {
        assert_eq!(LOCAL, ClockId::Boottime);
        let (before, now, after) = (micros(ClockId::Boottime), SystemClock.now(), micros(ClockId::Boottime));
        assert!((before..=after).contains(&now.as_micros()), "{before} {now:?} {after}");
    }

    #[test]
    fn the_wall_clock_shows_the_time_of_the_system() {
        let system = || i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap();
        // The system may set its clock between two readings.
        let agrees = || {
            let (before, wall, after) = (system(), SystemClock.wall().as_micros(), system());
            (before..=after).contains(&wall)
        };
        assert!((0..1_000).any(|_| agrees()), "{} is not {}", SystemClock.wall().as_micros(), system());
    }
}
