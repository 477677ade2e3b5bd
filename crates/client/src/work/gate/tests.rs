//! The gate, with a server in this process, mostly under tokio's paused clock.

mod service;
mod upgrade;

use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::pending;
use http::Method;
use hustings_core::elector::{Durations, Leading, Timing};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use super::*;
use crate::clock::Clock;
use crate::leadership::{Publisher, leadership};
use crate::testing::{HandClock, TokioClock};

const DEADLINE: Duration = Duration::from_secs(5);

/// A server that counts its requests, and never answers one about an object named `slow`.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<AtomicU32>,
    under_way: Arc<AtomicU32>,
}

struct UnderWay(Arc<AtomicU32>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                server.asked.fetch_add(1, Ordering::SeqCst);
                server.under_way.fetch_add(1, Ordering::SeqCst);
                let _under_way = UnderWay(server.under_way);
                if request.uri().path().ends_with("/slow") {
                    pending::<()>().await;
                }
                let list = request.uri().path().ends_with("/configmaps") && request.method() == Method::GET;
                let body = if list {
                    json!({ "apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": [] })
                } else {
                    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } })
                };
                Ok::<_, BoxError>(Response::new(Body::from(body.to_string().into_bytes())))
            }
        });
        Client::new(service, "n")
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }

    fn under_way(&self) -> u32 {
        self.under_way.load(Ordering::SeqCst)
    }
}

fn handles() -> (Arc<dyn Clock>, Publisher, WriteGate) {
    let clock = TokioClock::shared();
    let (publisher, leadership) = leadership(Arc::clone(&clock), "n/l".to_owned(), "a".to_owned(), Timing::default());
    let gate = WriteGate::new(leadership, DEADLINE).unwrap();
    (clock, publisher, gate)
}

/// Leads from now on for `seconds`.
fn lead(publisher: &mut Publisher, clock: &Arc<dyn Clock>, token: u64, seconds: u64) {
    let valid_until = clock.now().after(Duration::from_secs(seconds));
    publisher.publish(Some(Leading { number: 1, token, valid_until }), None);
}

fn config_maps(client: Client) -> Api<DynamicObject> {
    Api::namespaced_with(client, "n", &config_map_kind())
}

fn config_map_kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"))
}

async fn create(api: &Api<DynamicObject>) -> Result<DynamicObject, kube::Error> {
    api.create(&PostParams::default(), &DynamicObject::new("c", &config_map_kind())).await
}

async fn patch(api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject, kube::Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({}))).await
}

fn gate_error_of(error: &kube::Error) -> &GateError {
    gate_error(error).unwrap_or_else(|| panic!("not the gate's: {error}"))
}

#[tokio::test(start_paused = true)]
async fn reads_always_pass_and_writes_only_while_leading() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    assert!(!gate.is_open());
    lead(&mut publisher, &clock, 7, 10);
    assert!(gate.is_open());
    create(&api).await.unwrap();
    drop(publisher);
    assert!(!gate.is_open());
    api.list(&ListParams::default()).await.unwrap();
    assert_eq!(server.asked(), 2);
    let refused = create(&api).await.unwrap_err();
    assert!(is_not_leading(&refused), "{refused}");
    assert!(!gate_error_of(&refused).is_outcome_unknown());
    assert!(refused.to_string().contains("not the leader of Lease n/l"), "{refused}");
    assert!(is_not_leading(&api.delete("c", &DeleteParams::default()).await.unwrap_err()));
    assert!(is_not_leading(&patch(&api, "c").await.unwrap_err()));
    assert_eq!(server.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_that_change_nothing_and_requests_that_are_allowed_pass() {
    let (_clock, _publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    api.delete("c", &DeleteParams::default().dry_run()).await.unwrap();
    api.patch("c", &PatchParams::default().dry_run(), &Patch::Merge(json!({}))).await.unwrap();
    let gate = gate.allow(|request| {
        request.method == Method::PATCH
            && request.target.is_some_and(|target| target.resource == "configmaps" && target.name == Some("mine"))
    });
    // One rule that allows the write is enough.
    let gate = gate.allow(|_| false);
    let api = config_maps(gate.gate(server.client()));
    patch(&api, "mine").await.unwrap();
    assert!(is_not_leading(&patch(&api, "other").await.unwrap_err()));
    assert_eq!(server.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_could_outlast_the_validity_is_not_sent() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    lead(&mut publisher, &clock, 7, 5);
    assert!(gate.leadership.is_leader() && !gate.is_open());
    assert!(is_not_leading(&create(&api).await.unwrap_err()));
    assert_eq!(server.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_at_its_deadline_and_within_the_term_even_if_its_future_is_not_polled() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    lead(&mut publisher, &clock, 7, 10);
    let mut write = Box::pin(patch(&api, "slow"));
    tokio::select! {
        answer = &mut write => panic!("{answer:?}"),
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
    }
    assert_eq!(server.under_way(), 1);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(server.under_way(), 0, "the write was not polled meanwhile");
    assert!(gate.leadership.is_leader());
    let ended = write.await.unwrap_err();
    assert_eq!(*gate_error_of(&ended), GateError::TookTooLong { lease: "n/l".into() });
    assert!(gate_error_of(&ended).is_outcome_unknown() && !is_not_leading(&ended));
}

#[tokio::test(start_paused = true)]
async fn a_write_ends_with_its_term_even_if_another_begins() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    lead(&mut publisher, &clock, 7, 10);
    let began = clock.now();
    let lose = async {
        while server.under_way() == 0 {
            tokio::task::yield_now().await;
        }
        lead(&mut publisher, &clock, 9, 10);
    };
    let (ended, ()) = futures::join!(patch(&api, "slow"), lose);
    assert_eq!(*gate_error_of(&ended.unwrap_err()), GateError::LostMeanwhile { lease: "n/l".into() });
    assert_eq!((server.under_way(), clock.now()), (0, began), "at once");
    create(&api).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_a_write_ends_it() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    lead(&mut publisher, &clock, 7, 10);
    let write = tokio::time::timeout(Duration::from_millis(10), patch(&api, "slow"));
    assert!(write.await.is_err());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((server.asked(), server.under_way()), (1, 0));
    assert!(publisher.stop_work().now_or_never().is_some(), "nothing is under way");
}

#[tokio::test(start_paused = true)]
async fn the_term_is_not_given_up_while_a_write_is_under_way() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.gate(server.client()));
    lead(&mut publisher, &clock, 7, 10);
    let stop = async {
        while server.under_way() == 0 {
            tokio::task::yield_now().await;
        }
        let stopped = publisher.stop_work();
        let mut stopped = std::pin::pin!(stopped);
        assert!((&mut stopped).now_or_never().is_none());
        assert!(is_not_leading(&create(&api).await.unwrap_err()), "no write is admitted meanwhile");
        stopped.await;
        clock.now()
    };
    let sent = clock.now();
    let (ended, stopped) = futures::join!(patch(&api, "slow"), stop);
    assert!(matches!(gate_error_of(&ended.unwrap_err()), GateError::TookTooLong { .. }));
    let waited = stopped.since(sent);
    assert!(waited >= DEADLINE && waited < DEADLINE + Duration::from_millis(10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_one_term_is_closed_in_the_next() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    lead(&mut publisher, &clock, 7, 10);
    let of_first = gate.clone().park(1, Duration::from_mins(1)).within(&gate.leadership.term().unwrap());
    let api = config_maps(of_first.gate(server.client()));
    create(&api).await.unwrap();
    assert!(of_first.is_open());
    lead(&mut publisher, &clock, 9, 10);
    assert!(gate.is_open() && !of_first.is_open());
    let asked = clock.now();
    assert!(is_not_leading(&create(&api).await.unwrap_err()));
    assert_eq!(clock.now(), asked, "it waits for nothing");
    create(&config_maps(gate.gate(server.client()))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn parked_writes_are_sent_on_promotion_and_their_number_is_limited() {
    let (clock, mut publisher, gate) = handles();
    let server = Server::default();
    let gate = gate.park(2, Duration::from_mins(1));
    let api = config_maps(gate.gate(server.client()));
    assert_eq!(gate.gate(server.client()).default_namespace(), "n", "a gated client keeps its namespace");
    let third = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let refused = create(&api).await.unwrap_err();
        assert_eq!(*gate_error_of(&refused), GateError::TooManyParked { lease: "n/l".into(), most: 2 });
        assert!(!gate_error_of(&refused).is_outcome_unknown());
        assert_eq!(server.asked(), 0);
        lead(&mut publisher, &clock, 7, 10);
    };
    let (first, second, ()) = futures::join!(create(&api), create(&api), third);
    first.unwrap();
    second.unwrap();
    assert_eq!(server.asked(), 2);
    publisher.publish(None, None);
    let dropped = tokio::time::timeout(Duration::from_secs(1), create(&api)).await;
    assert!(dropped.is_err());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(gate.parking.as_ref().unwrap().room.available_permits(), 2, "all places are free again");
}

#[tokio::test(start_paused = true)]
async fn parked_writes_fail_after_their_wait_and_when_the_elector_ends() {
    let (clock, publisher, gate) = handles();
    let server = Server::default();
    let api = config_maps(gate.park(2, Duration::from_mins(1)).gate(server.client()));
    let parked = clock.now();
    assert!(is_not_leading(&create(&api).await.unwrap_err()));
    let waited = clock.now().since(parked);
    assert!(waited >= Duration::from_mins(1) && waited < Duration::from_secs(61), "{waited:?}");
    let parked = clock.now();
    let end = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(publisher);
    };
    let (refused, ()) = futures::join!(create(&api), end);
    assert!(is_not_leading(&refused.unwrap_err()));
    assert!(clock.now().since(parked) < Duration::from_secs(2));
    assert_eq!(server.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_does_not_fit_the_elector_is_rejected() {
    let timing = Timing::new(Durations { stop_grace: Duration::from_secs(2), ..Durations::default() }).unwrap();
    let (_publisher, leadership) = leadership(TokioClock::shared(), "n/l".to_owned(), "a".to_owned(), timing);
    let refused = |millis| WriteGate::new(leadership.clone(), Duration::from_millis(millis)).err();
    let lease: Arc<str> = "n/l".into();
    assert_eq!(refused(0), Some(InvalidGate::DeadlineZero { lease: lease.clone() }));
    let most = Duration::from_millis(7_600);
    assert_eq!(
        refused(7_601),
        Some(InvalidGate::DeadlineTooLong { lease: lease.clone(), deadline: Duration::from_millis(7_601), most })
    );
    assert_eq!(
        refused(7_600),
        Some(InvalidGate::DeadlineAboveGrace { lease, deadline: most, grace: Duration::from_secs(2) })
    );
    assert_eq!(refused(2_000), None);
}

#[tokio::test]
async fn any_number_of_writes_may_wait() {
    let (_clock, _publisher, gate) = handles();
    assert!(gate.park(usize::MAX, DEADLINE).parking.is_some());
}

#[tokio::test]
async fn after_a_suspension_an_overdue_write_is_not_sent_even_if_no_timer_has_fired() {
    let clock = HandClock::at_seconds(100);
    let (mut publisher, leadership) = leadership(clock.clone(), "n/l".to_owned(), "a".to_owned(), Timing::default());
    let valid_until = clock.now().after(Duration::from_secs(10));
    publisher.publish(Some(Leading { number: 1, token: 7, valid_until }), None);
    // The service sends twice, like a service that retries. It sends the second time after `again`.
    let (again, sent) = (Arc::new(tokio::sync::Notify::new()), Arc::new(AtomicU32::new(0)));
    let (told_again, counter) = (Arc::clone(&again), Arc::clone(&sent));
    let service = tower::service_fn(move |_: Request<Body>| {
        let (again, sent) = (Arc::clone(&told_again), Arc::clone(&counter));
        async move {
            sent.fetch_add(1, Ordering::SeqCst);
            again.notified().await;
            sent.fetch_add(1, Ordering::SeqCst);
            Ok::<_, BoxError>(Response::new(Body::empty()))
        }
    });
    let gate = WriteGate::new(leadership, DEADLINE).unwrap();
    let api = config_maps(gate.gate(Client::new(service, "n")));
    let suspend = async {
        while sent.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        clock.set_seconds(105);
        again.notify_one();
    };
    let (ended, ()) = futures::join!(create(&api), suspend);
    assert!(matches!(gate_error_of(&ended.unwrap_err()), GateError::TookTooLong { .. }));
    assert_eq!(sent.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_deletion_with_a_streamed_body_is_not_a_dry_run() {
    let server = |_: Request<Body>| async { Ok::<_, BoxError>(Response::new(Body::empty())) };
    let client = kube::Client::new(tower::service_fn(server), "n");
    let streamed = client.send(Request::get("/version").body(Body::empty()).unwrap()).await.unwrap().into_body();
    let uri = "/api/v1/namespaces/n/configmaps/c?dryRun=All";
    let streamed = Request::delete(uri).body(streamed).unwrap();
    assert!(!attributes::changes_nothing(&streamed, body_of), "nothing may consume its body");
}
