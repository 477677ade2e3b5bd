//! A release of the chart on the control plane.
//!
//! No Deployment gets pods there. A test starts processes instead, with
//! `plane.kubeconfig_for_service_account(release.namespace, release.name)`, so that the chart's RBAC applies to them.

use std::path::Path;
use std::process::Output;

use hustings_controlplane::{ControlPlane, Tool};

use super::{repository, succeed};

/// A release, installed or not. Its ServiceAccount has its name, unless the values override that.
#[derive(Clone, Copy)]
pub(super) struct Release<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// The version of Helm that installs it.
    pub(super) helm: Tool,
}

impl<'a> Release<'a> {
    /// A release of Helm 4.
    pub(super) fn new(plane: &'a ControlPlane, namespace: &'a str, name: &'a str) -> Self {
        Self { plane, namespace, name, helm: Tool::Helm }
    }

    /// Installs or upgrades to the chart of this repository with the values `set`, and returns Helm's output.
    pub(super) async fn apply(self, set: &[&str]) -> String {
        self.apply_chart(&repository("charts/hustings"), set).await
    }

    /// Installs or upgrades to the chart at `path`.
    pub(super) async fn apply_chart(self, path: &Path, set: &[&str]) -> String {
        succeed(&self.try_apply_chart(path, set).await)
    }

    /// Tries to install or upgrade to the chart of this repository.
    pub(super) async fn try_apply(self, set: &[&str]) -> Output {
        self.try_apply_chart(&repository("charts/hustings"), set).await
    }

    async fn try_apply_chart(self, path: &Path, set: &[&str]) -> Output {
        let path = path.to_str().unwrap();
        // Without --reset-values, an upgrade that sets nothing would keep the former values.
        let mut arguments = vec!["upgrade", "--install", "--reset-values", self.name, path];
        arguments.extend(["--namespace", self.namespace]);
        for value in set {
            arguments.extend(["--set-json", value]);
        }
        self.plane.run_tool(self.helm, arguments).await.unwrap()
    }

    pub(super) async fn uninstall(self) -> String {
        let arguments = ["uninstall", self.name, "--namespace", self.namespace];
        succeed(&self.plane.run_tool(self.helm, arguments).await.unwrap())
    }

    /// The objects of every kind that belong to the release, by kind and name.
    pub(super) async fn objects(self) -> Vec<String> {
        let kinds = self.kubectl(&["api-resources", "--verbs=list", "--output=name"]).await;
        // Candidates belong to no release.
        let kinds = kinds.split_whitespace().filter(|kind| *kind != "leasecandidates.hustings.io");
        let kinds = kinds.collect::<Vec<_>>().join(",");
        let selector = format!("--selector=app.kubernetes.io/instance={}", self.name);
        let found = self.kubectl(&["get", &kinds, "--all-namespaces", &selector, "--output=name"]).await;
        let mut found: Vec<_> = found.lines().map(str::to_owned).collect();
        found.sort();
        found.dedup();
        found
    }

    pub(super) async fn kubectl(self, arguments: &[&str]) -> String {
        succeed(&self.plane.kubectl(arguments).await.unwrap())
    }
}
