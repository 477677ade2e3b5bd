//! The event loop: one task that owns every election.
//!
//! - Every election observes every watch event at once, on a standby too. A standby that takes over therefore knows
//!   when each record last changed.
//! - Elections decide only while this process leads, and only in scopes that were listed completely. An incomplete list
//!   would elect the wrong candidate.
//! - Elections with native candidates decide only while no other controller elects native candidates.
//! - A decision takes microseconds. Other tasks carry it out, one per Lease at a time, and separate tasks write
//!   statuses. The loop therefore never waits for the API server, and no Lease waits for another.

mod measure;
mod publication;
mod publish;
mod scopes;
mod second_controller;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use hustings_client::api::names::is_dns_subdomain;
use hustings_client::clock::Clock;
use hustings_core::election::{self, NODE_LEASES, Observation, Source};
use hustings_core::model::{Moment, Now};
use tokio::sync::{mpsc, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::publication::Publication;
use self::scopes::Scopes;
use self::second_controller::SecondController;
use super::elected_lease::{Change, ElectedLease, LeasePlan};
use super::events::EventPublisher;
use super::execute::Executor;
use super::key::{LeaseKey, MemberKey};
use super::leading::Electing;
use super::queue::Queue;
use super::statuses::Statuses;
use super::stores::Stores;
use super::watched::{Scope, WatchEvent, WatchedCandidate};
use crate::serve::health::{Check, Health};
use crate::serve::metrics::ControllerMetrics;
use crate::serve::page::Page;

/// The shortest pause before the next decision about a Lease. It prevents a busy loop when a deadline has passed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// How often the loop records a heartbeat and updates the metrics that cover all Leases.
const TICK: Duration = Duration::from_secs(1);

/// Everything that the dispatcher uses.
pub(super) struct Parts {
    /// The configuration of every election.
    pub(super) config: election::Config,
    /// The controllers' own Lease, which no election decides.
    pub(super) own_lease: Option<LeaseKey>,
    /// The clocks.
    pub(super) clock: Arc<dyn Clock>,
    /// Reports whether this process leads.
    pub(super) leading: Electing,
    /// Whether this process may elect native candidates; `None` if it does not watch them. Another controller may elect
    /// them instead.
    pub(super) native: Option<watch::Receiver<bool>>,
    /// The watched objects, for the page and for the times in statuses. No decision reads them.
    pub(super) stores: Stores,
    /// Carries out decisions.
    pub(super) executor: Executor,
    /// Publishes events.
    pub(super) publisher: EventPublisher,
    /// The controller's metrics.
    pub(super) metrics: ControllerMetrics,
    /// Receives the heartbeats.
    pub(super) health: Health,
    /// The name of this controller and its page, if it has one.
    pub(super) page: Option<(String, Page)>,
}

/// Owns every election, and decides which one is next.
pub(super) struct Dispatcher {
    parts: Parts,
    /// Each Lease is boxed, since the nodes of a B-tree reserve space for more values than they hold.
    leases: BTreeMap<LeaseKey, Box<ElectedLease>>,
    /// The Lease for which each candidate stands.
    stands_for: HashMap<MemberKey, LeaseKey>,
    /// The candidates whose `leaseName` is invalid, with that name and their UIDs.
    misnamed: HashMap<MemberKey, (LeaseKey, String)>,
    scopes: Scopes,
    queue: Queue<LeaseKey>,
    in_flight: JoinSet<(LeaseKey, Vec<Observation>)>,
    statuses: Statuses,
    tasks: HashMap<Id, LeaseKey>,
    leads: bool,
    /// Warns of writes that succeed without effect. It always passes, so that one Lease cannot make the process
    /// unready.
    writes: Check,
    /// Warns of a second controller.
    second: SecondController,
    publication: Option<Publication>,
}

impl Parts {
    /// Whether this controller elects for this Lease while it leads.
    fn elects(&self, lease: &ElectedLease) -> bool {
        !lease.has_native_candidates() || self.native.as_ref().is_none_or(|elects| *elects.borrow())
    }
}

impl Dispatcher {
    /// Creates a dispatcher that has not observed anything in `scopes`.
    pub(super) fn new(mut parts: Parts, scopes: &[Scope]) -> Self {
        let scopes = Scopes::new(scopes, parts.native.is_some());
        Self {
            statuses: Statuses::new(parts.executor.clone()),
            writes: parts.health.check("writes"),
            second: SecondController::new(&parts.health),
            publication: parts.page.take().map(Publication::new),
            parts,
            leases: BTreeMap::new(),
            stands_for: HashMap::new(),
            misnamed: HashMap::new(),
            scopes,
            queue: Queue::new(),
            in_flight: JoinSet::new(),
            tasks: HashMap::new(),
            leads: false,
        }
    }

    /// Runs until `stop` is cancelled. It then drops the requests in flight, which is safe because every write is
    /// conditional.
    pub(super) async fn run(mut self, mut events: mpsc::Receiver<WatchEvent>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leading = self.parts.leading.clone();
        let mut native = self.parts.native.clone();
        loop {
            // The order is fixed, so that the same events lead to the same decisions. No branch starves a later one: a
            // Lease pauses after each decision, and the requests in flight limit the number of outcomes.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => {
                    self.measure();
                    self.publish_controller();
                    self.forget_refused();
                }
                Some(()) = OptionFuture::from(self.publication.as_ref().map(Publication::due)) => self.publish(),
                leads = leading.changed(self.leads) => self.set_leading(leads),
                Some(Ok(())) = OptionFuture::from(native.as_mut().map(watch::Receiver::changed)) => self.schedule_all(),
                Some(finished) = self.in_flight.join_next_with_id() => self.finish_decision(finished),
                Some((key, outcome)) = self.statuses.outcome() => self.finish_status(&key, outcome),
                key = self.queue.take() => self.decide(key),
                Some(event) = events.recv() => self.handle(event),
            }
        }
    }

    fn set_leading(&mut self, leads: bool) {
        self.leads = leads;
        self.parts.metrics.leading.set(i64::from(leads));
        tracing::info!(leads, "{}", if leads { "this controller elects" } else { "this controller stands by" });
        if leads {
            for (key, (lease, uid)) in &self.misnamed {
                self.parts.publisher.rejected_lease_name(lease, &key.candidate, uid);
            }
            self.schedule_all();
        } else {
            self.leases.values_mut().for_each(|lease| lease.stand_by());
        }
        self.note_all();
    }

    fn handle(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Lease(key, lease) => {
                self.observe_with(&key, |elected, now, metrics| elected.observe_lease(now, lease, metrics));
                self.schedule(&key, Duration::ZERO);
            }
            WatchEvent::LeaseRemoved(key) => {
                self.observe(&key, Observation::LeaseMissing { source: Source::Watch });
                self.schedule(&key, Duration::ZERO);
            }
            WatchEvent::Candidate(key, candidate) => self.observe_candidate(key, candidate),
            WatchEvent::CandidateRemoved(key) => self.remove_candidate(&key),
            WatchEvent::Listed(scope, resource) => {
                self.scopes.note_listed(&scope, resource);
                self.schedule_all();
                self.note_all();
            }
            WatchEvent::Refused(scope, resource) => self.scopes.note_refused(&scope, resource),
        }
    }

    fn observe_candidate(&mut self, key: MemberKey, candidate: WatchedCandidate) {
        let record = &candidate.record;
        let lease = LeaseKey::new(&key.namespace, &record.lease_name);
        // A candidate that was deleted and created again may stand for another Lease.
        if self.stands_for.get(&key).is_some_and(|previous| *previous != lease) {
            self.remove_candidate(&key);
        }
        self.misnamed.remove(&key);
        // The API server validates the name for candidates of `hustings.io` only.
        if !is_dns_subdomain(lease.name()) {
            if self.leads {
                self.parts.publisher.rejected_lease_name(&lease, &key.candidate, &record.uid);
            }
            self.misnamed.insert(key, (lease, record.uid.clone()));
            return;
        }
        if self.is_out_of_bounds(&lease) {
            tracing::debug!(candidate = %key, lease = %lease, "ignored a candidate for a Lease that Hustings never elects");
            return;
        }
        let now = self.parts.clock.both();
        let elected = elected_lease(&mut self.leases, &self.parts.config, &lease, self.publication.is_some());
        // This key shares its strings with the other candidates of the Lease.
        self.stands_for.insert(key, elected.key().clone());
        elected.observe_candidate(now, candidate, self.leads.then_some(&self.parts.metrics));
        self.note_change(&lease);
        self.schedule(&lease, Duration::ZERO);
    }

    fn remove_candidate(&mut self, key: &MemberKey) {
        self.misnamed.remove(key);
        let Some(lease) = self.stands_for.remove(key) else { return };
        let now = self.parts.clock.both();
        if let Some(elected) = self.leases.get_mut(&lease) {
            elected.remove_candidate(now, key.candidate.clone());
            self.note_change(&lease);
            self.schedule(&lease, Duration::ZERO);
        }
    }

    fn observe(&mut self, key: &LeaseKey, observation: Observation) {
        self.observe_with(key, |elected, now, metrics| elected.observe(now, observation, metrics));
    }

    /// Lets a Lease observe something, and publishes the changes.
    fn observe_with(
        &mut self,
        key: &LeaseKey,
        observe: impl FnOnce(&mut ElectedLease, Now, Option<&ControllerMetrics>) -> Change,
    ) {
        if self.is_out_of_bounds(key) {
            return;
        }
        let now = self.parts.clock.both();
        let elected = elected_lease(&mut self.leases, &self.parts.config, key, self.publication.is_some());
        let Change { began, handed_over } = observe(elected, now, self.leads.then_some(&self.parts.metrics));
        if let Some((lease_uid, event)) = handed_over.filter(|_| self.leads) {
            self.parts.publisher.publish(key, &lease_uid, &event);
        }
        if let Some(began) = began {
            tracing::info!(lease = %key, holder = %began.holder, "a term began");
            if self.leads {
                self.parts.publisher.became_leader(key, &began.lease_uid, &began.holder);
            }
        }
        self.note_change(key);
    }

    /// Makes the next decision about a Lease, and starts to carry it out.
    fn decide(&mut self, key: LeaseKey) {
        let now = self.parts.clock.both();
        let Some(lease) = self.leases.get_mut(&key).filter(|lease| !lease.is_over(now)) else {
            self.queue.finish(&key);
            self.forget(&key);
            return;
        };
        let is_ours = self.parts.elects(lease);
        if !is_ours {
            lease.stand_by();
        }
        let may_decide = self.leads && is_ours && self.scopes.is_listed(key.namespace());
        let (plan, deadline) = if may_decide {
            lease.decide(now, &self.parts.stores, &self.parts.metrics)
        } else if lease.is_unknown() && !self.scopes.is_refused(key.namespace()) {
            // Without this read, a standby would keep every Lease that was ever deleted.
            (lease.plan_read(), now.moment)
        } else {
            self.queue.finish(&key);
            return;
        };
        self.note_change(&key);
        let LeasePlan { mut actions, current, statuses } = plan;
        self.second.report(&key, &mut actions);
        for status in statuses {
            self.statuses.submit(status);
        }
        if actions.is_empty() {
            self.queue.finish(&key);
            let pause = pause_until(deadline, now.moment, self.parts.config.requeue);
            self.schedule(&key, pause);
        } else {
            let executor = self.parts.executor.clone();
            let task_key = key.clone();
            let task = self
                .in_flight
                .spawn(async move { (task_key.clone(), executor.carry_out(task_key, actions, current).await) });
            self.tasks.insert(task.id(), key);
        }
    }

    /// Observes the outcome of a status write.
    fn finish_status(&mut self, key: &LeaseKey, outcome: Observation) {
        if self.leases.contains_key(key) {
            self.observe(key, outcome);
            self.schedule(key, Duration::ZERO);
        }
    }

    /// Observes the outcomes of a decision that was carried out.
    fn finish_decision(&mut self, finished: Result<(Id, (LeaseKey, Vec<Observation>)), JoinError>) {
        let requeue = self.parts.config.requeue;
        let (key, observations, pause) = match finished {
            Ok((id, (key, observations))) => {
                self.tasks.remove(&id);
                // A standby only reads, so there is nothing to do at once.
                (key, observations, if self.leads { Duration::ZERO } else { requeue })
            }
            // The same decision may panic again.
            Err(error) => {
                let Some(key) = self.tasks.remove(&error.id()) else { return };
                tracing::error!(lease = %key, %error, "a decision could not be carried out");
                (key, Vec::new(), requeue)
            }
        };
        self.queue.finish(&key);
        for observation in observations {
            self.observe(&key, observation);
        }
        let now = self.parts.clock.both();
        if self.leases.get(&key).is_some_and(|lease| lease.is_over(now)) {
            self.forget(&key);
        }
        self.schedule(&key, pause);
    }

    fn schedule_all(&mut self) {
        let now = Instant::now();
        for key in self.leases.keys() {
            self.queue.schedule(key, now);
        }
    }

    fn schedule(&mut self, key: &LeaseKey, pause: Duration) {
        if self.leases.contains_key(key) {
            self.queue.schedule(key, Instant::now() + pause);
        }
    }

    /// Removes a Lease that no longer exists and has no candidates.
    fn forget(&mut self, key: &LeaseKey) {
        self.leases.remove(key);
        self.queue.forget(key);
        self.unpublish(key);
    }

    fn is_out_of_bounds(&self, key: &LeaseKey) -> bool {
        **key.namespace() == *NODE_LEASES || self.parts.own_lease.as_ref() == Some(key)
    }
}

/// The pause before the next decision, which is due at `deadline`.
fn pause_until(deadline: Moment, now: Moment, longest: Duration) -> Duration {
    deadline.since(now).clamp(SHORTEST_PAUSE, longest)
}

fn elected_lease<'all>(
    leases: &'all mut BTreeMap<LeaseKey, Box<ElectedLease>>,
    config: &election::Config,
    key: &LeaseKey,
    displayed: bool,
) -> &'all mut ElectedLease {
    leases.entry(key.clone()).or_insert_with(|| Box::new(ElectedLease::new(config, key.clone(), displayed)))
}

#[cfg(test)]
mod tests;
