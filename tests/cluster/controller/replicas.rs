//! Several controllers, one of which elects.

use super::peer::Peer;
use super::support::{World, eventually};

#[tokio::test]
async fn a_standby_is_ready_and_takes_over_at_once_when_the_other_stops() {
    let world = World::new("replicas-stop").await;
    // Longer than any wait in this test.
    let flags = ["--leader-elect-lease-duration=300s"];
    let first = world.controller_with(&flags).await.ready().await;
    first.leads().await;
    let second = world.controller_with(&flags).await.ready().await;
    assert!(second.metric("hustings_leading").await < 0.5, "only one leads");
    let token = own_lease_token(&world).await;

    let status = first.process.stop().await.unwrap();
    assert_eq!(status.code(), Some(0), "a graceful stop is a success");
    let released = world.lease("hustings-controller").await.unwrap().record;
    assert!(released.is_given_up() || released.token > token, "the own Lease was not released: {released:?}");
    second.leads().await;
    assert!(own_lease_token(&world).await > token);

    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &peer.name).await;
}

#[tokio::test]
async fn a_standby_takes_over_from_a_killed_controller_and_keeps_its_observations() {
    let world = World::new("replicas-kill").await;
    let flags =
        ["--leader-elect-lease-duration=11s", "--leader-elect-retry-period=1s", "--leader-elect-renew-deadline=8s"];
    let first = world.controller_with(&flags).await.ready().await;
    first.leads().await;
    let second = world.controller_with(&flags).await.ready().await;
    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    let before = world.led_by("work", &peer.name).await.record;

    first.process.kill().unwrap();
    second.leads().await;
    let after = world.led_by("work", &peer.name).await.record;
    assert_eq!(after.token, before.token, "a healthy holder loses nothing when the controller changes");

    let newer = Peer::start(&world, "other", "b", "1.0.0").await;
    world.led_by("other", &newer.name).await;
}

async fn own_lease_token(world: &World) -> Option<u64> {
    eventually("the own Lease has a token", || async {
        let lease = world.lease("hustings-controller").await.ok_or("no lease")?;
        lease.record.token.map(Some).ok_or("no token")
    })
    .await
}
