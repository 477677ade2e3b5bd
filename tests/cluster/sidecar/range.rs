//! The time range, as a program in any language queries it.

use hustings_controlplane::shared;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::beside::{DIRECT, Sidecar, command};
use crate::replica::{lease, until};

#[tokio::test]
async fn instants_of_the_own_term_are_contained_and_a_kept_lease_keeps_the_end_of_the_range() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("range").await.unwrap();
    let one = Sidecar::start(&plane, &namespace, "one", &[&DIRECT[..], &["--keep-on-stop"]].concat()).await;
    one.leads().await;
    let two = Sidecar::start(&plane, &namespace, "two", &DIRECT).await;

    let now = Timestamp::now();
    assert_eq!(two.get("/range").await.json(), json!({"range": null}));
    assert_eq!(at(&two, now).await, json!({"contains": false, "range": null}));
    let own = at(&one, now).await;
    assert_eq!((&own["contains"], &own["range"]["failingOpen"]), (&json!(true), &json!(false)), "{own}");
    let [start, end] =
        ["start", "end"].map(|bound| own["range"][bound].as_str().unwrap().parse::<Timestamp>().unwrap());
    assert!(start <= now && now < end && end <= now + SignedDuration::from_secs(120), "{own}");
    for instant in [start - SignedDuration::from_secs(1), Timestamp::now() + SignedDuration::from_secs(30)] {
        assert_eq!(at(&one, instant).await["contains"], false, "{instant} {own}");
    }
    let refused = one.get("/range?instant=yesterday").await;
    let reason = r#"{"error":"instant: \"yesterday\" is not a time: use a form such as 2026-11-23T09:00:00.5Z"}"#;
    assert_eq!((refused.code, refused.body.as_str()), (400, reason));

    one.process.stop().await.unwrap();
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!(held["spec"]["holderIdentity"], "one", "{held}\n{}", one.log());
    assert_ne!(held["metadata"]["annotations"]["hustings.io/session"], "open", "{held}");
}

#[tokio::test]
async fn range_continues_after_its_end_only_with_fail_open() {
    let plane = shared().await.unwrap();
    let (link, kubeconfig) = plane.link().unwrap();
    let namespace = plane.create_namespace("fail-open").await.unwrap();
    let times = ["--direct", "--lease-duration=4s", "--renew-deadline=3s", "--retry-period=300ms"];
    let start = async |lease: &str, fail_open: &str| {
        let own = [format!("--lease={lease}"), format!("--fail-open={fail_open}")];
        let flags = [&times[..], &own.each_ref().map(String::as_str)].concat();
        let command = command(&kubeconfig, &namespace, lease, &flags);
        let sidecar = Sidecar::run(&plane, &namespace, lease, command).await;
        sidecar.leads().await;
        sidecar
    };
    let (open, closed) = (start("open", "10m").await, start("closed", "0s").await);
    link.hold();
    let ended = async || (at(&closed, Timestamp::now()).await["contains"] == false).then_some(());
    until("the range ends", || closed.log(), ended).await;
    let goes_on =
        async || Some(at(&open, Timestamp::now()).await).filter(|answer| answer["range"]["failingOpen"] == true);
    let answer = until("it fails open", || open.log(), goes_on).await;
    assert_eq!(answer["contains"], true, "{answer}");
    assert_eq!((open.is_leader().await, closed.is_leader().await), (503, 503));
}

/// The answer for an instant.
async fn at(sidecar: &Sidecar, instant: Timestamp) -> Value {
    sidecar.get(&format!("/range?instant={instant}")).await.json()
}
