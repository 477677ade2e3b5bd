//! Publishes the leadership of this process.
//!
//! The rule that must hold: a decision is in force before any action of that decision begins. When the publisher is
//! dropped, for whatever reason, this process no longer leads.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};

use hustings_core::elector::{Leading, Timing};
use hustings_core::model::{Cause, Moment};
use hustings_wire::driver::{LatestTerm, ObservedTerm};
use tokio::sync::watch;

use super::handle::{Holder, Leadership, Obstacle, View};
use super::shared::Shared;
use super::term::{Term, TermInner};
use crate::clock::Clock;
use crate::instance::InstanceLock;
use crate::leadership::range::state::{RangeState, Ranges};

/// The validity of a term that is over, and of no term.
const OVER: i64 = i64::MIN;

/// The writing end of [`Leadership`], owned by the campaign's task.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    views: watch::Sender<View>,
    validity: watch::Sender<Option<Moment>>,
    /// The newest term that the Lease showed.
    holders: watch::Sender<Option<LatestTerm>>,
    term: Option<Term>,
    obstacle: Option<Obstacle>,
    instance_lock: Option<InstanceLock>,
}

/// Returns a publisher and its handle. `lease` is `namespace/name`.
pub(crate) fn leadership(
    clock: Arc<dyn Clock>,
    lease: String,
    identity: String,
    timing: Timing,
) -> (Publisher, Leadership) {
    let valid_until_micros = AtomicI64::new(OVER);
    let shared = Arc::new(Shared {
        clock,
        lease: lease.into(),
        identity,
        timing,
        valid_until_micros,
        ranges: Ranges::default(),
        terms: AtomicU64::new(0),
        stop_cause: OnceLock::new(),
    });
    let (views, views_receiver) = watch::channel(View::default());
    let (validity, validity_receiver) = watch::channel(None);
    let (holders, holders_receiver) = watch::channel(None);
    let publisher = Publisher {
        shared: Arc::clone(&shared),
        views,
        validity,
        holders,
        term: None,
        obstacle: None,
        instance_lock: None,
    };
    let leadership =
        Leadership { shared, views: views_receiver, validity: validity_receiver, holders: holders_receiver };
    (publisher, leadership)
}

impl Publisher {
    /// Keeps the lock of this instance as long as the publisher or any of its terms lives.
    pub(crate) fn with_instance_lock(mut self, lock: Option<InstanceLock>) -> Self {
        self.instance_lock = lock;
        self
    }

    pub(crate) fn instance_lock(&self) -> Option<InstanceLock> {
        self.instance_lock.clone()
    }

    /// Records what keeps this elector from leading. The next [`Self::publish`] makes it visible to readers.
    pub(crate) fn set_obstacle(&mut self, obstacle: Option<Obstacle>) {
        self.obstacle = obstacle;
    }

    /// Puts a decision into force. The caller must call this before it begins any action of that decision.
    pub(crate) fn publish(&mut self, leading: Option<Leading>, holder: Option<Holder>) {
        match leading {
            Some(Leading { number, token, valid_until }) => {
                let goes_on = self.term.as_ref().is_some_and(|term| (term.number, term.token) == (number, token));
                if !goes_on {
                    self.end_term();
                    let inner = TermInner::new(&self.shared, self.instance_lock.clone());
                    self.term = Some(Term { number, token, inner: Arc::new(inner) });
                    self.shared.terms.fetch_add(1, Ordering::Relaxed);
                }
                self.shared.valid_until_micros.store(valid_until.as_micros(), Ordering::SeqCst);
            }
            None => self.end_term(),
        }
        self.publish_validity(leading.map(|leading| leading.valid_until));
        let obstacle = self.obstacle.clone();
        let view = View { holder, term: leading.and(self.term.clone()), obstacle, ended: false };
        self.views.send_if_modified(|current| {
            // A renewal only moves the expiry, which is not reported as a change.
            let holder = |view: &View| view.holder.as_ref().map(|holder| holder.identity.clone());
            let changed =
                holder(current) != holder(&view) || current.term != view.term || current.obstacle != view.obstacle;
            *current = view;
            changed
        });
    }

    /// Locks the time range of this process.
    pub(crate) fn ranges(&self) -> MutexGuard<'_, RangeState> {
        self.shared.ranges.lock()
    }

    /// Publishes the term that the Lease shows.
    pub(crate) fn publish_holder(&self, term: ObservedTerm) {
        self.holders.send_if_modified(|latest| LatestTerm::update(latest, term));
    }

    /// Asks the work of the last term to stop. Completes when the work, and then the writes under way, have ended; at
    /// once if there are none.
    pub(crate) fn stop_work(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = self.term.as_ref().map(|term| Arc::clone(&term.inner));
        if let Some(inner) = &inner {
            inner.stop.cancel();
            inner.work.close();
        }
        async move {
            if let Some(inner) = inner {
                inner.work.wait().await;
                // From here on the gate admits no write. Each write under way has a deadline.
                inner.writes.close();
                inner.writes.wait().await;
            }
        }
    }

    /// Completes when the last term is resigned. One resignation completes one of these futures.
    pub(crate) fn resignation(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = self.term.as_ref().map(|term| Arc::clone(&term.inner));
        async move {
            match inner {
                Some(inner) => inner.resignation.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Why the elector is stopped.
    pub(crate) fn stop_cause(&self) -> Cause {
        self.shared.stop_cause.get().copied().unwrap_or(Cause::Stopped)
    }

    /// Makes the runner of the last term's work drop that work.
    pub(crate) fn abort_work(&self) {
        if let Some(term) = &self.term {
            term.abort();
        }
    }

    fn publish_validity(&self, validity: Option<Moment>) {
        self.validity.send_if_modified(|current| std::mem::replace(current, validity) != validity);
    }

    fn end_term(&self) {
        self.shared.valid_until_micros.store(OVER, Ordering::SeqCst);
        if let Some(term) = &self.term {
            term.inner.ended.cancel();
            term.inner.stop.cancel();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.end_term();
        self.ranges().stop_failing_open();
        self.publish_validity(None);
        self.views.send_replace(View { ended: true, ..View::default() });
    }
}
