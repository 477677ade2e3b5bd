//! Processes in virtual time with different wall clocks, on one store that a test can cut them off from.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use futures::future::{BoxFuture, pending, ready};
use futures::{FutureExt, StreamExt};
use hustings_core::model::{CandidateRecord, LeaseRecord, Moment, Request, WireTime};
use jiff::Timestamp;

use crate::clock::Clock;
use crate::leadership::range::timestamp;
use crate::store::{Answer, Store, Versions};
use crate::testing::MemoryStore;
use crate::{Campaign, Elector, ElectorBuilder, Leadership};

/// A process: an elector with its own wall clock and its own connection to the store.
pub(super) struct Process {
    pub(super) campaign: Option<Campaign>,
    pub(super) leadership: Leadership,
    pub(super) clock: Arc<SkewedClock>,
    pub(super) is_cut_off: Arc<AtomicBool>,
    /// Every instant of the grid that it ever reported as its own.
    pub(super) owned: BTreeSet<i64>,
}

impl Process {
    pub(super) fn start(
        store: &MemoryStore,
        name: &str,
        offset_seconds: i64,
        set: impl FnOnce(ElectorBuilder) -> ElectorBuilder,
    ) -> Self {
        let clock = Arc::new(SkewedClock { inner: store.clock(), offset_seconds: AtomicI64::new(offset_seconds) });
        let is_cut_off = Arc::<AtomicBool>::default();
        let line = Line { store: store.clone(), is_cut_off: Arc::clone(&is_cut_off) };
        let builder = Elector::direct(Arc::new(line), "n", "l").identity(name).rng(store.rng());
        let campaign = set(builder.clock(clock.clone())).build().unwrap().start();
        let leadership = campaign.leadership();
        Self { campaign: Some(campaign), leadership, clock, is_cut_off, owned: BTreeSet::new() }
    }

    /// Aborts the elector's task. The rest of the process continues.
    pub(super) fn crash(&mut self) {
        self.campaign.take().unwrap().abort();
    }

    /// Stops the elector gracefully.
    pub(super) fn stop(&mut self) {
        drop(self.campaign.take());
    }

    pub(super) fn wall_time(&self) -> Timestamp {
        timestamp(self.clock.wall())
    }
}

/// A clock with a wall clock that is ahead or behind.
pub(super) struct SkewedClock {
    inner: Arc<dyn Clock>,
    pub(super) offset_seconds: AtomicI64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Moment {
        self.inner.now()
    }

    fn wall(&self) -> WireTime {
        let offset = self.offset_seconds.load(Ordering::SeqCst) * 1_000_000;
        WireTime::from_micros(self.inner.wall().as_micros() + offset)
    }

    fn sleep_until(&self, moment: Moment) -> BoxFuture<'static, ()> {
        self.inner.sleep_until(moment)
    }
}

/// A connection to a store. While it is cut, it passes nothing in either direction.
struct Line {
    store: MemoryStore,
    is_cut_off: Arc<AtomicBool>,
}

impl Store for Line {
    fn send<'a>(&'a self, namespace: &'a str, request: &'a Request) -> BoxFuture<'a, Answer> {
        if self.is_cut_off.load(Ordering::SeqCst) { pending().boxed() } else { self.store.send(namespace, request) }
    }

    fn watch_lease(&self, namespace: &str, name: &str) -> Versions<LeaseRecord> {
        let is_cut_off = Arc::clone(&self.is_cut_off);
        let seen = self.store.watch_lease(namespace, name);
        seen.filter(move |_| ready(!is_cut_off.load(Ordering::SeqCst))).boxed()
    }

    /// In direct mode there are no candidates.
    fn watch_candidate(&self, _: &str, _: &str) -> Versions<CandidateRecord> {
        futures::stream::pending().boxed()
    }
}
