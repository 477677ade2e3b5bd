//! Each endpoint, and a hand-over observed from both sides.

use std::time::{Duration, Instant};

use hustings_controlplane::shared;
use serde_json::json;

use super::beside::{DIRECT, Sidecar, ask};
use crate::http::{self, send};
use crate::installed::installed;
use crate::replica::{candidate_account, lease, token, until};

#[tokio::test]
async fn each_endpoint_answers_for_the_holder_and_for_the_others() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("endpoints").await.unwrap();
    let one = Sidecar::start(&plane, &namespace, "one", &DIRECT).await;
    let standing = one.leads().await;
    let two = Sidecar::start(&plane, &namespace, "two", &DIRECT).await;
    let seen = async || (two.standing().await["holder"] == "one").then_some(());
    until("two sees the holder", || two.log(), seen).await;

    // The classic answer is exactly this text.
    for sidecar in [&one, &two] {
        let answer = sidecar.get("/").await;
        assert_eq!((answer.code, answer.body.as_str()), (200, r#"{"name":"one"}"#));
        assert!(answer.headers.contains("content-type: application/json"), "{answer:?}");
        assert!(answer.headers.contains("cache-control: no-store"), "{answer:?}");
    }
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!(standing["token"].to_string(), token(&held));
    assert_eq!(standing["term"], held["spec"]["leaseTransitions"]);
    assert_eq!((&standing["holder"], &standing["identity"]), (&json!("one"), &json!("one")));
    let valid = standing["validForSeconds"].as_f64().unwrap();
    assert!(valid > 0.0 && valid <= 50.0, "{standing}");
    assert_eq!(
        two.get("/leader").await.body,
        r#"{"holder":"one","identity":"two","isLeader":false,"term":null,"token":null,"validForSeconds":0.0}"#
    );
    assert_eq!((one.is_leader().await, two.is_leader().await), (200, 503));

    // The unit tests of the routes have the waits, other methods and other paths.
    assert_eq!((one.get("/leader/wait").await.code, two.get("/leader/wait?timeout=700ms").await.code), (200, 503));
    for (address, path) in [(one.listen, "/livez"), (one.listen, "/isleader"), (one.admin, "/leader")] {
        assert_eq!(ask(address, "GET", path).await.code, 404, "{path}");
    }

    // For the kubelet and for Prometheus.
    assert_eq!(ask(one.admin, "GET", "/livez").await.code, 200);
    assert_eq!(ask(one.admin, "GET", "/readyz").await.code, 200);
    let metrics = ask(one.admin, "GET", "/metrics").await.body;
    assert!(metrics.contains(&format!(r#"hustings_lease_held{{lease="{namespace}/work"}} 1"#)), "{metrics}");
}

#[tokio::test]
async fn every_client_learns_of_the_end_of_a_term_before_the_next_begins() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("streams").await.unwrap();
    let flags = [&DIRECT[..], &["--handover-delay=5s"]].concat();
    let one = Sidecar::start(&plane, &namespace, "one", &flags).await;
    let former = one.leads().await;
    let two = Sidecar::start(&plane, &namespace, "two", &flags).await;
    let mut of_one = one.events("/events").await;
    let mut of_two = two.events("/events").await;
    let leading = of_one.next().await.unwrap();
    assert_eq!((leading.name.as_str(), &leading.data["token"]), ("leading", &former["token"]), "the state comes first");
    assert!(of_two.next().await.unwrap().name == "observed");
    let observing = async || (two.standing().await["holder"] == "one").then_some(());
    until("two observes one", || two.log(), observing).await;
    let waiting = tokio::spawn({
        let (address, path) = (two.listen, "/leader/wait?timeout=1m");
        async move { ask(address, "GET", path).await }
    });

    let stopping = tokio::spawn(async move {
        let stopped = of_one.next().await.unwrap();
        let stopped_at = Instant::now();
        // The sidecar keeps the Lease while the program has time to notice.
        let after = of_one.next().await;
        (stopped, stopped_at, after)
    });
    assert_eq!(one.process.stop().await.unwrap().code(), Some(0), "{}", one.log());
    let (stopped, stopped_at, after) = stopping.await.unwrap();
    assert_eq!(stopped.name, "stopped");
    assert_eq!(
        stopped.data,
        json!({"holder": null, "identity": "one", "isLeader": false, "term": null, "token": null, "validForSeconds": 0.0})
    );
    assert!(stopped.id.parse::<u64>().unwrap() > leading.id.parse().unwrap());
    assert!(after.is_none_or(|event| event.name == "observed"));
    let led = of_two.named("leading").await;
    // Measured from the arrival of the event, which a busy machine delays: at least one of the five seconds must pass.
    assert!(stopped_at.elapsed() >= Duration::from_secs(1), "two led {:?} after one had stopped", stopped_at.elapsed());
    assert!(led.data["token"].as_u64() > former["token"].as_u64());
    let answer = waiting.await.unwrap();
    assert_eq!((answer.code, &answer.json()["token"]), (200, &led.data["token"]));

    // When the sidecar stops, waiting clients get an answer, and streams end.
    let three = Sidecar::start(&plane, &namespace, "three", &DIRECT).await;
    let mut of_three = three.events("/events").await;
    // Its request comes before those below, so the sidecar knows of it when it stops.
    let waiting = send(three.listen, "GET", "/leader/wait?timeout=5m").await;
    let seen = async || (three.standing().await["holder"] == "two").then_some(());
    until("three sees the holder", || three.log(), seen).await;
    assert_eq!(three.process.stop().await.unwrap().code(), Some(0));
    assert_eq!(http::answer(waiting).await.code, 503);
    while of_three.next().await.is_some() {}
}

#[tokio::test]
async fn among_candidates_the_oldest_version_leads_and_the_holder_hands_over_to_a_better_one() {
    let plane = installed().await;
    let namespace = plane.create_namespace("coordinated").await.unwrap();
    let account = candidate_account(&plane, &namespace, "program").await;
    let start = async |name: &str, version: &str| {
        let command = super::beside::command(&account, &namespace, name, &[&format!("--binary-version={version}")]);
        Sidecar::run(&plane, &namespace, name, command).await
    };
    let newer = start("newer", "1.5.0").await;
    let former = newer.leads().await;
    let mut events = newer.events("/events").await;
    assert_eq!(events.next().await.unwrap().name, "leading");
    let older = start("older", "1.4.2").await;
    let other = start("other", "1.6.0").await;
    let led = older.leads().await;
    assert!(led["token"].as_u64() > former["token"].as_u64(), "{led} {former}");
    assert_eq!(events.next().await.unwrap().name, "stopped");
    for sidecar in [&newer, &other] {
        let seen = async || (sidecar.get("/").await.body == r#"{"name":"older"}"#).then_some(());
        until("every client gets the same", || sidecar.log(), seen).await;
        assert_eq!(sidecar.is_leader().await, 503);
    }
    assert_eq!(older.is_leader().await, 200);
    for sidecar in [older, newer, other] {
        assert_eq!(sidecar.process.stop().await.unwrap().code(), Some(0), "{}", sidecar.log());
    }
}
