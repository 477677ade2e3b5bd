//! Kubernetes events: what `kubectl describe` shows to those who look after a component.
//!
//! They are published one at a time and a moment later, so that the API server is left to the elections while holders
//! change. A queue that is full drops them, and one that fails is counted: an event stops nothing.

use std::time::Duration;

use hustings_client::api::{LeaseCandidate, names};
use hustings_core::election::Event;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event as Published, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::failure::label;
use super::key::LeaseKey;
use crate::ops::metrics::{Failure, Metrics, Request};

/// How many events wait at the most.
const WAITING: usize = 256;

/// How long each of them waits: longer than a change of holders takes.
const REST: Duration = Duration::from_secs(1);

/// How long the publication of one may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The reason that client-go gives when a leader changes, by which people and tools find it.
const LEADER_ELECTION: &str = "LeaderElection";

/// Takes events for publication.
#[derive(Clone, Debug)]
pub(super) struct Publisher(mpsc::Sender<Waiting>);

struct Waiting {
    due: Instant,
    event: Published,
    regarding: ObjectReference,
}

impl Publisher {
    /// A publisher that reports as `identity`, and the task in which it does.
    pub(super) fn new(
        client: Client,
        identity: &str,
        metrics: Metrics,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let instance = names::reporting_instance(identity).to_owned();
        let reporter = Reporter { controller: "hustings-controller".to_owned(), instance: Some(instance) };
        (Self(sender), publish(Recorder::new(client, reporter), receiver, metrics))
    }

    /// A candidate's term has begun.
    pub(super) fn became_leader(&self, key: &LeaseKey, lease_uid: &str, holder: &str) {
        self.send(
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

    /// What an election has to tell about its Lease.
    pub(super) fn told(&self, key: &LeaseKey, lease_uid: &str, event: &Event) {
        let about = match event {
            Event::Elected { candidate, .. } | Event::Preferred { candidate, .. } => Some(candidate),
            Event::HolderIgnoresPreferred { preferred, .. } => Some(preferred),
            Event::OnHold(_) | Event::NoLiveCandidate { .. } => None,
        };
        self.send(
            Published {
                type_: if event.is_warning() { EventType::Warning } else { EventType::Normal },
                reason: event.as_str().to_owned(),
                note: Some(event.to_string()),
                action: "Election".to_owned(),
                secondary: about.map(|name| candidate(key, name, None)),
            },
            lease(key, lease_uid),
        );
    }

    /// A candidate cannot stand.
    pub(super) fn inadmissible(&self, key: &LeaseKey, name: &str, uid: &str, reason: &str, message: &str) {
        self.send(
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

    fn send(&self, event: Published, regarding: ObjectReference) {
        if self.0.try_send(Waiting { due: Instant::now() + REST, event, regarding }).is_err() {
            tracing::debug!("an event is dropped: too many wait");
        }
    }
}

async fn publish(recorder: Recorder, mut events: mpsc::Receiver<Waiting>, metrics: Metrics) {
    while let Some(Waiting { due, event, regarding }) = events.recv().await {
        tokio::time::sleep_until(due).await;
        match tokio::time::timeout(TIMEOUT, recorder.publish(&event, &regarding)).await {
            Ok(Ok(())) => drop(metrics.requests.get_or_create(&Request::Event.label()).inc()),
            Ok(Err(error)) => {
                tracing::debug!(%error, "an event could not be published");
                metrics.failed(Request::Event, label(&error.into()));
            }
            Err(_) => metrics.failed(Request::Event, Failure::Timeout),
        }
    }
}

fn lease(key: &LeaseKey, uid: &str) -> ObjectReference {
    reference::<Lease>(key, key.name(), Some(uid))
}

fn candidate(key: &LeaseKey, name: &str, uid: Option<&str>) -> ObjectReference {
    reference::<LeaseCandidate>(key, name, uid)
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
