//! Tests of the executor against a server that counts its requests.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Response};
use hustings_client::clock::SystemClock;
use hustings_client::testing::TokioClock;
use hustings_core::election::Source;
use hustings_core::model::{CandidateKey, Condition, LeaseRecord, RecordedStatus, Truth, WireTime};
use hustings_core::ranking::Criterion;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::base::cluster::testing::{cluster, failure, silent_cluster};
use crate::controller::assist::AssistList;
use crate::controller::config::AssistedLease;
use crate::controller::status::Transitions;
use crate::controller::stores::Stores;
use crate::serve::metrics::FailureLabels;

/// The arguments of `carry_out`.
type Call = (LeaseKey, Vec<Action>, String);

/// Withdraws the request to hand over.
fn withdraw() -> Call {
    let current = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder: Set::Remove, ..LeaseWrite::new(Purpose::Prefer, &current) };
    (LeaseKey::new("n", "l"), vec![Request::write_lease("l", write).into()], String::new())
}

/// Pings of `count` candidates of one Lease.
fn pings(namespace: &str, count: usize) -> Call {
    let ping = |number| {
        let name = format!("c{number}");
        Request::patch_candidate(&*name, &name, CandidatePatch::Ping(WireTime::default())).into()
    };
    (LeaseKey::new(namespace, "l"), (0..count).map(ping).collect(), String::new())
}

fn spawn(executor: &Executor, (key, actions, uid): Call) {
    tokio::spawn(executor.clone().carry_out(key, actions, uid));
}

/// An executor, and the number of requests that its server has received. The server answers a request if `answers`
/// returns true for its number, counted from 0.
fn executor(answers: fn(usize) -> bool) -> (Executor, Arc<AtomicUsize>) {
    let received = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&received);
    let cluster = silent_cluster(move |_| answers(counted.fetch_add(1, Ordering::SeqCst)).then(|| failure(403)));
    (executor_over(&cluster.leases), received)
}

fn executor_over(client: &Client) -> Executor {
    let (clock, metrics) = (SystemClock::shared(), ControllerMetrics::new().0);
    let (publisher, publishing) = EventPublisher::new(client.clone(), "test", metrics.clone());
    tokio::spawn(publishing);
    let store = Kubernetes::new(client.clone(), Arc::clone(&clock), Duration::from_mins(1));
    Executor::new(store, clock, publisher, metrics)
}

#[tokio::test(start_paused = true)]
async fn a_lease_with_many_requests_leaves_slots_to_its_namespace() {
    let (executor, received) = executor(|_| false);
    let received = || received.swap(0, Ordering::SeqCst);
    spawn(&executor, pings("n", 1000));
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(received(), CONCURRENT_REQUESTS_PER_LEASE);
    spawn(&executor, pings("n", 1));
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(received(), 1, "another Lease's is sent at once");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_hangs_leaves_slots_to_the_others() {
    let (executor, received) = executor(|_| false);
    let received = || received.swap(0, Ordering::SeqCst);
    for _ in 0..1000 {
        spawn(&executor, pings("n", 1));
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!((10..CONCURRENT_REQUESTS / 2).contains(&received()));
    spawn(&executor, pings("other", 1));
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(received(), 1, "another namespace's is sent at once");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_slot_in_time_fails_and_is_not_sent() {
    let (executor, received) = executor(|_| false);
    for _ in 0..1000 {
        spawn(&executor, pings("n", 1));
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    let sent = received.load(Ordering::SeqCst);
    let (key, actions, uid) = pings("n", 1);
    let carried_out = executor.clone().carry_out(key, actions, uid);
    let outcomes = tokio::time::timeout(2 * SLOT_TIMEOUT, carried_out).await.unwrap();
    assert!(matches!(&outcomes[..], [Observation::Failed { .. }]), "{outcomes:?}");
    let (_, answer) = executor.send(&LeaseKey::new("n", "l"), &Request::read_lease("l")).await;
    assert!(matches!(answer, Err(Failure::NotSent(SLOT_TIMEOUT))), "its outcome is known: {answer:?}");
    assert_eq!(received.load(Ordering::SeqCst), sent, "it was not sent");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_delays_no_other_request_of_its_lease() {
    let (executor, received) = executor(|number| number > 0);
    spawn(&executor, pings("n", 1000));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(received.load(Ordering::SeqCst), 1000);
}

#[tokio::test]
async fn a_denied_request_asks_for_a_check_of_the_permissions() {
    let (executor, _) = executor(|_| true);
    let forbidden = executor.forbidden();
    let (key, actions, uid) = pings("n", 1);
    executor.carry_out(key, actions, uid).await;
    assert!(futures::FutureExt::now_or_never(forbidden.notified()).is_some());
}

/// The object of this path, as a server returns it.
fn object(path: &str, uid: &str) -> Value {
    let parts: Vec<&str> = path.split(['/', '?']).collect();
    let kind = if parts[6] == "leases" { "Lease" } else { "LeaseCandidate" };
    json!({
        "apiVersion": format!("{}/{}", parts[2], parts[3]), "kind": kind,
        "metadata": { "name": parts[7], "namespace": parts[5], "uid": uid, "resourceVersion": "7" },
    })
}

#[tokio::test]
async fn an_object_that_is_missing_in_a_write_is_read_live() {
    let (cluster, _) = cluster(|sent| {
        if sent.method == Method::GET {
            return Some((200, object(&sent.path, "u")));
        }
        let parts: Vec<&str> = sent.path.split(['/', '?']).collect();
        let details = json!({ "name": parts[7], "group": parts[2], "kind": parts[6] });
        Some((404, json!({ "kind": "Status", "reason": "NotFound", "details": details, "code": 404 })))
    });
    let executor = executor_over(&cluster.leases);
    let (candidate, uid) = (CandidateKey::hustings("c"), "u".to_owned());
    let (key, mut actions, of_lease) = withdraw();
    let ping = Request::patch_candidate(&candidate, &uid, CandidatePatch::Ping(WireTime::default()));
    actions.insert(0, ping.into());
    actions.insert(0, Request::DeleteCandidate { candidate, uid, resource_version: Some(7) }.into());
    let observations = executor.clone().carry_out(key, actions, of_lease).await;
    assert!(futures::FutureExt::now_or_never(executor.forbidden().notified()).is_none(), "nothing was denied");
    let [deleted, pinged, written] = &observations[..] else { panic!("{observations:?}") };
    for observation in [deleted, pinged] {
        assert!(matches!(observation, Observation::Candidate { source: Source::Read { .. }, .. }), "{observation:?}");
    }
    assert!(matches!(written, Observation::Lease { source: Source::Read { .. }, .. }), "{written:?}");
}

#[test]
fn each_result_of_an_election_has_its_own_count() {
    let record = LeaseRecord::as_created();
    let write = |purpose, preferred_holder| LeaseWrite { preferred_holder, ..LeaseWrite::new(purpose, &record) };
    let writes = [
        (write(Purpose::Grant, Set::Remove), metrics::RequestKind::Grant, Some(ElectionResult::Granted)),
        (
            write(Purpose::Prefer, Set::To("a".to_owned())),
            metrics::RequestKind::Prefer,
            Some(ElectionResult::Preferred),
        ),
        (write(Purpose::Prefer, Set::Remove), metrics::RequestKind::Withdraw, Some(ElectionResult::Withdrawn)),
        (write(Purpose::Hold, Set::Keep), metrics::RequestKind::Hold, Some(ElectionResult::OnHold)),
        (write(Purpose::Enrol, Set::Keep), metrics::RequestKind::Enrol, None),
        (write(Purpose::Act, Set::Keep), metrics::RequestKind::Act, None),
        (write(Purpose::Release, Set::Keep), metrics::RequestKind::Release, None),
    ];
    for (write, request, result) in writes {
        assert_eq!((request_of(&write), result_of(&write)), (request, result));
    }
}

/// The paths and bodies of the requests that a server has received.
type Received = Arc<Mutex<Vec<(String, Value)>>>;

/// A server that records each body, returns it as the object after a latency, and accepts events.
fn recording_server(latency: fn(&str) -> Duration) -> (Client, Received) {
    let received = Received::default();
    let service = tower::service_fn({
        let received = Arc::clone(&received);
        move |request: http::Request<Body>| {
            let received = Arc::clone(&received);
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                received.lock().unwrap().push((path.clone(), body.clone()));
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                tokio::time::sleep(latency(&name)).await;
                let answer = if path.contains("/events") {
                    body
                } else {
                    object(&path, body["metadata"]["uid"].as_str().unwrap_or("u"))
                };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(200).body(body).unwrap())
            }
        }
    });
    (Client::new(service, "n"), received)
}

#[tokio::test(start_paused = true)]
async fn a_write_of_the_lease_and_its_event_are_counted_and_published() {
    let (client, received) = recording_server(|_| Duration::ZERO);
    let (clock, metrics) = (TokioClock::shared(), ControllerMetrics::new().0);
    let (publisher, publishing) = EventPublisher::new(client.clone(), "test", metrics.clone());
    tokio::spawn(publishing);
    let store = Kubernetes::new(client.clone(), Arc::clone(&clock), Duration::from_mins(1));
    let executor = Executor::new(store, clock, publisher, metrics.clone());
    let current = LeaseRecord { uid: "before".to_owned(), resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder: Set::To("a".to_owned()), ..LeaseWrite::new(Purpose::Prefer, &current) };
    let (candidate, criterion) = (CandidateKey::hustings("a"), Some(Criterion::Priority));
    let preferred = Event::Preferred { holder: "b".into(), candidate, criterion, asked_by: None };
    let actions = vec![
        Action::Send { request: Request::write_lease("l", write), event: Some(preferred) },
        Action::Event(Event::NoLiveCandidate { silent: 1, inadmissible: 0, excluded: 0 }),
    ];
    let hold = Request::write_lease("l", LeaseWrite::new(Purpose::Hold, &current)).into();
    for actions in [actions, vec![hold]] {
        executor.clone().carry_out(LeaseKey::new("n", "l"), actions, current.uid.clone()).await;
    }
    assert_eq!(metrics.elections.get_or_create(&ElectionResult::OnHold.label()).get(), 1);
    assert_eq!(metrics.elections.get_or_create(&ElectionResult::Preferred.label()).get(), 1);
    assert_eq!(metrics.preemptions.get_or_create(&PreferenceReason::Priority.label()).get(), 1);
    assert_eq!(metrics.requests.get_or_create(&metrics::RequestKind::Prefer.label()).get(), 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let received = received.lock().unwrap();
    let events = received.iter().filter(|(path, _)| path.contains("/events"));
    let shown = |(_, event): &(String, Value)| {
        [&event["reason"], &event["regarding"]["uid"]].map(|text| text.as_str().unwrap_or_default().to_owned())
    };
    let expected = [["HandOverAsked", "u"], ["NoLiveCandidate", "before"]].map(|event| event.map(str::to_owned));
    assert_eq!(events.map(shown).collect::<BTreeSet<_>>(), expected.into());
}

#[tokio::test(start_paused = true)]
async fn a_write_of_the_lease_that_fails_is_neither_counted_as_a_result_nor_reported_by_an_event() {
    let (executor, received) = executor(|_| true);
    let metrics = executor.metrics.clone();
    let current = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder: Set::To("a".to_owned()), ..LeaseWrite::new(Purpose::Prefer, &current) };
    let (candidate, criterion) = (CandidateKey::hustings("a"), Some(Criterion::Priority));
    let preferred = Event::Preferred { holder: "b".into(), candidate, criterion, asked_by: None };
    let actions = vec![Action::Send { request: Request::write_lease("l", write), event: Some(preferred) }];
    executor.carry_out(LeaseKey::new("n", "l"), actions, current.uid).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(received.load(Ordering::SeqCst), 1, "no event is sent");
    assert_eq!(metrics.elections.get_or_create(&ElectionResult::Preferred.label()).get(), 0);
    assert_eq!(metrics.preemptions.get_or_create(&PreferenceReason::Priority.label()).get(), 0);
}

#[tokio::test]
async fn a_failed_request_is_counted_by_its_kind_and_error() {
    let (executor, _) = executor(|_| true);
    let (key, actions, uid) = pings("n", 3);
    let metrics = executor.metrics.clone();
    executor.carry_out(key, actions, uid).await;
    let labels = FailureLabels::new(metrics::RequestKind::Ping, metrics::FailureReason::Forbidden);
    assert_eq!(metrics.request_failures.get_or_create(&labels).get(), 3);
    assert_eq!(metrics.requests.get_or_create(&metrics::RequestKind::Ping.label()).get(), 3);
    assert_eq!(metrics.pings.get_or_create(&Kind::Hustings.label()).get(), 0, "no ping was sent");
}

#[tokio::test]
async fn each_ping_that_was_sent_is_counted() {
    let executor = executor_over(&recording_server(|_| Duration::ZERO).0);
    let (key, actions, uid) = pings("n", 3);
    executor.clone().carry_out(key, actions, uid).await;
    assert_eq!(executor.metrics.pings.get_or_create(&Kind::Hustings.label()).get(), 3);
}

#[tokio::test(start_paused = true)]
async fn outcomes_come_in_the_order_of_their_actions_and_count_from_the_sending() {
    let latency = |name: &str| Duration::from_secs(if name == "slow" { 3 } else { 1 });
    let (client, _) = recording_server(latency);
    let (clock, metrics) = (TokioClock::shared(), ControllerMetrics::new().0);
    let (publisher, _) = EventPublisher::new(client.clone(), "test", metrics.clone());
    let store = Kubernetes::new(client.clone(), Arc::clone(&clock), Duration::from_mins(1));
    let executor = Executor::new(store, Arc::clone(&clock), publisher, metrics);
    let began = clock.now();
    let read = |name: &str| Request::ReadCandidate { candidate: CandidateKey::hustings(name) }.into();
    let observations =
        executor.carry_out(LeaseKey::new("n", "l"), vec![read("slow"), read("fast")], String::new()).await;
    let shown = observations.into_iter().map(|observation| match observation {
        Observation::Candidate { record, source: Source::Read { sent } } => (record.name, sent.since(began).as_secs()),
        other => panic!("{other:?}"),
    });
    assert_eq!(shown.collect::<Vec<_>>(), [("slow".to_owned(), 0), ("fast".to_owned(), 0)]);
}

#[tokio::test]
async fn a_status_is_conditional_on_the_uid_and_keeps_the_times_of_its_conditions() {
    let (client, received) = recording_server(|_| Duration::ZERO);
    let condition = json!({ "type": "Leading", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "", "message": "" });
    let former = serde_json::from_value(json!({ "conditions": [condition] })).unwrap();
    let status = RecordedStatus {
        leading: Condition { status: Truth::False, reason: "Outranked".to_owned() },
        ..RecordedStatus::default()
    };
    let candidate = CandidateKey::hustings("a");
    let (key, transitions) = (LeaseKey::new("n", "l"), Transitions::read(&former));
    let write = StatusWrite { key, candidate, uid: "u".into(), status, transitions };
    executor_over(&client).write_status(write).await;
    let (path, body) = received.lock().unwrap().remove(0);
    assert!(path.ends_with("/namespaces/n/leasecandidates/a/status"), "{path}");
    assert_eq!(body["metadata"], json!({ "uid": "u" }));
    assert_eq!(body["status"]["conditions"][2]["lastTransitionTime"], "2026-01-02T03:04:05Z");
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_conflict_takes_a_slot_too() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let cluster = silent_cluster(move |sent| {
        let is_read = sent.method == Method::GET;
        counted.fetch_add(usize::from(is_read), Ordering::SeqCst);
        (!is_read).then(|| failure(409))
    });
    let executor = executor_over(&cluster.leases);
    for _ in 0..1000 {
        spawn(&executor, withdraw());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let reads = reads.load(Ordering::SeqCst);
    assert!((1..=CONCURRENT_REQUESTS / 2).contains(&reads), "{reads} reads of one namespace hang");
}

#[tokio::test(start_paused = true)]
async fn a_listed_lease_that_keeps_no_annotation_is_written_at_doubling_intervals() {
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "l", "namespace": "n", "uid": "u", "resourceVersion": "7" },
        "spec": { "holderIdentity": "a", "leaseDurationSeconds": 15 } });
    let (cluster, requests) = cluster(move |_| Some((200, lease.clone())));
    let listed = AssistedLease { namespace: "n".to_owned(), name: "l".to_owned(), options: AssistOptions::default() };
    let executor = executor_over(&cluster.leases);
    let mut list = AssistList::new(&[listed], None, Stores::default(), executor);
    let mut written_at = Vec::new();
    for second in (0..3_600).step_by(10) {
        list.round().await;
        if requests.lock().unwrap().drain(..).any(|sent| sent.method == Method::PATCH) {
            written_at.push(second);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    assert_eq!(written_at, [0, 10, 30, 70, 150, 310, 630, 1_270, 2_550]);
}
