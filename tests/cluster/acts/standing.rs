//! Each act from outside: what it changes, what the controller reports, and what `hustings status` shows.

use serde_json::{Value, json};

use super::{LEASE, Scene};
use crate::controller::support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_withdraws_nothing_from_the_holder_and_keeps_a_better_candidate_from_the_lease_until_it_ends() {
    let mut scene = Scene::new("acts-pause", &[("a", "1.32.0")]).await;
    let paused = waited(&scene, &["pause", LEASE, "--for", "1h", "--reason", "works"]).await;
    assert_eq!((&paused[0]["happened"], &paused[0]["outcome"]), (&json!(true), &json!("a stays the holder")));
    scene.join("b", "1.31.0", &[]);
    scene.world.standing("b").await;
    assert_eq!(scene.world.holder(LEASE).await.as_deref(), Some("a"));
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains("  hold       works\n  until      ") && status.contains("  asked by   "), "{status}");
    // The end of the pause passes.
    scene.done(&["pause", LEASE, "--for", "2s", "--reason", "shorter"]).await;
    scene.world.led_by(LEASE, "b").await;
    eventually("the controller removes both annotations", || async {
        let record = scene.world.lease(LEASE).await.ok_or("no lease")?.record;
        if (&record.hold, &record.acts.hold_until) == (&None, &None) { Ok(()) } else { Err(format!("{record:?}")) }
    })
    .await;
    scene.world.published("Normal", "The pause of the elections has ended.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_moves_the_lease_to_a_worse_candidate_and_its_end_gives_it_back() {
    let scene = Scene::new("acts-pin", &[("a", "1.31.0"), ("b", "1.32.0")]).await;
    let pinned = waited(&scene, &["pin", LEASE, "--to", "b", "--for", "1h"]).await;
    assert_eq!((&pinned[0]["happened"], &pinned[0]["holder"]), (&json!(true), &json!("b")));
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains("  pin        b until 20"), "{status}");
    waited(&scene, &["unpin", LEASE]).await;
    scene.world.led_by(LEASE, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_excluded_holder_hands_over_and_leads_again_once_it_is_included_and_better() {
    let scene = Scene::new("acts-exclude", &[("a", "1.31.0"), ("b", "1.32.0")]).await;
    let excluded = waited(&scene, &["exclude", "a", "--for", "1h", "--reason", "drain"]).await;
    assert_eq!((&excluded[0]["candidate"], &excluded[0]["holder"]), (&json!("a"), &json!("b")));
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains(": drain]"), "{status}");
    let included = waited(&scene, &["include", "a"]).await;
    assert_eq!(included[0]["happened"], true);
    scene.world.led_by(LEASE, "a").await;
    scene.world.published("Normal", "The exclusion of a was removed (asked by admin).").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_to_a_candidate_that_dies_before_the_hand_over_ends_with_what_happened() {
    let mut scene = Scene::new("acts-target-dies", &[]).await;
    // A frozen holder hands over to nobody, and its Lease lasts longer than the test.
    let times = ["--lease-duration=10m", "--renew-deadline=5m", "--retry-period=1s"];
    scene.join("a", "1.32.0", &times);
    scene.replicas[0].says("leading", 0).await;
    scene.join("b", "1.32.0", &times);
    scene.world.standing("b").await;
    scene.replicas[0].process.pause().unwrap();
    let transfer = async { scene.run(&["transfer", LEASE, "--to", "b", "--wait", "--timeout", "60s"]).await };
    let death = async {
        eventually("a is asked", || async {
            let lease = scene.world.lease(LEASE).await.unwrap();
            lease.record.preferred_holder.ok_or("no preferred holder")
        })
        .await;
        scene.replicas[1].process.kill().unwrap();
    };
    let (done, ()) = tokio::join!(transfer, death);
    let note = "a is no longer asked to hand over to b: Did not answer a ping within the election window. Check that its \
                process runs and reaches the API server.";
    assert_eq!(done.code(), 4, "{}", done.said());
    assert!(done.said().contains(note), "{}", done.said());
    scene.world.published("Normal", note).await;
}

/// Waits until an act has happened, and prints the time that it took: `--nocapture` shows it.
async fn waited(scene: &Scene, arguments: &[&str]) -> Vec<Value> {
    let (reports, took) = scene.timed(&[arguments, &["--wait"]].concat()).await;
    for report in &reports {
        let seconds = &report["seconds"];
        println!("{}: {seconds} s, the whole command {:.3} s", arguments.join(" "), took.as_secs_f64());
    }
    reports
}
