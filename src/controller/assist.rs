//! Keeps the Leases assisted that `--assist` lists.
//!
//! A Lease that the watch shows with its label and the right annotation costs nothing. Of the others, a few are read in
//! each round, and those that exist are written. Another program may have removed the annotation, or the Lease may not
//! exist yet.

use std::collections::VecDeque;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use hustings_core::assist::AssistOptions;
use hustings_core::model::Annotation;
use tokio::time::{MissedTickBehavior, interval};

use super::config::AssistedLease;
use super::execute::Executor;
use super::key::LeaseKey;
use super::leading::Electing;
use super::stores::Stores;

/// The length of a round.
const ROUND: Duration = Duration::from_secs(10);

/// The most Leases that are read in a round.
const READS: usize = 100;

/// The most Leases that are read at once.
const READS_AT_ONCE: usize = 4;

/// Keeps Leases assisted while this controller leads.
pub(super) struct AssistList {
    /// The Leases. Those that were read last are at the end.
    leases: VecDeque<(LeaseKey, AssistOptions)>,
    stores: Stores,
    executor: Executor,
}

impl AssistList {
    /// A list without the controllers' own Lease, which no controller assists.
    pub(super) fn new(leases: &[AssistedLease], own: Option<&LeaseKey>, stores: Stores, executor: Executor) -> Self {
        let lease = |lease: &AssistedLease| (LeaseKey::new(&lease.namespace, &lease.name), lease.options.clone());
        let mut leases: VecDeque<_> = leases.iter().map(lease).collect();
        if leases.iter().any(|(key, _)| Some(key) == own) {
            tracing::warn!("--assist lists the controllers' own Lease, which is not assisted");
            leases.retain(|(key, _)| Some(key) != own);
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

    async fn round(&mut self) {
        let due = self.due();
        let executor = &self.executor;
        stream::iter(&due).for_each_concurrent(READS_AT_ONCE, |(key, options)| executor.assist(key, options)).await;
        self.leases.extend(due);
    }

    /// Takes the Leases out of the list that are read in this round.
    fn due(&mut self) -> Vec<(LeaseKey, AssistOptions)> {
        let stores = &self.stores;
        let is_assisted = |(key, options): &(LeaseKey, AssistOptions)| {
            let record = stores.lease(key);
            record.is_some_and(|record| record.acts.assist.as_ref().and_then(Annotation::valid) == Some(options))
        };
        let (mut due, mut rest) = (Vec::new(), VecDeque::with_capacity(self.leases.len()));
        for lease in self.leases.drain(..) {
            if due.len() < READS && !is_assisted(&lease) {
                due.push(lease);
            } else {
                rest.push_back(lease);
            }
        }
        self.leases = rest;
        due
    }
}
