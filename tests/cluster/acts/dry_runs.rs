//! `--dry-run` of each act: it prints what the controller would do, and sends no write.

use super::writes::Writes;
use super::{LEASE, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_of_each_act_reports_what_would_happen_and_writes_nothing() {
    let mut scene = Scene::new("acts-dry-run", &[("a", "1.32.0"), ("b", "1.32.0")]).await;
    let hour = ["--for", "1h"];
    for (arguments, forecast) in [
        (&["transfer", LEASE][..], "a was asked to hand over to b: an administrator transfers the Lease"),
        (&["exclude", "a", "--for", "1h"], "a was asked to hand over to b: an administrator excludes a."),
        (
            &["pin", LEASE, "--to", "b", "--for", "1h"],
            "a was asked to hand over to b: an administrator pinned the Lease",
        ),
        (&["pause", LEASE, "--for", "1h"], "Elections are paused until 20"),
    ] {
        forecasts(&scene, arguments, forecast).await;
    }

    // A better candidate does not lead, for the act that the dry run would end.
    let better = "a was asked to hand over to c, which has";
    scene.done(&[&["pin", LEASE, "--to", "a"][..], &hour].concat()).await;
    scene.join("c", "1.31.0", &[]);
    scene.world.standing("c").await;
    forecasts(&scene, &["unpin", LEASE], better).await;
    scene.done(&[&["exclude", "c"][..], &hour].concat()).await;
    scene.done(&["unpin", LEASE]).await;
    forecasts(&scene, &["include", "c"], better).await;
    scene.done(&["pause", LEASE]).await;
    scene.done(&["include", "c"]).await;
    forecasts(&scene, &["resume", LEASE], better).await;
    assert_eq!(scene.world.holder(LEASE).await.as_deref(), Some("a"));
}

/// Checks that the dry run of this act forecasts a sentence that starts with `beginning`.
async fn forecasts(scene: &Scene, arguments: &[&str], beginning: &str) {
    let writes = Writes::of(scene).await;
    let done = writes.run(&[arguments, &["--dry-run", "-o", "json"]].concat()).await;
    let reports = done.reports();
    assert_eq!((reports.len(), &reports[0]["written"]), (1, &false.into()), "{arguments:?}: {reports:?}");
    let forecast = reports[0]["forecast"].as_array().unwrap_or_else(|| panic!("{arguments:?}: {reports:?}"));
    let is_expected = |sentence: &serde_json::Value| sentence.as_str().unwrap().starts_with(beginning);
    assert!(forecast.iter().any(is_expected), "{arguments:?}: {forecast:?}");
    assert!(writes.answers().is_empty(), "{arguments:?}: {:?}", writes.answers());
}
