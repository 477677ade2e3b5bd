//! Each act from outside: what it changes, what the controller reports, and what `hustings status` shows.

use serde_json::json;

use super::{LEASE, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_withdraws_nothing_from_the_holder_and_keeps_a_better_candidate_from_the_lease_until_it_ends() {
    let mut scene = Scene::new("acts-pause", &[("a", "1.32.0")]).await;
    let paused = scene.done(&["pause", LEASE, "--for", "1h", "--reason", "works", "--wait"]).await;
    assert_eq!((&paused[0]["happened"], &paused[0]["outcome"]), (&json!(true), &json!("a stays the holder")));
    scene.join("b", "1.31.0", &[]);
    scene.world.standing("b").await;
    assert_eq!(scene.world.holder(LEASE).await.as_deref(), Some("a"));
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains("  hold       works\n  until      ") && status.contains("  asked by   "), "{status}");
    // The end passes.
    scene.done(&["pause", LEASE, "--for", "2s", "--reason", "shorter"]).await;
    let lease = scene.world.led_by(LEASE, "b").await;
    assert_eq!((lease.record.hold, lease.record.acts.hold_until), (None, None), "the controller removed both");
    scene.world.published("Normal", "The pause of the elections has ended.").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_ended_by_resume() {
    let mut scene = Scene::new("acts-resume", &[("a", "1.32.0")]).await;
    scene.done(&["pause", LEASE]).await;
    scene.join("b", "1.31.0", &[]);
    scene.world.standing("b").await;
    scene.done(&["resume", LEASE]).await;
    scene.world.led_by(LEASE, "b").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_moves_the_lease_to_a_worse_candidate_and_its_end_gives_it_back() {
    let scene = Scene::new("acts-pin", &[("a", "1.31.0"), ("b", "1.32.0")]).await;
    let dry = scene.done(&["pin", LEASE, "--to", "b", "--for", "1h", "--dry-run"]).await;
    assert_eq!(dry[0]["written"], false);
    let forecast = dry[0]["forecast"].as_array().unwrap();
    let asked = |sentence: &serde_json::Value| sentence.as_str().unwrap().starts_with("a was asked to hand over to b");
    assert!(forecast.iter().any(asked), "{forecast:?}");
    assert_eq!(scene.world.holder(LEASE).await.as_deref(), Some("a"), "a dry run writes nothing");

    let pinned = scene.done(&["pin", LEASE, "--to", "b", "--for", "1h", "--wait"]).await;
    assert_eq!((&pinned[0]["happened"], &pinned[0]["holder"]), (&json!(true), &json!("b")));
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains("  pin        b until 20"), "{status}");
    scene.done(&["unpin", LEASE]).await;
    scene.world.led_by(LEASE, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_excluded_holder_hands_over_and_leads_again_once_it_is_included_and_better() {
    let scene = Scene::new("acts-exclude", &[("a", "1.31.0"), ("b", "1.32.0")]).await;
    let excluded = scene.done(&["exclude", "a", "--for", "1h", "--reason", "drain", "--wait"]).await;
    assert_eq!((&excluded[0]["candidate"], &excluded[0]["holder"]), (&json!("a"), &json!("b")));
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains(": drain]"), "{status}");
    let included = scene.done(&["include", "a", "--wait"]).await;
    assert_eq!(included[0]["happened"], true);
    scene.world.led_by(LEASE, "a").await;
    scene.world.published("Normal", "The exclusion of a was removed (asked by admin).").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_that_does_not_parse_is_shown_as_such_and_changes_nothing() {
    let scene = Scene::new("acts-malformed", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    scene
        .world
        .patch_lease(LEASE, json!({ "metadata": { "annotations": { "hustings.io/pin": "b until noon" } } }))
        .await;
    let note = "The annotation hustings.io/pin has no effect, because \"b until noon\" does not parse: use the form \
                \"NAME until 2026-12-31T23:59:59Z\".";
    scene.world.published("Warning", note).await;
    let status = scene.run(&["status", LEASE]).await.said();
    assert!(status.contains("b until noon (does not parse, no effect)"), "{status}");
    assert_eq!(scene.world.holder(LEASE).await.as_deref(), Some("a"));
}
