//! Keeps the Leases assisted that `--assist` lists.
//!
//! A Lease that the watch shows with its label and the right annotation costs nothing. Of the others, a few are read in
//! each round, and those that exist are written. Another program may have removed the annotation, or the Lease may not
//! exist yet. One that lacks them again soon after a write is written at ever longer intervals.

use std::collections::VecDeque;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use hustings_core::assist::AssistOptions;
use hustings_core::model::Annotation;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::config::AssistedLease;
use super::execute::Executor;
use super::key::LeaseKey;
use super::leading::Electing;
use super::stores::Stores;

/// The length of a round.
const ROUND: Duration = Duration::from_secs(10);

/// The longest pause after a write that another program undoes, or that the server does not keep.
const LONGEST_PAUSE: Duration = Duration::from_mins(30);

/// For how long a Lease must keep what was written before it begins with the shortest pause again.
const CALM: Duration = Duration::from_hours(1);

/// The most Leases that are read in a round.
const READS: usize = 100;

/// The most Leases that are read at once.
const READS_AT_ONCE: usize = 4;

/// Keeps Leases assisted while this controller leads.
pub(super) struct AssistList {
    /// The Leases. Those that were read last are at the end.
    leases: VecDeque<ListedLease>,
    stores: Stores,
    executor: Executor,
}

struct ListedLease {
    key: LeaseKey,
    options: AssistOptions,
    /// Its last write.
    written: Option<Written>,
}

struct Written {
    uid: String,
    at: Instant,
    /// How long the Lease is then left alone.
    pause: Duration,
}

impl AssistList {
    /// A list without the controllers' own Lease, which no controller assists.
    pub(super) fn new(leases: &[AssistedLease], own: Option<&LeaseKey>, stores: Stores, executor: Executor) -> Self {
        let lease = |lease: &AssistedLease| ListedLease {
            key: LeaseKey::new(&lease.namespace, &lease.name),
            options: lease.options.clone(),
            written: None,
        };
        let mut leases: VecDeque<_> = leases.iter().map(lease).collect();
        if leases.iter().any(|lease| Some(&lease.key) == own) {
            tracing::warn!("--assist lists the controllers' own Lease, which is not assisted");
            leases.retain(|lease| Some(&lease.key) != own);
        }
        Self { leases, stores, executor }
    }

    /// Runs for ever.
    pub(super) async fn run(mut self, mut leading: Electing) {
        let mut leads = false;
        let mut rounds = interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                now = leading.changed(leads) => leads = now,
                // The first round follows at once.
                _ = rounds.tick(), if leads => self.round().await,
            }
        }
    }

    pub(super) async fn round(&mut self) {
        let mut due = self.due();
        let executor = &self.executor;
        let assist = async |lease: &mut ListedLease| {
            if let Some(uid) = executor.assist(&lease.key, &lease.options).await {
                lease.has_been_written(uid);
            }
        };
        stream::iter(&mut due).for_each_concurrent(READS_AT_ONCE, assist).await;
        self.leases.extend(due);
    }

    /// Takes the Leases out of the list that are read in this round.
    fn due(&mut self) -> Vec<ListedLease> {
        let stores = &self.stores;
        let is_assisted = |lease: &ListedLease| {
            let record = stores.lease(&lease.key);
            record.is_some_and(|record| record.acts.assist.as_ref().and_then(Annotation::valid) == Some(&lease.options))
        };
        let rests =
            |lease: &ListedLease| lease.written.as_ref().is_some_and(|written| written.at.elapsed() < written.pause);
        let (mut due, mut rest) = (Vec::new(), VecDeque::with_capacity(self.leases.len()));
        for lease in self.leases.drain(..) {
            if due.len() < READS && !rests(&lease) && !is_assisted(&lease) {
                due.push(lease);
            } else {
                rest.push_back(lease);
            }
        }
        self.leases = rest;
        due
    }
}

impl ListedLease {
    /// Sets the pause after a write. Each further one of the same Lease soon after it doubles the pause.
    fn has_been_written(&mut self, uid: String) {
        let last = self.written.take().filter(|last| last.at.elapsed() < CALM && last.uid == uid);
        let pause = last.as_ref().map_or(ROUND, |last| last.pause.saturating_mul(2).min(LONGEST_PAUSE));
        if last.is_some() {
            tracing::warn!(lease = %self.key, pause_seconds = pause.as_secs(),
                "the Lease does not keep the annotation or the label with which --assist has it assisted");
        }
        self.written = Some(Written { uid, at: Instant::now(), pause });
    }
}
