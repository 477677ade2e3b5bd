//! The state of the page, and the changes since a reader's last event.
//!
//! Every change gets a number. A reader remembers the number up to which it knows the state, and asks for newer
//! changes. So a change costs the same for any number of readers, and a slow reader costs nothing. The feed remembers
//! only the last removals of Leases. A reader that has missed an older removal starts over.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// The most removals that the feed remembers.
const MOST_REMOVED: usize = 1024;

/// The state of the page.
#[derive(Debug)]
pub(super) struct Feed {
    state: Mutex<FeedState>,
    /// The number of the newest change.
    newest: watch::Sender<u64>,
    /// Distinguishes the numbers of this process from those of an earlier one.
    epoch: String,
}

/// Namespace and name of a Lease.
type NamespacedName = (Arc<str>, Arc<str>);

#[derive(Debug, Default)]
struct FeedState {
    newest: u64,
    controller: Option<(u64, Arc<RawValue>)>,
    /// Each Lease, with the number of its last change.
    leases: HashMap<NamespacedName, (u64, Arc<RawValue>)>,
    /// The Leases by the number of their last change.
    by_number: BTreeMap<u64, NamespacedName>,
    /// The removals by their number. If a Lease came back, its number in `leases` is greater.
    removed: BTreeMap<u64, NamespacedName>,
    /// The number of the newest removal that is no longer remembered.
    forgotten: u64,
}

/// How much of the state a reader has got; `None` before its first batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position(Option<KnownPosition>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownPosition {
    /// The number up to which the reader knows the state.
    number: u64,
    /// The newest number when the reader last started over. The reader needs no removal up to this number, even while
    /// it still reads older Leases.
    started_at: u64,
}

/// Changes for one reader. It applies `removed` before `leases`.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Whether the reader starts over: it must drop every Lease, except those in this batch and in the batches that
    /// follow at once.
    pub(super) reset: bool,
    /// The controller, if it has changed.
    pub(super) controller: Option<Arc<RawValue>>,
    /// The Leases that were removed, as `NAMESPACE/NAME`.
    pub(super) removed: Vec<String>,
    /// The Leases that have changed.
    pub(super) leases: Vec<Arc<RawValue>>,
    /// Whether more changes follow at once.
    pub(super) more: bool,
}

impl Feed {
    /// Replaces the state of a Lease, if it differs.
    pub(super) fn put_lease(&self, key: (&str, &str), lease: &impl Serialize) {
        let Some(document) = document(lease) else { return };
        self.change(|state| {
            let key = (key.0.into(), key.1.into());
            if state.leases.get(&key).is_some_and(|(_, shown)| shown.get() == document.get()) {
                return None;
            }
            let number = state.newest + 1;
            if let Some((former, _)) = state.leases.insert(NamespacedName::clone(&key), (number, document)) {
                state.by_number.remove(&former);
            }
            state.by_number.insert(number, key);
            Some(number)
        });
    }

    /// Removes a Lease.
    pub(super) fn remove_lease(&self, key: (&str, &str)) {
        self.change(|state| {
            let key = (key.0.into(), key.1.into());
            let (former, _) = state.leases.remove(&key)?;
            state.by_number.remove(&former);
            let number = state.newest + 1;
            state.removed.insert(number, key);
            while state.removed.len() > MOST_REMOVED {
                let (forgotten, _) = state.removed.pop_first()?;
                state.forgotten = forgotten;
            }
            Some(number)
        });
    }

    /// Replaces the state of the controller, if it differs.
    pub(super) fn put_controller(&self, controller: &impl Serialize) {
        let Some(document) = document(controller) else { return };
        self.change(|state| {
            if state.controller.as_ref().is_some_and(|(_, shown)| shown.get() == document.get()) {
                return None;
            }
            let number = state.newest + 1;
            state.controller = Some((number, document));
            Some(number)
        });
    }

    /// Returns at most `limit` Leases that have changed since `position`, and moves it. Returns `None` if nothing has
    /// changed.
    pub(super) fn next(&self, position: &mut Position, limit: usize) -> Option<Batch> {
        let state = self.state();
        let known = position.0.filter(|known| known.number.max(known.started_at) >= state.forgotten);
        let reset = known.is_none();
        let KnownPosition { number: from, started_at } =
            known.unwrap_or(KnownPosition { number: 0, started_at: state.newest });
        if !reset && from >= state.newest {
            return None;
        }
        let mut changed = state.by_number.range(from + 1..);
        let keys: Vec<_> = changed.by_ref().take(limit).collect();
        let more = changed.next().is_some();
        let last = keys.last().filter(|_| more).map_or(state.newest, |(number, _)| **number);
        let documents = keys.into_iter().filter_map(|(_, key)| state.leases.get(key));
        let removed = state.removed.range(from + 1..=last.max(from + 1)).filter(|_| !reset);
        let controller = state.controller.as_ref().filter(|(number, _)| reset || (from + 1..=last).contains(number));
        *position = Position(Some(KnownPosition { number: last, started_at }));
        Some(Batch {
            reset,
            controller: controller.map(|(_, document)| Arc::clone(document)),
            removed: removed.map(|(_, (namespace, name))| format!("{namespace}/{name}")).collect(),
            leases: documents.map(|(_, document)| Arc::clone(document)).collect(),
            more,
        })
    }

    /// Returns the next changes as soon as there are any. This function is cancel safe.
    pub(super) async fn wait(&self, position: &mut Position, limit: usize) -> Batch {
        let mut newest = self.newest.subscribe();
        loop {
            if let Some(batch) = self.next(position, limit) {
                return batch;
            }
            // This cannot fail: `self` owns the sender.
            let _ = newest.changed().await;
        }
    }

    /// The position as the id of an event.
    pub(super) fn id(&self, Position(known): Position) -> String {
        format!("{}-{}", self.epoch, known.map_or(0, |known| known.number))
    }

    /// The position that the id of an event names. If another process wrote the id, the reader starts over.
    pub(super) fn position(&self, id: &str) -> Position {
        let number = id.rsplit_once('-').filter(|(epoch, _)| *epoch == self.epoch);
        let number = number.and_then(|(_, number)| number.parse().ok());
        let number = number.filter(|number| *number <= self.state().newest);
        Position(number.map(|number| KnownPosition { number, started_at: number }))
    }

    /// Makes a change and wakes the readers. `change` returns the number of the change; `None` if nothing has changed.
    fn change(&self, change: impl FnOnce(&mut FeedState) -> Option<u64>) {
        let mut state = self.state();
        if let Some(number) = change(&mut state) {
            state.newest = number;
            drop(state);
            self.newest.send_replace(number);
        }
    }

    fn state(&self) -> MutexGuard<'_, FeedState> {
        // Only a lack of memory can cause a panic under this lock, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Feed {
    fn default() -> Self {
        let epoch = format!("{:016x}", rand::random::<u64>());
        Self { state: Mutex::default(), newest: watch::Sender::new(0), epoch }
    }
}

fn document(value: &impl Serialize) -> Option<Arc<RawValue>> {
    // This cannot fail: a view contains only strings, numbers and lists.
    serde_json::value::to_raw_value(value).ok().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A reader that applies the batches that it gets.
    #[derive(Default)]
    struct Reader {
        position: Position,
        leases: BTreeMap<String, i64>,
        resets: usize,
        largest: usize,
    }

    fn put(feed: &Feed, name: &str, value: i64) {
        feed.put_lease(("n", name), &json!({ "name": format!("n/{name}"), "value": value }));
    }

    impl Reader {
        fn read(&mut self, feed: &Feed, limit: usize) {
            while let Some(batch) = feed.next(&mut self.position, limit) {
                if batch.reset {
                    self.resets += 1;
                    self.leases.clear();
                    assert_eq!(batch.removed, [""; 0], "a reader that starts over has nothing to remove");
                }
                self.largest = self.largest.max(batch.leases.len());
                for name in &batch.removed {
                    self.leases.remove(name);
                }
                for lease in &batch.leases {
                    let lease: Value = serde_json::from_str(lease.get()).unwrap();
                    self.leases.insert(lease["name"].as_str().unwrap().to_owned(), lease["value"].as_i64().unwrap());
                }
            }
        }

        fn shows(&self) -> Vec<(&str, i64)> {
            self.leases.iter().map(|(name, value)| (name.as_str(), *value)).collect()
        }
    }

    #[test]
    fn a_reader_gets_the_whole_state_in_bounded_batches_and_then_only_changes() {
        let feed = Feed::default();
        for number in 0..10 {
            put(&feed, &format!("l{number}"), 0);
        }
        let mut reader = Reader::default();
        reader.read(&feed, 4);
        assert_eq!((reader.leases.len(), reader.resets, reader.largest), (10, 1, 4));

        put(&feed, "l3", 1);
        put(&feed, "l3", 1);
        put(&feed, "l3", 2);
        let batch = feed.next(&mut reader.position, 4).unwrap();
        assert_eq!((batch.leases.len(), batch.reset, batch.more), (1, false, false), "only the newest state");
        assert!(feed.next(&mut reader.position, 4).is_none());
        put(&feed, "l3", 2);
        assert!(feed.next(&mut reader.position, 4).is_none(), "nothing has changed");
    }

    #[test]
    fn a_removed_lease_disappears_and_may_come_back() {
        let feed = Feed::default();
        let (mut prompt, mut slow) = (Reader::default(), Reader::default());
        put(&feed, "a", 1);
        put(&feed, "b", 1);
        prompt.read(&feed, 1);
        slow.read(&feed, 1);
        feed.remove_lease(("n", "a"));
        feed.remove_lease(("n", "unknown"));
        prompt.read(&feed, 1);
        assert_eq!(prompt.shows(), [("n/b", 1)]);
        put(&feed, "a", 2);
        for reader in [&mut prompt, &mut slow] {
            reader.read(&feed, 1);
            assert_eq!((reader.shows(), reader.resets), (vec![("n/a", 2), ("n/b", 1)], 1));
        }
    }

    #[test]
    fn a_reader_that_has_missed_a_forgotten_removal_starts_over() {
        let feed = Feed::default();
        let mut reader = Reader::default();
        put(&feed, "a", 1);
        reader.read(&feed, 8);
        feed.remove_lease(("n", "a"));
        for number in 0..MOST_REMOVED {
            put(&feed, &format!("l{number}"), 1);
            feed.remove_lease(("n", &format!("l{number}")));
        }
        assert_eq!(feed.state().removed.len(), MOST_REMOVED);
        reader.read(&feed, 8);
        assert_eq!((reader.shows(), reader.resets), (Vec::new(), 2));
    }

    #[test]
    fn a_reader_that_knows_every_forgotten_removal_does_not_start_over() {
        let feed = Feed::default();
        let mut reader = Reader::default();
        put(&feed, "a", 1);
        feed.remove_lease(("n", "a"));
        reader.read(&feed, 8);
        for _ in 0..MOST_REMOVED {
            put(&feed, "b", 1);
            feed.remove_lease(("n", "b"));
        }
        assert_ne!(feed.state().forgotten, 0);
        reader.read(&feed, 8);
        assert_eq!((reader.shows(), reader.resets), (Vec::new(), 1));
    }

    #[test]
    fn a_reader_that_starts_over_reads_leases_older_than_the_forgotten_removals_once() {
        let feed = Feed::default();
        put(&feed, "a", 1);
        put(&feed, "b", 1);
        for _ in 0..=MOST_REMOVED {
            put(&feed, "gone", 1);
            feed.remove_lease(("n", "gone"));
        }
        let mut position = Position::default();
        let batches: Vec<_> = std::iter::from_fn(|| feed.next(&mut position, 1)).take(4).collect();
        let shapes: Vec<_> = batches.iter().map(|batch| (batch.reset, batch.leases.len(), batch.more)).collect();
        assert_eq!(shapes, [(true, 1, true), (false, 1, false)]);
    }

    #[test]
    fn the_first_batch_has_the_controller_even_if_there_is_no_lease() {
        let feed = Feed::default();
        let mut reader = Position::default();
        let batch = feed.next(&mut reader, 4).unwrap();
        assert!(batch.reset && batch.controller.is_none());
        assert!(feed.next(&mut reader, 4).is_none());
        feed.put_controller(&json!({ "leads": false }));
        assert!(feed.next(&mut reader, 4).unwrap().controller.is_some());
        put(&feed, "a", 1);
        assert!(feed.next(&mut reader, 4).unwrap().controller.is_none(), "it has not changed");
        assert!(feed.next(&mut Position::default(), 4).unwrap().controller.is_some());
        put(&feed, "b", 1);
        feed.put_controller(&json!({ "leads": true }));
        assert!(feed.next(&mut Position::default(), 1).unwrap().controller.is_some(), "although there is more");
    }

    #[test]
    fn a_stream_resumes_only_from_an_id_of_this_process() {
        let (feed, other) = (Feed::default(), Feed::default());
        let mut reader = Position::default();
        put(&feed, "a", 1);
        put(&other, "a", 1);
        feed.next(&mut reader, 4).unwrap();
        assert_eq!(feed.position(&feed.id(reader)), reader);
        for id in [&other.id(reader), "", "-", &format!("{}-9", feed.epoch), &format!("{}--1", feed.epoch)] {
            assert_eq!(feed.position(id), Position::default(), "{id:?}");
        }
    }

    #[tokio::test]
    async fn a_waiting_reader_wakes_at_the_next_change() {
        let feed = Arc::new(Feed::default());
        let mut position = Position::default();
        assert!(feed.wait(&mut position, 4).await.reset);
        let waiting = tokio::spawn({
            let feed = Arc::clone(&feed);
            async move { feed.wait(&mut position, 4).await.leases.len() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        put(&feed, "a", 1);
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
