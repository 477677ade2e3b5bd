//! Changes of the standing, for those who wait for them.
//!
//! The rule that must hold: every `leading` that a reader is told is followed by its `stopped`, and a term is not given
//! up before its readers have been told, unless one of them takes nothing. What a reader is told is made when it is told:
//! here it is only said that it is time to look.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use hustings_client::Leadership;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::candidacy::standing::Standing;
use crate::ops::health::Health;

/// The standing is looked at so often at the least: a validity ends without anybody's doing, and timers stand still while
/// the machine is suspended.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How long the end of a term waits for readers to be told.
const TELL_LIMIT: Duration = Duration::from_secs(1);

/// Where readers hear of changes.
pub(super) struct News {
    leadership: Leadership,
    shutdown: CancellationToken,
    /// Grows with every change, and says only that there may be one.
    number: watch::Sender<u64>,
    /// One token for each reader that believes that this replica leads.
    believers: TaskTracker,
}

/// What a reader is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A term of this replica has begun.
    Leading,
    /// It is over, or about to be given up.
    Stopped,
    /// The holder is another, or nobody.
    Observed,
}

/// One reader of the news.
pub(super) struct Reader {
    news: Arc<News>,
    number: watch::Receiver<u64>,
    told: Option<Standing>,
    belief: Option<TaskTrackerToken>,
}

/// An event and all that belongs to it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) number: u64,
    pub(super) event: Event,
    pub(super) standing: Standing,
}

impl News {
    pub(super) fn new(leadership: Leadership, shutdown: CancellationToken) -> Self {
        Self { leadership, shutdown, number: watch::Sender::new(0), believers: TaskTracker::new() }
    }

    /// What is true now.
    pub(super) fn standing(&self) -> Standing {
        Standing::now(&self.leadership)
    }

    /// Notices every change until the elector has ended.
    pub(super) async fn follow(self: Arc<Self>, health: Health) {
        let mut changes = std::pin::pin!(self.leadership.changes());
        let mut former: Option<Standing> = None;
        loop {
            health.beat();
            let standing = self.standing();
            if next_event(former.as_ref(), &standing).is_some() {
                let (holder, leading) = (standing.name(), standing.is_leader);
                tracing::info!(holder, leading, token = standing.token, "the standing has changed");
                self.look();
                former = Some(standing);
            }
            if let Ok(None) = tokio::time::timeout(LOOK_PERIOD, changes.next()).await {
                break;
            }
        }
        self.look();
    }

    /// A term begins.
    pub(super) fn term_begins(&self) {
        self.believers.reopen();
        self.look();
    }

    /// The cancelled term is over; completes when every reader has been told, or has taken nothing for too long.
    pub(super) async fn term_ends(&self) {
        self.look();
        self.believers.close();
        if tokio::time::timeout(TELL_LIMIT, self.believers.wait()).await.is_err() {
            tracing::warn!("a reader of events takes nothing, and may not know that the term is over");
        }
    }

    /// Waits until this replica leads; `None` says that it never will again.
    pub(super) async fn leading(&self) -> Option<Standing> {
        let mut number = self.number.subscribe();
        loop {
            number.mark_unchanged();
            let standing = self.standing();
            if standing.is_leader {
                return Some(standing);
            }
            tokio::select! {
                () = self.over() => return None,
                // The sender is this object's own.
                _ = number.changed() => {}
            }
        }
    }

    pub(super) fn reader(self: &Arc<Self>) -> Reader {
        Reader { news: Arc::clone(self), number: self.number.subscribe(), told: None, belief: None }
    }

    async fn over(&self) {
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            () = self.leadership.ended() => {}
        }
    }

    fn look(&self) {
        self.number.send_modify(|number| *number += 1);
    }
}

impl Reader {
    /// The standing at first, and then each change of it. Whoever is slow misses what lay between, never the last.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            // The last event has been taken.
            let led = self.told.as_ref().is_some_and(|told| told.is_leader);
            if !led {
                self.belief = None;
            }
            let number = *self.number.borrow_and_update();
            // Before the look, so that whoever ends the term waits for us or we see that it has ended.
            let belief = self.news.believers.token();
            let standing = self.news.standing();
            if let Some(event) = next_event(self.told.as_ref(), &standing) {
                let standing = if event == Event::Stopped { standing.without_term() } else { standing };
                if event == Event::Leading {
                    self.belief = Some(belief);
                }
                self.told = Some(standing.clone());
                return Told { number, event, standing };
            }
            drop(belief);
            // The sender is part of `news`.
            let _ = self.number.changed().await;
        }
    }
}

/// What has to be told to whom `told` was the last.
fn next_event(told: Option<&Standing>, now: &Standing) -> Option<Event> {
    match told {
        None if now.is_leader => Some(Event::Leading),
        None => Some(Event::Observed),
        // Another term is a leadership that has ended, too.
        Some(told) if told.is_leader && told.token != now.token => Some(Event::Stopped),
        Some(told) if !told.is_leader && now.is_leader => Some(Event::Leading),
        Some(told) if told.holder != now.holder => Some(Event::Observed),
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

    fn standing(holder: Option<&str>, token: Option<u64>) -> Standing {
        Standing {
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
        let nobody = standing(None, None);
        let other = standing(Some("other"), None);
        let first = standing(Some("me"), Some(7));
        let second = standing(Some("me"), Some(9));
        for (told, now, event) in [
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
            assert_eq!(next_event(told, now), event, "{told:?} {now:?}");
        }
        // What is told of the end does not speak of the next term.
        assert_eq!(second.clone().without_term(), nobody);
        assert_eq!(next_event(Some(&nobody), &second), Some(Event::Leading));
        assert_eq!(other.clone().without_term(), other);
    }
}
