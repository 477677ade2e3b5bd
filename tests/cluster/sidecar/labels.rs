//! The label on the sidecar's own pod, by which a Service selects the holder.

use hustings_controlplane::{ControlPlane, shared};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::beside::{DIRECT, Sidecar, command};
use crate::history::History;
use crate::replica::{candidate_account, until};

const KEY: &str = "hustings.io/leader";
const LABEL: &str = "hustings.io/leader=true";

#[tokio::test]
async fn the_label_is_on_the_pod_of_the_leader_alone_and_off_before_another_leads() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "labels").await;
    stage.allow_labels().await;
    let one = stage.start("one", &[]).await;
    one.leads().await;
    until("the leader's pod is labelled", || one.log(), async || (stage.selected().await == ["one"]).then_some(()))
        .await;
    let two = stage.start("two", &[]).await;

    // By the versions that a watch shows: first after a request to hand over, then after a stop.
    let leases = History::of(Api::<Lease>::namespaced(plane.admin(), &stage.namespace)).await;
    let pods = History::of(stage.pods()).await;
    let preferred = json!({"metadata": {"annotations": {"hustings.io/preferred-holder": "two"}}});
    let lease = Api::<Lease>::namespaced(plane.admin(), &stage.namespace);
    lease.patch("work", &PatchParams::default(), &Patch::Merge(preferred)).await.unwrap();
    until("the other's pod is labelled", || two.log(), async || (stage.selected().await == ["two"]).then_some(()))
        .await;
    assert!(two.process.stop().await.unwrap().success(), "{}", two.log());
    until("the label is back", || one.log(), async || (stage.selected().await == ["one"]).then_some(())).await;
    for name in ["one", "two"] {
        let off = async || {
            let labels = pods.read(|pod| (pod.name_any() == name).then(|| pod.labels().contains_key(KEY)));
            let labels: Vec<_> = labels.into_iter().filter_map(|(version, on)| Some((version, on?))).collect();
            labels.windows(2).find(|pair| pair[0].1 && !pair[1].1).map(|pair| pair[1].0)
        };
        let given_up = async || {
            let holders = leases.read(|lease| lease.spec.as_ref()?.holder_identity.clone());
            let is_its = |holder: &Option<String>| holder.as_deref() == Some(name);
            holders.windows(2).find(|pair| is_its(&pair[0].1) && !is_its(&pair[1].1)).map(|pair| pair[1].0)
        };
        let off = until("the label is seen to go", || one.log(), off).await;
        let given_up = until("the Lease is seen to go", || one.log(), given_up).await;
        assert!(off < given_up, "{name}: the label goes with version {off} and the Lease with {given_up}");
    }

    // The next sidecar of the pod removes a dead sidecar's label at once, although it does not lead.
    let three = stage.start("three", &["--lease=another"]).await;
    three.leads().await;
    one.process.kill().unwrap();
    until("both are labelled", || three.log(), async || (stage.selected().await == ["one", "three"]).then_some(()))
        .await;
    let again = stage.start("one", &["--lease=another"]).await;
    until("it is cleaned", || again.log(), async || (stage.selected().await == ["three"]).then_some(())).await;
}

/// The kubelet invents the pod's UID. The API server has another UID for the mirror pod.
#[tokio::test]
async fn a_static_pod_is_labelled_by_its_name_and_any_other_by_its_uid() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "static").await;
    stage.allow_labels().await;
    stage.pod("one").await;
    let mut command = stage.command("one", &[]);
    command.env("POD_UID", "5f4dcc3b5aa765d61d8327deb882cf99");
    let one = Sidecar::run(&plane, &stage.namespace, "one", command).await;
    until("the label is on", || one.log(), async || (stage.selected().await == ["one"]).then_some(())).await;
    let former = stage.command("one", &[]).env("POD_UID", "another").output().unwrap();
    let said = String::from_utf8_lossy(&former.stderr);
    assert!(
        said.contains("metadata.uid: Invalid value"),
        "a former pod of this name does not label the present one: {said}"
    );
}

/// A namespace with pods. Their sidecars run under one ServiceAccount.
struct Stage<'plane> {
    plane: &'plane ControlPlane,
    namespace: String,
    kubeconfig: std::path::PathBuf,
}

impl<'plane> Stage<'plane> {
    async fn new(plane: &'plane ControlPlane, prefix: &str) -> Self {
        let namespace = plane.create_namespace(prefix).await.unwrap();
        let kubeconfig = candidate_account(plane, &namespace, "program").await;
        bind(plane, &namespace, "leases", json!([{
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "patch"],
        }]))
        .await;
        Self { plane, namespace, kubeconfig }
    }

    /// Lets the sidecars label pods, as the manifest does.
    async fn allow_labels(&self) {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]);
        bind(self.plane, &self.namespace, "pods", rules).await;
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.plane.admin(), &self.namespace)
    }

    /// The pod of this name. Without a kubelet nothing runs in it.
    async fn pod(&self, name: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": name},
            "spec": {"serviceAccountName": "program", "containers": [{"name": "program", "image": "program"}]},
        });
        let pods = self.pods();
        match pods.get_opt(name).await.unwrap() {
            Some(pod) => pod,
            None => pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap(),
        }
    }

    fn command(&self, name: &str, flags: &[&str]) -> std::process::Command {
        let label = format!("--pod-label={LABEL}");
        let flags = [&DIRECT[..], &[&label], flags].concat();
        let mut command = command(&self.kubeconfig, &self.namespace, name, &flags);
        command.env("POD_NAME", name).env("POD_NAMESPACE", &self.namespace).env_remove("POD_UID");
        command
    }

    /// A sidecar in a pod of its own.
    async fn start(&self, name: &str, flags: &[&str]) -> Sidecar {
        let pod = self.pod(name).await;
        let mut command = self.command(name, flags);
        command.env("POD_UID", pod.uid().unwrap());
        Sidecar::run(self.plane, &self.namespace, name, command).await
    }

    /// The pods that a Service with the label as its selector would have as endpoints.
    async fn selected(&self) -> Vec<String> {
        let pods = self.pods().list(&ListParams::default().labels(LABEL)).await.unwrap();
        pods.iter().map(kube::ResourceExt::name_any).collect()
    }
}

/// Grants `rules` to the ServiceAccount `program`.
async fn bind(plane: &ControlPlane, namespace: &str, name: &str, rules: serde_json::Value) {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let api = Api::<Role>::namespaced(plane.admin(), namespace);
    api.create(&PostParams::default(), &serde_json::from_value(role).unwrap()).await.unwrap();
    let binding = json!({
        "metadata": {"name": format!("program-{name}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "program", "namespace": namespace}],
    });
    let bindings = Api::<RoleBinding>::namespaced(plane.admin(), namespace);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
}
