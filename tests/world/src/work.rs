//! The work that a process does in each of its terms.
//!
//! After it was asked to stop, the work continues for a while, the drain. It pauses while the process is frozen. While it
//! is stalled, as by a log that nobody reads, it notices nothing and does not beat. The rule that must hold: no term is
//! given up while its work continues.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use hustings_client::{Heartbeat, Leadership, Term};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::link::Link;

/// How often the work beats: less often than it should, and more often than it must with the shortest Leases.
const BEAT_PERIOD: Duration = Duration::from_millis(1_500);

/// The work of one process. Clones are the same.
#[derive(Clone, Debug)]
pub struct Works {
    /// The tokens of the terms whose work continues.
    tokens: Arc<Mutex<BTreeSet<u64>>>,
    /// How long the work continues after it was asked to stop.
    drain: watch::Sender<Duration>,
    /// Whether the task that works is stuck.
    is_stalled: watch::Sender<bool>,
}

impl Works {
    /// Works in each term of `leadership`, in the process behind `link`, while the process lives.
    pub fn start(leadership: &Leadership, link: Link, drain: Duration, heartbeat: Heartbeat) -> Self {
        let works =
            Self { tokens: Arc::default(), drain: watch::Sender::new(drain), is_stalled: watch::Sender::new(false) };
        let (leadership, all) = (leadership.clone(), works.clone());
        tokio::spawn(async move {
            let died = link.clone();
            let terms = leadership.promotions().for_each_concurrent(None, |term| all.work(term, &link));
            tokio::select! {
                biased;
                () = died.died() => all.tokens().clear(),
                () = terms => {}
                () = all.beat(&heartbeat, &link) => {}
            }
        });
        works
    }

    /// Sets the drain, also for work that was already asked to stop.
    pub fn set_drain(&self, drain: Duration) {
        self.drain.send_replace(drain);
    }

    /// Stalls the work, or ends that.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.is_stalled.send_replace(is_stalled);
    }

    /// Whether the work of the term with this token continues.
    pub fn goes_on(&self, token: u64) -> bool {
        self.tokens().contains(&token)
    }

    async fn work(&self, term: Term, link: &Link) {
        let Some(work) = term.begin_work() else { return };
        self.tokens().insert(term.token);
        term.cancelled().await;
        self.goes_ahead().await;
        let (since, mut drain) = (Instant::now(), self.drain.subscribe());
        loop {
            let ends_at = since + *drain.borrow_and_update();
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(ends_at) => break,
                _ = drain.changed() => {}
            }
        }
        link.thawed().await;
        self.tokens().remove(&term.token);
        drop(work);
    }

    async fn beat(&self, heartbeat: &Heartbeat, link: &Link) {
        loop {
            self.goes_ahead().await;
            link.thawed().await;
            heartbeat.beat();
            tokio::time::sleep(BEAT_PERIOD).await;
        }
    }

    /// Waits while the work is stalled.
    async fn goes_ahead(&self) {
        // This cannot fail: `self` owns the sender.
        let _ = self.is_stalled.subscribe().wait_for(|is_stalled| !is_stalled).await;
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, BTreeSet<u64>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
