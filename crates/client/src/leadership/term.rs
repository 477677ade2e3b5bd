//! A term of this process, and the work that is done in it.
//!
//! The rule that must hold: the end of a term is final, and no work begins in a term that has been asked to stop.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Shared;
use crate::instance::InstanceLock;

/// One term: from a take-up or claim to the loss of the Lease or its giving up.
#[derive(Clone, Debug)]
pub struct Term {
    /// `spec.leaseTransitions` with which the term began.
    pub number: u32,
    /// Grows with every term of the Lease, also across its deletion: what is written under a lower one is stale. It grows
    /// across a restore of etcd or a move to another cluster as well, provided that the Lease is not deleted afterwards
    /// (see `docs/backup-and-restore.md`).
    pub token: u64,
    pub(super) inner: Arc<TermInner>,
}

/// Keeps the elector from giving the Lease up while work goes on. Dropping it says that the work has ended.
#[derive(Debug)]
pub struct Work {
    _token: TaskTrackerToken,
    _instance_lock: Option<InstanceLock>,
}

pub(super) struct TermInner {
    pub(super) shared: Arc<Shared>,
    /// Work must stop, while the term may go on.
    pub(super) stop: CancellationToken,
    pub(super) abort: CancellationToken,
    pub(super) work: TaskTracker,
    /// Writes by the gate. They are let in as long as there is work, which may need them in order to stop.
    pub(super) writes: TaskTracker,
    /// The term is over.
    pub(super) ended: CancellationToken,
    /// A Lease is not taken back at once while anything is left of a term that was led by it.
    pub(super) instance_lock: Option<InstanceLock>,
    pub(super) resignation: Notify,
}

impl Term {
    /// The Lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.inner.shared.lease
    }

    /// Completes when the term ends or is about to be given up: work must stop then. The elector says so, and where that
    /// stands still [`Elector::run`](crate::Elector::run) and [`Functions::run`](crate::Functions::run) do, by the clock.
    /// Whoever uses neither asks [`Leadership::is_leader`](crate::Leadership::is_leader) too.
    pub async fn cancelled(&self) {
        self.inner.stop.cancelled().await;
    }

    /// A token that is cancelled with the term, for code that takes one. To cancel it ends nothing but what listens to it.
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.stop.child_token()
    }

    /// Ends this term of one's own accord: work is stopped, the Lease is given up, and the elector stands aside before it
    /// stands again: for 5 s, and twice as long after each resignation, up to 5 min; a term that lasts longer than that
    /// begins the count anew. Of a term that is over this changes nothing.
    pub fn resign(&self) {
        self.inner.resignation.notify_one();
    }

    /// Says that work begins, so that the Lease is not given up before it has ended. `None` if it must not begin any
    /// more.
    pub fn begin_work(&self) -> Option<Work> {
        // First the token, then the look: either we see that work must stop, or whoever stops it waits for us.
        let token = self.inner.work.token();
        let work = Work { _token: token, _instance_lock: self.inner.instance_lock.clone() };
        if self.inner.stop.is_cancelled() {
            return None;
        }
        // This process may have stood still since the term began.
        if self.inner.shared.remaining().is_zero() {
            self.lapse();
            return None;
        }
        Some(work)
    }

    /// Ends it by the clock. Its elector stands still, or is just about to say the same; if it has been renewed at the
    /// last moment the Lease is given up, for the sake of work that has been told to stop.
    pub(super) fn lapse(&self) {
        if !self.inner.stop.is_cancelled() {
            self.inner.stop.cancel();
            self.resign();
        }
    }

    /// Has its work dropped.
    pub(super) fn abort(&self) {
        self.inner.abort.cancel();
    }

    /// Whether it is over: nothing may be written in it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.inner.ended.is_cancelled()
    }

    /// Completes when work has used up its grace: it must be dropped.
    pub async fn aborted(&self) {
        self.inner.abort.cancelled().await;
    }
}

/// A term is the same if it is the same term of the same elector.
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
