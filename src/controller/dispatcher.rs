//! The event loop: one task that owns every election.
//!
//! What the watches tell is told to the elections at once, whether this process leads or not, so that a standby knows
//! the times when it takes over. Only while it leads are they asked to decide, and only in scopes that have been listed
//! as a whole, since half a list elects the wrong candidate. Decisions take microseconds; what they ask for is carried
//! out by other tasks, one for each Lease at a time, and statuses by others still. So nothing here waits for the API
//! server, and no Lease for another.

mod measure;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hustings_client::clock::Clock;
use hustings_core::election::{self, NODE_LEASES, Observation, Source};
use hustings_core::model::CandidateRecord;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::contest::Contest;
use super::events::Publisher;
use super::execute::{Executor, Order};
use super::key::{LeaseKey, ObjectKey};
use super::leading::Leading;
use super::queue::Queue;
use super::statuses::Statuses;
use super::stores::Stores;
use super::watch::{Scope, Seen};
use crate::ops::health::{Check, Health};
use crate::ops::metrics::{Metrics, Resource};

/// How soon a Lease is looked at again of its own accord: no deadline makes a busy loop.
const SHORTEST_REST: Duration = Duration::from_millis(10);

/// How often the loop shows that it lives, and measures what only a look at everything can tell.
const TICK: Duration = Duration::from_secs(1);

/// What the dispatcher works with.
pub(super) struct Parts {
    /// The times of an election.
    pub(super) config: election::Config,
    /// The controllers' own Lease, about which nothing is decided here.
    pub(super) own_lease: Option<LeaseKey>,
    /// The clocks.
    pub(super) clock: Arc<dyn Clock>,
    /// Whether this process leads.
    pub(super) leading: Leading,
    /// The objects as the watches show them.
    pub(super) stores: Stores,
    /// Carries out what is decided.
    pub(super) executor: Executor,
    /// Publishes events.
    pub(super) publisher: Publisher,
    /// What it measures.
    pub(super) metrics: Metrics,
    /// Where it shows that it lives.
    pub(super) health: Health,
}

/// Every election, and the order in which they are looked at.
pub(super) struct Dispatcher {
    parts: Parts,
    contests: BTreeMap<LeaseKey, Contest>,
    /// For which Lease each candidate stands.
    stands_for: HashMap<ObjectKey, LeaseKey>,
    listed: HashMap<Scope, Listed>,
    queue: Queue<LeaseKey>,
    in_flight: JoinSet<(LeaseKey, Vec<Observation>)>,
    statuses: Statuses,
    tasks: HashMap<Id, LeaseKey>,
    leads: bool,
    /// Warns of writes that succeed without effect. One Lease makes no process unready.
    writes: Check,
}

/// Which kinds have been listed in a scope.
#[derive(Clone, Copy, Debug, Default)]
struct Listed {
    leases: bool,
    candidates: bool,
}

impl Dispatcher {
    /// A dispatcher that has seen nothing of these scopes yet.
    pub(super) fn new(parts: Parts, scopes: &[Scope]) -> Self {
        Self {
            statuses: Statuses::new(parts.executor.clone()),
            writes: parts.health.check("writes"),
            parts,
            contests: BTreeMap::new(),
            stands_for: HashMap::new(),
            listed: scopes.iter().map(|scope| (scope.clone(), Listed::default())).collect(),
            queue: Queue::new(),
            in_flight: JoinSet::new(),
            tasks: HashMap::new(),
            leads: false,
        }
    }

    /// Runs until `stop` is cancelled. What is being carried out then is dropped: every write is conditional.
    pub(super) async fn run(mut self, mut seen: mpsc::Receiver<Seen>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leading = self.parts.leading.clone();
        loop {
            // In this order, so that the same events make the same decisions. What comes first is also what ends first:
            // a Lease that was looked at waits, and the watches tell no more than the server writes.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => self.measure(),
                leads = leading.changed(self.leads) => self.lead(leads),
                Some(done) = self.in_flight.join_next_with_id() => self.done(done),
                Some((key, outcome)) = self.statuses.outcome() => self.written(&key, outcome),
                key = self.queue.take() => self.look(key),
                Some(told) = seen.recv() => self.see(told),
            }
        }
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.parts.metrics.leading.set(i64::from(leads));
        tracing::info!(leads, "{}", if leads { "this controller elects" } else { "this controller stands by" });
        if leads {
            self.look_at_all();
        } else {
            self.contests.values_mut().for_each(Contest::stand_by);
        }
    }

    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Lease(key, lease) => {
                self.observe(&key, Observation::Lease { record: *lease, source: Source::Watch });
                self.schedule(&key, Duration::ZERO);
            }
            Seen::LeaseGone(key) => {
                self.observe(&key, Observation::LeaseMissing { source: Source::Watch });
                self.schedule(&key, Duration::ZERO);
            }
            Seen::Candidate(key, candidate) => self.see_candidate(key, *candidate),
            Seen::CandidateGone(key) => self.lose_candidate(&key),
            Seen::Listed(scope, resource) => {
                let listed = self.listed.entry(scope).or_default();
                match resource {
                    Resource::Leases => listed.leases = true,
                    Resource::Candidates => listed.candidates = true,
                }
                self.look_at_all();
            }
        }
    }

    fn see_candidate(&mut self, key: ObjectKey, candidate: CandidateRecord) {
        let lease = LeaseKey::new(&key.namespace, &candidate.lease_name);
        if self.is_out_of_bounds(&lease) {
            tracing::debug!(candidate = %key, lease = %lease, "a candidate for a Lease that is never elected");
            return;
        }
        // A name that was deleted and created anew may stand for another Lease.
        if self.stands_for.get(&key).is_some_and(|former| *former != lease) {
            self.lose_candidate(&key);
        }
        self.stands_for.insert(key, lease.clone());
        let now = self.parts.clock.both();
        let contest = contest(&mut self.contests, &self.parts.config, &lease);
        contest.see_candidate(now, candidate, self.leads.then_some(&self.parts.metrics));
        self.schedule(&lease, Duration::ZERO);
    }

    fn lose_candidate(&mut self, key: &ObjectKey) {
        let Some(lease) = self.stands_for.remove(key) else { return };
        let now = self.parts.clock.both();
        if let Some(contest) = self.contests.get_mut(&lease) {
            contest.lose_candidate(now, &key.name);
            self.schedule(&lease, Duration::ZERO);
        }
    }

    fn observe(&mut self, key: &LeaseKey, observation: Observation) {
        if self.is_out_of_bounds(key) {
            return;
        }
        let now = self.parts.clock.both();
        let contest = contest(&mut self.contests, &self.parts.config, key);
        if let Some(began) = contest.observe(now, observation, self.leads.then_some(&self.parts.metrics)) {
            tracing::info!(lease = %key, holder = began.holder, "a term began");
            if self.leads {
                self.parts.publisher.became_leader(key, &began.lease_uid, &began.holder);
            }
        }
    }

    /// Looks at a Lease whose turn it is.
    fn look(&mut self, key: LeaseKey) {
        let now = self.parts.clock.both();
        let Some(contest) = self.contests.get_mut(&key).filter(|contest| !contest.is_over(now)) else {
            self.queue.finish(&key);
            self.forget(&key);
            return;
        };
        let may_decide = self.leads && is_listed(&self.listed, &key);
        let (order, deadline) = if may_decide {
            contest.decide(now, &self.parts.stores, &self.parts.metrics)
        } else if contest.is_adrift() {
            // A standby has nobody else who reads for it, and would remember every Lease that was ever deleted.
            (contest.order_to_read(), now.moment)
        } else {
            self.queue.finish(&key);
            return;
        };
        let Order { actions, current, statuses } = order;
        for status in statuses {
            self.statuses.put(status);
        }
        if actions.is_empty() {
            self.queue.finish(&key);
            let rest = deadline.since(now.moment).clamp(SHORTEST_REST, self.parts.config.requeue);
            self.schedule(&key, rest);
        } else {
            let executor = self.parts.executor.clone();
            let task_key = key.clone();
            let task = self
                .in_flight
                .spawn(async move { (task_key.clone(), executor.carry_out(task_key, actions, current).await) });
            self.tasks.insert(task.id(), key);
        }
    }

    /// A status has been written, or has not.
    fn written(&mut self, key: &LeaseKey, outcome: Observation) {
        if self.contests.contains_key(key) {
            self.observe(key, outcome);
            self.schedule(key, Duration::ZERO);
        }
    }

    /// A decision has been carried out.
    fn done(&mut self, done: Result<(Id, (LeaseKey, Vec<Observation>)), JoinError>) {
        let (key, observations) = match done {
            Ok((id, (key, observations))) => {
                self.tasks.remove(&id);
                (key, observations)
            }
            Err(error) => {
                let Some(key) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(lease = %key, %error, "a decision could not be carried out");
                (key, Vec::new())
            }
        };
        self.queue.finish(&key);
        for observation in observations {
            self.observe(&key, observation);
        }
        let now = self.parts.clock.both();
        if self.contests.get(&key).is_some_and(|contest| contest.is_over(now)) {
            self.forget(&key);
        }
        // What was read for a standby does not change what can be done.
        let rest = if self.leads { Duration::ZERO } else { self.parts.config.requeue };
        self.schedule(&key, rest);
    }

    fn look_at_all(&mut self) {
        let now = Instant::now();
        for key in self.contests.keys() {
            self.queue.schedule(key, now);
        }
    }

    fn schedule(&mut self, key: &LeaseKey, rest: Duration) {
        if self.contests.contains_key(key) {
            self.queue.schedule(key, Instant::now() + rest);
        }
    }

    /// Forgets a Lease that is gone with all of its candidates.
    fn forget(&mut self, key: &LeaseKey) {
        self.contests.remove(key);
        self.queue.forget(key);
    }

    fn is_out_of_bounds(&self, key: &LeaseKey) -> bool {
        **key.namespace() == *NODE_LEASES || self.parts.own_lease.as_ref() == Some(key) || key.name().is_empty()
    }
}

fn is_listed(listed: &HashMap<Scope, Listed>, key: &LeaseKey) -> bool {
    listed
        .iter()
        .filter(|(scope, _)| scope.namespace().is_none_or(|namespace| namespace == &**key.namespace()))
        .all(|(_, listed)| listed.leases && listed.candidates)
}

fn contest<'all>(
    contests: &'all mut BTreeMap<LeaseKey, Contest>,
    config: &election::Config,
    key: &LeaseKey,
) -> &'all mut Contest {
    contests.entry(key.clone()).or_insert_with(|| Contest::new(config, key.clone()))
}

#[cfg(test)]
mod tests;
