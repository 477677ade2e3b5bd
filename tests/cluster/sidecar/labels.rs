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

#[tokio::test]
async fn with_a_connected_client_the_label_is_on_for_its_term_alone() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "connected-label").await;
    stage.allow_labels().await;
    let one = stage.start("one", &["--while-connected"]).await;
    for _ in 0..2 {
        until("no pod is labelled", || one.log(), async || stage.selected().await.is_empty().then_some(())).await;
        let mut client = one.events("/term").await;
        client.named("leading").await;
        until("it is labelled", || one.log(), async || (stage.selected().await == ["one"]).then_some(())).await;
    }
}

#[tokio::test]
async fn a_pod_that_cannot_be_labelled_is_reported_at_the_start() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "unlabelled").await;
    let assert_reported = async |command: &mut std::process::Command, reason: &str| {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("error: cannot label pod {}/one", stage.namespace)), "{text}");
        assert!(text.contains(reason) && text.contains("hint: --pod-label needs POD_NAME"), "{text}");
    };
    stage.pod("one").await;
    assert_reported(&mut stage.command("one", &[]), "cannot patch resource").await;
    stage.allow_labels().await;
    assert_reported(stage.command("one", &[]).env("POD_UID", "another"), "metadata.uid: Invalid value").await;
    stage.pods().delete("one", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    assert_reported(&mut stage.command("one", &[]), "not found").await;
}

/// The kubelet invents the pod's UID. The API server has another UID for the mirror pod.
#[tokio::test]
async fn a_static_pod_is_labelled_by_its_name() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "static").await;
    stage.allow_labels().await;
    stage.pod("one").await;
    let mut command = stage.command("one", &[]);
    command.env("POD_UID", "5f4dcc3b5aa765d61d8327deb882cf99");
    let one = Sidecar::run(&plane, &stage.namespace, "one", command).await;
    until("the label is on", || one.log(), async || (stage.selected().await == ["one"]).then_some(())).await;
}

/// The program may continue after the end of the sidecar's container. That end must not be evidence of a dead holder.
#[tokio::test]
async fn the_term_of_a_sidecar_names_no_container() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "elsewhere").await;
    let mut command = command(&stage.kubeconfig, &stage.namespace, "one", &DIRECT);
    command.env("POD_NAME", "one").env("POD_UID", "uid-of-one").env("CONTAINER_NAME", "sidecar");
    let one = Sidecar::run(&plane, &stage.namespace, "one", command).await;
    one.leads().await;
    let lease = Api::<Lease>::namespaced(plane.admin(), &stage.namespace).get("work").await.unwrap();
    let session = &lease.annotations()["hustings.io/session"];
    assert!(session.starts_with("uid-of-one.-."), "{session}");
}

#[tokio::test]
async fn a_removed_label_does_not_stop_the_sidecar_from_leading() {
    let plane = shared().await.unwrap();
    let stage = Stage::new(&plane, "mended").await;
    stage.allow_labels().await;
    let one = stage.start("one", &[]).await;
    let standing = one.leads().await;
    until("the label is on", || one.log(), async || (stage.selected().await == ["one"]).then_some(())).await;
    let off = json!({"metadata": {"labels": {"hustings.io/leader": null}}});
    stage.pods().patch("one", &PatchParams::default(), &Patch::Merge(off)).await.unwrap();
    assert_eq!(one.standing().await["token"], standing["token"]);
    // The pod is deleted, and its label with it.
    stage.pods().delete("one", &kube::api::DeleteParams::default().grace_period(0)).await.unwrap();
    let started = std::time::Instant::now();
    assert!(one.process.stop().await.unwrap().success(), "{}", one.log());
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
    assert!(!one.log().contains("the label was not removed within"), "{}", one.log());
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
