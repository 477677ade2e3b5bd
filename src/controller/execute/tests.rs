//! Orders carried out before a server that counts what it is asked.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, Request, Response};
use hustings_client::clock::SystemClock;
use hustings_core::model::WireTime;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;

/// What a test asks an executor to carry out.
type Order = (LeaseKey, Vec<Action>, Option<LeaseRecord>);

fn prefer(preferred_holder: Set<String>) -> Order {
    let current = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder, ..LeaseWrite::new(Purpose::Prefer, &current) };
    (LeaseKey::new("n", "l"), vec![Action::WriteLease { write, event: None }], Some(current))
}

/// Pings of `count` candidates of one Lease.
fn pings(namespace: &str, count: usize) -> Order {
    let ping = |number| {
        let name: Arc<str> = format!("c{number}").into();
        Action::Ping { uid: Arc::clone(&name), name, ping_time: WireTime::default() }
    };
    (LeaseKey::new(namespace, "l"), (0..count).map(ping).collect(), None)
}

fn spawn(executor: &Executor, (key, actions, current): Order) {
    tokio::spawn(executor.clone().carry_out(key, actions, current));
}

/// An executor over a server that counts what it is asked and answers as `answers` says by that number, and what it counts.
fn executor(answers: fn(usize) -> bool) -> (Executor, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn({
        let asked = Arc::clone(&asked);
        move |_: Request<Body>| {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            async move {
                if !answers(number) {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::builder().status(403).body(Body::empty()).unwrap())
            }
        }
    });
    (executor_over(Client::new(service, "n")), asked)
}

fn executor_over(client: Client) -> Executor {
    let (clock, metrics) = (SystemClock::shared(), Metrics::new().0);
    let (publisher, _) = Publisher::new(client.clone(), "test", metrics.clone());
    let requests = Requests::new(client, Arc::clone(&clock), Duration::from_mins(1));
    Executor::new(requests, clock, publisher, metrics)
}

#[tokio::test(start_paused = true)]
async fn a_few_holders_are_asked_to_hand_over_at_a_time_and_nothing_else_waits_for_them() {
    let (executor, asked) = executor(|_| true);
    let asked = || asked.swap(0, Ordering::SeqCst);
    for _ in 0..3 * HAND_OVERS_AT_A_TIME {
        spawn(&executor, prefer(Set::To("b".to_owned())));
    }
    tokio::time::sleep(HEAD_START / 2).await;
    assert_eq!(asked(), HAND_OVERS_AT_A_TIME);
    let (key, actions, current) = prefer(Set::Remove);
    executor.clone().carry_out(key, actions, current).await;
    assert_eq!(asked(), 1, "what is taken back is taken back at once");
    tokio::time::sleep(HEAD_START).await;
    assert_eq!(asked(), HAND_OVERS_AT_A_TIME);
    tokio::time::sleep(HEAD_START).await;
    assert_eq!(asked(), HAND_OVERS_AT_A_TIME);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_keeps_nobody_waiting_for_long() {
    let (executor, asked) = executor(|_| false);
    for _ in 0..=HAND_OVERS_AT_A_TIME {
        spawn(&executor, prefer(Set::To("b".to_owned())));
    }
    tokio::time::sleep(LONGEST_QUEUE + Duration::from_millis(2)).await;
    assert_eq!(asked.load(Ordering::SeqCst), HAND_OVERS_AT_A_TIME + 1);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_at_one_lease_leaves_slots_for_its_namespace() {
    let (executor, asked) = executor(|_| false);
    let asked = || asked.swap(0, Ordering::SeqCst);
    spawn(&executor, pings("n", 1000));
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(asked(), OF_ONE_LEASE_AT_A_TIME);
    spawn(&executor, pings("n", 1));
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(asked(), 1, "another Lease's is sent at once");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_hangs_leaves_slots_for_the_others() {
    let (executor, asked) = executor(|_| false);
    let asked = || asked.swap(0, Ordering::SeqCst);
    for _ in 0..1000 {
        spawn(&executor, pings("n", 1));
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!((10..REQUESTS_AT_A_TIME / 2).contains(&asked()));
    spawn(&executor, pings("other", 1));
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(asked(), 1, "another namespace's is sent at once");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gets_no_slot_in_time_has_failed() {
    let (executor, asked) = executor(|_| false);
    for _ in 0..1000 {
        spawn(&executor, pings("n", 1));
    }
    tokio::time::sleep(Duration::from_millis(2)).await;
    let sent = asked.load(Ordering::SeqCst);
    let (key, actions, current) = pings("n", 1);
    let outcomes = tokio::time::timeout(2 * LONGEST_WAIT, executor.carry_out(key, actions, current)).await.unwrap();
    assert!(matches!(&outcomes[..], [Observation::Failed { .. }]), "{outcomes:?}");
    assert_eq!(asked.load(Ordering::SeqCst), sent, "it was not sent");
}

#[tokio::test(start_paused = true)]
async fn one_request_that_hangs_holds_up_no_other_of_its_lease() {
    let (executor, asked) = executor(|number| number > 0);
    spawn(&executor, pings("n", 1000));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1000);
}

#[tokio::test]
async fn an_object_that_a_write_is_told_to_miss_is_read_before_it_is_believed_to_be_gone() {
    let service = tower::service_fn(|request: Request<Body>| {
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
    let (name, uid): (Arc<str>, Arc<str>) = ("c".into(), "u".into());
    let (key, mut actions, current) = prefer(Set::Remove);
    actions.insert(0, Action::Ping { name: name.clone(), uid: uid.clone(), ping_time: WireTime::default() });
    actions.insert(0, Action::DeleteCandidate { name, uid, resource_version: 7 });
    let observations = executor.carry_out(key, actions, current).await;
    let [deleted, pinged, written] = &observations[..] else { panic!("{observations:?}") };
    for observation in [deleted, pinged] {
        assert!(matches!(observation, Observation::Candidate { source: Source::Read { .. }, .. }), "{observation:?}");
    }
    assert!(matches!(written, Observation::Lease { source: Source::Read { .. }, .. }), "{written:?}");
}

#[test]
fn the_writes_of_each_result_of_an_election_are_counted_apart() {
    let record = LeaseRecord::as_created();
    let write = |purpose, preferred_holder| LeaseWrite { preferred_holder, ..LeaseWrite::new(purpose, &record) };
    let writes = [
        (write(Purpose::Grant, Set::Remove), metrics::Request::Grant, Verdict::Granted),
        (write(Purpose::Prefer, Set::To("a".to_owned())), metrics::Request::Prefer, Verdict::Preferred),
        (write(Purpose::Prefer, Set::Remove), metrics::Request::Withdraw, Verdict::Withdrawn),
        (write(Purpose::Hold, Set::Keep), metrics::Request::Hold, Verdict::OnHold),
    ];
    for (write, request, verdict) in writes {
        assert_eq!((request_of(&write), verdict_of(&write)), (request, Some(verdict)));
    }
}
