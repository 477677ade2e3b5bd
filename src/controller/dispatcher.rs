//! The event loop: one task that owns every election.
//!
//! What the watches tell is told to the elections at once, whether this process leads or not, so that a standby knows
//! the times when it takes over. Only while it leads are they asked to decide, and only in scopes that have been listed
//! as a whole, since half a list elects the wrong candidate. Decisions take microseconds; what they ask for is carried
//! out by other tasks, one for each Lease at a time, and statuses by others still. So nothing here waits for the API
//! server, and no Lease for another.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hustings_client::clock::Clock;
use hustings_core::election::{self, NODE_LEASES, Observation, Source};
use hustings_core::model::{CandidateRecord, Moment};
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
use crate::ops::metrics::{LeaseState, Metrics, Resource};

/// How soon a Lease is looked at again of its own accord: no deadline makes a busy loop.
const SHORTEST_REST: Duration = Duration::from_millis(10);

/// How often the loop shows that it lives, and measures what only a look at everything can tell.
const TICK: Duration = Duration::from_secs(1);

/// How many writes that succeed without effect are named; the rest are counted.
const MOST_NAMED: usize = 8;

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

    fn measure(&mut self) {
        self.parts.health.beat();
        let metrics = &self.parts.metrics;
        metrics.queue_depth.set(count(self.queue.overdue(Instant::now())));
        metrics.candidates.set(count(self.stands_for.len()));
        for (resource, objects) in self.parts.stores.sizes() {
            metrics.watched_objects.get_or_create(&resource.label()).set(count(objects));
        }
        for state in LeaseState::ALL {
            let leases = self.contests.values().filter(|contest| self.leads && contest.state() == state).count();
            metrics.leases.get_or_create(&state.label()).set(count(leases));
        }
        // What a standby knows of the Leases is the other controller's to show.
        let contests = self.contests.values_mut().filter(|_| self.leads);
        let now = self.parts.clock.now();
        metrics.each_lease.replace(contests.filter_map(|contest| contest.sample(now)));
        let oldest = self.contests.values().filter_map(Contest::unheld_since).min().filter(|_| self.leads);
        metrics.oldest_unheld.set(oldest.map_or(0.0, |since: Moment| now.since(since).as_secs_f64()));
        let ineffective = self.contests.values().filter(|_| self.leads).flat_map(Contest::ineffective_writes);
        self.writes.pass_with(warning(ineffective));
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

/// What `/readyz?verbose` says of the writes that succeed without effect.
fn warning(mut writes: impl Iterator<Item = String>) -> Option<String> {
    let mut named: Vec<_> = writes.by_ref().take(MOST_NAMED).collect();
    let rest = writes.count();
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    (!named.is_empty()).then(|| format!("writes succeed without effect: {}", named.join(", ")))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use hustings_client::api::{ReadCandidate, ReadLease};
    use hustings_client::clock::SystemClock;
    use hustings_client::requests::Requests;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A dispatcher over a server that has no object.
    fn dispatcher(leads: bool) -> Dispatcher {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let name = request.uri().path().rsplit('/').next();
            let details = json!({ "name": name, "kind": "leases", "group": "coordination.k8s.io" });
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                "details": details, "code": 404 });
            let body = Body::from(status.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(404).body(body).unwrap())
        });
        let (client, clock, metrics) = (Client::new(service, "n"), SystemClock::shared(), Metrics::new().0);
        let (publisher, _) = Publisher::new(client.clone(), "test", metrics.clone());
        let requests = Requests::new(client, Arc::clone(&clock), Duration::from_secs(1));
        let executor = Executor::new(requests, Arc::clone(&clock), publisher.clone(), metrics.clone());
        let (config, stores, health) = (election::Config::default(), Stores::default(), Health::new());
        let parts = Parts {
            config,
            own_lease: None,
            clock,
            leading: Leading::Always,
            stores,
            executor,
            publisher,
            metrics,
            health,
        };
        let mut dispatcher = Dispatcher::new(parts, &[Scope::Cluster]);
        dispatcher.leads = leads;
        dispatcher
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey { namespace: "n".into(), name: name.into() }
    }

    fn candidate(lease: &str) -> Box<CandidateRecord> {
        let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
        let metadata = json!({ "namespace": "n", "name": "a", "uid": "u", "resourceVersion": "5" });
        Box::new(ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec })).record)
    }

    async fn turn(dispatcher: &mut Dispatcher) {
        let key = dispatcher.queue.take().await;
        dispatcher.look(key);
        if let Some(done) = dispatcher.in_flight.join_next_with_id().await {
            dispatcher.done(done);
        }
    }

    #[test]
    fn a_warning_names_a_few_writes_and_counts_the_rest() {
        let writes = |count| warning((0..count).map(|number| format!("w{number}")));
        assert_eq!(writes(0), None);
        assert_eq!(writes(2).unwrap(), "writes succeed without effect: w0, w1");
        assert!(writes(MOST_NAMED + 5).unwrap().ends_with("w7, 5 more"));
    }

    #[tokio::test]
    async fn nothing_is_decided_on_half_a_list() {
        let mut dispatcher = dispatcher(true);
        dispatcher.see(Seen::Candidate(key("a"), candidate("l")));
        dispatcher.see(Seen::Listed(Scope::Cluster, Resource::Candidates));
        let lease = dispatcher.queue.take().await;
        dispatcher.look(lease);
        assert!(dispatcher.in_flight.is_empty(), "the Leases have not been listed");
        dispatcher.see(Seen::Listed(Scope::Cluster, Resource::Leases));
        let lease = dispatcher.queue.take().await;
        dispatcher.look(lease);
        assert_eq!(dispatcher.in_flight.len(), 1);
    }

    #[tokio::test]
    async fn a_standby_forgets_a_lease_that_is_gone_with_its_candidates() {
        let mut dispatcher = dispatcher(false);
        dispatcher.see(Seen::Candidate(key("a"), candidate("l")));
        let lease = ReadLease::from_json(json!({
            "metadata": {
                "namespace": "n", "name": "l", "uid": "u", "resourceVersion": "6",
                "labels": { "hustings.io/enrolled": "true" }, "annotations": { "hustings.io/session": "open" },
            },
            "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 },
        }));
        dispatcher.see(Seen::Lease(key("l").into(), Box::new(lease.record)));
        dispatcher.see(Seen::CandidateGone(key("a")));
        dispatcher.see(Seen::LeaseGone(key("l").into()));
        assert_eq!(dispatcher.contests.len(), 1);
        turn(&mut dispatcher).await;
        assert!(dispatcher.contests.is_empty() && dispatcher.stands_for.is_empty());
    }

    #[tokio::test]
    async fn a_name_that_comes_back_for_another_lease_leaves_the_former() {
        let mut dispatcher = dispatcher(false);
        dispatcher.see(Seen::Candidate(key("a"), candidate("l")));
        dispatcher.see(Seen::Candidate(key("a"), candidate("other")));
        turn(&mut dispatcher).await;
        turn(&mut dispatcher).await;
        let left: Vec<_> = dispatcher.contests.keys().map(ToString::to_string).collect();
        assert_eq!(left, ["n/other"]);
    }
}
