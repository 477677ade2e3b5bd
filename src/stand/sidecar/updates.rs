//! Publishes changes of leadership to the readers of event streams.
//!
//! Two rules must hold:
//!
//! - A reader that got `leading` gets `stopped` afterwards.
//! - The sidecar does not give up a term before its readers have got `stopped`, unless one of them reads nothing for
//!   too long.
//!
//! An update carries no state to a reader. It only wakes the reader, which then takes its own snapshot.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hustings_client::Leadership;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::serve::health::Health;
use crate::stand::candidacy::snapshot::Snapshot;

/// How often to compare snapshots even without a notification. A validity may end without any event, and timers do not
/// advance while the machine is suspended.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// How long the end of a term waits for all readers to read it.
const NOTIFY_LIMIT: Duration = Duration::from_secs(1);

/// Wakes readers when leadership may have changed.
pub(super) struct Updates {
    leadership: Leadership,
    shutdown: CancellationToken,
    /// Grows with every possible change.
    number: watch::Sender<u64>,
    /// One token for each reader whose last event was `leading`.
    leading_readers: TaskTracker,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// A term of this replica has begun.
    Leading,
    /// The term is over, or the sidecar is about to give it up.
    Stopped,
    /// The Lease has another holder, or none.
    Observed,
}

/// One reader of an event stream.
pub(super) struct EventReader {
    updates: Arc<Updates>,
    number: watch::Receiver<u64>,
    last: Option<Snapshot>,
    leading_token: Option<TaskTrackerToken>,
}

/// One event for a reader, with the snapshot that it shows.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) number: u64,
    pub(super) event: ChangeKind,
    pub(super) snapshot: Snapshot,
}

impl Updates {
    pub(super) fn new(leadership: Leadership, shutdown: CancellationToken) -> Self {
        Self { leadership, shutdown, number: watch::Sender::new(0), leading_readers: TaskTracker::new() }
    }

    /// Takes a snapshot.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.leadership)
    }

    /// Wakes readers at every change, until the elector has ended.
    pub(super) async fn follow(&self, health: &Health) {
        let mut changes = std::pin::pin!(self.leadership.changes());
        let mut previous: Option<Snapshot> = None;
        loop {
            health.beat();
            let snapshot = self.snapshot();
            if next_event(previous.as_ref(), &snapshot).is_some() {
                let (holder, leading) = (snapshot.name(), snapshot.is_leader);
                tracing::info!(holder, leading, token = snapshot.token, "leadership has changed");
                self.notify();
                previous = Some(snapshot);
            }
            if let Ok(None) = tokio::time::timeout(CHECK_PERIOD, changes.next()).await {
                return;
            }
        }
    }

    /// Ends the cancelled term. Returns once every reader has got `stopped`, or after [`NOTIFY_LIMIT`].
    pub(super) async fn term_ends(&self) {
        self.notify();
        self.leading_readers.close();
        if tokio::time::timeout(NOTIFY_LIMIT, self.leading_readers.wait()).await.is_err() {
            tracing::warn!("a reader of events takes nothing and may not know that the term is over");
        }
    }

    /// Waits until this replica leads. Returns `None` if it will never lead again.
    pub(super) async fn leading(&self) -> Option<Snapshot> {
        let mut number = self.number.subscribe();
        loop {
            number.mark_unchanged();
            let snapshot = self.snapshot();
            if snapshot.is_leader {
                return Some(snapshot);
            }
            tokio::select! {
                () = self.over() => return None,
                // This cannot fail: `self` owns the sender.
                _ = number.changed() => {}
            }
        }
    }

    pub(super) fn reader(self: &Arc<Self>) -> EventReader {
        EventReader { updates: Arc::clone(self), number: self.number.subscribe(), last: None, leading_token: None }
    }

    async fn over(&self) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = self.leadership.ended() => {}
        }
    }

    fn notify(&self) {
        self.number.send_modify(|number| *number += 1);
    }
}

impl EventReader {
    /// Returns the current state first, and then each change. Slow readers skip intermediate states, never the latest.
    pub(super) async fn next(&mut self) -> Update {
        loop {
            // The caller has taken the last event, since it asks for the next one.
            let led = self.last.as_ref().is_some_and(|last| last.is_leader);
            if !led {
                self.leading_token = None;
            }
            let number = *self.number.borrow_and_update();
            // Take the token before the snapshot. Then either the end of the term waits for this reader, or the
            // snapshot shows the end.
            let leading_token = self.updates.leading_readers.token();
            let snapshot = self.updates.snapshot();
            if let Some(event) = next_event(self.last.as_ref(), &snapshot) {
                let snapshot = if event == ChangeKind::Stopped { snapshot.without_term() } else { snapshot };
                if event == ChangeKind::Leading {
                    self.leading_token = Some(leading_token);
                }
                self.last = Some(snapshot.clone());
                return Update { number, event, snapshot };
            }
            drop(leading_token);
            // This cannot fail: `self.updates` owns the sender.
            let _ = self.number.changed().await;
        }
    }
}

/// The next event for a reader whose last event showed `last`, if it differs from `now`.
fn next_event(last: Option<&Snapshot>, now: &Snapshot) -> Option<ChangeKind> {
    match last {
        None if now.is_leader => Some(ChangeKind::Leading),
        None => Some(ChangeKind::Observed),
        // Report the end of the previous term even if the next term of this replica has begun.
        Some(last) if last.is_leader && last.token != now.token => Some(ChangeKind::Stopped),
        Some(last) if !last.is_leader && now.is_leader => Some(ChangeKind::Leading),
        Some(last) if last.holder != now.holder => Some(ChangeKind::Observed),
        Some(_) => None,
    }
}

impl ChangeKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Leading => "leading",
            Self::Stopped => "stopped",
            Self::Observed => "observed",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use hustings_client::clock::Clock;
    use hustings_client::testing::MemoryStore;
    use hustings_client::{Elector, Moment};
    use hustings_core::model::WireTime;
    use tokio::time::Instant;

    use super::super::testing::{leading, spawn_follow};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_is_woken_by_each_term_and_its_end_waits_only_until_it_has_read_that() {
        let elector = Elector::direct(&MemoryStore::new(), "n", "l").identity("a").build().unwrap();
        let updates = Arc::new(Updates::new(elector.leadership(), CancellationToken::new()));
        spawn_follow(&updates, &Health::new());
        let mut reader = updates.reader();
        assert_eq!(reader.next().await.event, ChangeKind::Observed);
        let campaign = elector.start();
        let update = reader.next().await;
        let term = campaign.leadership().term().unwrap();
        assert_eq!((update.event, update.snapshot.token), (ChangeKind::Leading, Some(term.token)));
        let _work = term.begin_work().unwrap();
        let reading = tokio::spawn(async move {
            let update = reader.next().await;
            let is_last = tokio::time::timeout(Duration::from_mins(1), reader.next()).await.is_err();
            (update.event, update.snapshot.token, is_last)
        });
        // The reader waits before the term ends.
        tokio::task::yield_now().await;
        term.resign();
        let began = Instant::now();
        updates.term_ends().await;
        assert!(began.elapsed() < NOTIFY_LIMIT, "{:?}", began.elapsed());
        assert_eq!(reading.await.unwrap(), (ChangeKind::Stopped, None, true));
    }

    #[tokio::test(start_paused = true)]
    async fn readers_are_woken_by_changes_and_not_by_renewals() {
        let store = MemoryStore::new();
        let elector = Elector::direct(&store, "n", "l").identity("a").build().unwrap();
        let updates = Arc::new(Updates::new(elector.leadership(), CancellationToken::new()));
        let health = Health::new();
        let following = spawn_follow(&updates, &health);
        let campaign = elector.start();
        campaign.leadership().wait_until_leader().await.unwrap();
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(*updates.number.borrow(), 2, "no holder, then this replica");
        assert!(health.is_alive());
        campaign.stop().await.unwrap();
        following.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_term_waits_until_the_server_has_taken_the_event_from_a_reader() {
        for is_taken in [true, false] {
            let (campaign, term) = leading().await;
            let updates = Arc::new(Updates::new(campaign.leadership(), CancellationToken::new()));
            let mut reader = updates.reader();
            assert_eq!(reader.next().await.event, ChangeKind::Leading);
            let _work = term.begin_work().unwrap();
            term.resign();
            term.cancelled().await;
            assert_eq!(reader.next().await.event, ChangeKind::Stopped);
            let began = Instant::now();
            let next = async {
                if is_taken {
                    reader.next().await;
                } else {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = updates.term_ends() => {}
                () = next => panic!("nothing has changed"),
            }
            assert_eq!(began.elapsed() < NOTIFY_LIMIT, is_taken, "{:?}", began.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_learns_of_the_end_of_a_term_before_the_next_one() {
        let store = MemoryStore::new();
        let elector = Elector::direct(&store, "n", "l").identity("a").build().unwrap();
        let campaign = elector.start();
        let leadership = campaign.leadership();
        let updates = Arc::new(Updates::new(leadership.clone(), CancellationToken::new()));
        let first = leadership.wait_until_leader().await.unwrap();
        let mut reader = updates.reader();
        assert_eq!(reader.next().await.snapshot.token, Some(first.token));
        store.edit_lease("n", "l", |lease| lease.holder = Some("b".to_owned()));
        first.cancelled().await;
        store.edit_lease("n", "l", |lease| lease.holder = None);
        let second = leadership.wait_until_leader().await.unwrap();
        for (event, token) in [(ChangeKind::Stopped, None), (ChangeKind::Leading, Some(second.token))] {
            let update = reader.next().await;
            assert_eq!((update.event, update.snapshot.token), (event, token));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_the_own_term_ends_with_the_elector() {
        let elector = Elector::direct(&MemoryStore::new(), "n", "l").identity("a").build().unwrap();
        let updates = Updates::new(elector.leadership(), CancellationToken::new());
        let waiting = tokio::time::timeout(Duration::from_mins(1), updates.leading());
        let ends = async { elector.start().abort() };
        assert!(tokio::join!(waiting, ends).0.expect("it ends").is_none());
    }

    /// A clock whose timers never end, as during a suspension.
    struct Suspended(AtomicI64);

    impl Clock for Suspended {
        fn now(&self) -> Moment {
            Moment::from_micros(self.0.load(Ordering::SeqCst))
        }

        fn wall(&self) -> WireTime {
            WireTime::from_micros(self.0.load(Ordering::SeqCst))
        }

        fn sleep_until(&self, _: Moment) -> BoxFuture<'static, ()> {
            std::future::pending().boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_learn_within_a_second_that_the_validity_ended_during_a_suspension() {
        let clock = Arc::new(Suspended(AtomicI64::new(1)));
        let builder = Elector::direct(&MemoryStore::new(), "n", "l").clock(Arc::<Suspended>::clone(&clock));
        let campaign = builder.identity("a").build().unwrap().start();
        campaign.leadership().wait_until_leader().await.unwrap();
        let updates = Arc::new(Updates::new(campaign.leadership(), CancellationToken::new()));
        spawn_follow(&updates, &Health::new());
        let mut reader = updates.reader();
        assert_eq!(reader.next().await.event, ChangeKind::Leading);
        clock.0.fetch_add(60_000_000, Ordering::SeqCst);
        let ended = tokio::time::timeout(2 * CHECK_PERIOD, reader.next()).await;
        assert_eq!(ended.expect("no event of the elector shows it").event, ChangeKind::Stopped);
    }

    fn snapshot(holder: Option<&str>, token: Option<u64>) -> Snapshot {
        Snapshot {
            holder: holder.map(ToOwned::to_owned),
            identity: "me".to_owned(),
            is_leader: token.is_some(),
            term: token.map(|_| 1),
            token,
            valid_for_seconds: 0.0,
        }
    }

    #[test]
    fn every_change_is_one_event_and_two_terms_have_an_end_between_them() {
        let unheld = snapshot(None, None);
        let other = snapshot(Some("other"), None);
        let first = snapshot(Some("me"), Some(7));
        let second = snapshot(Some("me"), Some(9));
        for (last, now, event) in [
            (None, &unheld, Some(ChangeKind::Observed)),
            (None, &first, Some(ChangeKind::Leading)),
            (Some(&unheld), &unheld, None),
            (Some(&unheld), &other, Some(ChangeKind::Observed)),
            (Some(&other), &unheld, Some(ChangeKind::Observed)),
            (Some(&other), &first, Some(ChangeKind::Leading)),
            (Some(&first), &first, None),
            (Some(&first), &other, Some(ChangeKind::Stopped)),
            (Some(&first), &unheld, Some(ChangeKind::Stopped)),
            (Some(&first), &second, Some(ChangeKind::Stopped)),
        ] {
            assert_eq!(next_event(last, now), event, "{last:?} {now:?}");
            // `/sse` shows only the holder, and repeats none.
            let shown = if event == Some(ChangeKind::Stopped) { now.clone().without_term() } else { now.clone() };
            assert!(event.is_none() || last.is_none_or(|last| last.name() != shown.name()), "{last:?} {now:?}");
        }
        // The event for the end of a term does not show the next term.
        assert_eq!(second.clone().without_term(), unheld);
        assert_eq!(next_event(Some(&unheld), &second), Some(ChangeKind::Leading));
        assert_eq!(other.clone().without_term(), other);
    }
}
