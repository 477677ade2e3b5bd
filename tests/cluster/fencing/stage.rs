//! A control plane with the policy in force, and a namespace in which an account writes fenced objects.

use std::path::PathBuf;

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::replica::until;

/// The Lease, the account and the fenced object have the name from the manifest.
pub(crate) const NAME: &str = "my-component";

pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    pub(crate) namespace: String,
}

impl Stage {
    /// With the policy, and a fenced ConfigMap that the administrator has created.
    pub(crate) async fn new() -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        let namespace = populate(&plane, "fencing").await;
        let stage = Self { plane, namespace };
        stage.admin().create(&PostParams::default(), &fenced(NAME, None)).await.unwrap();
        enforce(&stage.plane).await;
        let account =
            config_maps(stage.plane.client_for_service_account(&stage.namespace, NAME).await.unwrap(), &stage);
        // Once the policy is in force, it rejects a write without a mark.
        let refused = async || account.create(&dry_run(), &fenced("probe", None)).await.err().map(|_| ());
        until("the policy is in force", String::new, refused).await;
        stage
    }

    /// A client for ConfigMaps as the administrator, whom the policy exempts.
    pub(crate) fn admin(&self) -> Api<ConfigMap> {
        config_maps(self.plane.admin(), self)
    }

    /// A client for ConfigMaps under the account, with a token that is bound to no pod.
    pub(crate) async fn account(&self) -> Api<ConfigMap> {
        config_maps(self.plane.client_for_service_account(&self.namespace, NAME).await.unwrap(), self)
    }

    /// A client for ConfigMaps as a new pod of the account.
    pub(crate) async fn pod(&self, name: &str) -> Api<ConfigMap> {
        config_maps(Client::try_from(config(self.kubeconfig(name).await).await).unwrap(), self)
    }

    pub(crate) async fn kubeconfig(&self, pod: &str) -> PathBuf {
        self.plane.kubeconfig_for_pod(&self.namespace, NAME, pod).await.unwrap()
    }

    /// Changes the Lease, as the administrator.
    pub(crate) async fn lease(&self, holder: &str, session: &str, token: u64) {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": NAME,
                "annotations": {"hustings.io/session": session, "hustings.io/token": token.to_string()},
            },
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        });
        let leases = Api::<Lease>::namespaced(self.plane.admin(), &self.namespace);
        leases.patch(NAME, &PatchParams::apply("test").force(), &Patch::Apply(lease)).await.unwrap();
    }

    /// The mark of a term of the Lease.
    pub(crate) fn mark(&self, token: u64) -> String {
        format!("{}/{NAME}/{token}", self.namespace)
    }
}

/// A new namespace with an account that may write its Leases and ConfigMaps.
pub(crate) async fn populate(plane: &ControlPlane, prefix: &str) -> String {
    let namespace = plane.create_namespace(prefix).await.unwrap();
    plane.create_service_account(&namespace, NAME).await.unwrap();
    let may = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
    ]);
    let role = json!({"metadata": {"name": NAME}, "rules": may});
    let binding = json!({
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}],
    });
    let params = PostParams::default();
    let roles = Api::<Role>::namespaced(plane.admin(), &namespace);
    roles.create(&params, &serde_json::from_value(role).unwrap()).await.unwrap();
    let bindings = Api::<RoleBinding>::namespaced(plane.admin(), &namespace);
    bindings.create(&params, &serde_json::from_value(binding).unwrap()).await.unwrap();
    namespace
}

/// Applies the manifest; it takes a moment until the policy is in force.
pub(crate) async fn enforce(plane: &ControlPlane) {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/manifests/fencing.yaml");
    let output = plane.kubectl(["apply", "--filename", manifest]).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The configuration in a kubeconfig file, without retries.
pub(crate) async fn config(path: PathBuf) -> Config {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    config
}

/// A fenced ConfigMap under a mark.
pub(crate) fn fenced(name: &str, mark: Option<&str>) -> ConfigMap {
    let annotations = mark.map(|mark| json!({"hustings.io/fence": mark}));
    let metadata = json!({"name": name, "labels": {"example.com/fenced-by": NAME}, "annotations": annotations});
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

/// A patch of some data under a mark; without a mark, it keeps the mark of the last writer.
pub(crate) fn patch(mark: Option<&str>, data: &str) -> Patch<Value> {
    let metadata = mark.map(|mark| json!({"annotations": {"hustings.io/fence": mark}}));
    Patch::Merge(json!({"metadata": metadata.unwrap_or_else(|| json!({})), "data": {"data": data}}))
}

pub(crate) fn dry_run() -> PostParams {
    PostParams { dry_run: true, ..PostParams::default() }
}

/// The policy's message of a rejection; fails for any other answer.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> String {
    match answer {
        Err(kube::Error::Api(status)) if status.message.contains("fenced-by-my-component") => status.message.clone(),
        other => panic!("not rejected by the policy: {other:?}"),
    }
}

fn config_maps(client: Client, stage: &Stage) -> Api<ConfigMap> {
    Api::namespaced(client, &stage.namespace)
}
