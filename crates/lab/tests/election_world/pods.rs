//! The Pods and Nodes of silent holders.

use hustings_core::election::Observation;
use hustings_core::model::{ContainerEnd, LeaseRecord, NodeRecord, PodRecord, WireTime};

use super::{WALL_START, World};

impl World {
    /// The kubelet reports that the container of this process ended just before now, by the clock of its node. The
    /// reported time precedes the start of a process that starts now.
    pub(crate) fn report_end(&mut self, name: &str) {
        let Some(bare) = self.process(name) else { return };
        let seconds = (bare.process.local(self.lab.now_micros).wall.as_micros() - 1).div_euclid(1_000_000);
        let finished_at = Some(WireTime::from_micros(seconds * 1_000_000));
        let end = ContainerEnd { container: "c".to_owned(), finished_at, reason: "Error".to_owned() };
        let pod = PodRecord { uid: name.to_owned(), ends: vec![end], ..PodRecord::default() };
        self.lab.server.pods.insert(name.to_owned(), pod);
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

/// What a read of a Pod or of a Node has found. `None` if it has failed.
pub(super) fn describe_read(observation: &Observation) -> Option<String> {
    match observation {
        Observation::Pod { record } => Some(record.as_ref().map_or("missing".to_owned(), describe_pod)),
        Observation::Node { record } => Some(record.as_ref().map_or("missing".to_owned(), describe_node)),
        _ => None,
    }
}

fn describe_pod(pod: &PodRecord) -> String {
    let end = |end: &ContainerEnd| {
        let finished_at = end
            .finished_at
            .map_or("an unknown time".to_owned(), |at| format!("{} s", (at.as_micros() - WALL_START) / 1_000_000));
        format!("container {} ended at {finished_at} ({})", end.container, end.reason)
    };
    match pod.ends.as_slice() {
        [] => "no container has ended".to_owned(),
        ends => ends.iter().map(end).collect::<Vec<_>>().join(", "),
    }
}

fn describe_node(node: &NodeRecord) -> String {
    let service = if node.is_out_of_service { "out of service" } else { "in service" };
    format!("{service}, {}", if node.is_ready { "ready" } else { "not ready" })
}
