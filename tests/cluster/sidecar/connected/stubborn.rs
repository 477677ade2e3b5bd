//! A client that neither reads nor closes.

use hustings_controlplane::shared;

use super::super::beside::Sidecar;
use super::TERM;
use crate::replica::{lease, until};

/// The lease duration is short enough to wait for, and the stop grace is 25 s.
const SHORT: [&str; 5] =
    ["--while-connected", "--direct", "--lease-duration=15s", "--renew-deadline=12s", "--retry-period=300ms"];

#[tokio::test]
async fn a_client_that_ignores_stopping_lets_the_lease_expire_and_keeps_its_sidecar_from_standing() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("stubborn").await.unwrap();
    let stubborn = Sidecar::start(&plane, &namespace, "stubborn", &[&SHORT[..], &["--key=0"]].concat()).await;
    let mut events = stubborn.events("/term").await;
    let leads = async || (stubborn.is_leader().await == 200).then_some(());
    until("it leads", || stubborn.log(), leads).await;

    let better = Sidecar::start(&plane, &namespace, "better", &[&SHORT[..], &["--key=1"]].concat()).await;
    let mut of_better = better.events("/term").await;
    let asked = async || stubborn.log().contains("waiting until the client closes").then_some(());
    until("it is asked to stop", || stubborn.log(), asked).await;
    assert_eq!(stubborn.standing().await["identity"], "stubborn", "other requests are served");
    let held = lease(&plane, &namespace, "work").await;
    assert_eq!(held["spec"]["holderIdentity"], "stubborn", "it renews while its client may stop");

    let led = of_better.named("leading").await;
    assert!(stubborn.log().contains("the work did not stop within its grace"), "{}", stubborn.log());
    assert!(!stubborn.log().contains("gave the Lease up"), "it expired: {}", stubborn.log());
    assert!(led.data["token"].as_u64() > Some(0));

    // The Lease is free, and the sidecar with the old client does not stand.
    drop(of_better);
    let free = async || (lease(&plane, &namespace, "work").await["spec"]["holderIdentity"] == "").then_some(());
    until("the Lease is free", || better.log(), free).await;
    assert_eq!(stubborn.get("/term").await.code, 409);
    assert_eq!(lease(&plane, &namespace, "work").await["spec"]["holderIdentity"], "");
    assert_eq!(stubborn.is_leader().await, 503);

    // The client finds all events, in their order, when it reads.
    for name in TERM {
        assert_eq!(events.next().await.unwrap().name, name);
    }
    drop(events);
    stubborn.events("/term").await.named("leading").await;
}
