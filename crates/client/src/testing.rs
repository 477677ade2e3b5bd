//! Clocks that a test holds in its hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use hustings_core::model::{Moment, WireTime};
use tokio::time::Instant;

use crate::clock::Clock;

/// A clock that stands still until it is set; nothing sleeps by it.
pub(crate) struct HandClock(AtomicI64);

impl HandClock {
    pub(crate) fn at_seconds(seconds: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(seconds * 1_000_000)))
    }

    pub(crate) fn set_seconds(&self, seconds: i64) {
        self.0.store(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> WireTime {
        WireTime::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
        pending().boxed()
    }
}

/// Tokio's clock, which a test may pause: then time passes when nothing else is to be done.
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn shared() -> Arc<dyn Clock> {
        Arc::new(Self(Instant::now()))
    }

    fn micros(&self) -> i64 {
        i64::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        Moment::from_micros(self.micros())
    }

    fn wall(&self) -> WireTime {
        WireTime::from_micros(1_700_000_000_000_000 + self.micros())
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        let micros = u64::try_from(moment.as_micros()).unwrap_or(0);
        tokio::time::sleep_until(self.0 + Duration::from_micros(micros)).boxed()
    }
}
