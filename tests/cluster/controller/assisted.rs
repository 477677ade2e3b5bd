//! Assisted Leases: replicas with client-go, unchanged, that know nothing of Hustings. No kubelet runs here: the tests
//! write what one would write.

use std::process::Command;

use hustings_controlplane::Tool;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::evidence::world;
use super::support::{World, eventually};
use crate::replica::Replica;

/// client-go with a lease that no test waits for.
const TIMES: [&str; 3] = ["--lease-duration=300s", "--renew-deadline=200s", "--retry-period=500ms"];

pub(super) async fn pod(world: &World, name: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "app", "image": "app" }] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
}

/// The identity of a process in this Pod, as client-go makes it.
fn identity(pod: &str, process: u32) -> String {
    format!("{pod}_00000000-0000-4000-8000-{process:012}")
}

/// A process with client-go in this Pod.
pub(super) async fn replica(world: &World, pod: &str, process: u32) -> Replica {
    let identity = identity(pod, process);
    let mut command = Command::new(world.plane.tool(Tool::ClientGo).await.unwrap());
    command.args(["--namespace", &world.namespace, "--lease=web", "--identity", &identity]).args(TIMES);
    command.arg("--kubeconfig").arg(world.plane.kubeconfig());
    Replica::start(&world.plane, &world.namespace, &identity, command)
}

pub(super) async fn assist(world: &World, options: &str) {
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let patch = json!({ "metadata": {
        "labels": { "hustings.io/enrolled": "true" },
        "annotations": { "hustings.io/assist": options },
    }});
    leases.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Writes that an instance of these containers, which started a minute ago, ended a moment from now: the times have no
/// fraction, and an end must not be before the acquisition.
async fn report_end(world: &World, pod: &str, containers: &[&str]) {
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    let time = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (end, start) =
        (Timestamp::now() + SignedDuration::from_secs(1), Timestamp::now() - SignedDuration::from_mins(1));
    let terminated = json!({ "terminated": { "exitCode": 137, "startedAt": time(start), "finishedAt": time(end) } });
    let container = |name: &&str| json!({ "name": name, "image": "app", "imageID": "", "ready": false, "restartCount": 1, "state": terminated });
    let statuses: Vec<Value> = containers.iter().map(container).collect();
    let status = json!({ "status": { "containerStatuses": statuses } });
    pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assisted_lease_is_released_when_the_kubelet_reports_the_end_of_its_holder() {
    let world = world("assisted").await;
    let controller = world.controller_with(&["--evidence-pods", "--log-level=info,hustings=debug"]).await.ready().await;
    let uid = pod(&world, "web-0").await.uid().unwrap();
    pod(&world, "web-1").await;
    let first = replica(&world, "web-0", 1).await;
    first.says("leading", 0).await;
    let second = replica(&world, "web-1", 1).await;
    second.says("started", 0).await;
    assist(&world, "").await;

    drop(first);
    report_end(&world, "web-0", &["app"]).await;
    second.says("leading", 0).await;
    let note = format!("The Lease of {} was released: the container of the holder terminated.", identity("web-0", 1));
    world.published("Normal", &note).await;
    let lease = world.lease("web").await.unwrap();
    assert_eq!(lease.record.history.terms().next().unwrap().ending.as_str(), "proven-dead");
    assert!(lease.record.enrolled && lease.record.acts.assist.is_some(), "client-go keeps what it does not know");
    eventually("the time without a holder is counted", async || {
        let counted = controller.metric(r#"hustings_unheld_seconds_count{cause="container-terminated"}"#).await;
        if counted > 0.5 { Ok(()) } else { Err(counted) }
    })
    .await;

    // Two processes in the Pod may hold the Lease, until an option names one.
    report_end(&world, "web-1", &["app", "proxy"]).await;
    let third = replica(&world, "web-0", 2).await;
    third.says("started", 0).await;
    drop(second);
    report_end(&world, "web-1", &["app", "proxy"]).await;
    controller.logged("the Pod of the holder does not prove it dead").await;
    assert_eq!(world.holder("web").await.as_deref(), Some(&*identity("web-1", 1)));
    assist(&world, "container=app").await;
    third.says("leading", 0).await;

    // A new Pod of the same name proves nothing about the old process.
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), &world.namespace);
    pods.delete("web-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert_ne!(pod(&world, "web-0").await.uid().unwrap(), uid);
    report_end(&world, "web-0", &["app"]).await;
    let fourth = replica(&world, "web-1", 2).await;
    fourth.says("started", 0).await;
    let renewed = async || world.lease("web").await.unwrap().record.renew_time;
    let before = renewed().await;
    eventually("the old process renews", async || if renewed().await > before { Ok(()) } else { Err(before) }).await;
    assert_eq!(world.holder("web").await.as_deref(), Some(&*identity("web-0", 2)));
    assert!(third.leads() && !fourth.leads());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listed_lease_is_assisted_again_whenever_its_annotation_is_missing_or_differs() {
    let world = world("listed").await;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), &world.namespace);
    let create = async |name: &str| {
        let lease = json!({ "metadata": { "name": name }, "spec": { "holderIdentity": "web-0_1", "leaseDurationSeconds": 300 } });
        leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    };
    let assisted = async |name: &str, options: &str| {
        eventually(&format!("{name} is assisted"), async || {
            let lease = world.lease(name).await.ok_or("no Lease")?;
            let found = lease.annotations().get("hustings.io/assist").cloned();
            let is_right = lease.record.enrolled && found.as_deref() == Some(options);
            if is_right { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    };
    create("web").await;
    let list = [
        format!("--assist={}/web,container=app", world.namespace),
        format!("--assist={0}/missing;{0}/later", world.namespace),
    ];
    let flags = ["--evidence-pods", &list[0], &list[1]];
    let controller = world.controller_with(&flags).await.ready().await;
    assisted("web", "container=app").await;

    let removed = json!({ "metadata": {
        "labels": { "hustings.io/enrolled": null }, "annotations": { "hustings.io/assist": null },
    }});
    leases.patch("web", &PatchParams::default(), &Patch::Merge(removed)).await.unwrap();
    assisted("web", "container=app").await;
    assist(&world, "").await;
    assisted("web", "container=app").await;
    create("later").await;
    assisted("later", "").await;
    assert!(world.lease("missing").await.is_none(), "the controller creates no Lease");
    eventually("the metrics count the holders of which no Pod is known", async || {
        match controller.metric_if_any(r#"hustings_leases{state="unidentified"}"#).await {
            Ok(2.0) => Ok(()),
            other => Err(other),
        }
    })
    .await;
}
