//! Limits the requests in flight, and shares the limit fairly among namespaces.
//!
//! Requests of one namespace may hang, for example because of an admission webhook that never answers. They must not
//! delay the requests of other namespaces. A namespace may take a slot while it holds fewer slots than are free beyond
//! a reserve:
//!
//! | reserve | the namespace holds no slot | the namespace holds some |
//! |---|---|---|
//! | its requests are answered in time | none | a quarter of all slots |
//! | its requests hang | a quarter | half |
//!
//! So a single busy namespace uses up to three eighths of all slots. Each further one uses half of those that are then
//! free beyond the reserve. However many namespaces are known to hang, a quarter of all slots stays free for the
//! others. Namespaces that all begin to hang within the same two seconds may hold every slot once, until their requests
//! time out.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// A namespace hangs if one of its requests takes this long.
const HANGING: Duration = Duration::from_secs(2);

/// How long the namespace then counts as hanging. The pause after a failed request is shorter.
const REMEMBERED: Duration = Duration::from_secs(30);

/// A fixed number of slots. Clones share them.
#[derive(Clone)]
pub(super) struct Slots(Arc<Mutex<SlotState>>);

/// A slot. Dropping it frees the slot.
pub(super) struct Slot {
    slots: Slots,
    namespace: Arc<str>,
    taken_at: Instant,
}

struct SlotState {
    count: usize,
    free: usize,
    /// The namespaces that have slots, wait for some, or hang.
    namespaces: HashMap<Arc<str>, SlotUsage>,
    /// The namespaces that wait, in the order in which they are served.
    round: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct SlotUsage {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
    hung_at: Option<Instant>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let state = SlotState { count, free: count, namespaces: HashMap::new(), round: VecDeque::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a slot for a request of `namespace`. A dropped future leaves the queue.
    pub(super) async fn take(&self, namespace: &Arc<str>) -> Slot {
        loop {
            let granted = {
                let mut state = self.state();
                if state.take(namespace) {
                    return self.slot(namespace);
                }
                state.wait(namespace)
            };
            if let Ok(slot) = granted.await {
                return slot;
            }
        }
    }

    /// Takes a slot if one is free for `namespace`.
    pub(super) fn try_take(&self, namespace: &Arc<str>) -> Option<Slot> {
        self.state().take(namespace).then(|| self.slot(namespace))
    }

    fn slot(&self, namespace: &Arc<str>) -> Slot {
        Slot { slots: self.clone(), namespace: Arc::clone(namespace), taken_at: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        // A poisoned lock is safe to use, since no code under it can panic half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotState {
    /// Takes a slot, unless `namespace` has its full share or already waits. Returns whether it took one.
    fn take(&mut self, namespace: &Arc<str>) -> bool {
        let known = self.namespaces.get(namespace);
        let takes = known.is_none_or(|usage| usage.waiting.is_empty())
            && known.unwrap_or(&SlotUsage::default()).may_take(self.free, self.count);
        if takes {
            self.namespaces.entry(Arc::clone(namespace)).or_default().taken += 1;
            self.free -= 1;
        }
        takes
    }

    fn wait(&mut self, namespace: &Arc<str>) -> oneshot::Receiver<Slot> {
        let (sender, granted) = oneshot::channel();
        let usage = self.namespaces.entry(Arc::clone(namespace)).or_default();
        if usage.waiting.is_empty() {
            self.round.push_back(Arc::clone(namespace));
        }
        usage.waiting.push_back(sender);
        granted
    }

    fn release(&mut self, namespace: &Arc<str>, taken_at: Instant) {
        self.free += 1;
        let Some(usage) = self.namespaces.get_mut(namespace) else { return };
        usage.taken -= 1;
        if taken_at.elapsed() >= HANGING {
            usage.hung_at = Some(Instant::now());
            // Remove namespaces that hung long ago, so that the map does not grow.
            self.namespaces.retain(|_, usage| !usage.is_idle());
        } else if usage.is_idle() {
            self.namespaces.remove(namespace);
        }
    }

    /// Assigns the free slots to waiting requests, one per namespace in turn, until no namespace may have more.
    fn serve(&mut self) -> Vec<(Arc<str>, oneshot::Sender<Slot>)> {
        let mut served = Vec::new();
        let mut passed_over = 0;
        while passed_over < self.round.len() {
            let Some(namespace) = self.round.pop_front() else { break };
            let Some(usage) = self.namespaces.get_mut(&namespace) else { continue };
            while usage.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                usage.waiting.pop_front();
            }
            if usage.may_take(self.free, self.count) {
                if let Some(sender) = usage.waiting.pop_front() {
                    usage.taken += 1;
                    self.free -= 1;
                    served.push((Arc::clone(&namespace), sender));
                    passed_over = 0;
                }
            } else {
                passed_over += usize::from(!usage.waiting.is_empty());
            }
            if !usage.waiting.is_empty() {
                self.round.push_back(namespace);
            } else if usage.is_idle() {
                self.namespaces.remove(&namespace);
            }
        }
        served
    }
}

impl SlotUsage {
    fn may_take(&self, free: usize, count: usize) -> bool {
        let quarters = usize::from(self.taken > 0) + usize::from(self.hangs());
        self.taken < free.saturating_sub(count / 4 * quarters)
    }

    fn hangs(&self) -> bool {
        self.hung_at.is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Whether this namespace no longer needs an entry.
    fn is_idle(&self) -> bool {
        self.taken == 0 && self.waiting.is_empty() && !self.hangs()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let served = {
            let mut state = self.slots.state();
            state.release(&self.namespace, self.taken_at);
            state.serve()
        };
        for (namespace, sender) in served {
            // If the receiver is gone, this drops the slot, which frees it again.
            drop(sender.send(self.slots.slot(&namespace)));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn namespaces(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|number| format!("n{number}").into()).collect()
    }

    /// Takes as many slots as `namespace` may have.
    fn fill(slots: &Slots, namespace: &Arc<str>) -> Vec<Slot> {
        std::iter::from_fn(|| slots.try_take(namespace)).collect()
    }

    #[test]
    fn a_single_namespace_may_have_three_eighths_and_many_leave_slots_for_others() {
        let slots = Slots::new(128);
        let taken: Vec<_> = namespaces(30).iter().map(|namespace| fill(&slots, namespace)).collect();
        assert_eq!([taken[0].len(), taken[1].len(), taken[29].len()], [48, 24, 1]);
        assert!(slots.try_take(&"other".into()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_that_hang_leave_a_quarter_of_the_slots_to_the_others() {
        let (slots, namespaces) = (Slots::new(128), namespaces(100));
        let first: Vec<_> = namespaces.iter().filter_map(|namespace| slots.try_take(namespace)).collect();
        assert_eq!(first.len(), 100);
        tokio::time::advance(HANGING).await;
        drop(first);
        let taken: Vec<_> = namespaces.iter().map(|namespace| fill(&slots, namespace)).collect();
        assert_eq!([taken[0].len(), slots.state().free], [32, 32]);
        assert!(slots.try_take(&"other".into()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_no_longer_hangs_gets_its_full_share_and_is_forgotten() {
        let (slots, namespaces) = (Slots::new(128), namespaces(2));
        let hang = async |namespace| {
            let slot = slots.try_take(namespace).unwrap();
            tokio::time::advance(HANGING).await;
            drop(slot);
        };
        hang(&namespaces[0]).await;
        drop(slots.try_take(&namespaces[0]));
        assert_eq!(
            fill(&slots, &namespaces[0]).len(),
            32,
            "a request that was answered in time does not end the hanging"
        );
        tokio::time::advance(REMEMBERED / 2).await;
        hang(&namespaces[0]).await;
        tokio::time::advance(REMEMBERED / 2).await;
        assert_eq!(fill(&slots, &namespaces[0]).len(), 32, "it hung again meanwhile");
        tokio::time::advance(REMEMBERED / 2).await;
        assert_eq!(fill(&slots, &namespaces[0]).len(), 48);
        hang(&namespaces[0]).await;
        tokio::time::advance(REMEMBERED).await;
        hang(&namespaces[1]).await;
        assert_eq!(slots.state().namespaces.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_overtakes_none_of_its_namespace_that_waits() {
        let (slots, namespace) = (Slots::new(128), "n".into());
        let slot = slots.try_take(&namespace).unwrap();
        tokio::time::advance(HANGING).await;
        drop(slot);
        let mut taken = fill(&slots, &namespace);
        let mut waiting = Box::pin(slots.take(&namespace));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Its share grows, although no slot becomes free.
        tokio::time::advance(REMEMBERED).await;
        assert!(slots.try_take(&namespace).is_none());
        taken.pop();
        assert!(waiting.as_mut().now_or_never().is_some());
    }

    #[test]
    fn every_namespace_may_have_a_slot_while_one_is_free() {
        let slots = Slots::new(2);
        let namespaces = namespaces(3);
        let taken: Vec<_> = namespaces.iter().filter_map(|namespace| slots.try_take(namespace)).collect();
        assert_eq!(taken.len(), 2);
    }

    #[test]
    fn a_slot_that_becomes_free_goes_to_the_namespaces_in_turn() {
        let slots = Slots::new(1);
        let namespaces = namespaces(2);
        let (busy, single) = (&namespaces[0], &namespaces[1]);
        let first = slots.try_take(busy).unwrap();
        let mut waiting = [busy, busy, busy, single].map(|namespace| Box::pin(slots.take(namespace)));
        assert!(waiting.iter_mut().all(|request| request.as_mut().now_or_never().is_none()));
        drop(first);
        let second = waiting[0].as_mut().now_or_never().unwrap();
        drop(second);
        assert!(
            waiting[3].as_mut().now_or_never().is_some(),
            "the single request is served before the rest of the busy namespace"
        );
    }

    #[test]
    fn a_dropped_request_leaves_the_queue_and_no_entry_remains() {
        let slots = Slots::new(1);
        let namespaces = namespaces(2);
        let first = slots.try_take(&namespaces[0]).unwrap();
        let mut gone = Box::pin(slots.take(&namespaces[0]));
        let mut waiting = Box::pin(slots.take(&namespaces[1]));
        assert!(gone.as_mut().now_or_never().is_none() && waiting.as_mut().now_or_never().is_none());
        drop(gone);
        drop(first);
        drop(waiting.as_mut().now_or_never().unwrap());
        let state = slots.state();
        assert!(state.free == 1 && state.namespaces.is_empty() && state.round.is_empty());
    }

    #[test]
    fn a_slot_for_a_dropped_request_goes_to_the_next() {
        let slots = Slots::new(1);
        let namespace: Arc<str> = "n".into();
        let first = slots.try_take(&namespace).unwrap();
        let mut gone = Box::pin(slots.take(&namespace));
        let mut next = Box::pin(slots.take(&namespace));
        assert!(gone.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
        drop(first);
        drop(gone);
        let slot = next.as_mut().now_or_never();
        assert!(slot.is_some() && slots.state().namespaces[&namespace].taken == 1, "the slot counts for its namespace");
    }

    #[test]
    fn a_slot_passes_over_any_number_of_dropped_requests() {
        let slots = Slots::new(1);
        let namespace: Arc<str> = "n".into();
        let first = slots.try_take(&namespace).unwrap();
        let mut gone: Vec<_> = (0..100_000).map(|_| Box::pin(slots.take(&namespace))).collect();
        assert!(gone.iter_mut().all(|request| request.as_mut().now_or_never().is_none()));
        drop(gone);
        drop(first);
        assert_eq!(slots.state().free, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_without_a_claim_keeps_no_other_from_several_slots_at_once() {
        let (slots, namespaces) = (Slots::new(128), namespaces(72));
        let [hanging, recovered, others @ ..] = &namespaces[..] else { unreachable!() };
        for namespace in [recovered, hanging] {
            let slot = slots.try_take(namespace).unwrap();
            tokio::time::advance(HANGING).await;
            drop(slot);
            tokio::time::advance(REMEMBERED / 3).await;
        }
        let mut held: Vec<_> = namespaces.iter().filter_map(|namespace| slots.try_take(namespace)).collect();
        assert_eq!((held.len(), others.len()), (72, 70));
        let mut denied = Box::pin(slots.take(hanging));
        let mut waiting = [(); 3].map(|()| Box::pin(slots.take(recovered)));
        assert!(denied.as_mut().now_or_never().is_none());
        assert!(waiting.iter_mut().all(|request| request.as_mut().now_or_never().is_none()));
        // The second namespace no longer hangs, so its share grows. The first one still does.
        tokio::time::advance(REMEMBERED / 3).await;
        held.pop();
        let served: Vec<_> = waiting.iter_mut().filter_map(|request| request.as_mut().now_or_never()).collect();
        assert_eq!((served.len(), denied.as_mut().now_or_never().is_none()), (3, true));
    }
}
