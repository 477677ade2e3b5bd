//! Each kind of program and of pod: one replica leads, and a kill from outside costs at most the lease.

use std::{fs, time::Duration};

use hustings_client::api::LeaseCandidate;
use hustings_controlplane::{NODE, eventually};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Pod},
};
use kube::ResourceExt as _;
use rustix::process::Signal;
use serde_json::json;

use super::{
    objects::create,
    stage::{Group, LEASE, Stage},
    workload::{PROGRAM, SIDECAR, Way, container, deploy, deploy_stateful, template},
};

/// The lease is 15 s. The rest is for a busy machine.
const CRASH: Duration = Duration::from_mins(1);

pub(crate) async fn wrapped_command_survives_a_killed_wrapper() {
    survive_a_kill("wrapped", Way::Wrapped, PROGRAM).await;
}

pub(crate) async fn program_beside_a_sidecar_survives_a_killed_sidecar() {
    survive_a_kill("sidecar", Way::Sidecar, SIDECAR).await;
}

pub(crate) async fn program_with_the_library_survives_a_kill() {
    survive_a_kill("library", Way::Library, PROGRAM).await;
}

async fn survive_a_kill(name: &str, way: Way, container: &str) {
    let group = Group::new(name).await;
    deploy(&group, 3, template(&group, way, "1.0.0")).await;
    let leader = group.leader().await;
    group.signal(&leader.replica, container, Signal::KILL).await;
    group.leader_after(&leader, CRASH).await;
    group.end().await;
}

/// By docs/protocol.md alone: the interpreter and its libraries are the machine's.
pub(crate) async fn program_in_python_survives_a_kill() {
    let group = Group::privileged("python").await;
    let program = include_str!("../../../kit/python/stand.py");
    create::<ConfigMap>(&group.api(), json!({"metadata": {"name": "program"}, "data": {"stand.py": program}})).await;
    let command = "S=/var/run/secrets/kubernetes.io/serviceaccount; python3 /program/stand.py \
        --server https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT --ca-file $S/ca.crt --token \"$(cat $S/token)\" \
        --namespace $POD_NAMESPACE --lease $LEASE --identity $POD_NAME --binary-version $VERSION \
        --emulation-version $VERSION | /worker relay";
    let mut worker = container(&group, PROGRAM, &["/usr/bin/sh", "-c", command]);
    worker["volumeMounts"] = json!([
        {"name": "program", "mountPath": "/program"},
        {"name": "usr", "mountPath": "/usr", "readOnly": true},
        {"name": "lib", "mountPath": "/lib", "readOnly": true},
        {"name": "lib64", "mountPath": "/lib64", "readOnly": true},
    ]);
    let directory = |name: &str, path: &str| json!({"name": name, "hostPath": {"path": path}});
    let spec = json!({
        "terminationGracePeriodSeconds": 5,
        "containers": [worker],
        "volumes": [
            {"name": "program", "configMap": {"name": "program"}},
            directory("usr", "/usr"), directory("lib", "/usr/lib"), directory("lib64", "/usr/lib64"),
        ],
    });
    let template = json!({"metadata": {"labels": {"app": "worker", "version": "1.0.0"}}, "spec": spec});
    deploy(&group, 3, template).await;
    let leader = group.leader().await;
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    group.leader_after(&leader, CRASH).await;
    group.end().await;
}

pub(crate) async fn stateful_set_survives_a_kill_and_a_restart() {
    let group = Group::new("stateful").await;
    deploy_stateful(&group, 3, template(&group, Way::Wrapped, "1.0.0")).await;
    let leader = group.leader().await;
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    let leader = group.leader_after(&leader, CRASH).await;

    // The next pod of that name has the same identity, and must not pass for the former one.
    group.delete(&leader.replica, &kube::api::DeleteParams::default()).await;
    let next = group.leader_after(&leader, CRASH).await;
    assert_ne!(next.replica, leader.replica, "a stopped replica hands over to one that runs");
    let former = leader.replica.as_str();
    let pods = group.api::<Pod>();
    eventually(async || {
        let pod = pods.get(former).await.map_err(|error| error.to_string())?;
        let is_new = pod.metadata.deletion_timestamp.is_none();
        is_new.then_some(()).ok_or_else(|| "the former pod is still there".to_owned())
    })
    .await
    .unwrap();
    group.wait_for_candidates(3).await;
    group.end().await;
}

/// A static pod has no ServiceAccount: it reads a kubeconfig file of the node.
pub(crate) async fn static_pod_takes_its_lease_back_after_a_kill() {
    let group = Group::privileged("static").await;
    let plane = group.plane();
    let kubeconfig = plane.kubeconfig_for_service_account(&group.name, "default").await.unwrap();
    let folder = plane.folder().to_str().unwrap();
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let run = ["/hustings", "run", "--lease=work", "--binary-version=1.0.0", &flag, "--", "/worker", "command"];
    let mut worker = container(&group, PROGRAM, &run);
    worker["volumeMounts"] = json!([{"name": "folder", "mountPath": folder, "readOnly": true}]);
    // The files belong to root, and the kubeconfig names an address of the node.
    worker["securityContext"] = json!({"runAsUser": 0});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "worker", "namespace": group.name, "labels": {"version": "1.0.0"}},
        "spec": {
            "hostNetwork": true,
            "terminationGracePeriodSeconds": 5,
            "containers": [worker],
            "volumes": [{"name": "folder", "hostPath": {"path": folder}}],
        },
    });
    let manifest = Stage::shared().node.manifests().join("static.json");
    fs::write(&manifest, pod.to_string()).unwrap();
    let leader = group.leader().await;
    assert_eq!(leader.replica, format!("worker-{NODE}"));
    group.signal(&leader.replica, PROGRAM, Signal::KILL).await;
    let next = group.leader_after(&leader, CRASH).await;
    assert_eq!(next.replica, leader.replica);
    group.end().await;
    fs::remove_file(&manifest).unwrap();
}

/// The identity is the pod's name, the candidate belongs to the pod, and the session names its UID.
pub(crate) async fn pod_stands_under_its_own_identity() {
    let group = Group::new("identity").await;
    deploy(&group, 1, template(&group, Way::Library, "1.0.0")).await;
    let leader = group.leader().await;
    let uid = group.pod(&leader.replica).await.uid().unwrap();
    let candidate = group.api::<LeaseCandidate>().get(&leader.replica).await.unwrap();
    let owners = candidate.owner_references();
    assert_eq!(
        owners.iter().map(|owner| (owner.kind.as_str(), owner.uid.as_str())).collect::<Vec<_>>(),
        [("Pod", uid.as_str())]
    );
    let lease = group.api::<Lease>().get(LEASE).await.unwrap();
    let session = lease.annotations()["hustings.io/session"].clone();
    assert!(session.starts_with(&format!("{uid}.{PROGRAM}.")), "{session}");
}
