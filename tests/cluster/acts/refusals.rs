//! Acts that make no sense, and acts that do not happen.

use serde_json::json;

use super::{LEASE, Scene};
use crate::controller::support::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn an_act_that_makes_no_sense_is_refused_with_a_hint_and_writes_nothing() {
    let scene = Scene::new("acts-refused", &[("web-0", "1.31.0"), ("web-1", "1.32.0")]).await;
    let spec = json!({ "leaseName": "other", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
    scene.world.stand("db-0", spec).await;
    let before = scene.world.lease(LEASE).await.unwrap().metadata.annotations;
    for (arguments, message, hint) in [
        (&["transfer", "wbe"][..], "Lease \"wbe\" does not exist", "did you mean \"web\"?"),
        (&["transfer", LEASE, "--to", "wb-1"], "no candidate \"wb-1\"", "did you mean \"web-1\""),
        (&["transfer", LEASE, "--to", "web-0"], "it holds the Lease", "there is nothing to do"),
        (&["transfer", LEASE, "--to", "web-1"], "older emulation version", "hustings pin LEASE --to web-1"),
        (&["pin", LEASE, "--to", "db-0", "--for", "1h"], "is a candidate of the Lease \"other\"", "web-0"),
        (&["pin", LEASE, "--to", "web-1", "--until", "2020-01-01T00:00:00Z"], "has passed", "later time"),
        (&["pause", LEASE, "--for", "0s"], "ends at once", "30m"),
        (&["resume", LEASE], "are not paused", "status"),
        (&["unpin", LEASE], "no pin", "status"),
        (&["exclude", "wbe-1", "--for", "1h"], "candidate \"wbe-1\" does not exist", "did you mean \"web-1\""),
        (&["include", "web-1"], "is not excluded", "status"),
        (&["exclude", "--node", "n1", "--for", "1h"], "has its Pod on node \"n1\"", "--all-namespaces"),
    ] {
        let done = scene.run(arguments).await;
        let said = done.said();
        assert_eq!(done.code(), 3, "{arguments:?}: {said}");
        assert!(said.contains(message) && said.contains(&format!("hint: {hint}")) || said.contains(hint), "{said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    let after = scene.world.lease(LEASE).await.unwrap().metadata.annotations;
    assert_eq!(before, after, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_does_not_happen_in_time_has_an_exit_code_of_its_own() {
    let scene = Scene::new("acts-timeout", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    scene.world.patch_lease(LEASE, json!({ "metadata": { "annotations": { "hustings.io/hold": "works" } } })).await;
    // The controller respects the pause, so the pin does not happen.
    let done = scene.run(&["pin", LEASE, "--to", "b", "--for", "1h", "--wait", "--timeout", "1s"]).await;
    assert_eq!(done.code(), 4, "{}", done.said());
    assert!(done.said().contains("it has not happened yet: a holds the Lease"), "{}", done.said());
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
