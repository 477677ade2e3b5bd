//! What a process may know of its leadership, and the one place that tells it.
//!
//! The rule that must hold: whatever becomes of the task that campaigns (stuck, aborted, panicked), nobody goes on
//! reading that it leads. So nothing here says "leader"; it says until when, and every reader compares that with the
//! clock itself. The end of a term is final: a [`Term`] never comes back to life.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures::{Stream, stream};
use hustings_core::elector::{Leading, Timing};
use hustings_core::model::Moment;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::clock::Clock;
use crate::instance::InstanceLock;
use crate::time_range::{RangeState, Ranges};

mod writes;

pub(crate) use writes::TermWrite;

/// The validity of a term that is over, or of none.
const OVER: i64 = i64::MIN;

/// A handle by which any part of a process asks whether it leads. Clones are cheap.
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
    views: watch::Receiver<View>,
    validity: watch::Receiver<Option<Moment>>,
    holders: watch::Receiver<Option<String>>,
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

/// The holder that a Lease names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// `spec.holderIdentity`.
    pub identity: String,
    /// When the record expires if it does not change, by the local clock.
    pub expires_at: Moment,
}

/// One term: from a take-up or claim to the loss of the Lease or its giving up.
#[derive(Clone, Debug)]
pub struct Term {
    /// `spec.leaseTransitions` with which the term began.
    pub number: u32,
    /// Grows with every term of the Lease, also across its deletion: what is written under a lower one is stale.
    pub token: u64,
    inner: Arc<TermInner>,
}

/// Keeps the elector from giving the Lease up while work goes on. Dropping it says that the work has ended.
#[derive(Debug)]
pub struct Work {
    _token: TaskTrackerToken,
    _instance_lock: Option<InstanceLock>,
}

/// The writing end, owned by the task that campaigns. When it is dropped, for whatever reason, nobody leads.
pub(crate) struct Publisher {
    shared: Arc<Shared>,
    views: watch::Sender<View>,
    validity: watch::Sender<Option<Moment>>,
    /// Who was last seen to hold the Lease, by a term of its own.
    holders: watch::Sender<Option<String>>,
    term: Option<Term>,
    obstacle: Option<Obstacle>,
    instance_lock: Option<InstanceLock>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    lease: Arc<str>,
    identity: String,
    timing: Timing,
    valid_until_micros: AtomicI64,
    ranges: Ranges,
    terms: AtomicU64,
}

#[derive(Debug)]
struct TermInner {
    lease: Arc<str>,
    /// Work must stop, while the term may go on.
    stop: CancellationToken,
    abort: CancellationToken,
    work: TaskTracker,
    /// Writes by the gate. They are let in as long as there is work, which may need them in order to stop.
    writes: TaskTracker,
    /// The term is over.
    ended: CancellationToken,
    /// A Lease is not taken back at once while anything is left of a term that was led by it.
    instance_lock: Option<InstanceLock>,
    resignation: Notify,
}

/// A handle and its writing end. `lease` is `namespace/name`.
pub(crate) fn leadership(
    clock: Arc<dyn Clock>,
    lease: String,
    identity: String,
    timing: Timing,
) -> (Publisher, Leadership) {
    let valid_until_micros = AtomicI64::new(OVER);
    let (ranges, terms) = (Ranges::default(), AtomicU64::new(0));
    let shared = Arc::new(Shared { clock, lease: lease.into(), identity, timing, valid_until_micros, ranges, terms });
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

impl Leadership {
    /// Whether this process leads now. Costs one atomic load and one reading of the clock.
    pub fn is_leader(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// For how long this process certainly leads unless it gives up; zero if it does not lead.
    pub fn remaining(&self) -> Duration {
        // The load comes before the clock: what is true of the clock's instant was true of the load's, which is earlier.
        let valid_until = Moment::from_micros(self.shared.valid_until_micros.load(Ordering::SeqCst));
        valid_until.since(self.shared.clock.now())
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

    /// Waits for a term other than `former`.
    pub(crate) async fn next_term(&self, former: Option<&Term>) -> Option<Term> {
        let mut views = self.views.clone();
        let other = |view: &View| view.term.as_ref().filter(|term| former != Some(term)).cloned();
        let view = views.wait_for(|view| view.ended || other(view).is_some()).await.ok()?.clone();
        other(&view).filter(|_| !view.ended)
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    pub(crate) fn ranges(&self) -> &Ranges {
        &self.shared.ranges
    }

    pub(crate) fn holders(&self) -> watch::Receiver<Option<String>> {
        self.holders.clone()
    }
}

impl Term {
    /// The Lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.inner.lease
    }

    /// Completes when the term ends or is about to be given up: work must stop then.
    pub async fn cancelled(&self) {
        self.inner.stop.cancelled().await;
    }

    /// The token that is cancelled with the term, for code that takes one.
    pub fn cancellation(&self) -> CancellationToken {
        self.inner.stop.clone()
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
        (!self.inner.stop.is_cancelled()).then_some(work)
    }

    /// Completes when work has used up its grace: it must be dropped.
    pub async fn aborted(&self) {
        self.inner.abort.cancelled().await;
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

/// A term is the same if it is the same term of the same elector.
impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Term {}

impl Publisher {
    /// Keeps the lock of this instance for as long as it or any of its terms lives.
    pub(crate) fn with_instance_lock(mut self, lock: Option<InstanceLock>) -> Self {
        self.instance_lock = lock;
        self
    }

    pub(crate) fn instance_lock(&self) -> Option<InstanceLock> {
        self.instance_lock.clone()
    }

    /// Says for which other Lease the candidate of this elector's name stands; it is seen with what is published next.
    pub(crate) fn hinder(&mut self, candidate_stands_for: Option<&str>) {
        let told = self.obstacle.as_ref().map(|Obstacle::CandidateOfAnotherLease { other, .. }| other.as_str());
        if told != candidate_stands_for {
            self.obstacle = candidate_stands_for.map(|other| Obstacle::CandidateOfAnotherLease {
                identity: self.shared.identity.clone(),
                lease: self.shared.lease.to_string(),
                other: other.to_owned(),
            });
        }
    }

    /// Puts into force what was decided. It must be called before anything that was decided with it is begun.
    pub(crate) fn publish(&mut self, leading: Option<Leading>, holder: Option<Holder>) {
        match leading {
            Some(Leading { number, token, valid_until }) => {
                let goes_on = self.term.as_ref().is_some_and(|term| (term.number, term.token) == (number, token));
                if !goes_on {
                    self.end_term();
                    let inner = TermInner::new(&self.shared.lease, self.instance_lock.clone());
                    self.term = Some(Term { number, token, inner: Arc::new(inner) });
                    self.shared.terms.fetch_add(1, Ordering::Relaxed);
                }
                self.shared.valid_until_micros.store(valid_until.as_micros(), Ordering::SeqCst);
            }
            None => self.end_term(),
        }
        self.tell_validity(leading.map(|leading| leading.valid_until));
        let obstacle = self.obstacle.clone();
        let view = View { holder, term: leading.and(self.term.clone()), obstacle, ended: false };
        self.views.send_if_modified(|current| {
            // A renewal puts off the expiry, which is no change worth telling.
            let holder = |view: &View| view.holder.as_ref().map(|holder| holder.identity.clone());
            let changed =
                holder(current) != holder(&view) || current.term != view.term || current.obstacle != view.obstacle;
            *current = view;
            changed
        });
    }

    /// What this process may call its own.
    pub(crate) fn ranges(&self) -> MutexGuard<'_, RangeState> {
        self.shared.ranges.lock()
    }

    /// Who holds the Lease, by a term of its own.
    pub(crate) fn tell_holder(&self, holder: &str) {
        self.holders.send_if_modified(|known| {
            let is_new = known.as_deref() != Some(holder);
            if is_new {
                *known = Some(holder.to_owned());
            }
            is_new
        });
    }

    /// Asks the work of the last term to stop; completes when it has, and with it the writes under way, at once where
    /// there is none.
    pub(crate) fn stop_work(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = self.term.as_ref().map(|term| Arc::clone(&term.inner));
        if let Some(inner) = &inner {
            inner.stop.cancel();
            inner.work.close();
        }
        async move {
            if let Some(inner) = inner {
                inner.work.wait().await;
                // From here on none is let in, and each of those under way has a deadline.
                inner.writes.close();
                inner.writes.wait().await;
            }
        }
    }

    /// Completes when the last term is resigned; once for each time that is said.
    pub(crate) fn resignation(&self) -> impl Future<Output = ()> + Send + use<> {
        let inner = self.term.as_ref().map(|term| Arc::clone(&term.inner));
        async move {
            match inner {
                Some(inner) => inner.resignation.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Has the work of the last term dropped.
    pub(crate) fn abort_work(&self) {
        if let Some(term) = &self.term {
            term.inner.abort.cancel();
        }
    }

    fn tell_validity(&self, validity: Option<Moment>) {
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
        self.tell_validity(None);
        self.views.send_replace(View { ended: true, ..View::default() });
    }
}

impl TermInner {
    fn new(lease: &Arc<str>, instance_lock: Option<InstanceLock>) -> Self {
        Self {
            lease: Arc::clone(lease),
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

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use super::*;
    use crate::testing::HandClock;

    fn leading(token: u64, valid_until_seconds: i64) -> Leading {
        Leading { number: 1, token, valid_until: Moment::from_micros(valid_until_seconds * 1_000_000) }
    }

    fn handles() -> (Arc<HandClock>, Publisher, Leadership) {
        let clock = HandClock::at_seconds(100);
        let (publisher, leadership) = leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
        (clock, publisher, leadership)
    }

    #[test]
    fn a_reader_leads_until_the_validity_ends_by_its_own_clock() {
        let (clock, mut publisher, leadership) = handles();
        assert!(!leadership.is_leader());
        publisher.publish(Some(leading(7, 110)), None);
        assert!(leadership.is_leader());
        assert_eq!(leadership.remaining(), Duration::from_secs(10));
        assert_eq!(leadership.term().map(|term| term.token), Some(7));
        clock.set_seconds(110);
        assert!(!leadership.is_leader(), "nobody has said so, and it is over");
        assert_eq!(leadership.term(), None);
    }

    #[test]
    fn nobody_leads_when_the_writing_end_is_gone() {
        let (_clock, mut publisher, leadership) = handles();
        publisher.publish(Some(leading(7, 110)), None);
        let term = leadership.term().unwrap();
        drop(publisher);
        assert!(!leadership.is_leader());
        assert_eq!(term.cancelled().now_or_never(), Some(()));
        assert_eq!(leadership.wait_until_leader().now_or_never(), Some(None));
        assert_eq!(leadership.ended().now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn each_renewal_and_the_end_are_told_to_whoever_has_to_act_when_nobody_renews() {
        let (_clock, mut publisher, leadership) = handles();
        let mut validity = Box::pin(leadership.validity());
        assert_eq!(validity.next().await, Some(None));
        for until in [110, 112] {
            publisher.publish(Some(leading(7, until)), None);
            assert_eq!(validity.next().await, Some(Some(Moment::from_micros(until * 1_000_000))));
            publisher.publish(Some(leading(7, until)), None);
            assert_eq!(validity.next().now_or_never(), None, "nothing has changed");
        }
        drop(publisher);
        assert_eq!(validity.next().await, Some(None));
    }

    #[test]
    fn another_token_is_another_term_and_the_former_one_is_cancelled() {
        let (_clock, mut publisher, leadership) = handles();
        publisher.publish(Some(leading(7, 110)), None);
        let first = leadership.term().unwrap();
        publisher.publish(Some(leading(7, 112)), None);
        assert_eq!(leadership.term(), Some(first.clone()));
        assert_eq!(first.cancelled().now_or_never(), None);
        publisher.publish(Some(leading(9, 114)), None);
        assert_eq!(first.cancelled().now_or_never(), Some(()));
        let second = leadership.next_term(Some(&first)).now_or_never().flatten().unwrap();
        assert_eq!((second.token, second.cancelled().now_or_never()), (9, None));
        assert_eq!(leadership.next_term(Some(&second)).now_or_never(), None, "it waits for a third");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_lock_is_held_until_the_work_of_a_term_has_ended() {
        let instance =
            || crate::instance::Instance::new(Some(&format!("work-{}", std::process::id())), None, "n/l", "ff");
        let (_clock, publisher, leadership) = handles();
        let mut publisher = publisher.with_instance_lock(instance().lock);
        publisher.publish(Some(leading(7, 110)), None);
        let work = leadership.term().and_then(|term| term.begin_work()).unwrap();
        drop((publisher, leadership));
        assert!(instance().lock.is_none(), "the elector is gone, and its work goes on");
        drop(work);
        assert!(instance().lock.is_some());
    }

    #[test]
    fn stopping_waits_for_work_and_lets_no_more_begin() {
        let (_clock, mut publisher, leadership) = handles();
        assert_eq!(publisher.stop_work().now_or_never(), Some(()), "there is no work");
        publisher.publish(Some(leading(7, 110)), None);
        let term = leadership.term().unwrap();
        let work = term.begin_work().unwrap();
        let mut stopped = Box::pin(publisher.stop_work());
        assert_eq!((&mut stopped).now_or_never(), None);
        assert!(leadership.is_leader(), "work is stopped while renewals go on");
        assert!(term.begin_work().is_none());
        publisher.abort_work();
        assert_eq!(term.aborted().now_or_never(), Some(()));
        drop(work);
        assert_eq!(stopped.now_or_never(), Some(()));
    }

    #[test]
    fn each_promotion_is_told_once_and_the_running_term_first() {
        let (_clock, mut publisher, leadership) = handles();
        publisher.publish(Some(leading(7, 110)), None);
        let mut promotions = Box::pin(leadership.promotions());
        let mut next = move || promotions.next().now_or_never().map(|term| term.map(|term| term.token));
        assert_eq!(next(), Some(Some(7)));
        publisher.publish(Some(leading(7, 112)), None);
        assert_eq!(next(), None, "a renewal is none");
        publisher.publish(None, None);
        assert_eq!(next(), None);
        publisher.publish(Some(leading(9, 114)), None);
        assert_eq!(next(), Some(Some(9)));
        drop(publisher);
        assert_eq!(next(), Some(None));
    }

    #[tokio::test]
    async fn the_holder_is_known_until_its_record_expires_and_changes_are_told() {
        let (clock, mut publisher, leadership) = handles();
        let mut changes = Box::pin(leadership.changes());
        assert_eq!(changes.next().await, Some(View::default()));
        let holder = Holder { identity: "b".to_owned(), expires_at: Moment::from_micros(115_000_000) };
        publisher.publish(None, Some(holder.clone()));
        assert_eq!(changes.next().await.and_then(|view| view.holder), Some(holder.clone()));
        publisher.publish(None, Some(Holder { expires_at: Moment::from_micros(117_000_000), ..holder }));
        assert_eq!(changes.next().now_or_never(), None, "a renewal is no change");
        assert_eq!(leadership.holder().as_deref(), Some("b"));
        clock.set_seconds(117);
        assert_eq!(leadership.holder(), None);
        drop(publisher);
        assert!(changes.next().await.is_some_and(|view| view.ended));
        assert_eq!(changes.next().await, None);
    }
}
