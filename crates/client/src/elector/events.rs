//! Kubernetes events with client-go's reason and text, for `kubectl describe lease` and for programs that watch events.
//!
//! A separate task with a short queue publishes them. If the queue is full, the API server slow or the permission
//! missing, events are lost; the election is not affected.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::api::names::reporting_instance;
use crate::elector::telemetry::Observer;
use crate::store::connections::named;

/// client-go's reason, by which people and tools find these events.
const REASON: &str = "LeaderElection";

/// How many events may wait.
const WAITING: usize = 16;

/// How long the publication of one event may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes the beginning and the end of each term of one elector.
pub(crate) struct Events {
    client: Client,
    namespace: String,
    lease: String,
    identity: String,
    /// Created with the first event, because there may be no runtime before.
    queue: OnceLock<mpsc::Sender<(Event, ObjectReference)>>,
}

impl Events {
    pub(crate) fn observer(client: Client, namespace: &str, lease: &str, identity: &str) -> Arc<dyn Observer> {
        Arc::new(Self {
            client,
            namespace: namespace.to_owned(),
            lease: lease.to_owned(),
            identity: identity.to_owned(),
            queue: OnceLock::new(),
        })
    }

    /// The beginning and the end have different actions: a recorder counts events with the same action as repetitions.
    fn enqueue(&self, lease_uid: &str, action: &str, what: &str) {
        let event = Event {
            type_: EventType::Normal,
            reason: REASON.to_owned(),
            note: Some(format!("{} {what}", self.identity)),
            action: action.to_owned(),
            secondary: None,
        };
        let regarding = ObjectReference {
            api_version: Some(Lease::api_version(&()).into_owned()),
            kind: Some(Lease::kind(&()).into_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.lease.clone()),
            uid: Some(lease_uid.to_owned()).filter(|uid| !uid.is_empty()),
            ..ObjectReference::default()
        };
        let queue = self.queue.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(WAITING);
            let instance = reporting_instance(&self.identity).to_owned();
            let reporter = Reporter { controller: "hustings-elector".to_owned(), instance: Some(instance) };
            tokio::spawn(publish(Recorder::new(named(self.client.clone()), reporter), receiver));
            sender
        });
        if queue.try_send((event, regarding)).is_err() {
            tracing::debug!(lease = self.lease, "event dropped: too many events are waiting");
        }
    }
}

impl Observer for Events {
    fn began(&self, lease_uid: &str) {
        self.enqueue(lease_uid, "BecomeLeader", "became leader");
    }

    fn ended(&self, lease_uid: &str) {
        self.enqueue(lease_uid, "StopLeading", "stopped leading");
    }

    fn renewed(&self, _: Duration, _: bool) {}
}

async fn publish(recorder: Recorder, mut events: mpsc::Receiver<(Event, ObjectReference)>) {
    while let Some((event, regarding)) = events.recv().await {
        let lease = regarding.name.as_deref().unwrap_or_default();
        match tokio::time::timeout(TIMEOUT, recorder.publish(&event, &regarding)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(lease, %error, "failed to publish an event"),
            Err(_) => tracing::debug!(lease, "failed to publish an event in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tokio::time::sleep;

    use super::*;
    use crate::Elector;
    use crate::testing::MemoryStore;

    /// The events that a server received. The server answers no request, so each one times out.
    #[derive(Clone, Default)]
    struct Received(Arc<Mutex<Vec<Value>>>);

    impl Received {
        fn client(&self) -> Client {
            let received = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let received = received.clone();
                async move {
                    let body = request.into_body().collect_bytes().await.unwrap();
                    received.0.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                    std::future::pending::<Result<Response<Body>, Infallible>>().await
                }
            });
            Client::new(service, "n")
        }

        fn count(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_beginning_and_the_end_of_a_term_are_reported_on_the_lease() {
        let received = Received::default();
        let observer = Events::observer(received.client(), "n", "l", "a");
        observer.began("u");
        observer.ended("");
        sleep(TIMEOUT * 3).await;
        let events = received.0.lock().unwrap().clone();
        let parts = |event: &Value| {
            assert_eq!((&event["reason"], &event["type"]), (&json!("LeaderElection"), &json!("Normal")));
            assert_eq!((&event["regarding"]["kind"], &event["regarding"]["name"]), (&json!("Lease"), &json!("l")));
            assert_eq!(event["regarding"]["apiVersion"], "coordination.k8s.io/v1");
            assert_eq!(event["regarding"]["namespace"], "n");
            json!([event["action"], event["note"], event["regarding"]["uid"]])
        };
        let expected =
            [json!(["BecomeLeader", "a became leader", "u"]), json!(["StopLeading", "a stopped leading", null])];
        assert_eq!(events.iter().map(parts).collect::<Vec<_>>(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_without_answers_costs_only_events() {
        let received = Received::default();
        let observer = Events::observer(received.client(), "n", "l", "a");
        for _ in 0..1000 {
            observer.began("u");
        }
        sleep(TIMEOUT * 1000).await;
        assert!((WAITING..=WAITING + 1).contains(&received.count()), "{} events", received.count());
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_the_server_refuses_costs_none_of_the_later_ones() {
        let asked = Arc::<Mutex<u32>>::default();
        let counted = Arc::clone(&asked);
        let refuses = tower::service_fn(move |_: Request<Body>| {
            *counted.lock().unwrap() += 1;
            let refused = Response::builder().status(403).body(Body::from(b"no".to_vec())).unwrap();
            std::future::ready(Ok::<_, Infallible>(refused))
        });
        let observer = Events::observer(Client::new(refuses, "n"), "n", "l", "a");
        for _ in 0..2 {
            observer.began("u");
            sleep(TIMEOUT).await;
        }
        assert_eq!(*asked.lock().unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_elector_reports_each_term_once() {
        let (received, store) = (Received::default(), MemoryStore::new());
        let builder = Elector::direct(&store, "n", "l").identity("a");
        let campaign = builder.events(received.client()).build().unwrap().start();
        campaign.leadership().wait_until_leader().await.unwrap();
        // It renews several times.
        sleep(TIMEOUT * 6).await;
        campaign.stop().await.unwrap();
        sleep(TIMEOUT * 3).await;
        let events = received.0.lock().unwrap().clone();
        let uid = store.lease("n", "l").unwrap().uid;
        let parts = |event: &Value| {
            assert_eq!((&event["regarding"]["namespace"], &event["regarding"]["name"]), (&json!("n"), &json!("l")));
            assert_eq!(event["regarding"]["uid"], uid);
            json!([event["action"], event["note"]])
        };
        let expected = [json!(["BecomeLeader", "a became leader"]), json!(["StopLeading", "a stopped leading"])];
        assert_eq!(events.iter().map(parts).collect::<Vec<_>>(), expected);
    }
}
