//! A sidecar that is frozen beyond its validity and resumes never reports its former state as the present one.

use std::time::{Duration, Instant};

use hustings_controlplane::shared;
use serde_json::json;

use super::beside::{DIRECT, Sidecar, ask, command};

/// The lease duration, for which a successor waits.
const SHORT: [&str; 4] = ["--direct", "--lease-duration=10s", "--renew-deadline=8s", "--retry-period=300ms"];

#[tokio::test]
async fn a_resumed_sidecar_reports_on_no_endpoint_that_it_leads() {
    // The order of events after it resumes is random.
    tokio::join!(resumes(), resumes(), resumes());
}

async fn resumes() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("frozen").await.unwrap();
    let frozen = Sidecar::start(&plane, &namespace, "frozen", &SHORT).await;
    let former = frozen.leads().await;
    let mut events = frozen.events("/events").await;
    assert_eq!(events.next().await.unwrap().name, "leading");
    let other = Sidecar::start(&plane, &namespace, "other", &DIRECT).await;

    frozen.process.pause().unwrap();
    // The requests arrive while it is frozen. It answers when it resumes.
    let asked: Vec<_> = ["/", "/leader", "/leader/wait?timeout=0s", "/leader"]
        .into_iter()
        .map(|path| tokio::spawn(ask(frozen.listen, "GET", path)))
        .chain([tokio::spawn(ask(frozen.admin, "GET", "/isleader"))])
        .collect();
    let led = other.leads().await;
    assert!(led["token"].as_u64() > former["token"].as_u64());
    frozen.process.resume().unwrap();
    let thawed = Instant::now();
    for (number, answer) in asked.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert!(!answer.body.contains(&frozen.name) || !answer.body.contains("name"), "{number}: {answer:?}");
        assert!(!answer.body.contains(r#""isLeader":true"#), "{number}: {answer:?}");
        if number == 2 || number == 4 {
            assert_eq!(answer.code, 503, "{answer:?}");
        }
    }
    while thawed.elapsed() < Duration::from_secs(1) {
        let standing = frozen.standing().await;
        assert_eq!((standing["isLeader"].as_bool(), frozen.is_leader().await), (Some(false), 503));
    }
    // The stream's next event reports the end of the term.
    assert_eq!(events.next().await.unwrap().name, "stopped");
}

#[tokio::test]
async fn without_an_api_server_it_reports_leading_only_until_its_validity_ends() {
    let plane = shared().await.unwrap();
    let (link, kubeconfig) = plane.link().unwrap();
    let namespace = plane.create_namespace("alone").await.unwrap();
    // The Lease names it for almost a minute beyond its validity.
    let flags = ["--direct", "--lease-duration=60s", "--renew-deadline=4s", "--retry-period=300ms"];
    let alone = Sidecar::run(&plane, &namespace, "alone", command(&kubeconfig, &namespace, "alone", &flags)).await;
    alone.leads().await;
    let mut events = alone.events("/events").await;
    assert_eq!(events.next().await.unwrap().name, "leading");
    link.hold();
    let held = Instant::now();
    let stopped = events.next().await.unwrap();
    assert_eq!((stopped.name.as_str(), &stopped.data["isLeader"]), ("stopped", &json!(false)));
    assert!(held.elapsed() < Duration::from_secs(30), "{:?}", held.elapsed());
    assert_eq!(alone.get("/").await.body, r#"{"name":""}"#);
    assert_eq!(alone.is_leader().await, 503);
    link.release();
    assert_eq!(events.named("leading").await.data["holder"], "alone");
    assert_eq!(alone.get("/").await.body, r#"{"name":"alone"}"#);
}
