//! The Pods and Nodes of silent holders.

use std::collections::BTreeMap;

use hustings_core::election::{Observation, Target};
use hustings_core::model::{ContainerEnd, NodeRecord, PodRecord, WireTime};

use super::{WALL_START, World};

impl World {
    /// Executes a read of a Pod, and logs whether the election accepts it as evidence.
    pub(super) fn read_pod(&mut self, name: &str) {
        if self.refused_pods.contains(name) {
            self.say(&format!("read Pod {name}: refused"));
            self.election.observe(self.now(), Observation::Failed { target: Target::Evidence });
            return;
        }
        self.say(&format!("read Pod {name}: {}", describe(&self.pods, name, describe_pod)));
        let record = self.pods.get(name).cloned();
        self.election.observe(self.now(), Observation::Pod { record });
        if let Some(doubt) = self.election.doubt() {
            self.say(&format!("no evidence: {doubt}"));
        }
    }

    /// Sets whether the API server refuses reads of this Pod from now on.
    pub(crate) fn refuse_reads(&mut self, name: &str, refused: bool) {
        if refused {
            self.refused_pods.insert(name.to_owned());
        } else {
            self.refused_pods.remove(name);
        }
    }

    /// Executes a read of a Node.
    pub(super) fn read_node(&mut self, name: &str) {
        self.say(&format!("read Node {name}: {}", describe(&self.nodes, name, describe_node)));
        let record = self.nodes.get(name).cloned();
        self.election.observe(self.now(), Observation::Node { record });
    }

    /// The kubelet reports that the container of this process ended just before now, by the clock of its node. The
    /// reported time precedes the start of a process that starts now.
    pub(crate) fn report_end(&mut self, name: &str) {
        let Some(process) = self.processes.get(name) else { return };
        let off = process.clock_seconds * 1_000_000;
        let seconds = (self.wall(0).as_micros() + off - 1).div_euclid(1_000_000);
        let finished_at = Some(WireTime::from_micros(seconds * 1_000_000));
        let end = ContainerEnd { container: "c".to_owned(), finished_at, reason: "Error".to_owned() };
        self.pods.insert(name.to_owned(), PodRecord { uid: name.to_owned(), ends: vec![end], ..PodRecord::default() });
    }

    /// Whether the process that holds the Lease is dead, and evidence may show that. A later process of the same name
    /// is not the holder.
    pub(super) fn is_holder_dead(&self) -> bool {
        let Some((lease, holder)) = self.lease().and_then(|lease| Some((lease, lease.holder.as_deref()?))) else {
            return false;
        };
        let Some((stamp, process)) = lease.session.stamp().zip(self.processes.get(holder)) else { return false };
        let is_current = stamp.session == format!("{holder}.c.n.{}", process.lives);
        let is_own = stamp.session.starts_with(&format!("{holder}."));
        self.config.evidence.pods && is_own && !(is_current && process.live)
    }
}

fn describe<T>(objects: &BTreeMap<String, T>, name: &str, describe: impl FnOnce(&T) -> String) -> String {
    objects.get(name).map_or("missing".to_owned(), describe)
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
