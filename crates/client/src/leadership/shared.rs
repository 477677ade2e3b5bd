//! What the publisher and all readers of one elector share.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hustings_core::elector::Timing;
use hustings_core::model::{Cause, Moment};

use super::range::state::Ranges;
use crate::clock::Clock;

pub(super) struct Shared {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) lease: Arc<str>,
    pub(super) identity: String,
    pub(super) timing: Timing,
    pub(super) valid_until_micros: AtomicI64,
    pub(super) ranges: Ranges,
    pub(super) terms: AtomicU64,
    /// Why the elector will be stopped, if that is known.
    pub(super) stop_cause: OnceLock<Cause>,
}

impl Shared {
    pub(super) fn valid_until(&self) -> Moment {
        Moment::from_micros(self.valid_until_micros.load(Ordering::SeqCst))
    }

    pub(super) fn remaining(&self) -> Duration {
        // Load before reading the clock: a validity that has not ended at the clock's instant had not ended at the
        // load.
        let valid_until = self.valid_until();
        valid_until.since(self.clock.now())
    }
}
