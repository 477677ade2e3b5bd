//! The Pods and Nodes, as the watches of the controllers show them.

use hustings_core::election::Observation;
use hustings_core::model::{ContainerEnd, ContainerRecord, LeaseRecord, NodeRecord, PodRecord, WireTime};

use super::{WALL_START, World};

impl World {
    /// The kubelet reports that the container of this process ended just before now, by the clock of its node. The
    /// reported time precedes the start of a process that starts now.
    pub(crate) fn report_end(&mut self, name: &str) {
        let Some(bare) = self.process(name) else { return };
        let seconds = (bare.process.local(self.lab.now_micros).wall.as_micros() - 1).div_euclid(1_000_000);
        let end = ContainerEnd::at(WireTime::from_micros(seconds * 1_000_000), "Error");
        let containers = [ContainerRecord::ended("c", [end])].into();
        let pod = PodRecord { name: name.into(), uid: name.into(), containers, ..PodRecord::default() };
        self.lab.server.pods.insert(name.to_owned(), pod);
        self.show_pod(name);
    }

    /// The watches show the current version of a Pod, if the controllers watch Pods.
    pub(crate) fn show_pod(&mut self, name: &str) {
        if self.config.evidence.pods {
            self.lab.pod_changed(name);
        }
    }

    /// The watches show the current version of a Node, if the controllers watch Nodes.
    pub(crate) fn show_node(&mut self, name: &str) {
        if self.config.evidence.nodes {
            self.lab.node_changed(name);
        }
    }

    /// Whether the process that holds the Lease is dead, and evidence may show that. A later process of the same name
    /// is not the holder.
    pub(super) fn is_holder_dead(&self, lease: &LeaseRecord) -> bool {
        let Some(holder) = lease.holder.as_deref() else { return false };
        let Some((stamp, bare)) = lease.session.stamp().zip(self.process(holder)) else { return false };
        let is_current = bare.session.as_ref() == Some(&stamp.session);
        let is_own = stamp.session.starts_with(&format!("{holder}."));
        self.config.evidence.pods && is_own && (!is_current || bare.process.crashed)
    }
}

/// The Pod or the Node that a watch has shown.
pub(super) fn describe_evidence(observation: &Observation) -> Option<String> {
    match observation {
        Observation::Pod { record } => Some(format!("Pod {}: {}", record.name, describe_pod(record))),
        Observation::Node { record } => Some(format!("Node {}: {}", record.name, describe_node(record))),
        _ => None,
    }
}

fn describe_pod(pod: &PodRecord) -> String {
    let seconds = |at: WireTime| format!("{} s", (at.as_micros() - WALL_START) / 1_000_000);
    let end = |container: &str, end: &ContainerEnd| {
        let started_at = end.started_at.map_or(String::new(), |at| format!("started at {} and ", seconds(at)));
        let finished_at = end.finished_at.map_or("an unknown time".to_owned(), seconds);
        format!("container {container} {started_at}ended at {finished_at} ({})", end.reason)
    };
    let ends =
        |container: &ContainerRecord| container.ends.iter().map(|of| end(&container.name, of)).collect::<Vec<_>>();
    let ends: Vec<String> = pod.containers.iter().flat_map(ends).collect();
    if ends.is_empty() { "no container has ended".to_owned() } else { ends.join(", ") }
}

fn describe_node(node: &NodeRecord) -> String {
    let service = if node.is_out_of_service { "out of service" } else { "in service" };
    format!("{service}, {}", if node.is_ready { "ready" } else { "not ready" })
}
