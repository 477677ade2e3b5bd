//! Replicas of Kubernetes' own components, which elect a leader by LeaseCandidates of `coordination.k8s.io`.

use std::process::Command;

use anyhow::Result;

use crate::{ControlPlane, Tool, User};

/// A component of Kubernetes whose replicas elect a leader. Its Lease is in the namespace `kube-system`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectedComponent {
    /// The controllers of Kubernetes.
    KubeControllerManager,
    /// The scheduler of Kubernetes.
    KubeScheduler,
}

impl ElectedComponent {
    /// The name of its Lease.
    pub const fn lease(self) -> &'static str {
        self.tool().name()
    }

    const fn tool(self) -> Tool {
        match self {
            Self::KubeControllerManager => Tool::KubeControllerManager,
            Self::KubeScheduler => Tool::KubeScheduler,
        }
    }

    const fn user(self) -> User {
        match self {
            Self::KubeControllerManager => User::KubeControllerManager,
            Self::KubeScheduler => User::KubeScheduler,
        }
    }

    /// The flags of a replica. The controller of ServiceAccounts is light, and shows that the leader works: it creates
    /// the ServiceAccount `default` in each namespace.
    const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::KubeControllerManager => &["--controllers=serviceaccount-controller"],
            Self::KubeScheduler => &[],
        }
    }
}

impl ControlPlane {
    /// The command of one replica; pass it to [`spawn`](Self::spawn). It stands with the default timing, 15/10/2 s. The
    /// controller of ServiceAccounts is the only controller that runs. `flags` are added at the end, such as
    /// `--emulated-version=1.36`.
    ///
    /// A replica that loses its Lease ends with exit code 1: see [`Process::start_again`](crate::Process::start_again).
    pub async fn elected_component(&self, component: ElectedComponent, flags: &[&str]) -> Result<Command> {
        let kubeconfig = self.kubeconfig_of(component.user())?;
        let mut command = Command::new(self.tool(component.tool()).await?);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--feature-gates=CoordinatedLeaderElection=true", "--secure-port=0", "--profiling=false"])
            .args(component.flags())
            .args(flags);
        Ok(command)
    }
}
