//! Orders carried out before a server that counts what it is asked.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use hustings_client::clock::SystemClock;
use hustings_core::model::WireTime;
use kube::Client;
use kube::client::Body;

use super::*;

fn order(preferred_holder: Set<String>) -> Order {
    let current = LeaseRecord { resource_version: 1, ..LeaseRecord::default() };
    let write = LeaseWrite { preferred_holder, ..LeaseWrite::new(Purpose::Prefer, &current) };
    let actions = vec![Action::WriteLease { write, event: None }];
    Order { key: LeaseKey::new("n", "l"), actions, current: Some(current), former: HashMap::new() }
}

/// A thousand requests of one Lease.
fn crowd(action: impl Fn(Arc<str>) -> Action) -> Order {
    let actions = (0..1000).map(|number| action(format!("c{number}").into())).collect();
    Order { actions, ..order(Set::Keep) }
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
    let (client, clock, metrics) = (Client::new(service, "n"), SystemClock::shared(), Metrics::new().0);
    let (publisher, _) = Publisher::new(client.clone(), "test", metrics.clone());
    let requests = Requests::new(client, Arc::clone(&clock), Duration::from_mins(1));
    (Executor::new(requests, clock, publisher, metrics), asked)
}

#[tokio::test(start_paused = true)]
async fn a_few_holders_are_asked_to_hand_over_at_a_time_and_nothing_else_waits_for_them() {
    let (executor, asked) = executor(|_| true);
    let asked = || asked.swap(0, Ordering::SeqCst);
    for _ in 0..3 * HAND_OVERS_AT_A_TIME {
        tokio::spawn(executor.clone().carry_out(order(Set::To("b".to_owned()))));
    }
    tokio::time::sleep(HEAD_START / 2).await;
    assert_eq!(asked(), HAND_OVERS_AT_A_TIME);
    executor.clone().carry_out(order(Set::Remove)).await;
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
        tokio::spawn(executor.clone().carry_out(order(Set::To("b".to_owned()))));
    }
    tokio::time::sleep(LONGEST_QUEUE + Duration::from_millis(2)).await;
    assert_eq!(asked.load(Ordering::SeqCst), HAND_OVERS_AT_A_TIME + 1);
}

#[tokio::test(start_paused = true)]
async fn a_crowd_at_one_lease_leaves_places_for_the_others() {
    let (executor, asked) = executor(|_| false);
    let asked = || asked.swap(0, Ordering::SeqCst);
    let status = |name: Arc<str>| Action::PatchStatus { uid: name.clone(), name, status: RecordedStatus::default() };
    let ping = |name: Arc<str>| Action::Ping { uid: name.clone(), name, ping_time: WireTime::default() };
    for (crowd, places) in [(crowd(status), PATIENT_OF_ONE_LEASE), (crowd(ping), URGENT_OF_ONE_LEASE)] {
        let one = Order { actions: crowd.actions[..1].to_vec(), ..order(Set::Keep) };
        tokio::spawn(executor.clone().carry_out(crowd));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(asked(), places);
        tokio::spawn(executor.clone().carry_out(one));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(asked(), 1, "another Lease's is sent at once");
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_that_hangs_holds_up_no_other_of_its_lease() {
    let (executor, asked) = executor(|number| number > 0);
    let status = |name: Arc<str>| Action::PatchStatus { uid: name.clone(), name, status: RecordedStatus::default() };
    tokio::spawn(executor.carry_out(crowd(status)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1000);
}
