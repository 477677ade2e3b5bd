//! The events that only the leading controller reports.

use std::sync::Mutex;

use hustings_core::model::History;

use super::*;

/// The events that the dispatcher publishes from now on.
fn record_events(dispatcher: &mut Dispatcher) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let received = Arc::clone(&events);
    let server = tower::service_fn(move |request: Request<Body>| {
        let received = Arc::clone(&received);
        async move {
            let event = request.into_body().collect_bytes().await.unwrap().to_vec();
            received.lock().unwrap().push(String::from_utf8_lossy(&event).into_owned());
            Ok::<_, Infallible>(Response::new(Body::from(event)))
        }
    });
    let metrics = dispatcher.parts.reporting.measurements.metrics.clone();
    let (publisher, publishing) = EventPublisher::new(Client::new(server, "n"), "test", metrics);
    tokio::spawn(publishing);
    dispatcher.parts.reporting.publisher = publisher;
    events
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_becomes_the_leader_reports_each_candidate_with_an_invalid_lease_name() {
    let mut dispatcher = dispatcher(false);
    let events = record_events(&mut dispatcher);
    dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("No Lease")));
    tokio::time::sleep(5 * TICK).await;
    assert_eq!(events.lock().unwrap().len(), 0, "the leader reports it");
    dispatcher.set_leading(true);
    tokio::time::sleep(5 * TICK).await;
    assert_eq!(events.lock().unwrap().len(), 1);
    dispatcher.handle(WatchEvent::Candidate(key("b"), candidate("No Lease")));
    tokio::time::sleep(5 * TICK).await;
    let events = events.lock().unwrap();
    assert_eq!(events.len(), 2, "the leader reports a new one at once");
    // `kubectl describe` finds the events of an object by its UID.
    assert!(events.iter().all(|event| event.contains("InvalidLeaseName") && event.contains(r#""uid":"u""#)));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_with_an_invalid_lease_name_that_is_gone_or_has_been_replaced_is_not_reported() {
    for next in [WatchEvent::CandidateRemoved(key("a")), WatchEvent::Candidate(key("a"), candidate("l"))] {
        let mut dispatcher = dispatcher(false);
        let events = record_events(&mut dispatcher);
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("No Lease")));
        dispatcher.handle(next);
        dispatcher.set_leading(true);
        tokio::time::sleep(5 * TICK).await;
        assert_eq!(*events.lock().unwrap(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leading_controller_reports_a_hand_over_that_nobody_asked_for() {
    for leads in [true, false] {
        let mut dispatcher = dispatcher(leads);
        let events = record_events(&mut dispatcher);
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        let ending = "7 a from 2026-11-24T19:40:01.500Z to 2026-11-24T19:45:52.731Z: handed over (connection closed)";
        let before =
            LeaseRecord { preferred_holder: Some("b".to_owned()), transitions: 7, ..LeaseRecord::clone(&held_lease()) };
        let after = LeaseRecord {
            resource_version: 7,
            holder: Some("b".to_owned()),
            transitions: 8,
            history: History::read(ending),
            ..LeaseRecord::clone(&held_lease())
        };
        for record in [before, after] {
            dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(record)));
        }
        tokio::time::sleep(5 * TICK).await;
        let reported = events.lock().unwrap().iter().filter(|event| event.contains("HandedOver")).count();
        assert_eq!(reported, usize::from(leads));
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_leading_controller_reports_that_a_candidate_has_taken_up_its_grant() {
    for leads in [true, false] {
        let mut dispatcher = dispatcher(leads);
        let events = record_events(&mut dispatcher);
        dispatcher.handle(WatchEvent::Candidate(key("a"), candidate("l")));
        let granted = LeaseRecord { session: SessionMark::Open, ..LeaseRecord::clone(&held_lease()) };
        let held = LeaseRecord { resource_version: 7, ..LeaseRecord::clone(&held_lease()) };
        for record in [granted, held] {
            dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(record)));
        }
        tokio::time::sleep(5 * TICK).await;
        let events = events.lock().unwrap();
        let reported = events.iter().filter(|event| event.contains("a became leader")).count();
        assert_eq!(reported, usize::from(leads));
        assert!(events.iter().all(|event| event.contains(r#""reportingController":"hustings-controller""#)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_that_begins_in_a_recreated_lease_is_reported_on_the_new_one() {
    let mut dispatcher = dispatcher(true);
    let events = record_events(&mut dispatcher);
    for name in ["a", "b"] {
        let mut watched = candidate("l");
        Arc::make_mut(&mut watched.record).name = name.to_owned();
        dispatcher.handle(WatchEvent::Candidate(key(name), watched));
    }
    for (uid, holder, token, version) in [("old", "a", 1, 6), ("new", "b", 2, 7)] {
        let record = LeaseRecord {
            uid: uid.to_owned(),
            holder: Some(holder.to_owned()),
            token: Some(token),
            resource_version: version,
            ..LeaseRecord::clone(&held_lease())
        };
        dispatcher.handle(WatchEvent::Lease(LeaseKey::new("n", "l"), Arc::new(record)));
    }
    tokio::time::sleep(5 * TICK).await;
    let events = events.lock().unwrap();
    let began: Vec<_> = events.iter().filter(|event| event.contains("became leader")).collect();
    assert_eq!(began.len(), 1, "{events:?}");
    assert!(began[0].contains("b became leader") && began[0].contains(r#""uid":"new""#), "{began:?}");
}
