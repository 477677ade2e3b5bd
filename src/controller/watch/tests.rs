//! Tests of watches against a server with prepared answers.

mod busy;
mod outages;
mod pods;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use hustings_client::api::{NativeVersion, ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_client::testing::TokioClock;
use hustings_core::model::CandidateState;
use kube::client::Body;
use rand::SeedableRng as _;
use serde_json::{Value, json};

use super::*;
use crate::base::cluster::testing::cluster;
use crate::controller::status::Transitions;
use crate::serve::metrics::Resource;

/// An API server that answers the requests with these answers in order, and then repeats the last one.
fn server(answers: &[(u16, Value)]) -> Client {
    let answers = Mutex::new(VecDeque::from(answers.to_vec()));
    let (cluster, _) = cluster(move |_| {
        let mut answers = answers.lock().unwrap();
        if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }
    });
    cluster.leases
}

fn list(names: &[&str]) -> (u16, Value) {
    let metadata = |name| json!({ "metadata": { "namespace": "n", "name": name, "resourceVersion": "5" } });
    let items: Vec<_> = names.iter().map(metadata).collect();
    (200, json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "9" }, "items": items }))
}

fn status(code: u16) -> (u16, Value) {
    (code, json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "m" }))
}

fn context(sender: mpsc::Sender<WatchEvent>, health: &Health, metrics: &ControllerMetrics) -> WatchContext {
    WatchContext {
        sender,
        health: health.clone(),
        metrics: metrics.clone(),
        namespaces: Namespaces::new(&[]),
        clock: TokioClock::shared(),
        pages: Arc::new(Semaphore::new(1)),
    }
}

fn start(client: Client) -> (mpsc::Receiver<WatchEvent>, Health, ControllerMetrics) {
    let (sender, events) = mpsc::channel(16);
    let (health, metrics) = (Health::new(), ControllerMetrics::new().0);
    let context = context(sender, &health, &metrics);
    let crd = Some(health.check("crd"));
    let watch = Watch::<ReadCandidate>::new(Scope::Cluster, &context, crd, StdRng::seed_from_u64(0));
    tokio::spawn(watch.run(client));
    (events, health, metrics)
}

/// How many candidates the watch knows.
fn known(metrics: &ControllerMetrics) -> i64 {
    metrics.watched_objects.get_or_create(&Resource::Candidates.label()).get()
}

#[tokio::test(start_paused = true)]
async fn an_object_that_a_later_list_lacks_is_reported_as_removed() {
    let (mut events, ..) = start(server(&[list(&["a", "b"]), status(410), list(&["b"]), status(410)]));
    let mut reported = Vec::new();
    while reported.iter().filter(|event| *event == "listed").count() < 2 {
        reported.push(match events.recv().await.unwrap() {
            WatchEvent::Candidate(key, _) => format!("changed {key}"),
            WatchEvent::CandidateRemoved(key) => format!("removed {key}"),
            WatchEvent::Listed(..) => "listed".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(reported, ["changed n/a", "changed n/b", "listed", "changed n/b", "removed n/a", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_a_list_that_failed_is_reported_as_removed_if_the_next_list_lacks_it() {
    let mut first_page = list(&["a"]);
    first_page.1["metadata"]["continue"] = json!("more");
    let (mut events, ..) = start(server(&[first_page, status(500), list(&[]), status(410)]));
    assert!(matches!(events.recv().await.unwrap(), WatchEvent::Candidate(..)));
    let began = tokio::time::Instant::now();
    assert!(matches!(events.recv().await.unwrap(), WatchEvent::CandidateRemoved(key) if key.to_string() == "n/a"));
    assert!(matches!(events.recv().await.unwrap(), WatchEvent::Listed(..)));
    assert!(began.elapsed() >= SHORTEST_PAUSE / 2, "a failure causes a pause");
}

#[tokio::test(start_paused = true)]
async fn each_list_is_compared_with_all_objects_even_after_one_that_failed() {
    let mut first_page = list(&["a"]);
    first_page.1["metadata"]["continue"] = json!("more");
    let answers = [list(&["a", "b"]), status(410), first_page, status(500), list(&["b"]), status(410)];
    let (mut events, ..) = start(server(&answers));
    let removed = async {
        loop {
            if let Some(WatchEvent::CandidateRemoved(key)) = events.recv().await {
                return key.to_string();
            }
        }
    };
    let removed = tokio::time::timeout(Duration::from_mins(1), removed).await;
    assert_eq!(removed.as_deref(), Ok("n/a"), "the list that failed showed it");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_at_once_gets_one_watch_a_second_and_broken_ones_count_as_failures() {
    let watches = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&watches);
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let mut counted = counted.lock().unwrap();
        *counted += u32::from(is_watch);
        let is_too_many = *counted > 1_000;
        let end = if counted.is_multiple_of(2) { "" } else { "no event\n" };
        let body = if is_watch { end.into() } else { list(&[]).1.to_string().into_bytes() };
        async move {
            if is_too_many {
                // Without this, a failing test would not end.
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::from(body)))
        }
    });
    let (mut events, _health, metrics) = start(Client::new(service, "n"));
    let minute = Duration::from_mins(1);
    let _ = tokio::time::timeout(minute, async { while events.recv().await.is_some() {} }).await;
    let watches = *watches.lock().unwrap();
    assert!((50..=62).contains(&watches), "{watches} watches in {minute:?}");
    let failures = metrics.watch_failures.get_or_create(&Resource::Candidates.label()).get();
    assert!((24..=31).contains(&failures), "{failures} failures of {watches} watches");
}

#[tokio::test(start_paused = true)]
async fn a_missing_crd_is_reported_by_name_until_it_is_installed() {
    let (mut events, health, metrics) = start(server(&[status(404), status(404), list(&[]), status(410)]));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let message = |health: &Health, name: &str| {
        health.readiness().checks.into_iter().find(|check| check.name == name).unwrap().message
    };
    assert_eq!(metrics.watch_failures.get_or_create(&Resource::Candidates.label()).get(), 1);
    assert!(message(&health, "crd").unwrap().contains("hustings crds | kubectl apply -f -"));
    assert_eq!(message(&health, "leasecandidates"), message(&health, "crd"), "the log has this message");
    assert!(matches!(events.recv().await.unwrap(), WatchEvent::Listed(..)));
    assert_eq!(message(&health, "crd"), None);
}

/// Starts a watch of native candidates.
fn start_native(client: Client) -> (mpsc::Receiver<WatchEvent>, Health, Receiver<Option<NativeVersion>>) {
    let (events, health, served, _) = start_native_with_metrics(client);
    (events, health, served)
}

type NativeWatchParts = (mpsc::Receiver<WatchEvent>, Health, Receiver<Option<NativeVersion>>, ControllerMetrics);

fn start_native_with_metrics(client: Client) -> NativeWatchParts {
    let (sender, events) = mpsc::channel(16);
    let (health, metrics) = (Health::new(), ControllerMetrics::new().0);
    let context = context(sender, &health, &metrics);
    let watch = Watch::<ReadNativeCandidate>::new(Scope::Cluster, &context, None, StdRng::seed_from_u64(0));
    let served = watch.served();
    tokio::spawn(watch.run(client));
    (events, health, served, metrics)
}

/// The answer to a discovery.
fn discovery(resources: &[&str]) -> (u16, Value) {
    let resource = |name| json!({ "name": name, "singularName": "", "namespaced": true, "kind": "K", "verbs": [] });
    let resources: Vec<_> = resources.iter().map(resource).collect();
    (200, json!({ "kind": "APIResourceList", "groupVersion": "g/v", "resources": resources }))
}

#[tokio::test(start_paused = true)]
async fn native_candidates_are_watched_in_the_served_version_and_removed_when_none_is_served() {
    let answers = [
        status(404),
        discovery(&["leasecandidates"]),
        list(&["a"]),
        status(404),
        discovery(&[]),
        status(404),
        discovery(&["leasecandidates"]),
        list(&["a"]),
        status(410),
    ];
    let (mut events, health, served) = start_native(server(&answers));
    let mut next = async || match events.recv().await.unwrap() {
        WatchEvent::Candidate(key, _) => format!("changed {key}"),
        WatchEvent::CandidateRemoved(key) => format!("removed {key}"),
        WatchEvent::Listed(_, Resource::NativeCandidates) => "listed".to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!([next().await, next().await], ["changed n/a (coordination.k8s.io)", "listed"]);
    assert_eq!(*served.borrow(), Some(NativeVersion::V1alpha2));
    assert_eq!(next().await, "listed", "the watch failed");
    assert_eq!([next().await, next().await], ["removed n/a (coordination.k8s.io)", "listed"]);
    assert_eq!(*served.borrow(), None);
    let readiness = health.readiness();
    let expected = Some("the API server does not serve leasecandidates.coordination.k8s.io");
    assert_eq!((readiness.ready, readiness.checks[0].message.as_deref()), (true, expected));
    let unserved_at = tokio::time::Instant::now();
    assert_eq!([next().await, next().await], ["changed n/a (coordination.k8s.io)", "listed"]);
    assert!((REDISCOVERY..REDISCOVERY * 2).contains(&unserved_at.elapsed()));
    assert_eq!(*served.borrow(), Some(NativeVersion::V1beta1));
}

#[tokio::test(start_paused = true)]
async fn elections_do_not_wait_for_native_candidates_that_may_not_be_listed() {
    let (mut events, health, _) = start_native(server(&[discovery(&["leasecandidates"]), status(403)]));
    assert!(matches!(events.recv().await.unwrap(), WatchEvent::Listed(Scope::Cluster, Resource::NativeCandidates)));
    let readiness = health.readiness();
    let expected =
        "not allowed: grant the verbs list and watch on leasecandidates.coordination.k8s.io in all namespaces";
    assert_eq!((readiness.ready, readiness.checks[0].message.as_deref()), (true, Some(expected)));
}

/// The answer to a watch request: one event, and the end of the watch.
fn event(type_: &str, name: &str) -> (u16, Value) {
    let metadata = json!({ "namespace": "n", "name": name, "resourceVersion": "12" });
    (200, json!({ "type": type_, "object": { "metadata": metadata } }))
}

#[tokio::test(start_paused = true)]
async fn the_known_objects_follow_lists_and_events() {
    // A watch begins each second.
    let answers =
        [list(&["a", "b"]), event("ADDED", "c"), event("DELETED", "a"), status(410), list(&["c"]), status(410)];
    let (_events, _, metrics) = start(server(&answers));
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(known(&metrics));
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    tokio::time::sleep(Duration::from_millis(600)).await;
    counts.push(known(&metrics));
    assert_eq!(counts, [0, 3, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_objects_stay_known_while_the_server_cannot_be_listed() {
    let (mut events, health, metrics) = start(server(&[list(&["a"]), status(410), status(500)]));
    while !matches!(events.recv().await.unwrap(), WatchEvent::Listed(..)) {}
    tokio::time::sleep(Duration::from_mins(10)).await;
    let readiness = health.readiness();
    assert!(
        !readiness.ready
            && readiness
                .checks
                .iter()
                .any(|check| check.message.as_ref().is_some_and(|message| message.starts_with("m (500), since 20")))
    );
    assert!(readiness.checks.iter().any(|check| check.name == "crd" && check.ok), "the CRD is installed");
    assert_eq!(known(&metrics), 1);
    assert!(events.try_recv().is_err(), "the object may still exist");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_stops_neither_a_list_nor_a_watch() {
    let mut with_malformed = list(&["a"]);
    let items = with_malformed.1["items"].as_array_mut().unwrap();
    items.insert(
        0,
        json!({ "metadata": { "namespace": "n", "name": "b", "generation": "x" }, "spec": 7, "status": [] }),
    );
    items.insert(0, json!({ "metadata": [], "spec": null }));
    items.insert(0, json!("nonsense"));
    let malformed = (
        200,
        json!({ "type": "MODIFIED", "object": { "metadata": { "namespace": "n", "name": "c", "resourceVersion": "x" } } }),
    );
    let (mut events, health, metrics) = start(server(&[with_malformed, malformed, event("ADDED", "d"), status(410)]));
    let mut reported = Vec::new();
    while reported.last().is_none_or(|last| last != "n/d") {
        reported.push(match events.recv().await.unwrap() {
            WatchEvent::Candidate(key, _) => key.to_string(),
            WatchEvent::Listed(..) => "listed".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(reported, ["n/b", "n/a", "listed", "n/c", "n/d"]);
    assert!(health.readiness().ready);
    assert_eq!(known(&metrics), 4);
}

#[tokio::test(start_paused = true)]
async fn large_texts_do_not_stay_in_memory() {
    let megabyte = "x".repeat(1 << 20);
    let mut large = list(&["a"]);
    let condition = json!({ "type": "Leading", "status": "True", "reason": megabyte, "message": megabyte,
        "lastTransitionTime": "2026-01-02T03:04:05Z" });
    large.1["items"][0]["metadata"]["annotations"] = json!({ "a": megabyte });
    large.1["items"][0]["metadata"]["labels"] = json!({ "a": megabyte });
    large.1["items"][0]["status"] = json!({ "state": "Holder", "message": megabyte, "conditions": [condition] });
    let (mut events, ..) = start(server(&[large, status(410)]));
    let WatchEvent::Candidate(_, kept) = events.recv().await.unwrap() else { panic!("not a candidate") };
    assert!(format!("{kept:?}").len() < 10_000);
    assert_eq!(kept.record.status.state, Some(CandidateState::Holder));
    assert_ne!(kept.transitions, Transitions::default());
}

#[test]
fn leases_are_watched_by_their_label_and_without_heartbeats_of_nodes() {
    let one = config::<ReadLease>(&Scope::Namespace("n".to_owned()));
    assert_eq!((one.label_selector.as_deref(), one.field_selector), (Some("hustings.io/enrolled=true"), None));
    let all = config::<ReadLease>(&Scope::Cluster);
    assert_eq!(all.label_selector.as_deref(), Some("hustings.io/enrolled=true"));
    assert_eq!(all.field_selector.as_deref(), Some("metadata.namespace!=kube-node-lease"));
    assert_eq!(config::<ReadCandidate>(&Scope::Cluster).label_selector, None);
}

#[tokio::test(start_paused = true)]
async fn elections_wait_for_native_candidates_while_a_list_starts_over_or_the_server_is_overloaded() {
    let mut first_page = list(&["a"]);
    first_page.1["metadata"]["continue"] = json!("expired");
    let mut answers = vec![discovery(&["leasecandidates"]), first_page];
    for code in [410, 429, 503] {
        answers.extend([status(code), discovery(&["leasecandidates"])]);
    }
    answers.extend([list(&["a", "b"]), status(410)]);
    let (mut events, ..) = start_native(server(&answers));
    let mut reported = Vec::new();
    while reported.last().is_none_or(|last| last != "listed") {
        reported.push(match events.recv().await.unwrap() {
            WatchEvent::Candidate(key, _) => key.candidate.name.to_string(),
            WatchEvent::Listed(..) => "listed".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(reported, ["a", "a", "b", "listed"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_too_old_is_not_a_failure_of_the_watch() {
    let (mut events, health, _) = start(server(&[list(&["a"]), status(410), list(&["a"]), status(410)]));
    for _ in 0..2 {
        while !matches!(events.recv().await.unwrap(), WatchEvent::Listed(..)) {}
        tokio::time::sleep(Duration::from_millis(1)).await;
        let readiness = health.readiness();
        assert!(readiness.ready && readiness.checks.iter().all(|check| check.message.is_none()));
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_make_a_page_too_long_are_listed_in_smaller_pages() {
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&sizes);
    let service = tower::service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default();
        let size =
            query.split('&').find_map(|part| part.strip_prefix("limit=")).map(|size| size.parse::<u32>().unwrap());
        asked.lock().unwrap().extend(size);
        async move {
            if size.is_some_and(|size| size > 1) {
                return Err(AnswerTooLong(8));
            }
            Ok(Response::new(Body::from(list(&["a"]).1.to_string().into_bytes())))
        }
    });
    let (mut events, ..) = start(Client::new(service, "n"));
    while !matches!(events.recv().await.unwrap(), WatchEvent::Listed(..)) {}
    assert_eq!(sizes.lock().unwrap()[..3], [100, 10, 1]);
}
