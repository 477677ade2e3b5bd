//! What an operator observes of a healthy and of an unhealthy controller.

use hustings_client::api::MicroTime;
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_controlplane::ControlPlane;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::peer::Peer;
use super::support::{Controller, World, eventually, install_crd};

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
}

#[tokio::test]
async fn metrics_have_a_series_for_each_lease_up_to_a_limit() {
    let world = World::new("operations-leases").await;
    let controller = world.controller_with(&["--metrics-lease-limit", "1"]).await.ready().await;
    let shows = async |series: &str, condition: fn(f64) -> bool| {
        eventually(series, || async {
            let value = controller.metric_if_any(series).await?;
            if condition(value) { Ok(()) } else { Err(value.to_string()) }
        })
        .await;
    };
    let of_lease =
        |metric: &str| format!(r#"hustings_election_{metric}{{namespace="{}",lease="work"}}"#, world.namespace);

    let peer = Peer::start(&world, "work", "a", "2.0.0").await;
    world.led_by("work", &peer.name).await;
    shows(&of_lease("held"), |held| held >= 1.0).await;
    shows(&of_lease("candidates"), |candidates| candidates >= 1.0).await;
    shows(&of_lease("transitions_total"), |transitions| transitions >= 1.0).await;
    shows(&of_lease("unheld_seconds"), |seconds| seconds == 0.0).await;
    shows(&of_lease("preferred_seconds"), |seconds| seconds == 0.0).await;

    world.stand("dead", json!({ "leaseName": "nobody", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" })).await;
    shows(r#"hustings_election_unheld_seconds{namespace="",lease="_other"}"#, |seconds| seconds > 1.0).await;
    shows("hustings_election_other_leases", |leases| leases >= 1.0).await;

    shows(r#"hustings_elections_total{result="no-candidate"}"#, |elections| elections >= 1.0).await;
    shows(r#"hustings_leases{state="no-candidate"}"#, |leases| leases >= 1.0).await;
    world.published("Warning", "No candidate can be elected: 1 did not answer a ping.").await;

    // It renews, and does not hand over.
    peer.crash();
    let _better = Peer::start(&world, "work", "b", "1.0.0").await;
    eventually("the time for which the holder has been asked grows", || async {
        let renew_time = MicroTime(SystemClock.wall());
        world.patch_lease("work", json!({ "spec": { "renewTime": renew_time } })).await;
        let seconds = controller.metric_if_any(&of_lease("preferred_seconds")).await?;
        if seconds > 1.0 { Ok(()) } else { Err(seconds.to_string()) }
    })
    .await;
    shows(&of_lease("held"), |held| held >= 1.0).await;
    shows(r#"hustings_preemptions_total{reason="emulation-version"}"#, |preemptions| preemptions >= 1.0).await;
    assert!(controller.metric("process_resident_memory_bytes").await > 1e6);
    let version = format!(r#"hustings_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"));
    assert!(controller.metric(&version).await >= 1.0);
}

#[tokio::test]
async fn missing_permissions_are_reported_and_delay_no_other_namespace() {
    let world = World::new("operations-rbac").await;
    let forbidden = world.plane.create_namespace("operations-rbac-forbidden").await.unwrap();
    world.plane.create_service_account(&world.namespace, "controller").await.unwrap();
    allow(&world, &world.namespace).await;
    let kubeconfig = world.plane.kubeconfig_for_service_account(&world.namespace, "controller").await.unwrap();
    let both = format!("{},{forbidden}", world.namespace);
    let controller =
        Controller::start(&world.plane, &kubeconfig, &["--watch-namespaces", &both, "-n", &world.namespace]).await;

    let body = eventually("readyz names what is missing", || async {
        let body = controller.get("/readyz?verbose").await?.body;
        let grant = "not allowed: grant the verbs list and watch on leasecandidates.hustings.io";
        if body.contains(grant) { Ok(body) } else { Err(body) }
    })
    .await;
    assert!(
        body.contains(&format!("in namespace {forbidden}"))
            && !body.contains(&format!("in namespace {} ", world.namespace))
    );
    assert_eq!(controller.get("/livez").await.unwrap().code, 200, "a restart would not help");
    // Without any right there, the controller cannot tell whether the namespace exists. So it warns, and is ready.
    let logged = controller.logged("a watched namespace may be missing").unwrap();
    assert!(logged["reason"].as_str().unwrap().contains(&forbidden), "{logged}");
    let controller = controller.ready().await;

    let peer = Peer::start(&world, "work", "a", "1.0.0").await;
    world.led_by("work", &peer.name).await;

    allow(&world, &forbidden).await;
    controller.ready().await;
}

#[tokio::test]
async fn the_controller_waits_for_a_missing_crd_and_survives_a_restart_of_the_api_server() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let controller = Controller::start(&plane, &plane.kubeconfig(), &["-n", "default"]).await;
    eventually("readyz reports the missing CRD", || async {
        let body = controller.get("/readyz?verbose").await?.body;
        if body.contains("hustings crds | kubectl apply -f -") { Ok(()) } else { Err(body) }
    })
    .await;
    install_crd(&plane.admin()).await;
    let controller = controller.ready().await;
    controller.leads().await;

    plane.apiserver().kill().unwrap();
    eventually("it notices", || async {
        let answer = controller.get("/readyz").await?;
        if answer.code == 503 { Ok(()) } else { Err(answer.body) }
    })
    .await;
    assert_eq!(controller.get("/livez").await.unwrap().code, 200, "a restart would not help");
    plane.apiserver().restart().await.unwrap();
    let controller = controller.ready().await;
    controller.leads().await;
    assert_eq!(controller.process.stop().await.unwrap().code(), Some(0));
}

/// Grants the ServiceAccount `controller` of the world's namespace the controller's rights in `namespace`.
async fn allow(world: &World, namespace: &str) {
    let role = json!({
        "metadata": { "name": "controller" },
        "rules": [
            { "apiGroups": ["hustings.io"], "resources": ["leasecandidates"], "verbs": ["get", "list", "watch", "patch", "delete"] },
            { "apiGroups": ["hustings.io"], "resources": ["leasecandidates/status"], "verbs": ["patch"] },
            { "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "patch"] },
            { "apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"] },
        ],
    });
    let roles: Api<Role> = Api::namespaced(world.client.clone(), namespace);
    roles.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": { "name": "controller" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "controller" },
        "subjects": [{ "kind": "ServiceAccount", "name": "controller", "namespace": world.namespace }],
    });
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}
