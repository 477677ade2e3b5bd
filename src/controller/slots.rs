//! How many requests may be under way, shared fairly among namespaces.
//!
//! An API server that hangs for one namespace, because of an admission webhook that never answers, must not delay the
//! requests of any other. So a namespace may take a slot only while it has fewer than a quarter of the slots that are
//! still free, or none. A namespace whose requests all hang then takes a fifth of what it finds, and ten such
//! namespaces together leave more than a tenth of all slots free.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A namespace may have this fraction of the free slots.
const SHARE: usize = 4;

/// A fixed number of slots. Clones share them.
#[derive(Clone)]
pub(super) struct Slots(Arc<Mutex<State>>);

/// A slot, which is free again when this is dropped.
pub(super) struct Slot {
    slots: Slots,
    namespace: Arc<str>,
}

struct State {
    free: usize,
    /// The namespaces that have slots or wait for some.
    namespaces: HashMap<Arc<str>, Usage>,
    /// The namespaces that wait, in the order in which they are served.
    round: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct Usage {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<Slot>>,
}

impl Slots {
    pub(super) fn new(count: usize) -> Self {
        let state = State { free: count, namespaces: HashMap::new(), round: VecDeque::new() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Waits for a slot for a request of `namespace`. A dropped future leaves the queue.
    pub(super) async fn take(&self, namespace: &Arc<str>) -> Slot {
        loop {
            let turn = {
                let mut state = self.state();
                if state.take(namespace) {
                    return self.slot(namespace);
                }
                state.wait(namespace)
            };
            if let Ok(slot) = turn.await {
                return slot;
            }
        }
    }

    /// Takes a slot if one is free for `namespace`.
    pub(super) fn try_take(&self, namespace: &Arc<str>) -> Option<Slot> {
        self.state().take(namespace).then(|| self.slot(namespace))
    }

    fn slot(&self, namespace: &Arc<str>) -> Slot {
        Slot { slots: self.clone(), namespace: Arc::clone(namespace) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can panic between two of its changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a slot, unless `namespace` has its share or waits already.
    fn take(&mut self, namespace: &Arc<str>) -> bool {
        let known = self.namespaces.get(namespace);
        let takes = known.is_none_or(|usage| usage.waiting.is_empty())
            && known.unwrap_or(&Usage::default()).may_take(self.free);
        if takes {
            self.namespaces.entry(Arc::clone(namespace)).or_default().taken += 1;
            self.free -= 1;
        }
        takes
    }

    fn wait(&mut self, namespace: &Arc<str>) -> oneshot::Receiver<Slot> {
        let (sender, turn) = oneshot::channel();
        let usage = self.namespaces.entry(Arc::clone(namespace)).or_default();
        if usage.waiting.is_empty() {
            self.round.push_back(Arc::clone(namespace));
        }
        usage.waiting.push_back(sender);
        turn
    }

    fn release(&mut self, namespace: &Arc<str>) {
        self.free += 1;
        if let Some(usage) = self.namespaces.get_mut(namespace) {
            usage.taken -= 1;
            if usage.is_idle() {
                self.namespaces.remove(namespace);
            }
        }
    }

    /// Chooses who is served next: one request of each namespace in turn, until none may have more.
    fn serve(&mut self) -> Vec<(Arc<str>, oneshot::Sender<Slot>)> {
        let mut served = Vec::new();
        let mut passed_over = 0;
        while passed_over < self.round.len() {
            let Some(namespace) = self.round.pop_front() else { break };
            let Some(usage) = self.namespaces.get_mut(&namespace) else { continue };
            while usage.waiting.front().is_some_and(oneshot::Sender::is_closed) {
                usage.waiting.pop_front();
            }
            if usage.may_take(self.free) {
                if let Some(sender) = usage.waiting.pop_front() {
                    usage.taken += 1;
                    self.free -= 1;
                    served.push((Arc::clone(&namespace), sender));
                    passed_over = 0;
                }
            } else {
                passed_over += 1;
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

impl Usage {
    fn may_take(&self, free: usize) -> bool {
        free > 0 && self.taken < (free / SHARE).max(1)
    }

    fn is_idle(&self) -> bool {
        self.taken == 0 && self.waiting.is_empty()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let served = {
            let mut state = self.slots.state();
            state.release(&self.namespace);
            state.serve()
        };
        for (namespace, sender) in served {
            // A slot that comes too late for its receiver is dropped here, and served again.
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

    /// Takes as many slots for `namespace` as it may have.
    fn fill(slots: &Slots, namespace: &Arc<str>) -> Vec<Slot> {
        std::iter::from_fn(|| slots.try_take(namespace)).collect()
    }

    #[test]
    fn a_namespace_alone_may_have_a_fifth_and_ten_leave_a_tenth() {
        let slots = Slots::new(128);
        let mut taken = Vec::new();
        for namespace in &namespaces(10) {
            taken.push(fill(&slots, namespace));
        }
        assert_eq!(taken[0].len(), 25);
        assert!(taken[9].len() >= 3);
        assert!(slots.state().free >= 13);
        assert!(slots.try_take(&"other".into()).is_some());
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
        let (crowd, single) = (&namespaces[0], &namespaces[1]);
        let first = slots.try_take(crowd).unwrap();
        let mut waiting = [crowd, crowd, crowd, single].map(|namespace| Box::pin(slots.take(namespace)));
        assert!(waiting.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        drop(first);
        let second = waiting[0].as_mut().now_or_never().unwrap();
        drop(second);
        assert!(
            waiting[3].as_mut().now_or_never().is_some(),
            "the single request is served before the rest of the crowd"
        );
    }

    #[test]
    fn a_request_that_waits_no_longer_is_passed_over_and_nothing_is_left_of_it() {
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
    fn a_slot_that_was_given_to_a_request_that_is_gone_is_given_to_the_next() {
        let slots = Slots::new(1);
        let namespace: Arc<str> = "n".into();
        let first = slots.try_take(&namespace).unwrap();
        let mut gone = Box::pin(slots.take(&namespace));
        let mut next = Box::pin(slots.take(&namespace));
        assert!(gone.as_mut().now_or_never().is_none() && next.as_mut().now_or_never().is_none());
        drop(first);
        drop(gone);
        assert!(next.as_mut().now_or_never().is_some());
    }
}
