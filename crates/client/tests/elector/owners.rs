//! Candidates and the Pods that own them. The test acts as the garbage collector.

use anyhow::{Context, Result, ensure};
use hustings_client::Campaign;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::stage::{Stage, eventually, patiently};

/// A UID in the form that the kubelet derives from a manifest.
const STATIC_UID: &str = "5f4dcc3b5aa765d61d8327deb882cf99";

/// A UID in the form that an API server assigns, but no object has it.
const UNKNOWN_UID: &str = "7d0c0a4e-5d7a-4d1c-9a53-3f1b54a1a3c1";

#[tokio::test]
async fn candidate_of_a_static_pod_is_not_deleted_with_the_mirror_pod() -> Result<()> {
    let stage = Stage::with_candidates("static").await?;
    create_pod(&stage, "web-node1", Some(STATIC_UID)).await?;
    let _campaign = start(&stage, "web-node1", STATIC_UID).await?;
    let uid = stands(&stage, "web-node1").await?.0;
    pods(&stage).delete("web-node1", &DeleteParams::default().grace_period(0)).await?;
    create_pod(&stage, "web-node1", Some(STATIC_UID)).await?;
    ensure!(stands(&stage, "web-node1").await? == (uid, false), "it was deleted");
    Ok(())
}

/// A manifest may give a static pod any UID.
#[tokio::test]
async fn candidate_whose_owner_is_unknown_to_the_api_server_stands_without_one() -> Result<()> {
    let stage = Stage::with_candidates("unknown-owner").await?;
    create_pod(&stage, "web-node1", Some(UNKNOWN_UID)).await?;
    let first = start(&stage, "web-node1", UNKNOWN_UID).await?;
    let (uid, is_owned) = stands(&stage, "web-node1").await?;
    ensure!(!is_owned);
    // The container restarts.
    first.abort();
    let _second = start(&stage, "web-node1", UNKNOWN_UID).await?;
    eventually("it names its owner again", || async { (collect(&stage).await.ok()? > 0).then_some(()) }).await?;
    let (again, is_owned) = stands(&stage, "web-node1").await?;
    ensure!(!is_owned && again != uid);
    Ok(())
}

#[tokio::test]
async fn candidate_of_a_pod_is_owned_and_stays() -> Result<()> {
    let stage = Stage::with_candidates("owner").await?;
    // Every pod except a mirror pod has a service account.
    let account = ServiceAccount {
        metadata: ObjectMeta { name: Some("default".to_owned()), ..ObjectMeta::default() },
        ..ServiceAccount::default()
    };
    Api::namespaced(stage.client.clone(), &stage.namespace).create(&PostParams::default(), &account).await?;
    let pod = create_pod(&stage, "web-0", None).await?;
    let _campaign = start(&stage, "web-0", &pod.uid().context("a uid")?).await?;
    let first = stage.candidate_where("web-0", "the candidate stands", |_| true).await?;
    ensure!(stands(&stage, "web-0").await? == (first.record.uid, true));
    Ok(())
}

/// Starts an elector, and waits for its candidate.
async fn start(stage: &Stage, name: &str, pod_uid: &str) -> Result<Campaign> {
    let campaign = stage.coordinated(name, "1.2.0")?.pod(name, pod_uid).build()?.start();
    stage.candidate_where(name, "the candidate stands", |_| true).await?;
    Ok(campaign)
}

/// Collects garbage until the candidate has survived ten collections. Returns its UID, and whether it has an owner.
async fn stands(stage: &Stage, name: &str) -> Result<(String, bool)> {
    let outlasts = async {
        let mut outlasted: Vec<String> = Vec::new();
        while outlasted.len() < 10 {
            collect(stage).await?;
            let uid = stage.candidate_where(name, "the candidate stands", |_| true).await?.record.uid;
            outlasted.retain(|former| *former == uid);
            outlasted.push(uid);
        }
        let candidate = stage.candidates().get(name).await?.record;
        Ok((candidate.uid, candidate.owned))
    };
    patiently("the candidate outlasts the garbage collector", outlasts).await?
}

/// Deletes each candidate that has owners if none of them exists, by name and UID, as Kubernetes' garbage collector
/// does. Returns how many it deleted.
async fn collect(stage: &Stage) -> Result<usize> {
    let mut deleted = 0;
    for candidate in stage.candidates().list(&ListParams::default()).await? {
        let owners = candidate.metadata.owner_references.clone().unwrap_or_default();
        let mut is_orphan = !owners.is_empty();
        for owner in owners {
            let pod = pods(stage).get_opt(&owner.name).await?;
            is_orphan &= pod.is_none_or(|pod| pod.uid() != Some(owner.uid));
        }
        if is_orphan {
            let exactly = Preconditions { uid: candidate.metadata.uid.clone(), resource_version: None };
            let parameters = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
            stage.candidates().delete(&candidate.record.name, &parameters).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}

/// Creates a pod. With `static_uid`, the UID that the kubelet gave a static pod, it is the mirror of that pod.
async fn create_pod(stage: &Stage, name: &str, static_uid: Option<&str>) -> Result<Pod> {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "automountServiceAccountToken": false, "containers": [{ "name": "web", "image": "web" }] },
    });
    if let Some(uid) = static_uid {
        pod["metadata"]["annotations"] =
            json!({ "kubernetes.io/config.mirror": uid, "kubernetes.io/config.hash": uid });
        pod["spec"]["nodeName"] = json!("node1");
    }
    let pod = pods(stage).create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    ensure!(pod.uid().as_deref() != static_uid);
    Ok(pod)
}

fn pods(stage: &Stage) -> Api<Pod> {
    Api::namespaced(stage.client.clone(), &stage.namespace)
}
