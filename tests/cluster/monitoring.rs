//! The dashboard and the alerts of the chart, on a real Prometheus that scrapes a real controller.
//!
//! Debian's package `prometheus` provides the programs. Without them, the test skips itself and prints the reason.

mod prometheus;
mod relabelling;

use std::time::Duration;

use hustings_client::api::{LeaseCandidate, MicroTime};
use hustings_client::clock::{Clock as _, SystemClock};
use hustings_controlplane::{Tool, Tools};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use self::prometheus::Prometheus;
use crate::controller::peer::Peer;
use crate::controller::support::{Controller, World, eventually};

const DASHBOARD: &str = include_str!("../../charts/hustings/dashboards/hustings.json");

/// What the test shortens in the rules, so that each alert fires and resolves within seconds.
const SHORTER: [(&str, &str); 4] = [("> 120", "> 2"), ("> 600", "> 2"), ("> 10", "> 1"), ("[15m]", "[15s]")];

#[tokio::test(flavor = "multi_thread")]
async fn each_panel_shows_data_and_each_alert_fires_for_its_lease_and_resolves() {
    if let Err(reason) = prometheus::installed() {
        println!("skipped: {reason}");
        return;
    }
    let world = World::new("monitoring").await;
    let rules = rules();
    let prometheus = Prometheus::start(&world.plane, &rules);
    let controller = world.controller_with(&["--settling=0s"]).await.ready().await;
    prometheus.scrape(&[controller.address()]);
    prometheus.until_it_has("sum(hustings_leading) == 1").await;
    forbid_events(&world).await;
    // Its writes count as those of a second controller once they are half a minute apart.
    let _twice = Peer::start(&world, "twice", "twice-0", "1.0.0").await;
    let second = tokio::spawn(ping(world.client.clone(), world.namespace.clone()));

    // A candidate without a process.
    let spec = json!({ "leaseName": "lonely", "binaryVersion": "1.0.0", "emulationVersion": "1.0.0" });
    world.stand("lonely-0", spec).await;
    let summary = prometheus.fires("HustingsLeaseUnheld", Some((&world.namespace, "lonely"))).await;
    assert!(summary.starts_with(&format!("Lease {}/lonely has had no holder for ", world.namespace)), "{summary}");
    prometheus.until_it_has(r#"hustings_leases{state="no-candidate"} == 1"#).await;

    let lonely = Peer::live(&world, "lonely", "lonely-0");
    prometheus.resolves("HustingsLeaseUnheld").await;

    // A pause without an end, which somebody has forgotten.
    let pause = |reason: Option<&str>| json!({ "metadata": { "annotations": { "hustings.io/hold": reason } } });
    world.patch_lease("lonely", pause(Some("works"))).await;
    lonely.crash();
    let summary = prometheus.fires("HustingsLeaseOnHold", None).await;
    assert_eq!(summary, "For an hour, 1 Leases have had no holder because their elections are on hold");
    world.patch_lease("lonely", pause(None)).await;
    let _lonely = Peer::live(&world, "lonely", "lonely-0");
    prometheus.resolves("HustingsLeaseOnHold").await;

    // An assisted Lease whose holder has no Pod, and then one without a holder.
    let leases = Api::<Lease>::namespaced(world.client.clone(), &world.namespace);
    let assisted = json!({
        "metadata": {
            "name": "assisted",
            "labels": { "hustings.io/enrolled": "true" }, "annotations": { "hustings.io/assist": "" },
        },
        "spec": { "holderIdentity": "nowhere_1", "leaseDurationSeconds": 3600 },
    });
    leases.create(&PostParams::default(), &serde_json::from_value(assisted).unwrap()).await.unwrap();
    let summary = prometheus.fires("HustingsHolderUnidentified", None).await;
    assert!(summary.starts_with("For 15 minutes, the holders of 1 assisted Leases have not been"), "{summary}");
    world.patch_lease("assisted", json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } })).await;
    prometheus.resolves("HustingsHolderUnidentified").await;
    prometheus.fires("HustingsLeaseUnheld", Some((&world.namespace, "assisted"))).await;
    world.patch_lease("assisted", json!({ "metadata": { "annotations": { "hustings.io/assist": null } } })).await;
    prometheus.resolves("HustingsLeaseUnheld").await;

    // A holder that renews and ignores the request to hand over.
    let slow = Peer::start(&world, "slow", "slow-0", "2.0.0").await;
    world.led_by("slow", "slow-0").await;
    slow.crash();
    let renewals = tokio::spawn(renew(world.client.clone(), world.namespace.clone()));
    let _better = Peer::start(&world, "slow", "slow-1", "1.0.0").await;
    let summary = prometheus.fires("HustingsHandOverPending", Some((&world.namespace, "slow"))).await;
    assert!(summary.starts_with(&format!("The holder of Lease {}/slow has been asked", world.namespace)), "{summary}");
    renewals.abort();
    let _slow = Peer::live(&world, "slow", "slow-0");
    prometheus.resolves("HustingsHandOverPending").await;

    // Two candidates whose priorities rise in turn.
    let _first = Peer::start(&world, "web", "web-0", "1.0.0").await;
    world.led_by("web", "web-0").await;
    // An increase counts from the first sample of a series.
    prometheus.until_it_has(r#"hustings_election_transitions_total{lease="web"} == 1"#).await;
    let _second = Peer::start(&world, "web", "web-1", "1.0.0").await;
    for priority in 1..5 {
        let candidate = format!("web-{}", priority % 2);
        prefer(&world, &candidate, priority).await;
        world.led_by("web", &candidate).await;
    }
    let summary = prometheus.fires("HustingsHolderChangesTooOften", Some((&world.namespace, "web"))).await;
    assert!(summary.starts_with(&format!("Lease {}/web changed its holder ", world.namespace)), "{summary}");
    for (panel, query) in queries() {
        prometheus.until_it_has(&query).await;
        println!("{panel}: {query}");
    }
    prometheus.resolves("HustingsHolderChangesTooOften").await;

    // A controller whose account has no right.
    world.plane.create_service_account(&world.namespace, "powerless").await.unwrap();
    let kubeconfig = world.plane.kubeconfig_for_service_account(&world.namespace, "powerless").await.unwrap();
    let powerless = Controller::start(&world.plane, &kubeconfig, &["--namespace", &world.namespace]).await;
    prometheus.scrape(&[controller.address(), powerless.address()]);
    prometheus.until_it_has(r#"ALERTS{alertname="HustingsUnlisted",resource="leases",alertstate="firing"}"#).await;
    drop(powerless);
    prometheus.scrape(&[controller.address()]);
    prometheus.resolves("HustingsUnlisted").await;

    let summary = prometheus.fires("HustingsSecondController", None).await;
    assert_eq!(summary, "A second controller elects for 1 Leases beside the one in hustings-system");
    second.abort();

    drop(controller);
    let summary = prometheus.fires("HustingsNoControllerLeading", None).await;
    assert_eq!(summary, "No controller in hustings-system elects; holders keep their Leases");
    let controller = world.controller().await.ready().await;
    prometheus.scrape(&[controller.address()]);
    prometheus.resolves("HustingsNoControllerLeading").await;
    prometheus.resolves("HustingsSecondController").await;
}

/// The groups of rules in the chart, with shorter times.
fn rules() -> Value {
    let arguments = ["template", "hustings", "charts/hustings", "--namespace", "hustings-system"];
    let mut helm = std::process::Command::new(Tools::from_env().path(Tool::Helm).unwrap());
    helm.args(arguments).args(["--show-only", "templates/prometheus.yaml", "--set", "prometheusRule.enabled=true"]);
    let output = helm.current_dir(env!("CARGO_MANIFEST_DIR")).env("KUBECONFIG", "/dev/null").output().unwrap();
    let rendered: Value = serde_yaml::from_slice(&output.stdout).unwrap();
    let mut text = json!({ "groups": rendered["spec"]["groups"] }).to_string();
    for (long, short) in SHORTER {
        assert!(text.contains(long), "no rule has {long}: {text}");
        text = text.replace(long, short);
    }
    let mut rules: Value = serde_json::from_str(&text).unwrap();
    for rule in rules["groups"][0]["rules"].as_array_mut().unwrap() {
        rule["for"] = "1s".into();
    }
    rules
}

/// The queries of the dashboard, each with the title of its panel.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            queries.push((panel["title"].to_string(), query.replace("$namespace", ".*").replace("$lease", ".*")));
        }
    }
    queries
}

/// Makes every event of the namespace fail, for the panel of failed requests.
async fn forbid_events(world: &World) {
    let quota =
        json!({ "metadata": { "name": "no-events" }, "spec": { "hard": { "count/events.events.k8s.io": "0" } } });
    let quotas = Api::<ResourceQuota>::namespaced(world.client.clone(), &world.namespace);
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
}

/// Raises the priority of a candidate.
async fn prefer(world: &World, candidate: &str, priority: i32) {
    let candidates = Api::<LeaseCandidate>::namespaced(world.client.clone(), &world.namespace);
    let patch = Patch::Merge(json!({ "spec": { "priority": priority } }));
    eventually("the priority is raised", async || candidates.patch(candidate, &PatchParams::default(), &patch).await)
        .await;
}

/// Pings the candidate `twice-0` again and again, as another controller.
async fn ping(client: kube::Client, namespace: String) {
    let candidates = Api::<LeaseCandidate>::namespaced(client, &namespace);
    loop {
        let patch = json!({ "spec": { "pingTime": MicroTime(SystemClock.wall()) } });
        drop(candidates.patch("twice-0", &PatchParams::default(), &Patch::Merge(patch)).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Renews the Lease `slow` for its holder, and does nothing else.
async fn renew(client: kube::Client, namespace: String) {
    let leases = Api::<hustings_client::api::ReadLease>::namespaced(client, &namespace);
    loop {
        let patch = json!({ "spec": { "renewTime": MicroTime(SystemClock.wall()) } });
        drop(leases.patch("slow", &PatchParams::default(), &Patch::Merge(patch)).await);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}
