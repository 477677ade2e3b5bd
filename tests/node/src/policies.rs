//! Enforces NetworkPolicies on a node, with kube-router's firewall alone: kube-proxy and the plugins of containerd remain
//! its network. Its rules are in the node's network namespace, and end with it.

use anyhow::{Context, Result};
use hustings_controlplane::{NODE, Process, Tool};

use crate::{Node, node::missing_packages};

/// The programs that kube-router calls, with Debian's package of each.
const PROGRAMS: [(&str, &str); 4] =
    [("iptables", "iptables"), ("iptables-save", "iptables"), ("iptables-restore", "iptables"), ("ipset", "ipset")];

impl Node {
    /// Whether this machine has the programs that enforce NetworkPolicies. Prints which packages are missing.
    pub fn can_enforce_policies() -> bool {
        let missing = missing_packages(&PROGRAMS);
        if let Some(packages) = &missing {
            println!(
                "skipped: nothing here enforces a NetworkPolicy\nhint: apt-get update && apt-get install {packages}"
            );
        }
        missing.is_none()
    }

    /// Starts to enforce NetworkPolicies. Its rules stay when the returned process ends.
    pub async fn enforce_policies(&self) -> Result<Process> {
        let plane = self.plane();
        let program = plane.tool(Tool::KubeRouter).await?;
        let mut command = plane.namespaces().context("the control plane has no namespaces")?.inside(program);
        command.arg("--kubeconfig").arg(plane.kubeconfig());
        command.args(["--run-firewall=true", "--run-router=false", "--run-service-proxy=false"]);
        command.args([&format!("--hostname-override={NODE}"), "--service-cluster-ip-range=10.0.0.0/24"]);
        plane.spawn("kube-router", command)
    }
}
