//! Publishes Kubernetes events, which `kubectl describe` shows to the operators of a component.
//!
//! - Each event waits a second, and few are in flight at a time, so that events do not compete with a change of
//!   holders.
//! - An event never delays an election. If the queue is full, the publisher drops the event. If a request fails, a
//!   metric counts the failure.
//! - Namespaces share the queue fairly. A namespace whose events hang never takes another namespace's places.
//! - Only events with the same note are merged into a series, so an event never shows the note of an earlier one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hustings_client::api::{ReadCandidate, ReadNativeCandidate, names};
use hustings_client::store::failure_of;
use hustings_core::election::{AdminAct, Event};
use hustings_core::model::{CandidateKey, CandidateKind};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as Published, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::failure::label;
use super::key::LeaseKey;
use super::slots::{Slot, Slots};
use crate::serve::metrics::{ControllerMetrics, FailureReason, RequestKind};

/// How many events may wait.
const QUEUE_LIMIT: usize = 256;

/// How many events are in flight at a time.
const CONCURRENT_EVENTS: usize = 8;

/// How long each event waits. A change of holders takes less time.
const DELAY: Duration = Duration::from_secs(1);

/// How long the request for one event may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The longest note that the API server accepts, in bytes: `NoteLengthLimit` in its validation of events.
const LONGEST_NOTE: usize = 1024;

/// How long a series lasts after its last event: kube's `CACHE_TTL`.
const SERIES_DURATION: Duration = Duration::from_mins(6);

/// How many notes may have a series at a time.
const MOST_NOTES: usize = 1024;

/// How many bytes of an invalid name a note shows. Escapes can make it six times as long.
const SHOWN_NAME: usize = 64;

/// Queues events for publication. Clones share the queue.
#[derive(Clone)]
pub(super) struct EventPublisher {
    /// The places in the queue.
    places: Slots,
    /// Every event in it has a place, so its length is limited.
    queue: mpsc::UnboundedSender<QueuedEvent>,
}

struct QueuedEvent {
    due: Instant,
    namespace: Arc<str>,
    event: Published,
    regarding: ObjectReference,
    _place: Slot,
}

/// A recorder for each note. kube ignores the note when it merges the events of one recorder, so the note of the first
/// event would stand for later events with other causes.
struct Recorders {
    client: Client,
    reporter: Reporter,
    /// With the time of the last event.
    by_note: HashMap<String, (Recorder, Instant)>,
}

impl EventPublisher {
    /// Creates a publisher that reports as `identity`, and the task that sends the requests.
    pub(super) fn new(
        client: Client,
        identity: &str,
        metrics: ControllerMetrics,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, events) = mpsc::unbounded_channel();
        let instance = names::reporting_instance(identity).to_owned();
        let reporter = Reporter { controller: "hustings-controller".to_owned(), instance: Some(instance) };
        (
            Self { places: Slots::new(QUEUE_LIMIT), queue },
            publish_all(Recorders::new(client, reporter), events, metrics),
        )
    }

    /// Publishes that the `leaseName` of a candidate is invalid.
    pub(super) fn rejected_lease_name(&self, key: &LeaseKey, rejected: &CandidateKey, uid: &str) {
        let shown = start(key.name(), SHOWN_NAME);
        let rest = if shown.len() < key.name().len() { "..." } else { "" };
        self.enqueue(
            key,
            Published {
                type_: EventType::Warning,
                reason: "InvalidLeaseName".to_owned(),
                note: Some(format!(
                    "leaseName {shown:?}{rest} is not a valid DNS subdomain: use lower-case letters, digits, '-' and '.'."
                )),
                action: "Election".to_owned(),
                secondary: None,
            },
            candidate(key, rejected, Some(uid)),
        );
    }

    /// Publishes what keeps the label of a Lease from the Pod of its holder.
    pub(super) fn label_problem(&self, key: &LeaseKey, lease_uid: &str, problem: &str) {
        let mut regarding = lease(key, lease_uid);
        regarding.field_path = Some(format!("metadata.annotations['{}']", names::LEADER_LABEL));
        let event = Published {
            type_: EventType::Warning,
            reason: "LeaderLabelNotKept".to_owned(),
            note: Some(format!("{problem}.")),
            action: "Label".to_owned(),
            secondary: None,
        };
        self.enqueue(key, event, regarding);
    }

    /// Publishes an event of an election about its Lease or about one of its candidates.
    pub(super) fn publish(&self, key: &LeaseKey, lease_uid: &str, event: &Event) {
        let (mut regarding, secondary) = match event {
            Event::Elected { candidate: elected, .. }
            | Event::Preferred { candidate: elected, .. }
            | Event::HandedOver { candidate: elected, .. }
            | Event::BecameLeader { holder: elected }
            | Event::Withdrawn { preferred: elected, .. }
            | Event::HolderIgnoresPreferred { preferred: elected, .. } => {
                (lease(key, lease_uid), Some(candidate(key, elected, None)))
            }
            Event::WriteHasNoEffect { candidate: Some((affected, uid)), .. }
            | Event::MalformedAct { candidate: Some((affected, uid)), .. }
            | Event::Act {
                act:
                    AdminAct::Excluded { candidate: (affected, uid), .. }
                    | AdminAct::Included { candidate: (affected, uid), .. },
                ..
            }
            | Event::Inadmissible { candidate: (affected, uid), .. } => (candidate(key, affected, Some(uid)), None),
            Event::OnHold(_)
            | Event::Released { .. }
            | Event::SecondController
            | Event::NoLiveCandidate { .. }
            | Event::Act { .. }
            | Event::TransferRefused { .. }
            | Event::MalformedAct { candidate: None, .. }
            | Event::WriteHasNoEffect { candidate: None, .. } => (lease(key, lease_uid), None),
        };
        if let Event::MalformedAct { malformed, .. } = event {
            regarding.field_path = Some(format!("metadata.annotations['{}']", malformed.annotation));
        }
        let action = if matches!(event, Event::BecameLeader { .. }) { event.as_str() } else { "Election" };
        self.enqueue(
            key,
            Published {
                type_: if event.is_warning() { EventType::Warning } else { EventType::Normal },
                reason: event.as_str().to_owned(),
                note: Some(event.to_string()),
                action: action.to_owned(),
                secondary,
            },
            regarding,
        );
    }

    fn enqueue(&self, key: &LeaseKey, mut event: Published, regarding: ObjectReference) {
        event.note = event.note.map(|note| start(&note, LONGEST_NOTE).to_owned());
        let namespace = Arc::clone(key.namespace());
        let Some(place) = self.places.try_take(&namespace) else {
            tracing::debug!(lease = %key, "dropped an event: the queue is full");
            return;
        };
        // Sending fails only while the process stops.
        drop(self.queue.send(QueuedEvent { due: Instant::now() + DELAY, namespace, event, regarding, _place: place }));
    }
}

impl Recorders {
    fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter, by_note: HashMap::new() }
    }

    /// The recorder for events with this note.
    fn of_note(&mut self, note: &str) -> Recorder {
        let now = Instant::now();
        self.by_note.retain(|_, (_, last)| now < *last + SERIES_DURATION);
        if self.by_note.len() >= MOST_NOTES {
            // The next event with a forgotten note begins a new series.
            self.by_note.clear();
        }
        let recorder = || Recorder::new(self.client.clone(), self.reporter.clone());
        let (recorder, last) = self.by_note.entry(note.to_owned()).or_insert_with(|| (recorder(), now));
        *last = now;
        recorder.clone()
    }
}

async fn publish_all(
    mut recorders: Recorders,
    mut events: mpsc::UnboundedReceiver<QueuedEvent>,
    metrics: ControllerMetrics,
) {
    let slots = Slots::new(CONCURRENT_EVENTS);
    let mut in_flight = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(queued) = events.recv() => {
                let recorder = recorders.of_note(queued.event.note.as_deref().unwrap_or_default());
                in_flight.push(publish_one(recorder, &slots, queued, &metrics));
            }
            Some(()) = in_flight.next() => {}
            else => return,
        }
    }
}

async fn publish_one(recorder: Recorder, slots: &Slots, queued: QueuedEvent, metrics: &ControllerMetrics) {
    let QueuedEvent { due, namespace, event, regarding, _place } = queued;
    tokio::time::sleep_until(due).await;
    let _slot = slots.take(&namespace).await;
    let error = match tokio::time::timeout(TIMEOUT, recorder.publish(&event, &regarding)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot publish an event");
            Some(label(&failure_of(error)))
        }
        Err(_) => Some(FailureReason::Timeout),
    };
    metrics.requested(RequestKind::Event, error);
}

/// The start of a text: at most `limit` bytes.
fn start(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

fn lease(key: &LeaseKey, uid: &str) -> ObjectReference {
    reference::<Lease>(key, key.name(), Some(uid))
}

fn candidate(key: &LeaseKey, CandidateKey { name, kind }: &CandidateKey, uid: Option<&str>) -> ObjectReference {
    match kind {
        CandidateKind::Hustings => reference::<ReadCandidate>(key, name, uid),
        // The version does not matter: no tool finds events by it.
        CandidateKind::Native => reference::<ReadNativeCandidate>(key, name, uid),
    }
}

fn reference<K: Resource<DynamicType: Default>>(key: &LeaseKey, name: &str, uid: Option<&str>) -> ObjectReference {
    let kind = K::DynamicType::default();
    ObjectReference {
        api_version: Some(K::api_version(&kind).into_owned()),
        kind: Some(K::kind(&kind).into_owned()),
        namespace: Some(key.namespace().to_string()),
        name: Some(name.to_owned()),
        uid: uid.filter(|uid| !uid.is_empty()).map(str::to_owned),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests;
