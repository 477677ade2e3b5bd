//! The users as which components call the API server. The roles built into the server give those of Kubernetes the rights
//! that they need.

use std::path::PathBuf;

use anyhow::Result;

use crate::ControlPlane;

/// The name of the node of a control plane.
pub const NODE: &str = "node1";

/// A component with a user of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// The controllers of Kubernetes.
    KubeControllerManager,
    /// The scheduler of Kubernetes.
    KubeScheduler,
    /// The program for the network of Services on a node.
    KubeProxy,
    /// The kubelet of the node.
    Kubelet,
    /// The controllers of Hustings in static pods, which have no ServiceAccount.
    StaticController,
}

impl User {
    const ALL: [Self; 5] =
        [Self::KubeControllerManager, Self::KubeScheduler, Self::KubeProxy, Self::Kubelet, Self::StaticController];

    const fn name(self) -> &'static str {
        match self {
            Self::KubeControllerManager => "kube-controller-manager",
            Self::KubeScheduler => "kube-scheduler",
            Self::KubeProxy => "kube-proxy",
            Self::Kubelet => "kubelet",
            Self::StaticController => "hustings-controller",
        }
    }

    fn token(self, admin_token: &str) -> String {
        format!("{admin_token}-{}", self.name())
    }
}

/// The lines of these users in the API server's file of tokens.
pub(crate) fn tokens(admin_token: &str) -> String {
    let line = |user: User| {
        let (token, name) = (user.token(admin_token), user.name());
        match user {
            User::Kubelet => format!("{token},system:node:{NODE},{name},system:nodes\n"),
            User::StaticController => format!("{token},{name},{name}\n"),
            _ => format!("{token},system:{name},{name}\n"),
        }
    };
    User::ALL.map(line).concat()
}

impl ControlPlane {
    /// The path of a component's kubeconfig file.
    pub fn kubeconfig_of(&self, user: User) -> Result<PathBuf> {
        let path = self.folder().join(format!("{}.kubeconfig", user.name()));
        self.write_kubeconfig(&path, &user.token(self.admin_token()), "default")?;
        Ok(path)
    }
}
