//! Reads the Pods and Nodes that may prove a silent holder dead.
//!
//! The election decides when to read and what the answer proves. This module bounds the reads to
//! [`READS_PER_SECOND`](pace::READS_PER_SECOND), even when thousands of holders fall silent at once. The Leases take
//! turns. A read that gets no turn in time is not sent, and the election asks again half a second later.

mod pace;

use std::time::Duration;

use hustings_client::store::Failure;
use hustings_core::election::Observation;
use hustings_core::model::{ContainerEnd, NodeRecord, PodRecord, WireTime};
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};
use kube::{Api, Client, ResourceExt as _};

use super::key::LeaseKey;
use pace::{LONGEST_WAIT, Pace};

/// How long one read may take. The next decision about the Lease waits for it.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The annotation with the UID that the kubelet uses for a static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// The taint with which an administrator declares that a machine is off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Reads Pods and Nodes. Clones share one limit.
#[derive(Clone)]
pub(super) struct EvidenceReader {
    client: Client,
    pace: Pace,
}

impl EvidenceReader {
    /// Creates a reader of live objects. It never reads from the API server's cache.
    pub(super) fn new(client: Client) -> Self {
        Self { client, pace: Pace::new() }
    }

    /// Reads the Pod of the holder of `lease`.
    pub(super) async fn pod(&self, lease: &LeaseKey, name: &str) -> Result<Observation, Failure> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), lease.namespace());
        let record = self.read(lease, pods.get_opt(name)).await?.map(read_pod);
        Ok(Observation::Pod { record })
    }

    /// Reads the Node of the holder of `lease`.
    pub(super) async fn node(&self, lease: &LeaseKey, name: &str) -> Result<Observation, Failure> {
        let nodes = Api::<Node>::all(self.client.clone());
        let record = self.read(lease, nodes.get_opt(name)).await?.map(|node| read_node(&node));
        Ok(Observation::Node { record })
    }

    async fn read<T>(&self, lease: &LeaseKey, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
        let turn = self.pace.turn(lease).ok_or(Failure::NotSent(LONGEST_WAIT))?;
        tokio::time::sleep_until(turn).await;
        let answer = tokio::time::timeout(TIMEOUT, request).await.map_err(|_| Failure::TimedOut(TIMEOUT))?;
        Ok(answer?)
    }
}

/// Extracts the fields of a Pod that may prove its holder dead.
pub(crate) fn read_pod(pod: Pod) -> PodRecord {
    let config_hash = pod.annotations().get(CONFIG_HASH).cloned();
    let status = pod.status.unwrap_or_default();
    let containers = [status.container_statuses, status.init_container_statuses].into_iter().flatten().flatten();
    // Without a spec, assume that the containers share their processes.
    let shares_processes =
        pod.spec.as_ref().is_none_or(|spec| spec.share_process_namespace == Some(true) || spec.host_pid == Some(true));
    PodRecord {
        uid: pod.metadata.uid.unwrap_or_default(),
        config_hash,
        node: pod.spec.and_then(|spec| spec.node_name),
        shares_processes,
        ends: containers.flat_map(ends).collect(),
    }
}

fn ends(container: ContainerStatus) -> impl Iterator<Item = ContainerEnd> {
    let ContainerStatus { name, state, last_state, .. } = container;
    let states = [state, last_state].into_iter().flatten();
    states.filter_map(|state| state.terminated).map(move |terminated| ContainerEnd {
        container: name.clone(),
        finished_at: terminated.finished_at.map(|time| WireTime::from_micros(time.0.as_microsecond())),
        reason: terminated.reason.unwrap_or_default(),
    })
}

fn read_node(node: &Node) -> NodeRecord {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    NodeRecord {
        name: node.name_any(),
        is_out_of_service: taints.map(|taint| &*taint.key).any(|key| key == OUT_OF_SERVICE),
        is_ready: conditions.filter(|condition| condition.type_ == "Ready").any(|ready| ready.status == "True"),
    }
}

#[cfg(test)]
mod tests;
