//! The controllers' costs for very many Pods, as they watch them with evidence.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};

use crate::bulk::{AT_A_TIME, MINUTE, cpu_seconds, memory};
use crate::report::{Measure, Report, Target, load};
use crate::stage::Stage;

/// How many Pods run on one node.
const PER_NODE: usize = 30;

/// How long after the last change both controllers have observed it.
const SETTLED: Duration = Duration::from_secs(5);

/// What is measured.
#[derive(Clone, Copy)]
pub(crate) struct Pods {
    pub(crate) count: usize,
    pub(crate) changes_per_second: u32,
}

/// Measures both controllers before and after the Pods are created, and while they change.
pub(crate) async fn watched(stage: &Stage, pods: Pods, report: &mut Report) -> Result<()> {
    let Pods { count, changes_per_second } = pods;
    eprintln!("Pods: {count}, with {changes_per_second} changes a second; load {}", load());
    let namespace = stage.namespace("pods").await?;
    stage.plane().create_service_account(&namespace, "default").await?;
    let api = Api::<Pod>::namespaced(stage.admin(), &namespace);
    let processes = stage.controllers_pids().await?;
    let resident = || processes.map(|(_, pid)| memory(pid, "VmRSS:"));
    let before = resident();
    let created = stream::iter(0..count).map(|number| {
        let api = &api;
        async move {
            let pod = serde_json::from_value(pod(number))?;
            api.create(&PostParams::default(), &pod).await.context("cannot create a Pod")?;
            set_status(api, number, 0).await
        }
    });
    created.buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
    tokio::time::sleep(SETTLED).await;
    let grown = resident();
    let cpu = processes.map(|(_, pid)| cpu_seconds(pid));
    let mut tick = tokio::time::interval(Duration::from_secs(1) / changes_per_second);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let end = Instant::now() + MINUTE;
    let changes = stream::unfold(tick, |mut tick| async {
        tick.tick().await;
        (Instant::now() < end).then_some(((), tick))
    });
    let changes = changes.enumerate().map(|(change, ())| set_status(&api, change * 7 % count, change + 1));
    changes.buffer_unordered(AT_A_TIME).try_collect::<()>().await?;
    let measures = [
        [
            "leading controller: resident without Pods",
            "leading controller: resident with Pods",
            "leading controller: CPU per minute with Pods",
        ],
        [
            "standby controller: resident without Pods",
            "standby controller: resident with Pods",
            "standby controller: CPU per minute with Pods",
        ],
    ];
    for ((((_, pid), whats), before), (grown, cpu)) in
        processes.into_iter().zip(measures).zip(before).zip(grown.into_iter().zip(cpu))
    {
        let values = [before?, grown?, cpu_seconds(pid)? - cpu?];
        for ((what, unit), value) in whats.into_iter().zip(["MB", "MB", "s"]).zip(values) {
            report.add(Measure { what, unit, target: Target::None }, [value]);
        }
    }
    Ok(())
}

/// A Pod such as a Deployment creates.
fn pod(number: usize) -> Value {
    let environment: Vec<_> =
        (0..20).map(|index| json!({ "name": format!("SETTING_{index}"), "value": "x" })).collect();
    json!({
        "metadata": {
            "name": name(number),
            "labels": { "app.kubernetes.io/name": "frontend", "pod-template-hash": "7d9f8b6c5d" },
        },
        "spec": {
            "nodeName": format!("ip-10-0-{}-{}.compute.internal", number / PER_NODE / 256, number / PER_NODE % 256),
            "containers": [{ "name": "frontend", "image": "example.com/shop/frontend:1.2.3", "env": environment }],
        },
    })
}

fn name(number: usize) -> String {
    format!("shop-frontend-7d9f8b6c5d-{number:05}")
}

/// Writes the status of a Pod as a kubelet does.
async fn set_status(api: &Api<Pod>, number: usize, restarts: usize) -> Result<()> {
    let container = json!({
        "name": "frontend", "image": "example.com/shop/frontend:1.2.3", "imageID": "sha256:0", "ready": true,
        "restartCount": restarts, "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
    });
    let status = Patch::Merge(json!({ "status": { "phase": "Running", "containerStatuses": [container] } }));
    api.patch_status(&name(number), &PatchParams::default(), &status).await.context("cannot write a status").map(drop)
}
