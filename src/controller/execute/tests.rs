//! Orders carried out before a server that counts what it is received.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Response};
use hustings_client::clock::SystemClock;
use hustings_core::election::Source;
use hustings_core::model::{CandidateKey, WireTime};
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;

/// The arguments of `carry_out`.
type Call = (LeaseKey, Vec<Action>, Option<LeaseRecord>);

/// Withdraws the request to hand over.
fn withdraw() -> Call {
    let current = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder: Set::Remove, ..LeaseWrite::new(Purpose::Prefer, &current) };
    (LeaseKey::new("n", "l"), vec![Action::WriteLease { write, event: None }], Some(current))
}

/// Pings of `count` candidates of one Lease.
fn pings(namespace: &str, count: usize) -> Call {
    let ping = |number| {
        let name: Arc<str> = format!("c{number}").into();
        Action::Ping { candidate: CandidateKey::hustings(&name), uid: name, ping_time: WireTime::default() }
    };
    (LeaseKey::new(namespace, "l"), (0..count).map(ping).collect(), None)
}

fn spawn(executor: &Executor, (key, actions, current): Call) {
    tokio::spawn(executor.clone().carry_out(key, actions, current));
}

/// An executor, and the number of requests that its server has received. The server answers a request if `answers` is
/// true for its number, counted from 0.
fn executor(answers: fn(usize) -> bool) -> (Executor, Arc<AtomicUsize>) {
    let received = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn({
        let received = Arc::clone(&received);
        move |_: http::Request<Body>| {
            let number = received.fetch_add(1, Ordering::SeqCst);
            async move {
                if !answers(number) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap())
            }
        }
    });
    (executor_over(Client::new(service, "n")), received)
}

fn executor_over(client: Client) -> Executor {
    let (clock, metrics) = (SystemClock::shared(), Metrics::new().0);
    let (publisher, _) = Publisher::new(client.clone(), "test", metrics.clone());
    let store = Kubernetes::new(client.clone(), Arc::clone(&clock), Duration::from_mins(1));
    Executor::new(store, client, clock, publisher, metrics)
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
    let (key, actions, current) = pings("n", 1);
    let outcomes = tokio::time::timeout(2 * SLOT_TIMEOUT, executor.carry_out(key, actions, current)).await.unwrap();
    assert!(matches!(&outcomes[..], [Observation::Failed { .. }]), "{outcomes:?}");
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
    let (key, actions, current) = pings("n", 1);
    executor.carry_out(key, actions, current).await;
    assert!(futures::FutureExt::now_or_never(forbidden.notified()).is_some());
}

#[tokio::test]
async fn an_object_that_a_write_reports_missing_is_read() {
    let service = tower::service_fn(|request: http::Request<Body>| {
        let parts: Vec<&str> = request.uri().path().split('/').collect();
        let (group, kind, name) = (parts[2], parts[6], parts[7]);
        let (code, body) = if request.method() == Method::GET {
            (200, json!({ "metadata": { "name": name, "uid": "u", "resourceVersion": "7" } }))
        } else {
            let details = json!({ "name": name, "group": group, "kind": kind });
            (404, json!({ "kind": "Status", "reason": "NotFound", "details": details, "code": 404 }))
        };
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let executor = executor_over(Client::new(service, "n"));
    let (candidate, uid): (_, Arc<str>) = (CandidateKey::hustings("c"), "u".into());
    let (key, mut actions, current) = withdraw();
    actions.insert(0, Action::Ping { candidate: candidate.clone(), uid: uid.clone(), ping_time: WireTime::default() });
    actions.insert(0, Action::DeleteCandidate { candidate, uid, resource_version: 7 });
    let observations = executor.carry_out(key, actions, current).await;
    let [deleted, pinged, written] = &observations[..] else { panic!("{observations:?}") };
    for observation in [deleted, pinged] {
        assert!(matches!(observation, Observation::Candidate { source: Source::Read { .. }, .. }), "{observation:?}");
    }
    assert!(matches!(written, Observation::Lease { source: Source::Read { .. }, .. }), "{written:?}");
}

#[test]
fn each_result_of_an_election_has_a_count_of_its_own() {
    let record = LeaseRecord::as_created();
    let write = |purpose, preferred_holder| LeaseWrite { preferred_holder, ..LeaseWrite::new(purpose, &record) };
    let writes = [
        (write(Purpose::Grant, Set::Remove), metrics::Request::Grant, ElectionResult::Granted),
        (write(Purpose::Prefer, Set::To("a".to_owned())), metrics::Request::Prefer, ElectionResult::Preferred),
        (write(Purpose::Prefer, Set::Remove), metrics::Request::Withdraw, ElectionResult::Withdrawn),
        (write(Purpose::Hold, Set::Keep), metrics::Request::Hold, ElectionResult::OnHold),
    ];
    for (write, request, result) in writes {
        assert_eq!((request_of(&write), result_of(&write)), (request, Some(result)));
    }
}
