//! The leadership of this process: one task publishes it, and any part of the process reads it.
//!
//! The rule that must hold: if the campaign's task gets stuck, is aborted or panics, the handles soon report that this
//! process does not lead. So the shared state is not a flag but the end of the validity, and each reader compares it
//! with the clock. The end of a term is final: a [`Term`] never becomes valid again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{Stream, stream};
use hustings_core::model::{Cause, Moment};
use hustings_wire::driver::LatestTerm;
pub use hustings_wire::driver::{Holder, Obstacle};
use tokio::sync::watch;

use crate::clock::Clock;

use crate::leadership::shared::Shared;
use crate::leadership::term::Term;

/// A handle for checking whether this process leads. Clones are cheap.
#[derive(Clone)]
pub struct Leadership {
    pub(super) shared: Arc<Shared>,
    pub(super) views: watch::Receiver<View>,
    pub(super) validity: watch::Receiver<Option<Moment>>,
    pub(super) holders: watch::Receiver<Option<LatestTerm>>,
}

/// A snapshot of the Lease and of this elector's part in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The holder that the newest observed record names, unless that record has expired.
    pub holder: Option<Holder>,
    /// The term that this elector leads.
    pub term: Option<Term>,
    /// The condition that keeps this elector from leading until a person changes it.
    pub obstacle: Option<Obstacle>,
    /// The elector has ended, gracefully or not, and will never lead again.
    pub ended: bool,
}

/// How long after the end of the validity the clock stops the work. A live elector stops the work earlier. With the
/// default timing, the Lease outlasts the validity by 5 s.
const LATENESS: Duration = Duration::from_millis(100);

impl Leadership {
    /// Whether this process leads now. Costs one atomic load and one reading of the clock.
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long this process continues to lead even without a renewal, unless it gives the Lease up. Zero if it does
    /// not lead.
    pub fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    /// The end of the validity by the elector's clock: the current value first, then each change. `None` while this
    /// process does not lead. A renewal extends the validity; a process that gives the Lease up ends it early.
    ///
    /// Use it for code that must act when renewals stop. To check whether this process leads, use
    /// [`Leadership::is_leader`].
    pub fn validity(&self) -> impl Stream<Item = Option<Moment>> + Send + use<> {
        latest(self.validity.clone())
    }

    /// The term that this process leads now.
    pub fn term(&self) -> Option<Term> {
        let term = self.views.borrow().term.clone();
        term.filter(|_| self.is_leader())
    }

    /// How many terms this elector has begun.
    pub fn terms(&self) -> u64 {
        self.shared.terms.load(Ordering::Relaxed)
    }

    /// The identity that holds the Lease, as far as this elector knows.
    pub fn holder(&self) -> Option<String> {
        let holder = self.views.borrow().holder.clone()?;
        (self.shared.clock.now() < holder.expires_at).then_some(holder.identity)
    }

    /// The condition that keeps this elector from leading until a person changes it.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.views.borrow().obstacle.clone()
    }

    /// Waits until this process leads. Returns `None` if the elector has ended and will never lead again.
    pub async fn wait_until_leader(&self) -> Option<Term> {
        self.next_term(None).await
    }

    /// Waits until the elector has ended.
    pub async fn ended(&self) {
        let mut views = self.views.clone();
        // An error means that the publisher is gone, so the elector has ended.
        let _ = views.wait_for(|view| view.ended).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.views.borrow().ended
    }

    /// The current view first, then each change. Slow readers skip intermediate views, never the latest.
    pub fn changes(&self) -> impl Stream<Item = View> + Send + use<> {
        latest(self.views.clone())
    }

    /// Each term that this process leads, the running one first. Slow readers skip terms that are over, never the
    /// latest. A controller can use it to reconcile everything that it skipped while it did not lead: see
    /// [`Controller::reconcile_all_on`](kube::runtime::Controller::reconcile_all_on).
    pub fn promotions(&self) -> impl Stream<Item = Term> + Send + use<> {
        stream::unfold((self.clone(), None), |(leadership, former)| async move {
            let term = leadership.next_term(former.as_ref()).await?;
            Some((term.clone(), (leadership, Some(term))))
        })
    }

    /// Records why this elector is about to be stopped, for the [history](hustings_core::model::History) of the Lease.
    /// Only the first call counts. Without a call, the cause is [`Cause::Stopped`].
    pub fn set_stop_cause(&self, cause: Cause) {
        // A later cause is a consequence of the first.
        let _ = self.shared.stop_cause.set(cause);
    }

    /// The Lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.shared.lease
    }

    /// The identity under which this elector holds the Lease.
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }

    /// Waits for a running term other than `former`.
    pub(crate) async fn next_term(&self, former: Option<&Term>) -> Option<Term> {
        let (mut views, mut validity) = (self.views.clone(), self.validity.clone());
        loop {
            let other = views.borrow_and_update().term.clone().filter(|term| former != Some(term));
            // If the elector is stuck, the term that it published last may be over.
            if other.is_some() && self.is_leader() {
                return other;
            }
            // An error means that the publisher is gone, so the elector has ended.
            tokio::select! {
                changed = views.changed() => changed.ok()?,
                changed = validity.changed() => changed.ok()?,
            }
        }
    }

    /// Completes when the caller must drop the work of this term without a request from the elector, which is dead or
    /// stuck. That is one stop grace after the end of the elector or of the validity. When the grace begins, the work
    /// is asked to stop.
    pub(crate) async fn overdue(&self, term: &Term) {
        let clock = &self.shared.clock;
        let lapsed = async {
            loop {
                let at = self.shared.valid_until().after(LATENESS);
                if clock.now() >= at {
                    return;
                }
                clock.sleep_until(at).await;
            }
        };
        tokio::select! {
            () = self.ended() => {}
            () = lapsed => term.lapse(),
        }
        clock.sleep_until(clock.now().after(self.shared.timing.stop_grace())).await;
        term.abort();
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }
}

/// The current value first, then each change. Slow readers skip intermediate values, never the latest.
pub(crate) fn latest<T: Clone + Send + Sync + 'static>(mut values: watch::Receiver<T>) -> impl Stream<Item = T> + Send {
    values.mark_changed();
    stream::unfold(values, |mut values| async move {
        values.changed().await.ok()?;
        let value = values.borrow_and_update().clone();
        Some((value, values))
    })
}

#[cfg(test)]
mod tests;
