//! Two administrators at once. Both commands read the same version of the object before either writes, so the second write
//! meets a conflict in every run. Its command reports what stands there now, and overwrites nothing.

use serde_json::json;

use super::writes::Writes;
use super::{Done, LEASE, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn of_two_pins_at_once_the_second_is_refused_with_the_first() {
    let scene = Scene::new("acts-race", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    let pin = |to: &'static str| ["pin", LEASE, "--to", to, "--for", "1h"];
    let loser = race(&scene, &pin("b"), &pin("a")).await;
    let message =
        "error: another administrator was faster, and nothing was written. The Lease now has: pin to b until 20";
    assert!(loser.said().starts_with(message), "{}", loser.said());
    assert!(loser.said().contains("asked by admin"), "{}", loser.said());
    let pinned = async || scene.world.lease(LEASE).await.unwrap().record.acts.pin.unwrap();
    assert_eq!(pinned().await.valid().unwrap().candidate, "b");

    let again = scene.run(&pin("a")).await;
    assert_eq!(again.code(), 0, "{}", again.said());
    assert!(again.said().contains("  replaces: pin to b until 20"), "{}", again.said());
    assert_eq!(pinned().await.valid().unwrap().candidate, "a");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_exclusions_at_once_the_second_is_refused_with_the_first() {
    let scene = Scene::new("acts-race-exclude", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    let exclude = |reason: &'static str| ["exclude", "b", "--for", "1h", "--reason", reason];
    let loser = race(&scene, &exclude("drain"), &exclude("repair")).await;
    let message = "error: another administrator was faster. Candidate \"b\" in namespace ";
    assert!(loser.said().starts_with(message), "{}", loser.said());
    assert!(loser.said().contains(" now has: exclusion until 20"), "{}", loser.said());
    assert!(loser.said().contains(": drain (asked by admin)"), "{}", loser.said());
    let excluded = async || scene.world.candidate("b").await.unwrap().record.acts.exclude.unwrap();
    assert_eq!(excluded().await.valid().unwrap().reason, "drain");

    let again = scene.run(&exclude("repair")).await;
    assert_eq!(again.code(), 0, "{}", again.said());
    assert!(again.said().contains("  replaces: exclusion until 20"), "{}", again.said());
    assert_eq!(excluded().await.valid().unwrap().reason, "repair");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_meets_a_renewal_is_repeated() {
    let scene = Scene::new("acts-race-renewal", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    let writes = Writes::held(&scene).await;
    let change = async {
        writes.is_held().await;
        scene.world.patch_lease(LEASE, json!({ "metadata": { "labels": { "team": "shop" } } })).await;
        writes.release();
    };
    let (done, ()) = tokio::join!(writes.run(&["pin", LEASE, "--to", "b", "--for", "1h"]), change);
    assert_eq!(done.code(), 0, "{}", done.said());
    let answers = writes.answers();
    assert!(answers.starts_with(&[409]) && answers.ends_with(&[200]), "{answers:?}");
}

/// Two commands, which have both read when the first of them writes. Returns what the second one reports.
async fn race(scene: &Scene, first: &[&str], second: &[&str]) -> Done {
    let (ahead, behind) = (Writes::held(scene).await, Writes::held(scene).await);
    let order = async {
        tokio::join!(ahead.is_held(), behind.is_held());
        ahead.release();
        ahead.is_accepted().await;
        behind.release();
    };
    let (winner, loser, ()) = tokio::join!(ahead.run(first), behind.run(second), order);
    assert_eq!(winner.code(), 0, "{}", winner.said());
    assert_eq!((loser.code(), behind.answers()), (1, vec![409]), "{}", loser.said());
    assert!(loser.output.stdout.is_empty(), "{}", loser.said());
    assert!(loser.said().contains("\nhint: run the command again to replace that"), "{}", loser.said());
    loser
}
