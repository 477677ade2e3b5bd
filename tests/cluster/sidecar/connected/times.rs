//! How long the death of a client leaves a Lease without a leader.
//!
//! `cargo test --test cluster -- times_of_kills --ignored --nocapture` prints the times that docs/guides/sidecar.md states.

use std::process::{Command, Stdio};
use std::time::Instant;

use hustings_controlplane::{ControlPlane, PATIENCE, Process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::beside::{self, Sidecar};
use crate::replica::{candidate_account, install};
use crate::times::{is_candidate, percentiles};

const REPLICAS: usize = 3;
const KILLS: usize = 50;

/// Which client gets `leading`, and when.
type Leading = (usize, Instant);

/// One control plane, a controller, and three replicas with the default timing.
struct Stage {
    plane: ControlPlane,
    _controller: Process,
    namespace: String,
    sidecars: Vec<Sidecar>,
}

impl Stage {
    async fn new() -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        let controller = install(&plane).await;
        let namespace = plane.create_namespace("times").await.unwrap();
        let account = candidate_account(&plane, &namespace, "program").await;
        let mut sidecars = Vec::new();
        for number in 0..REPLICAS {
            let name = format!("replica-{number}");
            let flags = ["--while-connected", "--binary-version=1.4.0"];
            let command = beside::command(&account, &namespace, &name, &flags);
            sidecars.push(Sidecar::run(&plane, &namespace, &name, command).await);
        }
        Self { plane, _controller: controller, namespace, sidecars }
    }

    /// Starts a client of a replica, as a process, and waits until its replica is a candidate.
    async fn connect(&self, number: usize, leading: &mpsc::Sender<Leading>) -> Child {
        let sidecar = &self.sidecars[number];
        let mut curl = Command::new("curl");
        curl.args(["-sN", &format!("http://{}/term", sidecar.listen)]).stdout(Stdio::piped());
        let mut client = tokio::process::Command::from(curl).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
        let leading = leading.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if line == "event: leading" {
                    let _ = leading.send((number, Instant::now())).await;
                }
            }
        });
        is_candidate(&self.plane, &self.namespace, &sidecar.name, || sidecar.log()).await;
        client
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and asserts nothing but that each kill is followed by a leader"]
async fn times_of_kills() {
    let stage = Stage::new().await;
    let (sender, mut leading) = mpsc::channel(16);
    let mut clients = Vec::new();
    for number in 0..REPLICAS {
        clients.push(stage.connect(number, &sender).await);
    }
    let mut times = Vec::new();
    let (mut leader, _) = timeout(PATIENCE, leading.recv()).await.unwrap().unwrap();
    while times.len() < KILLS {
        let killed = Instant::now();
        clients[leader].start_kill().unwrap();
        let (next, at) = timeout(PATIENCE, leading.recv()).await.unwrap().unwrap();
        times.push(at.duration_since(killed));
        clients[leader] = stage.connect(leader, &sender).await;
        leader = next;
    }
    println!("kill -9 of the leader's client until another client leads, {KILLS} kills: {}", percentiles(times));
}
