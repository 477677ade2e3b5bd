//! Acts of administrators, as people write them by `hustings`: on a real API server, with real controllers and replicas.

mod direct;
mod hand_overs;
mod privileges;
mod standing;

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::controller::support::{Controller, World};
use crate::replica::{Replica, campaign, hustings};

const LEASE: &str = "web";

/// A namespace with a controller and replicas that stand for the Lease `web`.
pub(crate) struct Scene {
    pub(crate) world: World,
    _controller: Controller,
    replicas: Vec<Replica>,
}

/// The outcome of a command.
struct Done {
    output: Output,
    /// From the start of the process to its exit.
    took: Duration,
}

impl Scene {
    /// Replicas of these names and versions; the first one leads.
    pub(crate) async fn new(namespace: &str, replicas: &[(&str, &str)]) -> Self {
        let world = World::new(namespace).await;
        let controller = world.controller_with(&["--settling=0s"]).await.ready().await;
        let mut scene = Self { world, _controller: controller, replicas: Vec::new() };
        for (name, version) in replicas {
            scene.join(name, version, &[]);
            if scene.replicas.len() == 1 {
                scene.replicas[0].says("leading", 0).await;
            }
        }
        for (name, _) in replicas {
            scene.world.standing(name).await;
        }
        scene
    }

    fn join(&mut self, name: &str, version: &str, times: &[&str]) {
        let flags = [&["--binary-version", version, "--emulation-version", version], times].concat();
        let command = campaign(&self.kubeconfig(), &self.world.namespace, LEASE, name, &flags);
        self.replicas.push(Replica::start(&self.world.plane, &self.world.namespace, name, command));
    }

    fn kubeconfig(&self) -> PathBuf {
        self.world.plane.kubeconfig()
    }

    /// Runs `hustings` with these arguments, and waits for its end.
    async fn run(&self, arguments: &[&str]) -> Done {
        act(&self.kubeconfig(), &self.world.namespace, arguments).await
    }

    /// The same for a command that has to succeed. Returns its JSON lines.
    async fn done(&self, arguments: &[&str]) -> Vec<Value> {
        self.timed(arguments).await.0
    }

    /// The same with the time from the start of the process to its exit.
    async fn timed(&self, arguments: &[&str]) -> (Vec<Value>, Duration) {
        let done = self.run(&[arguments, &["-o", "json"]].concat()).await;
        (done.reports(), done.took)
    }
}

impl Done {
    fn code(&self) -> i32 {
        self.output.status.code().unwrap()
    }

    /// The JSON lines of a command that has to succeed.
    fn reports(&self) -> Vec<Value> {
        assert_eq!(self.code(), 0, "{}", self.said());
        let lines = std::str::from_utf8(&self.output.stdout).unwrap().lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn said(&self) -> String {
        let Output { stdout, stderr, .. } = &self.output;
        format!("{}{}", String::from_utf8_lossy(stdout), String::from_utf8_lossy(stderr))
    }
}

async fn act(kubeconfig: &std::path::Path, namespace: &str, arguments: &[&str]) -> Done {
    let mut command = hustings();
    command.args(arguments).args(["--namespace", namespace]).arg("--kubeconfig").arg(kubeconfig);
    let started = Instant::now();
    let output = tokio::process::Command::from(command).output().await.unwrap();
    Done { output, took: started.elapsed() }
}
