//! docs/quickstart.md on a node of its own, command by command. The images are there already, so the commands that build
//! and load them are left out.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

#[path = "../../support/page.rs"]
mod page;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use hustings_controlplane::{ControlPlane, Tool, eventually};
use hustings_node::{Images, Node};

/// Marks of the commands that are left out.
const LEFT_OUT: [&str; 3] = ["cargo run", "kind ", "export PATH"];

/// Marks of the commands that only read. A reader repeats them until the cluster is where the page is.
const REPEATED: [&str; 4] = ["hustings check", "hustings status", "kubectl get", "kubectl logs"];

#[tokio::test(flavor = "multi_thread")]
async fn quickstart_runs_as_written() {
    if !Node::is_allowed() {
        return;
    }
    let product = env!("CARGO_BIN_EXE_product");
    let node = Node::start(Images::new(product, env!("CARGO_BIN_EXE_worker"))).await.unwrap();
    let plane = node.plane();
    let programs = plane.folder().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(plane.tool(Tool::Kubectl).await.unwrap(), programs.join("kubectl")).unwrap();
    symlink(plane.tool(Tool::Helm).await.unwrap(), programs.join("helm")).unwrap();
    symlink(product, programs.join("hustings")).unwrap();

    let mut leader = String::new();
    for (line, _) in page::commands(include_str!("../../../docs/quickstart.md")) {
        if LEFT_OUT.iter().any(|mark| line.contains(mark)) {
            continue;
        }
        if line.starts_with("leader=") {
            let output = shell(plane, &programs, &format!("{line}; echo $leader"), &leader);
            let former = std::mem::replace(&mut leader, text(&output.stdout).trim().to_owned());
            assert!(!leader.is_empty() && leader != former, "{line}: {leader} after {former}");
            continue;
        }
        let is_repeated = REPEATED.iter().any(|mark| line.contains(mark));
        let done = eventually(async || {
            let output = shell(plane, &programs, line, &leader);
            let report = format!("{line}\n{}{}", text(&output.stdout), text(&output.stderr));
            assert!(output.status.success() || is_repeated, "{report}");
            if output.status.success() { Ok(()) } else { Err(report) }
        });
        done.await.unwrap();
    }
}

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

fn shell(plane: &ControlPlane, programs: &Path, line: &str, leader: &str) -> Output {
    Command::new("sh")
        .args(["-c", line])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", plane.folder().join("home"))
        .env("NO_PROXY", "127.0.0.1")
        .env("leader", leader)
        .output()
        .unwrap()
}
