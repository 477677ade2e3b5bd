//! The clocks of a process. Every caller passes them in, so that a test can control them.
//!
//! The validity of a term is measured by a clock that counts the time of a suspension. Timers stop during a suspension.
//! So no code relies on whether a timer has fired; it reads the clock again.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Either, select};
use hustings_core::model::{Moment, Now, WireTime};
use rustix::time::{ClockId, clock_gettime};

use crate::backend::Failure;

/// How long a timer may run before the clock is read again. After a suspension, nothing is late by more than this.
const LONGEST_TIMER: Duration = Duration::from_secs(1);

/// The clocks of a process.
pub trait Clock: Send + Sync + 'static {
    /// The local clock. It never runs backwards, and counts the time of a suspension.
    fn now(&self) -> Moment;

    /// The wall clock. Its values are written into objects, and compared with what this process itself wrote.
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
    /// Returns the machine's clocks in the form in which they are passed in.
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

/// Returns the answer to a request, or [`Failure::TimedOut`]. Dropping a request closes its connection, so that the
/// next request does not wait behind it.
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
