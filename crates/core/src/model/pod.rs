//! What a Pod and its node show about the end of a container. Every possible content is accepted.

use super::WireTime;

/// One version of a Pod: the fields that may prove a holder dead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodRecord {
    /// `metadata.uid`.
    pub uid: String,
    /// Annotation `kubernetes.io/config.hash`: the UID by which the containers of a static pod know it. The API server
    /// knows its mirror under another UID.
    pub config_hash: Option<String>,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// Whether the containers share a process namespace with one another or with the node. The processes of a container
    /// may then outlive it.
    pub shares_processes: bool,
    /// The ends of containers: at most the current and the last one of each container.
    pub ends: Vec<ContainerEnd>,
}

/// The end of one run of a container, as the kubelet reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerEnd {
    /// The container's name.
    pub container: String,
    /// `terminated.finishedAt`, by the clock of the node, truncated to seconds; `None` if the kubelet does not know it.
    pub finished_at: Option<WireTime>,
    /// `terminated.reason`.
    pub reason: String,
}

/// One version of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeRecord {
    /// `metadata.name`.
    pub name: String,
    /// Whether it has the taint `node.kubernetes.io/out-of-service`, by which an administrator declares that the
    /// machine is off.
    pub is_out_of_service: bool,
    /// Whether its condition `Ready` is `True`.
    pub is_ready: bool,
}
