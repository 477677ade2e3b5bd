//! How long the death of a wrapped command leaves a Lease without a leader.
//!
//! `cargo test --test cluster -- times_of_killed_commands --ignored --nocapture` prints the times that
//! docs/guides/wrapper.md states.

use std::path::PathBuf;
use std::time::Duration;

use hustings_controlplane::{ControlPlane, Process};

use super::support::{Wrapper, command, now, number, signal, time};
use crate::replica::{candidate_account, install, until};
use crate::times::{is_candidate, percentiles};

const REPLICAS: usize = 3;
const KILLS: usize = 50;

/// Reports that it leads as its first act, and continues until it is killed. The shell itself reads the clock.
const COMMAND: &str = r#"LC_ALL=C; echo "{\"event\":\"begins\",\"pid\":$$,\"time\":$EPOCHREALTIME}"; exec sleep 86400"#;

/// One control plane, a controller, and replicas with the default timing.
struct Stage {
    plane: ControlPlane,
    _controller: Process,
    namespace: String,
    account: PathBuf,
    started: usize,
}

impl Stage {
    async fn new() -> Self {
        let plane = ControlPlane::builder().start().await.unwrap();
        let controller = install(&plane).await;
        let namespace = plane.create_namespace("times").await.unwrap();
        let account = candidate_account(&plane, &namespace, "program").await;
        Self { plane, _controller: controller, namespace, account, started: 0 }
    }

    /// Starts a replica, and waits until it is a candidate. Each is a new one, as a Deployment's are: a wrapper that
    /// starts its command again would wait longer after each kill.
    async fn replica(&mut self) -> Wrapper {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let flags = ["--binary-version=1.4.0"];
        let program = ["bash", "-c", COMMAND].map(str::to_owned).to_vec();
        let run = command(&self.account, &self.namespace, &name, &flags, program);
        let wrapper = Wrapper::spawn(&self.plane, &self.namespace, &name, run);
        is_candidate(&self.plane, &self.namespace, &name, || wrapper.log()).await;
        wrapper
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and asserts nothing but that each kill is followed by a leader"]
async fn times_of_killed_commands() {
    let mut stage = Stage::new().await;
    let mut wrappers = Vec::new();
    for _ in 0..REPLICAS {
        wrappers.push(stage.replica().await);
    }
    let mut times = Vec::new();
    while times.len() < KILLS {
        let leads = async || wrappers.iter().position(|wrapper| !wrapper.lines().is_empty());
        let leader = until("one leads", String::new, leads).await;
        let killed = now();
        signal(number(&wrappers[leader].lines()[0]["pid"]), "KILL");
        let former = wrappers.remove(leader);
        let begins = async || wrappers.iter().find_map(|wrapper| wrapper.lines().first().map(time));
        let next = until("the next leads", || former.log(), begins).await;
        times.push(Duration::from_secs_f64(next - killed));
        former.exit_code().await;
        wrappers.push(stage.replica().await);
    }
    println!("kill -9 of the leader's command until another command begins, {KILLS} kills: {}", percentiles(times));
}
