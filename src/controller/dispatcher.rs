//! The event loop: one task that owns every election.
//!
//! - Every election observes every watch event at once, on a standby too. A standby that takes over therefore knows
//!   when each record last changed.
//! - Elections decide only while this process leads, and only in scopes that were listed completely. An incomplete list
//!   would elect the wrong candidate.
//! - Elections with native candidates decide only while no other controller elects native candidates.
//! - A decision takes microseconds. Other tasks carry it out, one per Lease at a time, and separate tasks write
//!   statuses. The loop therefore never waits for the API server, and no Lease waits for another.

mod homes;
mod labels;
mod pods;
mod scopes;
mod showing;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use hustings_client::api::names::is_dns_subdomain;
use hustings_client::clock::Clock;
use hustings_core::election::{self, Action, Election, NODE_LEASES, Observation, Report, Source};
use hustings_core::model::{CandidateKind, Moment, Now, Request};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;

pub(super) use self::homes::Homes;
use self::pods::Pods;
use self::scopes::Scopes;
use super::execute::Executor;
use super::key::{LeaseKey, MemberKey};
use super::leader_labels::LeaderLabels;
use super::leading::Electing;
use super::queue::Queue;
use super::reporting::{ElectionsByKey, PagePublisher, Reporting};
use super::status::StatusWrite;
use super::statuses::Statuses;
use super::stores::Stores;
use super::watched::{Scope, WatchEvent, WatchedCandidate};
use crate::serve::health::Health;

/// The shortest pause before the next decision about a Lease. It prevents a busy loop when a deadline has passed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// How often the loop records a heartbeat and updates the metrics that cover all Leases.
const TICK: Duration = Duration::from_secs(1);

/// Everything that the dispatcher uses.
pub(super) struct DispatcherParts {
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
    /// Keeps the labels that lead to the leaders; `None` if that is off.
    pub(super) labels: Option<LeaderLabels>,
    /// Publishes and counts what the elections find.
    pub(super) reporting: Reporting,
    /// Receives the heartbeats.
    pub(super) health: Health,
}

/// Owns every election, and decides which one is next.
pub(super) struct Dispatcher {
    parts: DispatcherParts,
    elections: ElectionsByKey,
    /// The Lease for which each candidate stands.
    stands_for: HashMap<MemberKey, LeaseKey>,
    /// The candidates whose `leaseName` is invalid, with that name and their UIDs.
    misnamed: HashMap<MemberKey, (LeaseKey, String)>,
    /// The Pods in which holders run; `None` if no Pods are watched.
    pods: Option<Pods>,
    labels: Option<LeaderLabels>,
    scopes: Scopes,
    queue: Queue<LeaseKey>,
    in_flight: JoinMap<LeaseKey, Vec<Observation>>,
    statuses: Statuses,
    leads: bool,
}

impl DispatcherParts {
    /// Whether this controller elects for this Lease while it leads.
    fn elects(&self, election: &Election) -> bool {
        let may_elect_native = self.native.as_ref().is_none_or(|elects| *elects.borrow());
        may_elect_native || election.candidates().all(|candidate| candidate.kind != CandidateKind::Native)
    }
}

impl Dispatcher {
    /// Creates a dispatcher that has not observed anything in `scopes`.
    pub(super) fn new(mut parts: DispatcherParts, scopes: &[Scope]) -> Self {
        let labels = parts.labels.take();
        let pods = (parts.config.evidence.pods || labels.is_some()).then(|| Pods::new(scopes));
        let scopes = Scopes::new(scopes, parts.native.is_some());
        Self {
            statuses: Statuses::new(parts.executor.clone()),
            parts,
            elections: ElectionsByKey::new(),
            stands_for: HashMap::new(),
            misnamed: HashMap::new(),
            pods,
            labels,
            scopes,
            queue: Queue::new(),
            in_flight: JoinMap::new(),
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
                () = stop.cancelled() => return self.finish_labels().await,
                _ = tick.tick() => {
                    self.measure();
                    self.publish_controller();
                    self.act_on_missing_lists();
                    self.labels.iter_mut().for_each(LeaderLabels::start_due);
                }
                Some(()) = OptionFuture::from(self.parts.reporting.page.as_ref().map(PagePublisher::due)) => {
                    self.publish();
                }
                leads = leading.changed(self.leads) => self.set_leading(leads),
                Some(Ok(())) = OptionFuture::from(native.as_mut().map(watch::Receiver::changed)) => self.schedule_all(),
                Some((key, result)) = self.in_flight.join_next() => self.finish_decision(&key, result),
                Some((key, outcome)) = self.statuses.outcome() => self.finish_status(&key, outcome),
                change = labels::change(self.labels.as_mut()) => self.report_label(&change),
                key = self.queue.take() => self.decide(key),
                Some(event) = events.recv() => self.handle(event),
            }
        }
    }

    fn set_leading(&mut self, leads: bool) {
        self.leads = leads;
        self.parts.reporting.measurements.metrics.leading.set(i64::from(leads));
        tracing::info!(leads, "{}", if leads { "this controller elects" } else { "this controller stands by" });
        if leads {
            for (key, (lease, uid)) in &self.misnamed {
                self.parts.reporting.publisher.rejected_lease_name(lease, &key.candidate, uid);
            }
            self.schedule_all();
        } else {
            self.parts.reporting.stand_by();
            self.labels.iter_mut().for_each(LeaderLabels::clear);
        }
        self.note_all();
    }

    fn handle(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Lease(key, lease) => {
                self.observe_with(&key, |election, now| election.observe_watched_lease(now, lease));
                self.follow_assisted(&key);
                self.schedule(&key, Duration::ZERO);
            }
            WatchEvent::LeaseRemoved(key) => {
                self.observe(&key, Observation::LeaseMissing { source: Source::Watch });
                self.schedule(&key, Duration::ZERO);
            }
            WatchEvent::Candidate(key, candidate) => self.observe_candidate(key, candidate),
            WatchEvent::CandidateRemoved(key) => self.remove_candidate(&key),
            WatchEvent::Pod(namespace, pod) => self.observe_pod(&namespace, pod, false),
            WatchEvent::PodRemoved(namespace, pod) => self.observe_pod(&namespace, pod, true),
            WatchEvent::PodListBegan(scope) => self.begin_pods(&scope),
            WatchEvent::PodsListed(scope) => self.finish_pods(&scope),
            WatchEvent::Node(node) => self.observe_node(&node),
            WatchEvent::Listed(scope, resource) => {
                // A watch of an optional kind that the server refuses says so with each attempt.
                if self.scopes.note_listed(&scope, resource) {
                    self.schedule_all();
                    self.note_all();
                }
            }
            WatchEvent::Refused(scope, resource) => {
                if self.scopes.note_refused(&scope, resource) {
                    self.note_all();
                }
            }
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
                self.parts.reporting.publisher.rejected_lease_name(&lease, &key.candidate, &record.uid);
            }
            self.misnamed.insert(key, (lease, record.uid.clone()));
            return;
        }
        if self.is_out_of_bounds(&lease) {
            tracing::debug!(candidate = %key, lease = %lease, "ignored a candidate for a Lease that Hustings never elects");
            return;
        }
        // This key shares its strings with the other candidates of the Lease.
        let lease = self.elections.get_key_value(&lease).map_or(lease, |(known, _)| known.clone());
        // The election may have ignored the Pod before it knew this candidate.
        let pod = self.settle(&key, record);
        self.stands_for.insert(key, lease.clone());
        self.observe_with(&lease, |election, now| election.observe_watched_candidate(now, candidate.record));
        if let Some(pod) = pod {
            self.show_pod(&lease, &pod);
        }
        self.schedule(&lease, Duration::ZERO);
    }

    fn remove_candidate(&mut self, key: &MemberKey) {
        self.misnamed.remove(key);
        let Some(lease) = self.stands_for.remove(key) else { return };
        if let Some(pods) = &mut self.pods {
            pods.candidates.leave(key);
        }
        if self.elections.contains_key(&lease) {
            let candidate = key.candidate.clone();
            self.observe(&lease, Observation::CandidateMissing { candidate, source: Source::Watch });
            self.schedule(&lease, Duration::ZERO);
        }
    }

    fn observe(&mut self, key: &LeaseKey, observation: Observation) {
        self.observe_with(key, |election, now| election.observe(now, observation));
    }

    /// Lets an election observe something, and reports what follows.
    fn observe_with(&mut self, key: &LeaseKey, observe: impl FnOnce(&mut Election, Now) -> Report) {
        if self.is_out_of_bounds(key) {
            return;
        }
        let now = self.parts.clock.both();
        let new = || Box::new(Election::new(self.parts.config.clone(), key.namespace(), key.name()));
        let election = self.elections.entry(key.clone()).or_insert_with(new);
        let report = observe(election, now);
        self.parts.reporting.observed(key, now, election, &report, self.leads);
    }

    /// Makes the next decision about a Lease, and starts to carry it out.
    fn decide(&mut self, key: LeaseKey) {
        let now = self.parts.clock.both();
        let Some(election) = self.elections.get_mut(&key).filter(|election| !election.is_over(now)) else {
            self.queue.finish(&key);
            self.forget(&key);
            return;
        };
        let elects = self.parts.elects(election) && self.scopes.is_listed(key.namespace());
        if !elects {
            self.parts.reporting.stand_by_for(&key);
        }
        let may_decide = self.leads && elects;
        let (actions, deadline) = if may_decide {
            let started = Instant::now();
            let mut decision = election.decide(now);
            self.parts.reporting.measurements.metrics.decision.observe(started.elapsed().as_secs_f64());
            self.parts.reporting.decided(&key, now, election, &mut decision);
            self.follow_label(&key, &decision.lease);
            (decision.actions, decision.deadline)
        } else if is_unknown(election) && !self.scopes.is_refused(key.namespace()) {
            // Without this read, a standby would keep every Lease that was ever deleted.
            (vec![Request::read_lease(&**key.name()).into()], now.moment)
        } else {
            self.queue.finish(&key);
            return;
        };
        let (statuses, actions) = split_statuses(&key, &self.parts.stores, actions);
        for status in statuses {
            self.statuses.submit(status);
        }
        if actions.is_empty() {
            self.queue.finish(&key);
            let pause = pause_until(deadline, now.moment, self.parts.config.requeue);
            self.schedule(&key, pause);
        } else {
            let lease = self.elections.get(&key).and_then(|election| election.lease());
            let uid = lease.map(|observed| observed.record().uid.clone()).unwrap_or_default();
            let executor = self.parts.executor.clone();
            self.in_flight.spawn(key.clone(), executor.carry_out(key, actions, uid));
        }
    }

    /// Observes the outcome of a status write.
    fn finish_status(&mut self, key: &LeaseKey, outcome: Observation) {
        if self.elections.contains_key(key) {
            self.observe(key, outcome);
            self.schedule(key, Duration::ZERO);
        }
    }

    /// Observes the outcomes of a decision that was carried out.
    fn finish_decision(&mut self, key: &LeaseKey, result: Result<Vec<Observation>, JoinError>) {
        let requeue = self.parts.config.requeue;
        let (observations, pause) = match result {
            Ok(observations) => {
                // Without a decision, there was only a read, and nothing is to be done at once.
                let decides = self.leads && self.scopes.is_listed(key.namespace());
                (observations, if decides { Duration::ZERO } else { requeue })
            }
            // The same decision may panic again.
            Err(error) => {
                tracing::error!(lease = %key, %error, "a decision could not be carried out");
                (Vec::new(), requeue)
            }
        };
        self.queue.finish(key);
        for observation in observations {
            self.observe(key, observation);
        }
        let now = self.parts.clock.both();
        if self.elections.get(key).is_some_and(|election| election.is_over(now)) {
            self.forget(key);
        }
        self.schedule(key, pause);
    }

    fn schedule_all(&mut self) {
        let now = Instant::now();
        for key in self.elections.keys() {
            self.queue.schedule(key, now);
        }
    }

    fn schedule(&mut self, key: &LeaseKey, pause: Duration) {
        if self.elections.contains_key(key) {
            self.queue.schedule(key, Instant::now() + pause);
        }
    }

    /// Removes a Lease that no longer exists and has no candidates.
    fn forget(&mut self, key: &LeaseKey) {
        if let Some(pods) = &mut self.pods {
            pods.assisted.leave(key);
        }
        self.forget_label(key);
        self.elections.remove(key);
        self.queue.forget(key);
        self.parts.reporting.forget(key);
    }

    fn is_out_of_bounds(&self, key: &LeaseKey) -> bool {
        **key.namespace() == *NODE_LEASES || self.parts.own_lease.as_ref() == Some(key)
    }
}

/// The pause before the next decision, which is due at `deadline`.
fn pause_until(deadline: Moment, now: Moment, longest: Duration) -> Duration {
    deadline.since(now).clamp(SHORTEST_PAUSE, longest)
}

/// The statuses to write, for which no decision waits, and the other actions.
fn split_statuses(key: &LeaseKey, stores: &Stores, actions: Vec<Action>) -> (Vec<StatusWrite>, Vec<Action>) {
    let (mut statuses, mut others) = (Vec::new(), Vec::new());
    for action in actions {
        match action {
            Action::PatchStatus { candidate, uid, status } => {
                let transitions = stores.transitions(key.namespace(), &candidate);
                statuses.push(StatusWrite { key: key.clone(), candidate, uid, status, transitions });
            }
            other => others.push(other),
        }
    }
    (statuses, others)
}

/// Whether neither the Lease nor a candidate is known. Only a live read then shows whether the election is over.
fn is_unknown(election: &Election) -> bool {
    election.candidates().len() == 0 && election.lease().is_none()
}

#[cfg(test)]
mod tests;
