mod events;
mod measure;
mod page;
mod scopes;
mod statuses;

use std::convert::Infallible;

use http::{Request, Response};
use hustings_client::api::{ReadCandidate, ReadLease};
use hustings_client::clock::SystemClock;
use hustings_client::store::Kubernetes;
use hustings_core::model::{CandidateKey, CandidateKind, CandidateRecord, LeaseRecord, SessionMark, WireTime};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;
use crate::controller::events::EventPublisher;
use crate::serve::health::STUCK_AFTER;
use crate::serve::metrics::{self, ControllerMetrics, FailureLabels, Kind, LeaseStateLabel, Resource};
use crate::serve::page::Page;

/// A dispatcher with a server that has no objects.
fn dispatcher(leads: bool) -> Dispatcher {
    dispatcher_of(parts(), leads)
}

pub(super) fn dispatcher_of(parts: DispatcherParts, leads: bool) -> Dispatcher {
    let mut dispatcher = Dispatcher::new(parts, &[Scope::Cluster]);
    assert!(!dispatcher.leads, "it has not been promoted");
    dispatcher.leads = leads;
    dispatcher
}

pub(super) fn parts() -> DispatcherParts {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let name = request.uri().path().rsplit('/').next();
        let details = json!({ "name": name, "kind": "leases", "group": "coordination.k8s.io" });
        let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
            "details": details, "code": 404 });
        let body = Body::from(status.to_string().into_bytes());
        Ok::<_, Infallible>(Response::builder().status(404).body(body).unwrap())
    });
    let (client, clock, metrics) = (Client::new(service, "n"), SystemClock::shared(), ControllerMetrics::new().0);
    let (publisher, _) = EventPublisher::new(client.clone(), "test", metrics.clone());
    let store = Kubernetes::new(client.clone(), Arc::clone(&clock), Duration::from_secs(1));
    let executor = Executor::new(store, Arc::clone(&clock), publisher.clone(), metrics.clone());
    let (config, health) = (election::Config::default(), Health::new());
    let reporting = Reporting::new(publisher, metrics, &health, None);
    DispatcherParts {
        config,
        own_lease: None,
        clock,
        leading: Electing::Always,
        native: None,
        stores: Stores::default(),
        executor,
        labels: None,
        reporting,
        health,
    }
}

/// Adds a page to the dispatcher.
fn with_page(dispatcher: &mut Dispatcher) -> Page {
    let page = Page::new();
    dispatcher.parts.reporting.page = Some(PagePublisher::new("hustings-1".to_owned(), page.clone()));
    page
}

pub(super) fn key(name: &str) -> MemberKey {
    MemberKey { namespace: "n".into(), candidate: CandidateKey::hustings(name) }
}

fn candidate(lease: &str) -> WatchedCandidate {
    let spec = json!({ "leaseName": lease, "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
    let metadata = json!({ "namespace": "n", "name": "a", "uid": "u", "resourceVersion": "5" });
    ReadCandidate::from_json(json!({ "metadata": metadata, "spec": spec })).into()
}

async fn decide_next(dispatcher: &mut Dispatcher) {
    let key = dispatcher.queue.take().await;
    dispatcher.decide(key);
    if let Some((key, result)) = dispatcher.in_flight.join_next().await {
        dispatcher.finish_decision(&key, result);
    }
}

#[tokio::test]
async fn no_decision_is_made_before_every_kind_is_listed_or_by_a_standby() {
    let kinds = [Resource::Leases, Resource::Candidates, Resource::NativeCandidates];
    for (first, leads) in [(0, true), (1, true), (2, true), (0, false)] {
        let mut dispatcher = dispatcher_of(DispatcherParts { native: Some(watch::channel(true).1), ..parts() }, leads);
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        for kind in kinds.into_iter().cycle().skip(first).take(3) {
            assert!(dispatcher.in_flight.is_empty(), "{kind:?} have not been listed");
            dispatcher.handle(WatchEvent::Listed(Scope::Cluster, kind));
            let lease = dispatcher.queue.take().await;
            dispatcher.decide(lease);
        }
        assert_eq!(dispatcher.in_flight.len(), usize::from(leads));
    }
}

#[tokio::test]
async fn a_standby_forgets_a_deleted_lease_without_candidates() {
    let mut dispatcher = dispatcher(false);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    let lease = ReadLease::from_json(json!({
        "metadata": {
            "namespace": "n", "name": "l", "uid": "u", "resourceVersion": "6",
            "labels": { "hustings.io/enrolled": "true" }, "annotations": { "hustings.io/session": "open" },
        },
        "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 },
    }));
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(lease.record)));
    dispatcher.handle(WatchEvent::CandidateRemoved(key("a")));
    dispatcher.handle(WatchEvent::LeaseRemoved(LeaseKey::new("n", "l")));
    assert_eq!(dispatcher.elections.len(), 1);
    decide_next(&mut dispatcher).await;
    assert!(dispatcher.elections.is_empty() && dispatcher.stands_for.is_empty());
}

#[tokio::test]
async fn a_candidate_that_is_recreated_for_another_lease_leaves_the_first() {
    for (other, expected) in [("other", vec!["n/other"]), ("own", vec![])] {
        let mut dispatcher = dispatcher(false);
        dispatcher.parts.own_lease = Some(LeaseKey::new("n", "own"));
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate(other)));
        for _ in 0..=expected.len() {
            decide_next(&mut dispatcher).await;
        }
        let left: Vec<_> = dispatcher.elections.keys().map(ToString::to_string).collect();
        assert_eq!(left, expected);
    }
}

#[tokio::test]
async fn a_lease_with_native_candidates_is_left_alone_while_another_controller_elects_them() {
    let (mut dispatcher, elects_native) = with_native_candidate(false);
    list_all(&mut dispatcher);
    let lease = dispatcher.queue.take().await;
    dispatcher.decide(lease.clone());
    assert!(dispatcher.in_flight.is_empty());
    dispatcher.handle(WatchEvent::Candidate(key("b"), candidate("other")));
    dispatcher.decide(LeaseKey::new("n", "other"));
    assert_eq!(dispatcher.in_flight.len(), 1, "no native candidate stands for it");
    elects_native.send(true).unwrap();
    dispatcher.decide(lease);
    assert_eq!(dispatcher.in_flight.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_begins_to_elect_native_candidates_decides_at_once() {
    let (mut dispatcher, elects_native) = with_native_candidate(false);
    list_all(&mut dispatcher);
    let metrics = dispatcher.parts.reporting.measurements.metrics.clone();
    // The server has no Lease, so each read fails.
    let reads = || {
        let labels = FailureLabels::new(metrics::RequestKind::ReadLease, metrics::FailureReason::NotFound);
        metrics.request_failures.get_or_create(&labels).get()
    };
    let (_sender, events) = mpsc::channel(1);
    tokio::spawn(dispatcher.run(events, CancellationToken::new()));
    tokio::time::sleep(60 * TICK).await;
    assert_eq!(reads(), 0);
    elects_native.send(true).unwrap();
    tokio::time::sleep(TICK).await;
    assert!(reads() > 0);
}

#[tokio::test]
async fn neither_the_own_lease_nor_the_leases_of_nodes_are_elected() {
    let mut dispatcher = dispatcher(true);
    dispatcher.parts.own_lease = Some(LeaseKey::new("n", "own"));
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("own")));
    let of_node = MemberKey { namespace: NODE_LEASES.into(), ..key("a") };
    dispatcher.handle(WatchEvent::Candidate(of_node, candidate("node")));
    for lease in [LeaseKey::new("n", "own"), LeaseKey::new(NODE_LEASES, "node")] {
        dispatcher.handle(WatchEvent::Lease(lease, held_lease()));
    }
    assert!(dispatcher.elections.is_empty(), "{:?}", dispatcher.elections.keys());
}

#[tokio::test]
async fn a_candidate_with_an_invalid_lease_name_is_ignored_and_leaves_its_former_lease() {
    let mut dispatcher = dispatcher(true);
    for name in ["", "No Lease", "other/status", "..", "l?dryRun=All"] {
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate(name)));
        decide_next(&mut dispatcher).await;
        assert!(dispatcher.elections.is_empty(), "{name:?}: {:?}", dispatcher.elections.keys());
    }
}

#[tokio::test(start_paused = true)]
async fn a_promotion_causes_a_decision_at_once_and_a_panicked_decision_one_after_a_pause() {
    let mut dispatcher = dispatcher(false);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    list_all(&mut dispatcher);
    decide_next(&mut dispatcher).await;
    dispatcher.set_leading(true);
    let lease = tokio::time::timeout(TICK, dispatcher.queue.take()).await.expect("a decision at once");
    dispatcher.in_flight.spawn(lease.clone(), async { panic!("planned") });
    let (key, result) = dispatcher.in_flight.join_next().await.unwrap();
    dispatcher.finish_decision(&key, result);
    let pause = dispatcher.parts.config.requeue;
    assert!(tokio::time::timeout(pause / 2, dispatcher.queue.take()).await.is_err(), "it may panic again");
    assert_eq!(tokio::time::timeout(pause, dispatcher.queue.take()).await.ok(), Some(lease));
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_status_write_is_observed_and_causes_the_next_decision() {
    let mut dispatcher = dispatcher(false);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    decide_next(&mut dispatcher).await;
    let lease = LeaseKey::new("n", "l");
    assert!(!is_unknown(&dispatcher.elections[&lease]));
    let sent = dispatcher.parts.clock.now();
    let missing = Observation::CandidateMissing { candidate: key("a").candidate, source: Source::Read { sent } };
    dispatcher.finish_status(&lease, missing);
    assert!(is_unknown(&dispatcher.elections[&lease]));
    assert_eq!(tokio::time::timeout(TICK, dispatcher.queue.take()).await.ok(), Some(lease.clone()));
    dispatcher.forget(&lease);
    let missing = Observation::CandidateMissing { candidate: key("a").candidate, source: Source::Read { sent } };
    dispatcher.finish_status(&lease, missing);
    assert!(dispatcher.elections.is_empty(), "a Lease that was forgotten does not come back");
}

fn list_all(dispatcher: &mut Dispatcher) {
    for resource in [Resource::Leases, Resource::Candidates] {
        dispatcher.handle(WatchEvent::Listed(Scope::Cluster, resource));
    }
}

/// A leading dispatcher with a native candidate for the Lease `l`, and the sender of whether it elects such candidates.
fn with_native_candidate(elects: bool) -> (Dispatcher, watch::Sender<bool>) {
    let mut dispatcher = dispatcher(true);
    let (elects_native, receiver) = watch::channel(elects);
    dispatcher.parts.native = Some(receiver);
    with_page(&mut dispatcher);
    let native = MemberKey { namespace: "n".into(), candidate: CandidateKey::native("a") };
    let mut record = candidate("l");
    record.record = CandidateRecord { kind: CandidateKind::Native, ..CandidateRecord::clone(&record.record) }.into();
    dispatcher.handle(WatchEvent::Candidate(native, record));
    (dispatcher, elects_native)
}

/// The Lease of the next decision, if one is due at once.
async fn due(dispatcher: &mut Dispatcher) -> Option<LeaseKey> {
    let key = tokio::time::timeout(TICK, dispatcher.queue.take()).await.ok()?;
    dispatcher.queue.finish(&key);
    Some(key)
}

fn held_lease() -> Arc<LeaseRecord> {
    let lease = ReadLease::from_json(json!({
        "metadata": {
            "namespace": "n", "name": "l", "uid": "u", "resourceVersion": "6",
            "labels": { "hustings.io/enrolled": "true" },
            "annotations": { "hustings.io/session": "s/1/15", "hustings.io/strategy": "OldestEmulationVersion" },
        },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15 },
    }));
    Arc::new(lease.record)
}

#[tokio::test(start_paused = true)]
async fn each_change_that_a_watch_reports_causes_a_decision_at_once() {
    let mut dispatcher = dispatcher(true);
    let lease = LeaseKey::new("n", "l");
    for event in [
        WatchEvent::Candidate(key("a"), candidate("l")),
        WatchEvent::Listed(Scope::Cluster, Resource::Candidates),
        WatchEvent::Lease(lease.clone(), held_lease()),
        WatchEvent::LeaseRemoved(lease.clone()),
        WatchEvent::CandidateRemoved(key("a")),
    ] {
        let text = format!("{event:?}");
        dispatcher.handle(event);
        assert_eq!(due(&mut dispatcher).await.as_ref(), Some(&lease), "{text}");
    }
    assert_eq!(due(&mut dispatcher).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_decides_again_after_each_outcome_and_a_standby_does_not() {
    for leads in [true, false] {
        let mut dispatcher = dispatcher(leads);
        list_all(&mut dispatcher);
        let lease = LeaseKey::new("n", "l");
        dispatcher.handle(WatchEvent::Lease(lease.clone(), held_lease()));
        dispatcher.handle(WatchEvent::LeaseRemoved(lease.clone()));
        decide_next(&mut dispatcher).await;
        assert!(dispatcher.elections.contains_key(&lease), "the former holder may go on");
        assert!(dispatcher.in_flight.is_empty(), "every task has ended");
        assert_eq!(due(&mut dispatcher).await.is_some(), leads);
    }
}

#[tokio::test(start_paused = true)]
async fn the_controller_decides_about_each_lease_at_least_every_five_seconds() {
    let mut dispatcher = dispatcher(true);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()));
    list_all(&mut dispatcher);
    for _ in 0..3 {
        let began = Instant::now();
        let lease = dispatcher.queue.take().await;
        assert!(began.elapsed() <= Duration::from_secs(5), "{:?}", began.elapsed());
        dispatcher.decide(lease);
        if let Some((key, result)) = dispatcher.in_flight.join_next().await {
            dispatcher.finish_decision(&key, result);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_decision_comes_after_its_pause_and_not_before() {
    let mut dispatcher = dispatcher(false);
    let lease = LeaseKey::new("n", "l");
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    assert_eq!(due(&mut dispatcher).await.as_ref(), Some(&lease));
    dispatcher.schedule(&lease, 3 * TICK);
    assert_eq!(due(&mut dispatcher).await, None);
    tokio::time::sleep(TICK * 3 / 2).await;
    assert_eq!(due(&mut dispatcher).await, Some(lease));
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_native_candidates_another_controller_elects_has_no_state() {
    let (mut dispatcher, elects_native) = with_native_candidate(true);
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()));
    list_all(&mut dispatcher);
    let lease = LeaseKey::new("n", "l");
    decide_next(&mut dispatcher).await;
    assert_ne!(dispatcher.parts.reporting.measurements.state(&lease), LeaseStateLabel::Unread);
    elects_native.send(false).unwrap();
    dispatcher.schedule_all();
    decide_next(&mut dispatcher).await;
    assert_eq!(dispatcher.parts.reporting.measurements.state(&lease), LeaseStateLabel::Unread);
}

#[test]
fn no_deadline_makes_a_busy_loop_or_a_pause_longer_than_the_requeue_period() {
    let pause = |micros| pause_until(Moment::from_micros(micros), Moment::from_micros(50), Duration::from_secs(5));
    let pauses = [0, 50, 51, 1_000_050, 60_000_000, i64::MAX].map(pause);
    let [shortest, second, longest] = [SHORTEST_PAUSE, Duration::from_secs(1), Duration::from_secs(5)];
    assert_eq!(pauses, [shortest, shortest, shortest, second, longest, longest]);
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_made_as_soon_as_the_lease_expires() {
    let mut dispatcher = dispatcher(true);
    dispatcher.parts.clock = hustings_client::testing::TokioClock::shared();
    let clock = Arc::clone(&dispatcher.parts.clock);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
    dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), held_lease()));
    list_all(&mut dispatcher);
    // A decision every 5 s would come 2 s late.
    tokio::time::sleep(2 * TICK).await;
    let expired_at = Moment::from_micros(15_000_000);
    while clock.now() < expired_at {
        decide_next(&mut dispatcher).await;
    }
    assert!(clock.now().since(expired_at) <= 2 * SHORTEST_PAUSE, "{:?}", clock.now());
}
