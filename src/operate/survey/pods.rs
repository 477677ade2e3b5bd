//! The few fields of a Pod that show which container holds a Lease.

use std::collections::BTreeMap;

use hustings_core::assist::PodLayout;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, ListParams};
use kube::core::{NotUsed, Object};
use kube::{Api, ResourceExt as _};
use serde::Deserialize;

use crate::base::cluster::Cluster;
use crate::base::pages::Pages;

/// The annotation of a Pod that the kubelet created from a file. Its name ends in `-` and the name of its node.
const STATIC: &str = "kubernetes.io/config.mirror";

/// The labels that name a component, best first.
const COMPONENT: [&str; 3] = ["app.kubernetes.io/name", "app", "k8s-app"];

/// A Pod, as far as a survey needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct SurveyedPod {
    pub(super) layout: PodLayout,
    /// The name of its node; empty while it has none.
    pub(super) node: String,
    pub(super) is_static: bool,
    /// The component that it belongs to.
    pub(super) component: Option<String>,
}

/// A Pod without most of its content, which a large cluster has too much of.
type SlimPod = Object<SlimSpec, NotUsed>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimSpec {
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

/// Reads the Pods of a namespace, by name.
///
/// # Errors
/// Fails if a request fails.
pub(super) async fn list(cluster: &Cluster, namespace: &str) -> kube::Result<BTreeMap<String, SurveyedPod>> {
    let api = Api::<SlimPod>::namespaced_with(cluster.leases.clone(), namespace, &ApiResource::erase::<Pod>(&()));
    let (mut pages, mut pods) = (Pages::new(api, ListParams::default()), BTreeMap::new());
    while let Some(page) = pages.next().await? {
        pods.extend(page.into_iter().map(|pod| (pod.name_any(), surveyed(pod))));
    }
    Ok(pods)
}

fn surveyed(pod: SlimPod) -> SurveyedPod {
    let (name, component) = (pod.name_any(), component(&pod));
    let is_static = pod.annotations().contains_key(STATIC);
    let names = |containers: Option<Vec<SlimContainer>>| containers.into_iter().flatten().map(|one| one.name);
    let spec = pod.spec;
    let mut beside = spec.init_containers;
    if let Some(all) = &mut beside {
        all.retain(|one| one.restart_policy.as_deref() == Some("Always"));
    }
    let layout = PodLayout {
        name,
        uses_host_network: spec.host_network == Some(true),
        shares_processes: spec.host_pid == Some(true) || spec.share_process_namespace == Some(true),
        containers: names(spec.containers).collect(),
        others: names(beside).chain(names(spec.ephemeral_containers)).collect(),
    };
    SurveyedPod { layout, node: spec.node_name.unwrap_or_default(), is_static, component }
}

/// The component that a Pod belongs to: its label, or else its owner.
fn component(pod: &SlimPod) -> Option<String> {
    let labels = pod.labels();
    if let Some(label) = COMPONENT.iter().find_map(|key| labels.get(*key)).filter(|label| !label.is_empty()) {
        return Some(label.clone());
    }
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true) && owner.kind != "Node")?;
    // A Deployment owns its Pods through a ReplicaSet, whose name ends in a hash.
    let hash = labels.get("pod-template-hash").map(|hash| format!("-{hash}"));
    Some(hash.and_then(|hash| owner.name.strip_suffix(&hash)).unwrap_or(&owner.name).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_component_is_named_by_a_label_or_else_by_the_owner() {
        let owner = |kind: &str, name: &str| json!([{ "apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": true }]);
        for (labels, owners, expected) in [
            (json!({ "app.kubernetes.io/name": "web", "app": "other" }), owner("ReplicaSet", "r"), Some("web")),
            (json!({ "k8s-app": "dns" }), json!([]), Some("dns")),
            (json!({ "pod-template-hash": "6b8" }), owner("ReplicaSet", "web-6b8"), Some("web")),
            (json!({ "pod-template-hash": "6b8" }), owner("ReplicaSet", "web-7"), Some("web-7")),
            (json!({ "app": "" }), owner("StatefulSet", "db"), Some("db")),
            (json!({}), owner("Node", "cp-0"), None),
            (json!({}), json!([]), None),
        ] {
            let pod = json!({ "metadata": { "name": "p", "labels": labels, "ownerReferences": owners }, "spec": {} });
            let pod = surveyed(serde_json::from_value(pod.clone()).unwrap());
            assert_eq!(pod.component.as_deref(), expected, "{labels} {owners}");
        }
    }

    #[test]
    fn containers_that_run_beside_the_regular_ones_are_found() {
        let spec = json!({
            "containers": [{ "name": "app", "image": "i" }],
            "initContainers": [{ "name": "setup" }, { "name": "mesh", "restartPolicy": "Always" }],
            "ephemeralContainers": [{ "name": "debugger" }], "hostNetwork": true, "hostPID": true, "nodeName": "cp-0",
        });
        let pod = json!({ "metadata": { "name": "p", "annotations": { STATIC: "h" } }, "spec": spec, "status": { "phase": "Running" } });
        let pod = surveyed(serde_json::from_value(pod).unwrap());
        assert_eq!((pod.node.as_str(), pod.is_static), ("cp-0", true));
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let layout = PodLayout {
            name: "p".to_owned(),
            uses_host_network: true,
            shares_processes: true,
            containers: names(&["app"]),
            others: names(&["mesh", "debugger"]),
        };
        assert_eq!(pod.layout, layout);
        let sharing = json!({ "metadata": {}, "spec": { "containers": null, "shareProcessNamespace": true } });
        let sharing = surveyed(serde_json::from_value(sharing).unwrap()).layout;
        assert!(sharing.shares_processes && !sharing.uses_host_network && sharing.containers.is_empty());
    }
}
