//! The queue of Leases that are due for a decision.
//!
//! - The queue has at most one entry per key, at the earliest time that any caller asked for.
//! - A key that was taken is not taken again until its turn is finished. Requests for it during the turn take effect
//!   after the turn. The controller therefore carries out at most one decision per Lease at a time.
//! - The number of concurrent turns has no limit. With a limit, Leases whose requests hang could block all others.
//!   [`Slots`](super::slots::Slots) limits the requests instead.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::Hash;
use std::task::{Context, Poll};

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

/// A queue of keys, each with the time at which it is due. One task owns it.
#[derive(Debug)]
pub(super) struct Queue<K> {
    timers: DelayQueue<K>,
    entries: HashMap<K, Queued>,
}

#[derive(Debug)]
enum Queued {
    Waiting { timer: delay_queue::Key, due: Instant },
    Taken { again: Option<Instant> },
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub(super) fn new() -> Self {
        Self { timers: DelayQueue::new(), entries: HashMap::new() }
    }

    /// Schedules `key` for `due`, unless it is already scheduled earlier.
    pub(super) fn schedule(&mut self, key: &K, due: Instant) {
        match self.entries.get_mut(key) {
            None => {
                let timer = self.timers.insert_at(key.clone(), due);
                self.entries.insert(key.clone(), Queued::Waiting { timer, due });
            }
            Some(Queued::Waiting { timer, due: current }) if due < *current => {
                self.timers.reset_at(timer, due);
                *current = due;
            }
            Some(Queued::Waiting { .. }) => {}
            Some(Queued::Taken { again }) => *again = Some(again.map_or(due, |current| current.min(due))),
        }
    }

    /// Waits for the next key that is due, and starts its turn. This function is cancel safe.
    pub(super) async fn take(&mut self) -> K {
        poll_fn(|context| self.poll_take(context)).await
    }

    /// Ends the turn of `key`.
    pub(super) fn finish(&mut self, key: &K) {
        if let Some(Queued::Taken { again }) = self.entries.get(key) {
            let again = *again;
            self.entries.remove(key);
            if let Some(due) = again {
                self.schedule(key, due);
            }
        }
    }

    /// Removes `key`, unless its turn is running.
    pub(super) fn forget(&mut self, key: &K) {
        if let Some(Queued::Waiting { timer, .. }) = self.entries.get(key) {
            self.timers.remove(timer);
            self.entries.remove(key);
        }
    }

    /// The number of waiting keys that are due.
    pub(super) fn overdue(&self, now: Instant) -> usize {
        self.entries.values().filter(|entry| matches!(entry, Queued::Waiting { due, .. } if *due <= now)).count()
    }

    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<K> {
        match self.timers.poll_expired(context) {
            Poll::Ready(Some(expired)) => {
                let key = expired.into_inner();
                self.entries.insert(key.clone(), Queued::Taken { again: None });
                Poll::Ready(key)
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    fn after(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_request_of_a_key_wins() {
        let start = Instant::now();
        let mut queue = Queue::new();
        queue.schedule(&"a", after(5));
        queue.schedule(&"a", after(2));
        queue.schedule(&"a", after(9));
        queue.schedule(&"a", after(3));
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
        queue.finish(&"a");
        assert_eq!(queue.take().now_or_never(), None, "it was in the queue only once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_scheduled_during_its_turn_is_taken_again_after_the_turn() {
        let mut queue = Queue::new();
        queue.schedule(&"a", after(0));
        assert_eq!(queue.take().await, "a");
        queue.schedule(&"a", after(0));
        assert_eq!(tokio::time::timeout(Duration::from_mins(1), queue.take()).await.ok(), None);
        queue.finish(&"a");
        assert_eq!(queue.take().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_requests_during_a_turn_the_earliest_wins() {
        let start = Instant::now();
        let mut queue = Queue::new();
        queue.schedule(&"a", after(0));
        queue.take().await;
        for seconds in [5, 2, 9] {
            queue.schedule(&"a", after(seconds));
        }
        queue.finish(&"a");
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_overdue_from_its_time_until_its_turn() {
        let mut queue = Queue::new();
        queue.schedule(&"a", after(1));
        assert_eq!(queue.overdue(Instant::now()), 0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(queue.overdue(Instant::now()), 1);
        queue.take().await;
        assert_eq!(queue.overdue(Instant::now()), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_key_is_never_taken() {
        let mut queue = Queue::new();
        queue.schedule(&"a", after(1));
        queue.forget(&"a");
        assert_eq!(tokio::time::timeout(Duration::from_mins(1), queue.take()).await.ok(), None);
        queue.schedule(&"a", after(1));
        assert_eq!(tokio::time::timeout(Duration::from_mins(1), queue.take()).await.ok(), Some("a"), "it is new");
    }
}
