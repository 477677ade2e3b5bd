//! A clock that only a test advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use hustings_core::model::{Moment, WireTime};

use crate::clock::Clock;

/// A clock that shows the time that was set last. Its sleeps never end.
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
