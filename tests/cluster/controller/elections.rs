//! Elections among candidates that the tests drive by hand, as the protocol requires.

use std::ops::Deref;
use std::time::Duration;

use hustings_controlplane::ControlPlane;
use hustings_core::model::CandidateState;
use kube::api::PostParams;

use super::peer::Peer;
use super::support::{World, eventually};

#[tokio::test]
async fn the_oldest_emulation_version_is_elected_and_every_candidate_learns_why() {
    let world = World::new("elections-first").await;
    // All candidates exist before the controller starts, however slow this machine is.
    let _newer = Peer::start(&world, "work", "a", "1.3.0").await;
    let oldest = Peer::start(&world, "work", "b", "1.1.0").await;
    let _middle = Peer::start(&world, "work", "c", "1.2.0").await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;

    let lease = world.led_by("work", &oldest.name).await;
    assert_eq!(lease.record.transitions, 1, "it was elected once: {:?}", lease.record);
    assert!(lease.record.enrolled);
    assert!(lease.reason().is_some());
    in_state(&world, "b", CandidateState::Holder).await;
    judged(&world, "a").await;
    judged(&world, "c").await;
    eventually("the status of a explains why it does not lead", || async {
        let message = world.candidate("a").await.unwrap().status.message;
        if message.contains("older emulation version") { Ok(()) } else { Err(message) }
    })
    .await;
    world.published("Normal", "b became leader").await;
    // The server's feature gate is off. The answer to the grant has shown that.
    controller.logged("the API server drops strategy and preferredHolder of Leases").await;
}

#[tokio::test]
async fn at_rest_no_request_is_sent() {
    let world = World::new("elections-rest").await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let _peers = [Peer::start(&world, "work", "a", "1.1.0").await, Peer::start(&world, "work", "b", "1.2.0").await];
    world.led_by("work", "a").await;
    judged(&world, "b").await;
    world.published("Normal", "a became leader").await;
    eventually("the controller rests", || async {
        let before = controller.requests().await;
        // Longer than the requeue interval, so that the controller decides about the Lease.
        tokio::time::sleep(Duration::from_secs(6)).await;
        let after = controller.requests().await;
        if before == after { Ok(()) } else { Err(after) }
    })
    .await;
    assert!(controller.metric(r#"hustings_requests_total{request="grant"}"#).await >= 1.0, "it has elected before");
}

#[tokio::test]
async fn a_better_candidate_that_joins_gets_the_lease_without_a_gap() {
    let world = World::new("elections-join").await;
    let controller = world.controller().await.ready().await;
    controller.leads().await;
    let standby = world.controller().await.ready().await;
    let _newer = Peer::start(&world, "work", "a", "1.2.0").await;
    let before = world.led_by("work", "a").await.record;
    let _older = Peer::start(&world, "work", "b", "1.1.0").await;
    let after = world.led_by("work", "b").await.record;
    assert_eq!(after.transitions, before.transitions + 1, "one transition per change of circumstances");
    assert_eq!(after.preferred_holder, None);
    eventually("the hand-over is counted", || async {
        let counted = controller.metric("hustings_hand_overs_total").await;
        if counted > 0.5 { Ok(()) } else { Err(counted) }
    })
    .await;
    eventually("the standby has observed it", || async {
        let log = std::fs::read_to_string(standby.process.log()).unwrap();
        if log.lines().any(|line| line.contains("a term began") && line.contains(r#""holder":"b""#)) {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await;
    assert!(standby.metric("hustings_hand_overs_total").await < 0.5, "it is counted once");
    judged(&world, "a").await;
}

/// Waits until a candidate that does not lead has a status. The controller pings it only when its rank could matter.
async fn judged(world: &World, name: &str) {
    eventually(&format!("{name} has a status"), || async {
        let state = world.candidate(name).await.ok_or("no candidate")?.record.status.state;
        state.filter(|state| *state != CandidateState::Holder).ok_or("none")
    })
    .await;
}

/// Waits until the status of a candidate has this state.
pub(crate) async fn in_state<Plane: Deref<Target = ControlPlane>>(
    world: &World<Plane>,
    name: &str,
    state: CandidateState,
) {
    eventually(&format!("{name} is {}", state.as_str()), || async {
        let candidate = world.candidate(name).await.ok_or("no candidate".to_owned())?;
        if candidate.record.status.state == Some(state) { Ok(()) } else { Err(format!("{:?}", candidate.status)) }
    })
    .await;
}

/// Posts an object unchanged: typed clients would reject the strange ones.
pub(crate) fn http_post(url: &str, object: &serde_json::Value) -> http::Request<Vec<u8>> {
    let params = PostParams::default();
    kube::core::Request::new(url).create(&params, object.to_string().into_bytes()).unwrap()
}
