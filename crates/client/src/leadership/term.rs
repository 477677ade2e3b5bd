//! A term of this process, and the work that runs in it.
//!
//! The rule that must hold: the end of a term is final, and no work begins in a term that has been asked to stop.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::shared::Shared;
use crate::instance::InstanceLock;

/// One term: from a take-up or claim until the elector loses the Lease or gives it up.
#[derive(Clone, Debug)]
pub struct Term {
    /// `spec.leaseTransitions` at the beginning of the term.
    pub number: u32,
    /// Grows with every term of the Lease, even across a deletion of the Lease. A write under a lower token is stale.
    /// The token also grows across a restore of etcd or a move to another cluster, provided that the Lease is not
    /// deleted afterwards (see `docs/backup-and-restore.md`).
    pub token: u64,
    pub(super) inner: Arc<TermInner>,
}

/// Keeps the elector from giving the Lease up while work runs. Drop it when the work has ended.
#[derive(Debug)]
pub struct Work {
    _token: TaskTrackerToken,
    _instance_lock: Option<InstanceLock>,
}

pub(super) struct TermInner {
    pub(super) shared: Arc<Shared>,
    /// The work must stop, while the term may continue.
    pub(super) stop: CancellationToken,
    pub(super) abort: CancellationToken,
    pub(super) work: TaskTracker,
    /// Writes through the gate. The gate admits them while work runs, because the work may need them to stop.
    pub(super) writes: TaskTracker,
    /// The term is over.
    pub(super) ended: CancellationToken,
    /// Keeps other processes from reclaiming the Lease while anything of this term is left.
    pub(super) instance_lock: Option<InstanceLock>,
    pub(super) resignation: Notify,
}

impl Term {
    /// The Lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.inner.shared.lease
    }

    /// Completes when the term ends or is about to be given up: the work must then stop. The elector cancels the term.
    /// If the elector is stuck, [`Elector::run`](crate::Elector::run) and [`Functions::run`](crate::Functions::run)
    /// cancel it when the validity ends. A caller that uses neither must also check
    /// [`Leadership::is_leader`](crate::Leadership::is_leader).
    pub async fn cancelled(&self) {
        self.inner.stop.cancelled().await;
    }

    /// Returns a token that is cancelled with the term, for code that takes a token. Cancelling the returned token does
    /// not affect the term.
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.stop.child_token()
    }

    /// Ends this term voluntarily: the elector stops the work, gives the Lease up, and stands aside before it campaigns
    /// again.
    ///
    /// The elector stands aside for 5 s, doubled with each further resignation, up to 5 min. A term that lasts longer
    /// than the next such pause resets the count. Resigning a term that is over has no effect.
    pub fn resign(&self) {
        self.inner.resignation.notify_one();
    }

    /// Registers work, so that the elector does not give the Lease up before the returned [`Work`] is dropped. Returns
    /// `None` if work must not begin any more.
    pub fn begin_work(&self) -> Option<Work> {
        // Take the token first, then check: either this check sees the stop, or the stop waits for this token.
        let token = self.inner.work.token();
        let work = Work { _token: token, _instance_lock: self.inner.instance_lock.clone() };
        if self.inner.stop.is_cancelled() {
            return None;
        }
        // This process may have been frozen since the term began.
        if self.inner.shared.remaining().is_zero() {
            self.lapse();
            return None;
        }
        Some(work)
    }

    /// Cancels the term because its validity is over by the clock: its elector is stuck, or is about to end the term
    /// itself. Also resigns the term: if a renewal succeeded at the last moment, the elector must give the Lease up,
    /// because the work has been asked to stop.
    pub(super) fn lapse(&self) {
        if !self.inner.stop.is_cancelled() {
            self.inner.stop.cancel();
            self.resign();
        }
    }

    /// Makes the runner of the work drop it.
    pub(super) fn abort(&self) {
        self.inner.abort.cancel();
    }

    /// Whether the term is over: no write may begin in it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.inner.ended.is_cancelled()
    }

    /// Completes when the work has used up its grace: the caller must drop it.
    pub async fn aborted(&self) {
        self.inner.abort.cancelled().await;
    }
}

/// Two terms are equal if they are the same term of the same elector.
impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Term {}

impl fmt::Debug for TermInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TermInner").field("lease", &self.shared.lease).finish_non_exhaustive()
    }
}

impl TermInner {
    pub(super) fn new(shared: &Arc<Shared>, instance_lock: Option<InstanceLock>) -> Self {
        Self {
            shared: Arc::clone(shared),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
            work: TaskTracker::new(),
            writes: TaskTracker::new(),
            ended: CancellationToken::new(),
            instance_lock,
            resignation: Notify::new(),
        }
    }
}
