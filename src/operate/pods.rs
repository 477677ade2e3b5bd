//! Reads Pods without most of their content, which a large cluster has too much of.

use std::sync::Arc;

use hustings_core::model::{ContainerKind, ContainerRecord, PodRecord};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ApiResource;
use kube::core::{NotUsed, Object};
use kube::{Api, ResourceExt as _};
use serde::Deserialize;

use crate::base::cluster::Cluster;

/// The annotation of the object that shows a static pod. Its name ends in `-` and the name of its node.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The few fields of a Pod that show which container holds a Lease.
pub(super) type SlimPod = Object<SlimSpec, NotUsed>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SlimSpec {
    containers: Option<Vec<SlimContainer>>,
    init_containers: Option<Vec<SlimContainer>>,
    ephemeral_containers: Option<Vec<SlimContainer>>,
    host_network: Option<bool>,
    #[serde(rename = "hostPID")]
    host_pid: Option<bool>,
    share_process_namespace: Option<bool>,
    node_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimContainer {
    name: String,
    restart_policy: Option<String>,
}

/// The Pods of a namespace.
pub(super) fn api(cluster: &Cluster, namespace: &str) -> Api<SlimPod> {
    Api::namespaced_with(cluster.leases.clone(), namespace, &ApiResource::erase::<Pod>(&()))
}

/// The Pod as a controller knows it, except that its containers come from the spec and have no ends.
pub(super) fn record(pod: SlimPod) -> PodRecord {
    let (name, uid, spec) = (pod.name_any().into(), pod.uid().unwrap_or_default().into(), pod.spec);
    let of_kind = |containers: Option<Vec<SlimContainer>>, kind: fn(&SlimContainer) -> Option<ContainerKind>| {
        let container = move |one: SlimContainer| {
            Some(ContainerRecord { kind: kind(&one)?, name: one.name.into(), ..ContainerRecord::default() })
        };
        containers.into_iter().flatten().filter_map(container)
    };
    let containers = of_kind(spec.containers, |_| Some(ContainerKind::Regular))
        .chain(of_kind(spec.init_containers, |one| ContainerKind::of_init(one.restart_policy.as_deref())))
        .chain(of_kind(spec.ephemeral_containers, |_| Some(ContainerKind::Ephemeral)))
        .collect();
    PodRecord {
        name,
        uid,
        node: spec.node_name.map(Arc::from),
        host_network: spec.host_network == Some(true),
        host_pid: spec.host_pid == Some(true),
        share_process_namespace: spec.share_process_namespace == Some(true),
        containers,
        ..PodRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn containers_that_run_beside_the_regular_ones_are_found() {
        let spec = json!({
            "containers": [{ "name": "app", "image": "i" }],
            "initContainers": [{ "name": "setup" }, { "name": "mesh", "restartPolicy": "Always" }],
            "ephemeralContainers": [{ "name": "debugger" }], "hostNetwork": true, "hostPID": true, "nodeName": "cp-0",
        });
        let pod = json!({ "metadata": { "name": "p", "uid": "u" }, "spec": spec, "status": { "phase": "Running" } });
        let container = |name: &str, kind| ContainerRecord { name: name.into(), kind, ..ContainerRecord::default() };
        let expected = PodRecord {
            name: "p".into(),
            uid: "u".into(),
            node: Some("cp-0".into()),
            host_network: true,
            host_pid: true,
            containers: [
                container("app", ContainerKind::Regular),
                container("mesh", ContainerKind::RestartableInit),
                container("debugger", ContainerKind::Ephemeral),
            ]
            .into(),
            ..PodRecord::default()
        };
        assert_eq!(record(serde_json::from_value(pod).unwrap()), expected);
        let sharing = json!({ "metadata": {}, "spec": { "containers": null, "shareProcessNamespace": true } });
        let sharing = record(serde_json::from_value(sharing).unwrap());
        assert!(sharing.shares_processes() && !sharing.host_network && sharing.containers.is_empty());
    }
}
