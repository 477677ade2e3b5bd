//! The clocks of one simulated process. The date is wrong, and the clocks run a little too fast or too slow.
//!
//! True time is tokio's, which the simulation pauses. A frozen process keeps sleeping: the events that it waits for
//! arrive after the thaw. During the freeze, its wall clock advances. So does its local clock, if the product reads a
//! clock that counts suspension.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hustings_client::clock::{Clock, SystemClock};
use hustings_client::{Moment, WireTime};
use tokio::time::Instant;

use crate::link::Link;

/// The date at which every world begins, in microseconds.
pub(crate) const EPOCH_MICROS: i64 = 1_750_000_000_000_000;

/// The clocks of one process.
#[derive(Clone)]
pub struct WorldClock {
    began: Instant,
    /// The local clock at the beginning. It differs between processes.
    base_micros: i64,
    /// By how many microseconds per second the clock is too fast; negative if it is too slow.
    error_micros_per_second: i64,
    wall_offset_micros: Arc<AtomicI64>,
    link: Link,
}

impl WorldClock {
    /// The clocks of a process in a world that began at `began`.
    pub fn new(
        began: Instant,
        base: Duration,
        error_micros_per_second: i64,
        wall_offset_micros: i64,
        link: Link,
    ) -> Self {
        Self {
            began,
            base_micros: micros(base),
            error_micros_per_second,
            wall_offset_micros: Arc::new(AtomicI64::new(wall_offset_micros)),
            link,
        }
    }

    /// Sets the date forward or back. The local clock is not affected.
    pub fn step_wall(&self, micros: i64) {
        self.wall_offset_micros.fetch_add(micros, Ordering::Relaxed);
    }

    fn elapsed_micros(&self) -> i64 {
        let elapsed = micros(self.began.elapsed());
        elapsed + elapsed / 1_000 * self.error_micros_per_second / 1_000
    }

    fn suspended_micros(&self) -> i64 {
        if SystemClock::COUNTS_SUSPENSION { 0 } else { micros(self.link.frozen_for()) }
    }

    /// The true time at which the local clock shows `moment`, or a little later.
    fn instant_of(&self, moment: Moment) -> Instant {
        let local = moment.as_micros().saturating_sub(self.base_micros).max(0);
        let true_micros =
            local.saturating_sub(local / (1_000_000 + self.error_micros_per_second) * self.error_micros_per_second);
        // tokio's timers have a limit. This one is far beyond the end of any simulation.
        let true_micros = u64::try_from(true_micros).unwrap_or(0).min(1_000_000 * 3600 * 24 * 365);
        self.began + Duration::from_micros(true_micros)
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.base_micros + self.elapsed_micros() - self.suspended_micros())
    }

    fn wall(&self) -> WireTime {
        let offset = self.wall_offset_micros.load(Ordering::Relaxed);
        WireTime::from_micros(EPOCH_MICROS + self.elapsed_micros() + offset)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = self.clone();
        async move {
            while clock.now() < moment {
                let until = clock.instant_of(moment).max(Instant::now() + Duration::from_millis(1));
                tokio::time::sleep_until(until).await;
            }
            clock.link.thawed().await;
        }
        .boxed()
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_by_a_fast_clock_is_too_short_and_by_a_slow_clock_too_long() {
        let began = Instant::now();
        for (error, expected_millis) in [(1000, 999..=1000), (0, 1000..=1001), (-1000, 1001..=1002)] {
            let clock = WorldClock::new(began, Duration::from_secs(5), error, 0, Link::default());
            let before = Instant::now();
            clock.sleep_until(clock.now().after(Duration::from_secs(1))).await;
            let slept = before.elapsed().as_millis();
            assert!(expected_millis.contains(&slept), "{slept} ms at {error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_frozen_process_wakes_when_thawed_and_reads_the_true_time() {
        let link = Link::default();
        let clock = WorldClock::new(Instant::now(), Duration::ZERO, 0, 0, link.clone());
        let due = clock.now().after(Duration::from_secs(1));
        let sleeping = tokio::spawn(clock.sleep_until(due));
        link.freeze();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!sleeping.is_finished());
        link.thaw();
        sleeping.await.unwrap();
        assert!(clock.now() >= due.after(Duration::from_secs(29)));
    }
}
