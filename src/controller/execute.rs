//! Carries out the decisions of elections: sends the requests, and returns the answers as observations.
//!
//! Every request has a deadline and an outcome. After a conflict, the executor does not repeat the write: it reads the
//! object live, and the election decides again. Requests that hang do not delay requests of other namespaces, see
//! [`Slots`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use hustings_client::clock::Clock;
use hustings_client::store::{Answer, CandidatePatch, Failure, Kubernetes, Object, Request, Store as _, reply_of};
use hustings_core::assist::AssistOptions;
use hustings_core::election::{Action, Event, Observation};
use hustings_core::model::{Annotation, LeaseWrite, Moment, Purpose, Set};
use tokio::sync::Notify;

use super::events::EventPublisher;
use super::failure::{Reports, label};
use super::key::LeaseKey;
use super::slots::Slots;
use super::status::StatusWrite;
use crate::serve::metrics::{self, ControllerMetrics, ElectionResult, Kind, PreferenceReason};

/// The most requests in flight, apart from statuses and events. Even if all of them hang, they occupy fewer seats of
/// the API server than one of its default priority levels has.
const CONCURRENT_REQUESTS: usize = 128;

/// The most of these requests for one Lease. A Lease with many candidates thus leaves most of its namespace's share to
/// others.
const CONCURRENT_REQUESTS_PER_LEASE: usize = 8;

/// How long a request waits for a slot. After that its decision is out of date, and the election decides again.
const SLOT_TIMEOUT: Duration = Duration::from_secs(2);

/// Carries out decisions. Clones share everything.
#[derive(Clone)]
pub(super) struct Executor {
    store: Kubernetes,
    clock: Arc<dyn Clock>,
    publisher: EventPublisher,
    metrics: ControllerMetrics,
    reports: Arc<Reports>,
    forbidden: Arc<Notify>,
    /// Whether the server keeps the native copies of strategy and preferred holder; unset until an answer shows it.
    keeps_native_fields: Arc<OnceLock<bool>>,
    slots: Slots,
}

impl Executor {
    /// Creates an executor that sends requests to `store`, behind the write gate.
    pub(super) fn new(
        store: Kubernetes,
        clock: Arc<dyn Clock>,
        publisher: EventPublisher,
        metrics: ControllerMetrics,
    ) -> Self {
        Self {
            store,
            clock,
            publisher,
            metrics,
            reports: Arc::default(),
            forbidden: Arc::default(),
            keeps_native_fields: Arc::default(),
            slots: Slots::new(CONCURRENT_REQUESTS),
        }
    }

    /// Returns the handle that is notified when the server denies a request because of a missing permission.
    pub(super) fn forbidden(&self) -> Arc<Notify> {
        Arc::clone(&self.forbidden)
    }

    /// Carries out the actions of one decision about the Lease `key`, and returns their outcomes. `uid` is that of the
    /// Lease, or empty.
    pub(super) async fn carry_out(self, key: LeaseKey, actions: Vec<Action>, uid: String) -> Vec<Observation> {
        let executor = &self;
        let key = &key;
        let uid = uid.as_str();
        let outcome = |(place, action)| async move {
            let observation = match action {
                Action::Send { request, event } => Some(executor.exchange(key, &request, event.as_ref()).await),
                Action::Event(event) => {
                    executor.publisher.publish(key, uid, &event);
                    None
                }
                // The dispatcher lists the statuses separately, with the times of their conditions.
                Action::PatchStatus { .. } => None,
            };
            (place, observation)
        };
        // The requests run concurrently, so that one that hangs does not delay the others.
        let mut outcomes: Vec<_> = stream::iter(actions.into_iter().enumerate())
            .map(outcome)
            .buffer_unordered(CONCURRENT_REQUESTS_PER_LEASE)
            .collect()
            .await;
        outcomes.sort_unstable_by_key(|(place, _)| *place);
        outcomes.into_iter().filter_map(|(_, outcome)| outcome).collect()
    }

    /// Writes a status, and returns its outcome.
    pub(super) async fn write_status(self, write: StatusWrite) -> Observation {
        let StatusWrite { key, candidate, uid, status, transitions } = write;
        let since = transitions.since(&status, self.clock.wall());
        let request = Request::patch_status(&candidate, &*uid, status, since);
        let (sent, answer) = self.timed(&key, &request).await;
        self.outcome(&key, &request, sent, answer).await
    }

    /// Writes the annotation with which a Lease is assisted and the label, if the Lease exists and lacks one of them.
    /// Returns the UID of a Lease that it wrote.
    pub(super) async fn assist(&self, key: &LeaseKey, options: &AssistOptions) -> Option<String> {
        let read = Request::ReadLease { name: key.name().to_string() };
        let (_, answer) = self.send(key, &read).await;
        self.record(key, kind_of(&read), key.name(), answer.as_ref().err());
        let Ok(Some(Object::Lease(record))) = answer else { return None };
        let is_right = record.acts.assist.as_ref().and_then(Annotation::valid) == Some(options);
        if is_right && record.enrolled {
            return None;
        }
        let write = LeaseWrite { assist: Set::To(options.clone()), ..LeaseWrite::new(Purpose::Act, &record) };
        let request = Request::WriteLease { name: key.name().to_string(), write: Box::new(write) };
        let (_, answer) = self.send(key, &request).await;
        self.record(key, kind_of(&request), key.name(), answer.as_ref().err());
        if answer.is_ok() {
            let options = options.to_string();
            tracing::info!(lease = %key, options, "wrote that the Lease is assisted, because --assist lists it");
        }
        answer.is_ok().then_some(record.uid)
    }

    /// Sends a request when its namespace has a slot, and returns its outcome. Publishes `event` if the request writes
    /// the Lease.
    async fn exchange(&self, key: &LeaseKey, request: &Request, event: Option<&Event>) -> Observation {
        let (sent, answer) = self.send(key, request).await;
        if let (Request::WriteLease { write, .. }, Ok(Some(Object::Lease(lease)))) = (request, &answer) {
            tracing::info!(lease = %key, purpose = write.purpose.as_str(), holder = lease.holder,
                preferred_holder = lease.preferred_holder, "wrote the Lease");
            self.report_native_fields();
            if let Some(result) = result_of(write) {
                self.metrics.elections.get_or_create(&result.label()).inc();
            }
            if let Some(Event::Preferred { criterion, .. }) = event
                && let Some(merit) = PreferenceReason::of(*criterion)
            {
                self.metrics.preemptions.get_or_create(&merit.label()).inc();
            }
            if let Some(event) = event {
                self.publisher.publish(key, &lease.uid, event);
            }
        }
        self.outcome(key, request, sent, answer).await
    }

    /// Logs once whether the server keeps the native fields, for people who wonder why a Lease lacks them.
    fn report_native_fields(&self) {
        let Some(keeps) = self.store.keeps_native_fields() else { return };
        if self.keeps_native_fields.set(keeps).is_ok() {
            let does = if keeps { "keeps" } else { "drops" };
            tracing::info!(keeps, "the API server {does} strategy and preferredHolder of Leases");
        }
    }

    /// Returns the outcome of a request. After a conflict, that is the outcome of a live read.
    async fn outcome(&self, key: &LeaseKey, request: &Request, sent: Moment, answer: Answer) -> Observation {
        self.record(key, kind_of(request), request.object_name(), answer.as_ref().err());
        if let Request::PatchCandidate { candidate, patch: CandidatePatch::Ping(_), .. } = request
            && answer.is_ok()
        {
            self.metrics.pings.get_or_create(&Kind::of(candidate).label()).inc();
        }
        match Observation::of_reply(request, reply_of(answer), sent) {
            Ok(observation) => observation,
            // A conflict, or a missing object. The server or a proxy may be wrong about the latter, so read it live.
            Err(read) => Box::pin(self.exchange(key, &read, None)).await,
        }
    }

    /// Sends a request as soon as its namespace has a slot.
    async fn send(&self, key: &LeaseKey, request: &Request) -> (Moment, Answer) {
        match tokio::time::timeout(SLOT_TIMEOUT, self.slots.take(key.namespace())).await {
            Ok(_slot) => self.timed(key, request).await,
            Err(_) => (self.clock.now(), Err(Failure::NotSent(SLOT_TIMEOUT))),
        }
    }

    async fn timed(&self, key: &LeaseKey, request: &Request) -> (Moment, Answer) {
        let sent = self.clock.now();
        (sent, self.store.send(key.namespace(), request).await)
    }

    /// Counts and logs the outcome of a request.
    pub(super) fn record(&self, key: &LeaseKey, kind: metrics::RequestKind, object: &str, failure: Option<&Failure>) {
        let class = failure.map(label);
        self.metrics.requested(kind, class);
        let Some((failure, class)) = failure.zip(class) else { return };
        if class == metrics::FailureReason::Forbidden {
            self.forbidden.notify_one();
        }
        let is_due = match class {
            // These are normal: another writer was faster, the object was deleted, or this controller no longer leads.
            metrics::FailureReason::Conflict
            | metrics::FailureReason::NotFound
            | metrics::FailureReason::NotLeading => false,
            _ => self.reports.is_due(kind, class),
        };
        let request = kind.as_str();
        if is_due {
            tracing::warn!(lease = %key, object, request, reason = %failure, "a request failed; others may fail too");
        } else {
            tracing::debug!(lease = %key, object, request, reason = %failure, "a request did not succeed");
        }
    }
}

/// The kind under which the metrics count a request.
const fn kind_of(request: &Request) -> metrics::RequestKind {
    match request {
        Request::ReadLease { .. } => metrics::RequestKind::ReadLease,
        Request::CreateLease { .. } => metrics::RequestKind::Create,
        Request::WriteLease { write, .. } => request_of(write),
        Request::ReadCandidate { .. } | Request::ListCandidates { .. } => metrics::RequestKind::ReadCandidate,
        Request::PatchCandidate { patch: CandidatePatch::Status { .. }, .. } => metrics::RequestKind::Status,
        Request::PatchCandidate { .. } | Request::CreateCandidate { .. } => metrics::RequestKind::Ping,
        Request::DeleteCandidate { .. } => metrics::RequestKind::Delete,
    }
}

const fn request_of(write: &LeaseWrite) -> metrics::RequestKind {
    match write.purpose {
        Purpose::Prefer => match write.preferred_holder {
            Set::To(_) => metrics::RequestKind::Prefer,
            Set::Keep | Set::Remove => metrics::RequestKind::Withdraw,
        },
        Purpose::Hold => metrics::RequestKind::Hold,
        Purpose::Enrol => metrics::RequestKind::Enrol,
        Purpose::Act => metrics::RequestKind::Act,
        Purpose::Release => metrics::RequestKind::Release,
        // Among these writes of a Lease, a controller sends only grants.
        Purpose::Grant | Purpose::TakeUp | Purpose::Claim | Purpose::Renew | Purpose::HandOver => {
            metrics::RequestKind::Grant
        }
    }
}

const fn result_of(write: &LeaseWrite) -> Option<ElectionResult> {
    match (write.purpose, &write.preferred_holder) {
        (Purpose::Grant, _) => Some(ElectionResult::Granted),
        (Purpose::Prefer, Set::To(_)) => Some(ElectionResult::Preferred),
        (Purpose::Prefer, Set::Keep | Set::Remove) => Some(ElectionResult::Withdrawn),
        (Purpose::Hold, _) => Some(ElectionResult::OnHold),
        (
            Purpose::Enrol
            | Purpose::Act
            | Purpose::TakeUp
            | Purpose::Claim
            | Purpose::Renew
            | Purpose::HandOver
            | Purpose::Release,
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests;
