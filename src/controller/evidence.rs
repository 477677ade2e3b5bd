//! The Pods and Nodes that may prove a holder dead, as the controller watches them.
//!
//! The election decides what a Pod or a Node proves. A watch shows every Pod in its scope, so this module parses only the
//! few fields that matter.

use std::collections::BTreeMap;

use hustings_core::model::{ContainerEnd, ContainerKind, ContainerRecord, NodeRecord, PodLabel, PodRecord, WireTime};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// The taint with which an administrator declares that a machine is off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A Pod as the watch reads it.
#[derive(Clone, Debug, Resource)]
#[resource(inherit = Pod)]
pub(crate) struct ReadPod {
    metadata: ObjectMeta,
    /// The fields that may prove a holder dead.
    pub(crate) record: PodRecord,
    pub(super) labels: Vec<PodLabel>,
}

/// A Node as the watch reads it.
#[derive(Clone, Debug, Resource)]
#[resource(inherit = Node)]
pub(super) struct ReadNode {
    metadata: ObjectMeta,
    /// The fields that may prove a holder dead.
    pub(super) record: NodeRecord,
}

/// The fields of a Pod that are parsed.
#[derive(Deserialize)]
struct PodFields {
    metadata: MetadataFields,
    spec: Option<SpecFields>,
    status: Option<StatusFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataFields {
    namespace: Option<String>,
    name: Option<String>,
    #[serde(default)]
    uid: Box<str>,
    resource_version: Option<String>,
    annotations: Option<AnnotationFields>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct AnnotationFields {
    /// The UID that the kubelet uses for a static pod.
    #[serde(rename = "kubernetes.io/config.hash")]
    config_hash: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecFields {
    node_name: Option<Box<str>>,
    host_network: bool,
    #[serde(rename = "hostPID")]
    host_pid: bool,
    share_process_namespace: bool,
    init_containers: Option<Vec<InitContainerFields>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitContainerFields {
    name: Box<str>,
    restart_policy: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
struct StatusFields {
    phase: Option<Box<str>>,
    #[serde(rename = "containerStatuses")]
    regular: Option<Vec<ContainerFields>>,
    #[serde(rename = "initContainerStatuses")]
    init: Option<Vec<ContainerFields>>,
    #[serde(rename = "ephemeralContainerStatuses")]
    ephemeral: Option<Vec<ContainerFields>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerFields {
    name: Box<str>,
    state: Option<StateFields>,
    last_state: Option<StateFields>,
}

#[derive(Deserialize)]
struct StateFields {
    terminated: Option<InstanceFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceFields {
    #[serde(default, deserialize_with = "time")]
    started_at: Option<WireTime>,
    #[serde(default, deserialize_with = "time")]
    finished_at: Option<WireTime>,
    reason: Option<Box<str>>,
}

/// The fields of a Node that are parsed.
#[derive(Deserialize)]
struct NodeFields {
    metadata: NodeMetadata,
    spec: Option<NodeSpec>,
    status: Option<NodeStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeMetadata {
    name: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
struct NodeSpec {
    taints: Option<Vec<TaintFields>>,
}

#[derive(Deserialize)]
struct TaintFields {
    key: Box<str>,
}

#[derive(Deserialize)]
struct NodeStatus {
    conditions: Option<Vec<ConditionFields>>,
}

#[derive(Deserialize)]
struct ConditionFields {
    #[serde(rename = "type")]
    kind: Box<str>,
    status: Box<str>,
}

impl<'de> Deserialize<'de> for ReadPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let PodFields { metadata, spec, status } = PodFields::deserialize(deserializer)?;
        // Without a spec, assume that the containers share their processes.
        let spec = spec.unwrap_or_else(|| SpecFields { share_process_namespace: true, ..SpecFields::default() });
        let status = status.unwrap_or_default();
        let record = PodRecord {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            uid: metadata.uid,
            config_hash: metadata.annotations.and_then(|annotations| annotations.config_hash),
            host_network: spec.host_network,
            host_pid: spec.host_pid,
            share_process_namespace: spec.share_process_namespace,
            is_over: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            containers: containers(&spec, status),
            node: spec.node_name.map(Into::into),
        };
        let (namespace, name, resource_version) = (metadata.namespace, metadata.name, metadata.resource_version);
        let labels = metadata.labels.into_iter().flatten().map(|(key, value)| PodLabel { key, value }).collect();
        Ok(Self { metadata: ObjectMeta { namespace, name, resource_version, ..ObjectMeta::default() }, record, labels })
    }
}

/// The containers that may run beside one another. An init container that ends before the next one starts is left out.
fn containers(spec: &SpecFields, status: StatusFields) -> Box<[ContainerRecord]> {
    let beside = |status: ContainerFields| {
        let is_this = |container: &&InitContainerFields| container.name == status.name;
        let init = spec.init_containers.iter().flatten().find(is_this)?;
        Some(container(ContainerKind::of_init(init.restart_policy.as_deref())?, status))
    };
    let of_kind = |kind| move |status| container(kind, status);
    let regular = status.regular.into_iter().flatten().map(of_kind(ContainerKind::Regular));
    let ephemeral = status.ephemeral.into_iter().flatten().map(of_kind(ContainerKind::Ephemeral));
    regular.chain(status.init.into_iter().flatten().filter_map(beside)).chain(ephemeral).collect()
}

fn container(kind: ContainerKind, ContainerFields { name, state, last_state }: ContainerFields) -> ContainerRecord {
    let end = |InstanceFields { started_at, finished_at, reason }| ContainerEnd {
        started_at,
        finished_at,
        reason: reason.unwrap_or_default(),
    };
    let ends = [state, last_state].into_iter().flatten().filter_map(|state| state.terminated).map(end).collect();
    ContainerRecord { name: name.into(), kind, ends }
}

/// Reads a time. The API server stores some that do not exist here, such as the last second of the year 9999. One of them
/// must not make a whole list unreadable: it counts as none.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WireTime>, D::Error> {
    let text = Option::<Box<str>>::deserialize(deserializer)?;
    let time = text.and_then(|text| text.parse::<Timestamp>().ok());
    Ok(time.map(|time| WireTime::from_micros(time.as_microsecond())))
}

impl<'de> Deserialize<'de> for ReadNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let NodeFields { metadata, spec, status } = NodeFields::deserialize(deserializer)?;
        let taints = spec.and_then(|spec| spec.taints).into_iter().flatten();
        let conditions = status.and_then(|status| status.conditions).into_iter().flatten();
        let record = NodeRecord {
            name: metadata.name.clone().unwrap_or_default(),
            is_out_of_service: taints.map(|taint| taint.key).any(|key| &*key == OUT_OF_SERVICE),
            is_ready: conditions.filter(|condition| &*condition.kind == "Ready").any(|ready| &*ready.status == "True"),
        };
        let NodeMetadata { name, resource_version } = metadata;
        Ok(Self { metadata: ObjectMeta { name, resource_version, ..ObjectMeta::default() }, record })
    }
}

#[cfg(test)]
mod tests;
