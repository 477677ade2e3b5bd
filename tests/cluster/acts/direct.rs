//! Acts in direct mode, where replicas elect among themselves, without candidates and without a controller.

use super::{Done, LEASE, act};
use crate::controller::support::World;
use crate::replica::{Replica, assert_one_at_a_time, campaign};

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_and_a_pause_work_without_a_controller() {
    let world = World::new("acts-direct").await;
    let replica = |name: &str| {
        let command = campaign(&world.plane.kubeconfig(), &world.namespace, LEASE, name, &["--direct"]);
        Replica::start(&world.plane, &world.namespace, name, command)
    };
    let run = async |arguments: &[&str]| -> Done { act(&world.plane.kubeconfig(), &world.namespace, arguments).await };
    let a = replica("a");
    a.says("leading", 0).await;
    let b = replica("b");
    b.says("started", 0).await;

    let moved = run(&["transfer", LEASE, "--to", "b", "--wait"]).await;
    assert_eq!(moved.code(), 0, "{}", moved.said());
    assert_eq!(world.holder(LEASE).await.as_deref(), Some("b"));

    let paused = run(&["pause", LEASE, "--reason", "works", "--wait"]).await;
    assert_eq!(paused.code(), 0, "{}", paused.said());
    b.process.stop().await.unwrap();
    assert_eq!(world.holder(LEASE).await, None, "no replica follows during the pause");
    let resumed = run(&["resume", LEASE]).await;
    assert_eq!(resumed.code(), 0, "{}", resumed.said());
    a.says("leading", 1).await;
    assert_one_at_a_time(&[&a, &b], &[]);
}
