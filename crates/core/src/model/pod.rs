//! What a Pod and its node show about the ends of containers. Every possible content is accepted.
//!
//! A controller holds a record of every Pod that it watches, so the records are small.

use std::sync::Arc;

use super::{Evidence, WireTime};

/// One version of a Pod: the fields that may prove a holder dead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "as in a Pod")]
pub struct PodRecord {
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// Annotation `kubernetes.io/config.hash`: the UID by which the containers of a static pod know it. The API server
    /// knows its mirror under another UID.
    pub config_hash: Option<Box<str>>,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `spec.hostNetwork`.
    pub host_network: bool,
    /// `spec.hostPID`.
    pub host_pid: bool,
    /// `spec.shareProcessNamespace`.
    pub share_process_namespace: bool,
    /// Whether `status.phase` is `Succeeded` or `Failed`: none of its containers will start again.
    pub is_over: bool,
    /// The containers that may run beside one another, as far as the kubelet has reported them.
    pub containers: Box<[ContainerRecord]>,
}

/// The state of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerRecord {
    /// Its name, which no other container of the Pod has.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: ContainerKind,
    /// The ends of its instances: the current state and the last one, as far as they are ends.
    pub ends: Box<[ContainerEnd]>,
}

/// The kind of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// One of `spec.containers`.
    #[default]
    Regular,
    /// One of `spec.initContainers` that runs beside the regular ones.
    RestartableInit,
    /// One of `spec.ephemeralContainers`.
    Ephemeral,
}

impl ContainerKind {
    /// The kind of an init container with this `restartPolicy`. `None` if it ends before the next container starts.
    pub fn of_init(restart_policy: Option<&str>) -> Option<Self> {
        (restart_policy == Some("Always")).then_some(Self::RestartableInit)
    }
}

/// The end of one instance of a container, as the kubelet reports it. The times come from the clock of the node,
/// truncated to seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContainerEnd {
    /// `terminated.startedAt`; `None` if the kubelet does not know it.
    pub started_at: Option<WireTime>,
    /// `terminated.finishedAt`; `None` if the kubelet does not know it.
    pub finished_at: Option<WireTime>,
    /// `terminated.reason`.
    pub reason: Box<str>,
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

impl PodRecord {
    /// Whether the processes of a container may outlive it.
    pub const fn shares_processes(&self) -> bool {
        self.share_process_namespace || self.host_pid
    }

    /// Whether this version may prove a holder dead. If so, a controller keeps it for a while after the Pod is deleted.
    pub fn may_prove(&self) -> bool {
        self.containers.iter().any(|container| !container.ends.is_empty())
    }

    /// The ends of the container of this name.
    pub fn ends<'p>(&'p self, container: &'p str) -> impl Iterator<Item = &'p ContainerEnd> {
        self.containers.iter().filter(move |known| *known.name == *container).flat_map(|known| &known.ends)
    }
}

impl ContainerRecord {
    /// A regular container that does not run, with these ends.
    pub fn ended(name: &str, ends: impl IntoIterator<Item = ContainerEnd>) -> Self {
        Self { name: name.into(), ends: ends.into_iter().collect(), ..Self::default() }
    }
}

impl ContainerEnd {
    /// An end that the kubelet reports with this time and this reason.
    pub fn at(finished_at: WireTime, reason: &str) -> Self {
        Self { started_at: None, finished_at: Some(finished_at), reason: reason.into() }
    }
}

impl NodeRecord {
    /// What this version proves about every process of the Node. A Node that is ready has come back.
    pub const fn proof(&self) -> Option<Evidence> {
        if self.is_out_of_service && !self.is_ready { Some(Evidence::NodeOutOfService) } else { None }
    }
}
