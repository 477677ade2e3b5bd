//! Keys that follow Istio's default revision tag.

use anyhow::Result;
use hustings_client::{Campaign, follow_istio_key, lease_client};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::rights::Account;
use super::stage::{LONG, Stage, eventually, leads, patiently};

/// The namespace of a test is the namespace of its Istio, which gives each test a tag of its own.
struct Mesh {
    stage: Stage,
    account: Account,
    tag: String,
}

impl Mesh {
    /// An account may list and watch this tag, and nothing else of the cluster.
    async fn new(prefix: &str) -> Result<Self> {
        let stage = Stage::with_open_lease(prefix).await?;
        let account = Account::new(&stage, "istiod").await?;
        let tag = format!("istio-revision-tag-default-{}", stage.namespace);
        Ok(Self { stage, account, tag })
    }

    async fn grant(&self) -> Result<()> {
        let role: ClusterRole = serde_json::from_value(json!({
            "metadata": { "name": self.tag },
            "rules": [{
                "apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"],
                "resourceNames": [self.tag], "verbs": ["list", "watch"],
            }],
        }))?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": self.tag },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.tag },
            "subjects": [{ "kind": "ServiceAccount", "name": "istiod", "namespace": self.stage.namespace }],
        }))?;
        create(&self.api(), &role).await?;
        create(&self.api(), &binding).await
    }

    fn api<K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.stage.plane.admin())
    }

    fn key(&self, revision: &str, is_local: bool) -> Result<watch::Receiver<Option<i64>>> {
        let client = lease_client(self.account.config())?;
        Ok(follow_istio_key(client, &self.stage.namespace, revision, is_local))
    }

    fn start(&self, revision: &str, is_local: bool) -> Result<Campaign> {
        let name = format!("{revision}-{is_local}");
        let elector = self.stage.direct(&name)?.key(self.key(revision, is_local)?);
        Ok(elector.timing(LONG).build()?.start())
    }

    async fn create_tag(&self, labels: Value) -> Result<()> {
        let tag = json!({ "metadata": { "name": self.tag, "labels": labels }, "webhooks": [] });
        create(&self.api::<MutatingWebhookConfiguration>(), &serde_json::from_value(tag)?).await
    }

    async fn label_tag(&self, labels: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        self.api::<MutatingWebhookConfiguration>().patch(&self.tag, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn delete_tag(&self) -> Result<()> {
        self.api::<MutatingWebhookConfiguration>().delete(&self.tag, &DeleteParams::default()).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_key_follows_the_default_tag_from_its_creation_to_its_deletion() -> Result<()> {
    let mesh = Mesh::new("istio-key").await?;
    let keys = [("", true), ("canary", true), ("canary", false)];
    let mut keys = keys.map(|(revision, is_local)| mesh.key(revision, is_local).expect("a client"));
    let mut become_ = async |expected: [Option<i64>; 3]| {
        for (key, expected) in keys.iter_mut().zip(expected) {
            let reached = key.wait_for(|key| *key == expected);
            patiently("the key changes", reached).await??;
        }
        anyhow::Ok(())
    };
    // Without the permission, the state of the tag is unknown.
    become_([None; 3]).await?;
    mesh.grant().await?;
    become_([Some(1), Some(1), Some(0)]).await?;
    mesh.create_tag(json!({ "istio.io/rev": "canary", "istio.io/tag": "default" })).await?;
    become_([Some(1), Some(3), Some(2)]).await?;
    mesh.label_tag(json!({ "istio.io/rev": "default" })).await?;
    become_([Some(3), Some(1), Some(0)]).await?;
    mesh.label_tag(json!({ "istio.io/rev": null })).await?;
    become_([Some(1), Some(1), Some(0)]).await?;
    mesh.label_tag(json!({ "istio.io/rev": "canary" })).await?;
    become_([Some(1), Some(3), Some(2)]).await?;
    mesh.delete_tag().await?;
    become_([Some(1), Some(1), Some(0)]).await
}

#[tokio::test]
async fn a_local_replica_takes_over_from_a_remote_one_before_there_is_a_default_revision_and_after() -> Result<()> {
    let mesh = Mesh::new("istio-lead").await?;
    mesh.grant().await?;
    let remote = mesh.start("stable", false)?;
    leads(&remote.leadership()).await?;
    let local = mesh.start("canary", true)?;
    leads(&local.leadership()).await?;

    mesh.create_tag(json!({ "istio.io/rev": "stable" })).await?;
    leads(&remote.leadership()).await?;
    mesh.delete_tag().await?;
    leads(&local.leadership()).await?;
    eventually("the former holder has stopped", || async { (!remote.leadership().is_leader()).then_some(()) }).await
}

async fn create<K: Clone + std::fmt::Debug + Serialize + DeserializeOwned>(api: &Api<K>, object: &K) -> Result<()> {
    api.create(&PostParams::default(), object).await?;
    Ok(())
}
