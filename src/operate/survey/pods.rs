//! The few fields of a Pod that show which container holds a Lease.

use std::collections::BTreeMap;

use hustings_core::model::PodRecord;
use kube::ResourceExt as _;
use kube::api::ListParams;

use crate::base::cluster::Cluster;
use crate::base::pages::Pages;
use crate::operate::pods::{MIRROR, SlimPod, api, record};

/// The labels that name a component, best first.
const COMPONENT: [&str; 3] = ["app.kubernetes.io/name", "app", "k8s-app"];

/// A Pod, as far as a survey needs it.
#[derive(Clone, Debug, Default)]
pub(super) struct SurveyedPod {
    pub(super) record: PodRecord,
    pub(super) is_static: bool,
    /// The component that it belongs to.
    pub(super) component: Option<String>,
}

/// Reads the Pods of a namespace, by name.
///
/// # Errors
/// Fails if a request fails.
pub(super) async fn list(cluster: &Cluster, namespace: &str) -> kube::Result<BTreeMap<String, SurveyedPod>> {
    let (mut pages, mut pods) = (Pages::new(api(cluster, namespace), ListParams::default()), BTreeMap::new());
    while let Some(page) = pages.next().await? {
        pods.extend(page.into_iter().map(|pod| (pod.name_any(), surveyed(pod))));
    }
    Ok(pods)
}

fn surveyed(pod: SlimPod) -> SurveyedPod {
    let is_static = pod.annotations().contains_key(MIRROR);
    SurveyedPod { component: component(&pod), record: record(pod), is_static }
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
    fn a_static_pod_has_the_annotation_of_the_kubelet() {
        for (annotations, expected) in [(json!({ MIRROR: "h" }), true), (json!({}), false)] {
            let pod = json!({ "metadata": { "name": "p", "annotations": annotations }, "spec": {} });
            assert_eq!(surveyed(serde_json::from_value(pod).unwrap()).is_static, expected);
        }
    }
}
