//! Tests of events in virtual time, against a server that records them.

use std::sync::Mutex;

use hustings_core::election::{Ineligible, TransferRefusal};
use hustings_core::model::{Cause, Hold, Malformed, Transfer};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::*;
use crate::base::cluster::testing::{cluster, failure, silent_cluster};
use crate::serve::metrics::FailureLabels;

/// A publisher whose server answers with this code, or not at all. The last one returns the events that it has received.
fn publisher(answer: Option<u16>) -> (EventPublisher, ControllerMetrics, impl Fn() -> Vec<Value>) {
    let received = Arc::<Mutex<Vec<Value>>>::default();
    let recorded = Arc::clone(&received);
    let cluster = silent_cluster(move |sent| {
        recorded.lock().unwrap().push(sent.body.clone());
        answer.map(|code| if code < 300 { (code, sent.body.clone()) } else { failure(code) })
    });
    let metrics = ControllerMetrics::new().0;
    let (publisher, publishing) = EventPublisher::new(cluster.leases, "hustings-1", metrics.clone());
    tokio::spawn(publishing);
    (publisher, metrics, move || received.lock().unwrap().clone())
}

fn key() -> LeaseKey {
    LeaseKey::new("n", "l")
}

fn on_hold() -> Event {
    Event::OnHold(Hold::Disagreement)
}

fn failed(metrics: &ControllerMetrics, failure: FailureReason) -> u64 {
    metrics.request_failures.get_or_create(&FailureLabels::new(RequestKind::Event, failure)).get()
}

fn malformed(annotation: &'static str, candidate: Option<(CandidateKey, Arc<str>)>) -> Event {
    Event::MalformedAct { malformed: *Malformed::new(annotation, "noon".to_owned(), String::new()), candidate }
}

#[tokio::test(start_paused = true)]
async fn each_malformed_annotation_has_its_own_event() {
    let (publisher, _, events) = publisher(Some(201));
    for annotation in ["hustings.io/pin", "hustings.io/hold-until", "hustings.io/pin"] {
        publisher.publish(&key(), "u", &malformed(annotation, None));
        sleep(2 * DELAY).await;
    }
    let received = events();
    let part = |event: &Value| json!([event["regarding"]["fieldPath"], event["series"]["count"]]);
    let (pin, hold_until) =
        ("metadata.annotations['hustings.io/pin']", "metadata.annotations['hustings.io/hold-until']");
    let expected = [json!([pin, null]), json!([hold_until, null]), json!([pin, 2])];
    assert_eq!(received.iter().map(part).collect::<Vec<_>>(), expected);
    assert!(received[1]["note"].as_str().unwrap().contains("hold-until"), "{received:?}");
    let candidate = Some((CandidateKey::hustings("a"), "of a".into()));
    publisher.publish(&key(), "u", &malformed("hustings.io/exclude", candidate));
    publisher.publish(&key(), "", &on_hold());
    sleep(2 * DELAY).await;
    let received = events().split_off(3);
    let regarding = |event: &Value| json!([event["regarding"]["kind"], event["regarding"]["uid"]]);
    let expected = [json!(["LeaseCandidate", "of a"]), json!(["Lease", null])];
    assert_eq!(received.iter().map(regarding).collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn an_event_with_another_cause_is_not_merged_into_the_series_of_an_earlier_one() {
    let (publisher, _, events) = publisher(Some(201));
    let refused = |why| Event::TransferRefused { to: Transfer::To("b".to_owned()), why };
    let (pinned, paused) = (
        refused(TransferRefusal::Ineligible(Ineligible::HolderPinned)),
        refused(TransferRefusal::OnHold(Hold::Pause("works".into()))),
    );
    for event in [&pinned, &paused, &pinned] {
        publisher.publish(&key(), "u", event);
        sleep(2 * DELAY).await;
    }
    let part = |event: &Value| json!([event["note"], event["series"]["count"]]);
    let (pinned, paused) = (pinned.to_string(), paused.to_string());
    let expected = [json!([pinned, null]), json!([paused, null]), json!([pinned, 2])];
    assert_eq!(events().iter().map(part).collect::<Vec<_>>(), expected);
}

#[tokio::test(start_paused = true)]
async fn few_series_exist_at_a_time_and_each_ends() {
    let client = cluster(|_| None).0.leases;
    let mut recorders = Recorders::new(client, "hustings-controller".into());
    for number in 0..=MOST_NOTES {
        recorders.of_note(&number.to_string());
        assert!(recorders.by_note.len() <= MOST_NOTES);
    }
    sleep(SERIES_DURATION).await;
    recorders.of_note("new");
    assert_eq!(recorders.by_note.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_published_a_second_late_and_names_the_lease_and_the_candidate() {
    let (publisher, metrics, events) = publisher(Some(201));
    publisher.publish(&key(), "u", &Event::BecameLeader { holder: CandidateKey::hustings("a") });
    let ignored =
        Event::HolderIgnoresPreferred { holder: CandidateKey::hustings("b"), preferred: CandidateKey::native("c") };
    publisher.publish(&key(), "u", &ignored);
    let (holder, candidate) = ("b".into(), CandidateKey::hustings("a"));
    let handed_over = Event::HandedOver { holder, candidate, cause: Cause::WorkEnded };
    publisher.publish(&key(), "u", &handed_over);
    sleep(DELAY / 2).await;
    assert_eq!(events(), [] as [Value; 0], "a change of holders comes first");
    sleep(DELAY).await;
    let received = events();
    let parts = |event: &Value| {
        assert_eq!((&event["regarding"]["kind"], &event["regarding"]["uid"]), (&json!("Lease"), &json!("u")));
        assert_eq!(event["reportingInstance"], "hustings-1");
        let related = &event["related"];
        json!([event["reason"], event["type"], related["apiVersion"], related["name"]])
    };
    let expected = [
        json!(["LeaderElection", "Normal", "hustings.io/v1alpha1", "a"]),
        json!([ignored.as_str(), "Warning", "coordination.k8s.io/v1beta1", "c"]),
        json!([handed_over.as_str(), "Normal", "hustings.io/v1alpha1", "a"]),
    ];
    assert_eq!(received.iter().map(parts).collect::<Vec<_>>(), expected);
    assert_eq!(metrics.requests.get_or_create(&RequestKind::Event.label()).get(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_gets_few_events_at_a_time_and_few_wait() {
    let (publisher, metrics, events) = publisher(None);
    for _ in 0..100 {
        for _ in 0..100 {
            publisher.publish(&key(), "u", &on_hold());
        }
        tokio::task::yield_now().await;
    }
    sleep(DELAY + TIMEOUT / 2).await;
    let at_once = events().len();
    assert!((1..=CONCURRENT_EVENTS).contains(&at_once), "{at_once} at a time");
    sleep(TIMEOUT * 1000).await;
    let all = events().len();
    assert!((CONCURRENT_EVENTS..=QUEUE_LIMIT).contains(&all), "{all} of 10,000 events");
    assert_eq!(failed(&metrics, FailureReason::Timeout), all as u64);
}

#[tokio::test(start_paused = true)]
async fn the_events_of_one_namespace_leave_room_for_those_of_another() {
    let (publisher, _, events) = publisher(Some(201));
    for _ in 0..2 * QUEUE_LIMIT {
        publisher.publish(&key(), "u", &on_hold());
    }
    publisher.publish(&LeaseKey::new("other", "l"), "u", &on_hold());
    sleep(DELAY * 2).await;
    let received = events();
    assert!(received.iter().any(|event| event["regarding"]["namespace"] == "other"), "{} events", received.len());
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_denied_is_counted() {
    let (publisher, metrics, _) = publisher(Some(403));
    publisher.publish(&key(), "u", &on_hold());
    sleep(DELAY * 2).await;
    assert_eq!(failed(&metrics, FailureReason::Forbidden), 1);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_lease_name_is_reported_on_its_candidate() {
    let (publisher, _, events) = publisher(Some(201));
    publisher.rejected_lease_name(&LeaseKey::new("n", "No Lease"), &CandidateKey::hustings("a"), "u");
    sleep(DELAY * 2).await;
    let received = events();
    let [event] = received.as_slice() else { panic!("{received:?}") };
    assert_eq!((&event["reason"], &event["type"]), (&json!("InvalidLeaseName"), &json!("Warning")));
    assert!(event["note"].as_str().unwrap().starts_with("leaseName \"No Lease\" is not a valid DNS subdomain"));
    let regarding = &event["regarding"];
    let parts = json!([regarding["kind"], regarding["namespace"], regarding["name"], regarding["uid"]]);
    assert_eq!(parts, json!(["LeaseCandidate", "n", "a", "u"]));
}

#[tokio::test(start_paused = true)]
async fn a_note_is_cut_to_the_length_that_the_api_server_accepts() {
    let (publisher, _, events) = publisher(Some(201));
    publisher.rejected_lease_name(&LeaseKey::new("n", &"_".repeat(1000)), &CandidateKey::hustings("a"), "u");
    let (holder, preferred) = (CandidateKey::hustings(&"\u{e9}".repeat(1000)), CandidateKey::hustings("b"));
    publisher.publish(&key(), "u", &Event::HolderIgnoresPreferred { holder, preferred });
    sleep(DELAY * 2).await;
    let received = events();
    let notes: Vec<_> = received.iter().map(|event| event["note"].as_str().unwrap()).collect();
    assert_eq!(notes.iter().map(|note| note.len() <= 1024).collect::<Vec<_>>(), [true, true], "{notes:?}");
    assert!(notes[0].starts_with("leaseName \"___") && notes[0].contains("___\"... is not a valid"), "{}", notes[0]);
}
