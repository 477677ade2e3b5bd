//! What an operator observes of a healthy and of an unhealthy controller.

use serde_json::Value;

use super::peer::Peer;
use super::revoked::grant_all;
use super::support::{Controller, World, eventually};

#[tokio::test]
async fn health_and_metrics_are_served() {
    let world = World::new("operations-served").await;
    let controller = world.controller().await.ready().await;
    assert_eq!(controller.get("/livez").await.unwrap().code, 200);
    assert_eq!(controller.get("/readyz").await.unwrap().body, "ok\n");
    let verbose: Value = serde_json::from_str(&controller.get("/readyz?verbose").await.unwrap().body).unwrap();
    let checks: Vec<_> =
        verbose["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    let namespaced = |kind: &str| format!("{kind}/{}", world.namespace);
    let (candidates, leases) = (namespaced("leasecandidates"), namespaced("leases"));
    let expected =
        ["crd", &candidates, &leases, "namespaces", "own-lease", "permissions", "second-controller", "writes"];
    assert_eq!(checks, expected);

    controller.leads().await;
    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &peer.name).await;
    eventually("the metrics show it", || async {
        let grants = controller.metric(r#"hustings_requests_total{request="grant"}"#).await;
        let pings = controller.metric(r#"hustings_requests_total{request="ping"}"#).await;
        let acks = controller.metric(r#"hustings_acks_total{kind="hustings"}"#).await;
        let held = controller.metric(r#"hustings_leases{state="held"}"#).await;
        let all = [grants, pings, acks, held];
        if all.iter().all(|value| *value >= 1.0) { Ok(()) } else { Err(all) }
    })
    .await;
    assert!(controller.metric("process_resident_memory_bytes").await > 1e6);
    let version = format!(r#"hustings_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"));
    assert!(controller.metric(&version).await >= 1.0);
}

#[tokio::test]
async fn missing_permissions_are_reported_and_delay_no_other_namespace() {
    let world = World::new("operations-rbac").await;
    let forbidden = world.plane.create_namespace("operations-rbac-forbidden").await.unwrap();
    world.plane.create_service_account(&world.namespace, "controller").await.unwrap();
    grant_all(&world, &world.namespace, "controller").await;
    let kubeconfig = world.plane.kubeconfig_for_service_account(&world.namespace, "controller").await.unwrap();
    let both = format!("{},{forbidden}", world.namespace);
    let controller =
        Controller::start(&world.plane, &kubeconfig, &["--watch-namespaces", &both, "-n", &world.namespace]).await;

    eventually("readyz names what is missing, and in that namespace alone", || async {
        let body = controller.get("/readyz?verbose").await?.body;
        let grant = "not allowed: grant the verbs list and watch on leasecandidates.hustings.io";
        let names = |namespace: &str| body.contains(&format!("in namespace {namespace}\""));
        if body.contains(grant) && names(&forbidden) && !names(&world.namespace) { Ok(()) } else { Err(body) }
    })
    .await;
    assert_eq!(controller.get("/livez").await.unwrap().code, 200, "a restart would not help");
    // Without any right there, the controller cannot tell whether the namespace exists. So it warns, and is ready.
    let logged = controller.logged("a watched namespace may be missing").await;
    assert!(logged["reason"].as_str().unwrap().contains(&forbidden), "{logged}");
    let controller = controller.ready().await;

    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &peer.name).await;

    grant_all(&world, &forbidden, "controller").await;
    controller.ready().await;
}
