//! The clocks of a process, passed in everywhere, so that a test may hold them.
//!
//! How long a term is valid is measured by a clock that counts the time the machine was suspended. Timers do not: they
//! stand still meanwhile. So nothing is concluded from a timer having fired or not; the clock is read again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use hustings_core::model::{Moment, Now, WireTime};
use rustix::time::{ClockId, clock_gettime};

use crate::backend::Failure;

/// The longest time a timer runs before the clock is read again: after a suspension nothing is later by more.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// The clocks that a process goes by.
pub trait Clock: Send + Sync + 'static {
    /// The local clock: never runs backwards, and counts suspension.
    fn now(&self) -> Moment;

    /// The wall clock, whose values are written into objects, and compared with what this process itself wrote.
    fn wall(&self) -> WireTime;

    /// Completes at `moment`, or as soon afterwards as can be.
    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()>;

    /// Both clocks at this instant.
    fn both(&self) -> Now {
        Now { moment: self.now(), wall: self.wall() }
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The machine's clocks, as they are passed in.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        #[cfg(target_os = "linux")]
        let id = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let id = ClockId::Monotonic;
        Moment::from_micros(micros(id))
    }

    fn wall(&self) -> WireTime {
        WireTime::from_micros(micros(ClockId::Realtime))
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let clock = *self;
        async move {
            loop {
                let left = moment.since(clock.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_TIMER)).await;
            }
        }
        .boxed()
    }
}

/// The answer to a request, or that there was none in time. Dropping a request closes its connection, so that the next
/// one does not wait behind it.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    timeout: Duration,
    request: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match select(pin!(request), clock.sleep_until(clock.now().after(timeout))).await {
        Either::Left((answer, _)) => answer,
        Either::Right(((), _)) => Err(Failure::TimedOut(timeout)),
    }
}

fn micros(id: ClockId) -> i64 {
    let time = clock_gettime(id);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleep_ends_when_the_clock_says_so_and_not_before() {
        let clock = SystemClock;
        let end = clock.now().after(Duration::from_millis(30));
        clock.sleep_until(end).await;
        assert!(clock.now() >= end);
        clock.sleep_until(end).await;
    }

    #[test]
    fn the_wall_clock_shows_this_century() {
        let wall = SystemClock.wall();
        assert!(wall > WireTime::from_micros(1_700_000_000_000_000) && wall < WireTime::MAX, "{wall:?}");
    }
}
