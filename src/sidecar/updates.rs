//! Changes of the snapshot, for those who wait for them.
//!
//! The rule that must hold: every `leading` that a reader is last is followed by its `stopped`, and a term is not given
//! up before its readers have been last, unless one of them takes nothing. What a reader is last is made when it is last:
//! here it is only said that it is time to look.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hustings_client::Leadership;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::candidacy::snapshot::Snapshot;
use crate::ops::health::Health;

/// The snapshot is looked at so often at the least: a validity ends without anybody's doing, and timers stand still while
/// the machine is suspended.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// How long the end of a term waits for readers to be last.
const NOTIFY_LIMIT: Duration = Duration::from_secs(1);

/// Where readers hear of changes.
pub(super) struct Updates {
    leadership: Leadership,
    shutdown: CancellationToken,
    /// Grows with every change, and says only that there may be one.
    number: watch::Sender<u64>,
    /// One token for each reader that believes that this replica leads.
    leading_readers: TaskTracker,
}

/// What a reader is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A term of this replica has begun.
    Leading,
    /// It is over, or about to be given up.
    Stopped,
    /// The holder is another, or nobody.
    Observed,
}

/// One reader of the updates.
pub(super) struct Reader {
    updates: Arc<Updates>,
    number: watch::Receiver<u64>,
    last: Option<Snapshot>,
    leading_token: Option<TaskTrackerToken>,
}

/// An event and all that belongs to it.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) number: u64,
    pub(super) event: Event,
    pub(super) snapshot: Snapshot,
}

impl Updates {
    pub(super) fn new(leadership: Leadership, shutdown: CancellationToken) -> Self {
        Self { leadership, shutdown, number: watch::Sender::new(0), leading_readers: TaskTracker::new() }
    }

    /// What is true now.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot::now(&self.leadership)
    }

    /// Notices every change until the elector has ended.
    pub(super) async fn follow(self: Arc<Self>, health: Health) {
        let mut changes = std::pin::pin!(self.leadership.changes());
        let mut former: Option<Snapshot> = None;
        loop {
            health.beat();
            let snapshot = self.snapshot();
            if next_event(former.as_ref(), &snapshot).is_some() {
                let (holder, leading) = (snapshot.name(), snapshot.is_leader);
                tracing::info!(holder, leading, token = snapshot.token, "the snapshot has changed");
                self.notify();
                former = Some(snapshot);
            }
            if let Ok(None) = tokio::time::timeout(CHECK_PERIOD, changes.next()).await {
                break;
            }
        }
        self.notify();
    }

    /// A term begins.
    pub(super) fn term_begins(&self) {
        self.leading_readers.reopen();
        self.notify();
    }

    /// The cancelled term is over; completes when every reader has been last, or has taken nothing for too long.
    pub(super) async fn term_ends(&self) {
        self.notify();
        self.leading_readers.close();
        if tokio::time::timeout(NOTIFY_LIMIT, self.leading_readers.wait()).await.is_err() {
            tracing::warn!("a reader of events takes nothing, and may not know that the term is over");
        }
    }

    /// Waits until this replica leads; `None` says that it never will again.
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
                // The sender is this object's own.
                _ = number.changed() => {}
            }
        }
    }

    pub(super) fn reader(self: &Arc<Self>) -> Reader {
        Reader { updates: Arc::clone(self), number: self.number.subscribe(), last: None, leading_token: None }
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

impl Reader {
    /// The snapshot at first, and then each change of it. Whoever is slow misses what lay between, never the last.
    pub(super) async fn next(&mut self) -> Update {
        loop {
            // The last event has been taken.
            let led = self.last.as_ref().is_some_and(|last| last.is_leader);
            if !led {
                self.leading_token = None;
            }
            let number = *self.number.borrow_and_update();
            // Before the look, so that whoever ends the term waits for us or we see that it has ended.
            let leading_token = self.updates.leading_readers.token();
            let snapshot = self.updates.snapshot();
            if let Some(event) = next_event(self.last.as_ref(), &snapshot) {
                let snapshot = if event == Event::Stopped { snapshot.without_term() } else { snapshot };
                if event == Event::Leading {
                    self.leading_token = Some(leading_token);
                }
                self.last = Some(snapshot.clone());
                return Update { number, event, snapshot };
            }
            drop(leading_token);
            // The sender is part of `updates`.
            let _ = self.number.changed().await;
        }
    }
}

/// What has to be last to whom `last` was the last.
fn next_event(last: Option<&Snapshot>, now: &Snapshot) -> Option<Event> {
    match last {
        None if now.is_leader => Some(Event::Leading),
        None => Some(Event::Observed),
        // Another term is a leadership that has ended, too.
        Some(last) if last.is_leader && last.token != now.token => Some(Event::Stopped),
        Some(last) if !last.is_leader && now.is_leader => Some(Event::Leading),
        Some(last) if last.holder != now.holder => Some(Event::Observed),
        Some(_) => None,
    }
}

impl Event {
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
    use super::*;

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
        let nobody = snapshot(None, None);
        let other = snapshot(Some("other"), None);
        let first = snapshot(Some("me"), Some(7));
        let second = snapshot(Some("me"), Some(9));
        for (last, now, event) in [
            (None, &nobody, Some(Event::Observed)),
            (None, &first, Some(Event::Leading)),
            (Some(&nobody), &nobody, None),
            (Some(&nobody), &other, Some(Event::Observed)),
            (Some(&other), &nobody, Some(Event::Observed)),
            (Some(&other), &first, Some(Event::Leading)),
            (Some(&first), &first, None),
            (Some(&first), &other, Some(Event::Stopped)),
            (Some(&first), &nobody, Some(Event::Stopped)),
            (Some(&first), &second, Some(Event::Stopped)),
        ] {
            assert_eq!(next_event(last, now), event, "{last:?} {now:?}");
        }
        // What is last of the end does not speak of the next term.
        assert_eq!(second.clone().without_term(), nobody);
        assert_eq!(next_event(Some(&nobody), &second), Some(Event::Leading));
        assert_eq!(other.clone().without_term(), other);
    }
}
