//! The chart's roles, a controller, and both the program of `tests/kit/python` and `hustings campaign`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use hustings_controlplane::ControlPlane;

use crate::replica::{Replica, campaign, candidate_account, lease, until};

pub(super) const LEASE: &str = "shared";

/// One election, in a namespace of its own, by ServiceAccount `web`.
pub(super) struct Election<'a> {
    pub(super) plane: &'a ControlPlane,
    pub(super) namespace: String,
    kubeconfig: PathBuf,
    server: String,
}

impl<'a> Election<'a> {
    pub(super) async fn new(plane: &'a ControlPlane, name: &str) -> Self {
        let namespace = plane.create_namespace(name).await.unwrap();
        let kubeconfig = candidate_account(plane, &namespace, "web").await;
        let server = plane.url().to_string();
        Self { plane, namespace, kubeconfig, server: server.trim_end_matches('/').to_owned() }
    }

    /// Python's requests go here instead.
    pub(super) fn through(self, server: String) -> Self {
        Self { server, ..self }
    }

    /// A replica with the library. Its crash costs 10 s.
    pub(super) fn rust(&self, name: &str, binary: &str, emulation: &str) -> Replica {
        let versions = ["--binary-version", binary, "--emulation-version", emulation];
        let times = ["--lease-duration=10s", "--renew-deadline=8s", "--retry-period=500ms"];
        let flags = [versions.as_slice(), &times].concat();
        Replica::start(
            self.plane,
            &self.namespace,
            name,
            campaign(&self.kubeconfig, &self.namespace, LEASE, name, &flags),
        )
    }

    /// A replica of the program in Python.
    pub(super) async fn python(&self, name: &str, binary: &str, emulation: &str, flags: &[&str]) -> Replica {
        let mut command = python3();
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kit/python/stand.py"))
            .args(["--server", &self.server, "--namespace", &self.namespace, "--lease", LEASE, "--identity", name])
            .args(["--token", &self.plane.token(&self.namespace, "web").await.unwrap(), "--ca-file"])
            .arg(self.plane.folder().join("ca.crt"))
            .args(["--binary-version", binary, "--emulation-version", emulation])
            .args(flags);
        Replica::start(self.plane, &self.namespace, name, command)
    }

    pub(super) async fn lease(&self) -> serde_json::Value {
        lease(self.plane, &self.namespace, LEASE).await
    }

    /// Waits until a controller has found that the replica is live, and not the best.
    pub(super) async fn stands_by(&self, replica: &Replica) {
        let path = format!("leasecandidates.hustings.io/{}", replica.name);
        let arguments = ["get", &path, "--namespace", &self.namespace, "--output=jsonpath={.status.state}"];
        until(
            "a candidate stands by",
            || replica.log(),
            async || {
                let state = self.plane.kubectl(arguments).await.unwrap().stdout;
                matches!(state.as_slice(), b"Standby" | b"Unproven").then_some(())
            },
        )
        .await;
    }
}

/// Python, or a failure that says what to do.
fn python3() -> Command {
    let version = Command::new("python3").arg("--version").output();
    assert!(
        version.is_ok_and(|output| output.status.success()),
        "these tests run tests/kit/python/stand.py, and there is no python3 in PATH: install Python 3.7 or newer"
    );
    Command::new("python3")
}
