//! What a process may know of its leadership, and the one place that tells it.
//!
//! The rule that must hold: whatever becomes of the task that campaigns (stuck, aborted, panicked), nobody goes on
//! reading that it leads. So nothing here says "leader"; it says until when, and every reader compares that with the
//! clock itself. The end of a term is final: a [`Term`] never comes back to life.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, stream};
use hustings_core::elector::Timing;
use hustings_core::model::Moment;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::time_range::{Ranges, Told};

mod publisher;
mod term;
mod writes;

pub(crate) use publisher::{Publisher, leadership};
pub use term::{Term, Work};
pub(crate) use writes::TermWrite;

/// A handle by which any part of a process asks whether it leads. Clones are cheap.
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
    views: watch::Receiver<View>,
    validity: watch::Receiver<Option<Moment>>,
    holders: watch::Receiver<Option<Told>>,
}

/// What is known at one time of a Lease, and of one's own part in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The holder, as long as nothing newer is seen and the record has not expired.
    pub holder: Option<Holder>,
    /// The term that this elector leads.
    pub term: Option<Term>,
    /// What keeps this elector from leading until a person changes it.
    pub obstacle: Option<Obstacle>,
    /// The elector has ended, in order or not, and will never lead again.
    pub ended: bool,
}

/// What keeps an elector from leading until a person changes it. It tries on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A candidate stands for one Lease, for as long as it lives.
    #[error(
        "LeaseCandidate {identity} stands for Lease {other} and not for {lease}: give each elector an identity of its own"
    )]
    CandidateOfAnotherLease {
        /// The name of the candidate.
        identity: String,
        /// The Lease of this elector, as `namespace/name`.
        lease: String,
        /// The name of the other one, in the same namespace.
        other: String,
    },
}

impl Obstacle {
    /// Whether patience alone may help: not before a person changes it. The elector tries on, and needs no restart then.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::CandidateOfAnotherLease { .. } => false,
        }
    }
}

/// The holder that a Lease names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// `spec.holderIdentity`.
    pub identity: String,
    /// When the record expires if it does not change, by the local clock.
    pub expires_at: Moment,
}

/// How much later than the elector work is told that its term is over, so that an elector that lives does it in order.
/// The Lease lasts longer than the validity by more.
const LATENESS: Duration = Duration::from_millis(100);

struct Shared {
    clock: Arc<dyn Clock>,
    lease: Arc<str>,
    identity: String,
    timing: Timing,
    valid_until_micros: AtomicI64,
    ranges: Ranges,
    terms: AtomicU64,
}

impl Leadership {
    /// Whether this process leads now. Costs one atomic load and one reading of the clock.
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// For how long this process certainly leads unless it gives up; zero if it does not lead.
    pub fn remaining(&self) -> Duration {
        self.shared.remaining()
    }

    /// Until when this process leads unless it renews or gives up, by the elector's clock: the value of now, and then
    /// of each renewal. `None` while it does not lead. It is for those who have to act when nobody renews; whether this
    /// process leads is asked of [`Leadership::is_leader`].
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

    /// The identity that holds the Lease, as far as is known here.
    pub fn holder(&self) -> Option<String> {
        let holder = self.views.borrow().holder.clone()?;
        (self.shared.clock.now() < holder.expires_at).then_some(holder.identity)
    }

    /// What keeps this elector from leading until a person changes it.
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.views.borrow().obstacle.clone()
    }

    /// Waits until this process leads. `None` says that it never will again.
    pub async fn wait_until_leader(&self) -> Option<Term> {
        self.next_term(None).await
    }

    /// Waits until the elector has ended.
    pub async fn ended(&self) {
        let mut views = self.views.clone();
        // An error says that the writing end is gone, and the elector with it.
        let _ = views.wait_for(|view| view.ended).await;
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn has_ended(&self) -> bool {
        self.views.borrow().ended
    }

    /// What is known now, and then each change of it. Whoever is slow misses what lay between, never the last.
    pub fn changes(&self) -> impl Stream<Item = View> + Send + use<> {
        latest(self.views.clone())
    }

    /// Each term that this process leads, the running one first. Whoever is slow misses terms that are over, never the
    /// last. What a follower left undone is to be done now: see
    /// [`Controller::reconcile_all_on`](kube::runtime::Controller::reconcile_all_on).
    pub fn promotions(&self) -> impl Stream<Item = Term> + Send + use<> {
        stream::unfold((self.clone(), None), |(leadership, former)| async move {
            let term = leadership.next_term(former.as_ref()).await?;
            Some((term.clone(), (leadership, Some(term))))
        })
    }

    /// The Lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.shared.lease
    }

    /// The identity under which the Lease would be held.
    pub fn identity(&self) -> &str {
        &self.shared.identity
    }

    /// Waits for a term other than `former` that is not over.
    pub(crate) async fn next_term(&self, former: Option<&Term>) -> Option<Term> {
        let (mut views, mut validity) = (self.views.clone(), self.validity.clone());
        loop {
            // Before the look, so that nothing that comes after it is missed.
            validity.mark_unchanged();
            let view = views.borrow_and_update().clone();
            if view.ended {
                return None;
            }
            let other = view.term.filter(|term| former != Some(term));
            // The elector may stand still, and the term it has told be over.
            if other.is_some() && self.is_leader() {
                return other;
            }
            tokio::select! {
                changed = views.changed() => changed.ok()?,
                changed = validity.changed() => changed.ok()?,
            }
        }
    }

    /// Completes when work in this term has to be dropped although its elector does not say so, as it is dead or stands
    /// still: a grace after its end, or after the end of the validity. Work is told to stop when that begins.
    pub(crate) async fn overdue(&self, term: &Term, grace: Duration) {
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
        clock.sleep_until(clock.now().after(grace)).await;
        term.abort();
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(crate) fn ranges(&self) -> &Ranges {
        &self.shared.ranges
    }

    pub(crate) fn holders(&self) -> watch::Receiver<Option<Told>> {
        self.holders.clone()
    }
}

impl Shared {
    fn valid_until(&self) -> Moment {
        Moment::from_micros(self.valid_until_micros.load(Ordering::SeqCst))
    }

    fn remaining(&self) -> Duration {
        // The load comes before the clock: what is true of the clock's instant was true of the load's, which is earlier.
        let valid_until = self.valid_until();
        valid_until.since(self.clock.now())
    }
}

/// The value of now, and then each change. Whoever is slow misses what lay between, never the last.
fn latest<T: Clone + Send + Sync + 'static>(mut values: watch::Receiver<T>) -> impl Stream<Item = T> + Send {
    values.mark_changed();
    stream::unfold(values, |mut values| async move {
        values.changed().await.ok()?;
        let value = values.borrow_and_update().clone();
        Some((value, values))
    })
}

#[cfg(test)]
mod tests;
