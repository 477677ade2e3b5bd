//! Tokio's clock, for tests in virtual time.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hustings_core::model::{Moment, WireTime};
use tokio::time::Instant;

use super::Clock;

/// The wall clock at the start of a [`TokioClock`]: some day in November 2023.
const WALL_CLOCK_MICROS: i64 = 1_700_000_000_000_000;

/// Tokio's clock, which a test may pause: time then advances when no task has anything to do. It does not count the
/// time of a suspension, so never use it outside tests.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// Returns a clock that starts now.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self(Instant::now()))
    }

    fn micros(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.micros())
    }

    fn wall(&self) -> WireTime {
        WireTime::from_micros(self.micros().saturating_add(WALL_CLOCK_MICROS))
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let micros = u64::try_from(moment.as_micros()).unwrap_or(0);
        match self.0.checked_add(Duration::from_micros(micros)) {
            Some(instant) => tokio::time::sleep_until(instant).boxed(),
            None => futures::future::pending().boxed(),
        }
    }
}
