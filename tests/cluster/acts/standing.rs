//! Each act from outside: what it changes, what the controller reports, and what `hustings status` shows.

use hustings_client::api::ReadCandidate;
use kube::Api;
use kube::api::{Patch, PatchParams};
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
async fn a_pause_is_ended_by_resume() {
    let mut scene = Scene::new("acts-resume", &[("a", "1.32.0")]).await;
    scene.done(&["pause", LEASE]).await;
    scene.join("b", "1.31.0", &[]);
    scene.world.standing("b").await;
    waited(&scene, &["resume", LEASE]).await;
    scene.world.led_by(LEASE, "b").await;
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
async fn an_annotation_that_does_not_parse_is_shown_as_such_and_changes_nothing() {
    let scene = Scene::new("acts-malformed", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    let note = |name: &str, text: &str, form: &str| {
        format!("The annotation {name} has no effect, because {text:?} does not parse: use the form {form:?}.")
    };
    let annotate = |annotations: Value| json!({ "metadata": { "annotations": annotations } });
    let shown = async |text: &str| {
        let status = scene.run(&["status", LEASE]).await.said();
        assert!(status.contains(text), "{status}");
        assert_eq!(scene.world.holder(LEASE).await.as_deref(), Some("a"));
    };

    scene.world.patch_lease(LEASE, annotate(json!({ "hustings.io/pin": "b until noon" }))).await;
    let form = "NAME until 2026-12-31T23:59:59Z";
    scene.world.published("Warning", &note("hustings.io/pin", "b until noon", form)).await;
    shown("b until noon (does not parse, no effect)").await;

    let candidates: Api<ReadCandidate> = Api::namespaced(scene.world.client.clone(), &scene.world.namespace);
    let exclude = Patch::Merge(annotate(json!({ "hustings.io/exclude": "noon" })));
    candidates.patch("a", &PatchParams::default(), &exclude).await.unwrap();
    let form = "2026-12-31T23:59:59Z: REASON";
    scene.world.published("Warning", &note("hustings.io/exclude", "noon", form)).await;
    shown("[excluded until noon (does not parse, no effect)]").await;

    // A pause with such an end has no end.
    let paused = json!({ "hustings.io/hold": "works", "hustings.io/hold-until": "noon" });
    scene.world.patch_lease(LEASE, annotate(paused)).await;
    let form = "2026-12-31T23:59:59Z";
    scene.world.published("Warning", &note("hustings.io/hold-until", "noon", form)).await;
    shown("  hold       works\n  until      noon (does not parse, no effect)").await;
    assert_eq!(scene.world.lease(LEASE).await.unwrap().record.hold.as_deref(), Some("works"));
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
