//! Kubernetes events: what `kubectl describe` shows to those who look after a component.
//!
//! They are published a few at a time and a moment later, so that the API server is left to the elections while holders
//! change. An event for which there is no room is dropped, and one that fails is counted: an event stops nothing. The
//! room is shared fairly among namespaces, so that one whose events hang costs no other namespace its events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hustings_client::api::{ReadCandidate, names};
use hustings_core::election::Event;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as Published, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::failure::label;
use super::key::LeaseKey;
use super::slots::{Slot, Slots};
use crate::ops::metrics::{Failure, Metrics, Request};

/// How many events there may be that are not published yet.
const WAITING: usize = 256;

/// How many events are published at a time.
const AT_A_TIME: usize = 8;

/// How long each of them waits: longer than a change of holders takes.
const REST: Duration = Duration::from_secs(1);

/// How long the publication of one may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reason that client-go gives when a leader changes, by which people and tools find it.
const LEADER_ELECTION: &str = "LeaderElection";

/// Takes events for publication.
#[derive(Clone)]
pub(super) struct Publisher {
    room: Slots,
    /// It is as long as there is room.
    queue: mpsc::UnboundedSender<Waiting>,
}

struct Waiting {
    due: Instant,
    namespace: Arc<str>,
    event: Published,
    regarding: ObjectReference,
    _room: Slot,
}

impl Publisher {
    /// A publisher that reports as `identity`, and the task in which it does.
    pub(super) fn new(
        client: Client,
        identity: &str,
        metrics: Metrics,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, events) = mpsc::unbounded_channel();
        let instance = names::reporting_instance(identity).to_owned();
        let reporter = Reporter { controller: "hustings-controller".to_owned(), instance: Some(instance) };
        (Self { room: Slots::new(WAITING), queue }, publish(Recorder::new(client, reporter), events, metrics))
    }

    /// A candidate's term has begun.
    pub(super) fn became_leader(&self, key: &LeaseKey, lease_uid: &str, holder: &str) {
        self.send(
            key,
            Published {
                type_: EventType::Normal,
                reason: LEADER_ELECTION.to_owned(),
                note: Some(format!("{holder} became leader")),
                action: LEADER_ELECTION.to_owned(),
                // What makes one leader's event another than the next one's.
                secondary: Some(candidate(key, holder, None)),
            },
            lease(key, lease_uid),
        );
    }

    /// What an election has to tell about its Lease, or about one of its candidates.
    pub(super) fn told(&self, key: &LeaseKey, lease_uid: &str, event: &Event) {
        let (regarding, secondary) = match event {
            Event::Elected { candidate: name, .. }
            | Event::Preferred { candidate: name, .. }
            | Event::HolderIgnoresPreferred { preferred: name, .. } => {
                (lease(key, lease_uid), Some(candidate(key, name, None)))
            }
            Event::WriteHasNoEffect { candidate: Some((name, uid)), .. } => (candidate(key, name, Some(uid)), None),
            Event::OnHold(_) | Event::NoLiveCandidate { .. } | Event::WriteHasNoEffect { candidate: None, .. } => {
                (lease(key, lease_uid), None)
            }
        };
        self.send(
            key,
            Published {
                type_: if event.is_warning() { EventType::Warning } else { EventType::Normal },
                reason: event.as_str().to_owned(),
                note: Some(event.to_string()),
                action: "Election".to_owned(),
                secondary,
            },
            regarding,
        );
    }

    /// A candidate cannot stand.
    pub(super) fn inadmissible(&self, key: &LeaseKey, name: &str, uid: &str, reason: &str, message: &str) {
        self.send(
            key,
            Published {
                type_: EventType::Warning,
                reason: reason.to_owned(),
                note: Some(message.to_owned()),
                action: "Election".to_owned(),
                secondary: None,
            },
            candidate(key, name, Some(uid)),
        );
    }

    fn send(&self, key: &LeaseKey, event: Published, regarding: ObjectReference) {
        let namespace = Arc::clone(key.namespace());
        let Some(room) = self.room.try_take(&namespace) else {
            tracing::debug!(lease = %key, "an event is dropped: too many wait");
            return;
        };
        // Without a receiver this process is about to end.
        drop(self.queue.send(Waiting { due: Instant::now() + REST, namespace, event, regarding, _room: room }));
    }
}

async fn publish(recorder: Recorder, mut events: mpsc::UnboundedReceiver<Waiting>, metrics: Metrics) {
    let slots = Slots::new(AT_A_TIME);
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(waiting) = events.recv() => under_way.push(publish_one(&recorder, &slots, waiting, &metrics)),
            Some(()) = under_way.next() => {}
            else => return,
        }
    }
}

async fn publish_one(recorder: &Recorder, slots: &Slots, waiting: Waiting, metrics: &Metrics) {
    let Waiting { due, namespace, event, regarding, _room } = waiting;
    tokio::time::sleep_until(due).await;
    let _slot = slots.take(&namespace).await;
    match tokio::time::timeout(TIMEOUT, recorder.publish(&event, &regarding)).await {
        Ok(Ok(())) => drop(metrics.requests.get_or_create(&Request::Event.label()).inc()),
        Ok(Err(error)) => {
            tracing::debug!(%error, "an event could not be published");
            metrics.failed(Request::Event, label(&error.into()));
        }
        Err(_) => metrics.failed(Request::Event, Failure::Timeout),
    }
}

fn lease(key: &LeaseKey, uid: &str) -> ObjectReference {
    reference::<Lease>(key, key.name(), Some(uid))
}

fn candidate(key: &LeaseKey, name: &str, uid: Option<&str>) -> ObjectReference {
    reference::<ReadCandidate>(key, name, uid)
}

fn reference<K: Resource<DynamicType = ()>>(key: &LeaseKey, name: &str, uid: Option<&str>) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: Some(key.namespace().to_string()),
        name: Some(name.to_owned()),
        uid: uid.filter(|uid| !uid.is_empty()).map(str::to_owned),
        ..ObjectReference::default()
    }
}
