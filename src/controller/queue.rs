//! Which Lease is looked at next.
//!
//! Each key stands in the queue at most once, at the earliest time anybody asked for. A key whose turn it is stays out
//! of the queue until its turn is declared over; what is asked for in between takes effect then. So at most one
//! decision of a Lease is carried out at a time, and the queue never holds more than one entry per key. Turns are not
//! limited in number: a limit would let Leases whose requests hang keep all others waiting. Requests are limited
//! instead.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::Hash;
use std::task::{Context, Poll};

use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue};

/// A queue of keys, each with a time. One task owns it.
#[derive(Debug)]
pub(super) struct Queue<K> {
    timers: DelayQueue<K>,
    entries: HashMap<K, Entry>,
}

#[derive(Debug)]
enum Entry {
    Waiting { timer: delay_queue::Key, due: Instant },
    Taken { again: Option<Instant> },
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub(super) fn new() -> Self {
        Self { timers: DelayQueue::new(), entries: HashMap::new() }
    }

    /// Asks for `key` at `due`; an earlier request stands.
    pub(super) fn schedule(&mut self, key: &K, due: Instant) {
        match self.entries.get_mut(key) {
            None => {
                let timer = self.timers.insert_at(key.clone(), due);
                self.entries.insert(key.clone(), Entry::Waiting { timer, due });
            }
            Some(Entry::Waiting { timer, due: current }) if due < *current => {
                self.timers.reset_at(timer, due);
                *current = due;
            }
            Some(Entry::Waiting { .. }) => {}
            Some(Entry::Taken { again }) => *again = Some(again.map_or(due, |current| current.min(due))),
        }
    }

    /// Takes the next key whose time has come. Nothing is lost when the future is dropped.
    pub(super) async fn take(&mut self) -> K {
        poll_fn(|context| self.poll_take(context)).await
    }

    /// The turn of `key` is over.
    pub(super) fn finish(&mut self, key: &K) {
        if let Some(Entry::Taken { again }) = self.entries.get(key) {
            let again = *again;
            self.entries.remove(key);
            if let Some(due) = again {
                self.schedule(key, due);
            }
        }
    }

    /// Takes `key` out, if it waits.
    pub(super) fn forget(&mut self, key: &K) {
        if let Some(Entry::Waiting { timer, .. }) = self.entries.get(key) {
            self.timers.remove(timer);
            self.entries.remove(key);
        }
    }

    /// How many keys wait although their time has come.
    pub(super) fn overdue(&self, now: Instant) -> usize {
        self.entries.values().filter(|entry| matches!(entry, Entry::Waiting { due, .. } if *due <= now)).count()
    }

    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<K> {
        match self.timers.poll_expired(context) {
            Poll::Ready(Some(expired)) => {
                let key = expired.into_inner();
                self.entries.insert(key.clone(), Entry::Taken { again: None });
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
        assert_eq!(queue.take().await, "a");
        assert_eq!(start.elapsed().as_secs(), 2);
        queue.finish(&"a");
        assert_eq!(queue.take().now_or_never(), None, "it stood in the queue once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_taken_once_at_a_time_and_comes_again_when_asked_for_meanwhile() {
        let mut queue = Queue::new();
        queue.schedule(&"a", after(0));
        assert_eq!(queue.take().await, "a");
        queue.schedule(&"a", after(0));
        assert_eq!(tokio::time::timeout(Duration::from_mins(1), queue.take()).await.ok(), None);
        queue.finish(&"a");
        assert_eq!(queue.take().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_overdue_until_its_turn() {
        let mut queue = Queue::new();
        queue.schedule(&"a", after(0));
        assert_eq!(queue.overdue(Instant::now()), 1);
        queue.take().await;
        assert_eq!(queue.overdue(Instant::now()), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_key_does_not_come() {
        let mut queue = Queue::new();
        queue.schedule(&"a", after(1));
        queue.forget(&"a");
        assert_eq!(tokio::time::timeout(Duration::from_mins(1), queue.take()).await.ok(), None);
    }
}
