//! docs/quickstart.md on a node of its own, command by command. Each prints what the page shows. The images are there
//! already, so the commands that build and load them are left out.

#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

#[path = "../../kit/page.rs"]
mod page;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

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
    // The commands that run in another terminal.
    let mut watches = Vec::new();
    for (line, shown) in page::commands(include_str!("../../../docs/quickstart.md")) {
        if LEFT_OUT.iter().any(|mark| line.contains(mark)) {
            continue;
        }
        if line.ends_with("--watch") {
            let watch = plane.spawn("watch", shell(plane, &programs, &format!("exec {line}"), "")).unwrap();
            let prints = async || if fs::read(watch.log()).unwrap().is_empty() { Err("no output") } else { Ok(()) };
            eventually(prints).await.unwrap();
            watches.push((line, shown, watch));
            continue;
        }
        if line.starts_with("leader=") {
            let former = std::mem::take(&mut leader);
            let (_, printed) = run(plane, &programs, &format!("{line}; echo $leader"), "");
            printed.trim().clone_into(&mut leader);
            assert!(!leader.is_empty() && leader != former, "{line}: {leader} after {former}");
            continue;
        }
        let is_repeated = REPEATED.iter().any(|mark| line.contains(mark));
        let done = eventually(async || {
            let (succeeded, printed) = run(plane, &programs, line, &leader);
            assert!(succeeded || is_repeated, "{line}\n{printed}");
            let compared = page::compare(&shown, &printed);
            assert!(compared.is_ok() || is_repeated, "{line}\n{}", compared.unwrap_err());
            if succeeded { compared } else { Err(printed) }
        });
        done.await.unwrap_or_else(|difference| panic!("{line}\n{difference}"));
    }
    for (line, shown, watch) in watches {
        let compared = page::compare(&shown, &fs::read_to_string(watch.log()).unwrap());
        compared.unwrap_or_else(|difference| panic!("{line}\n{difference}"));
    }
}

/// Runs a line of the page. Returns whether it succeeded, and what a terminal would show.
fn run(plane: &ControlPlane, programs: &Path, line: &str, leader: &str) -> (bool, String) {
    let terminal = plane.folder().join("terminal");
    let output = File::create(&terminal).unwrap();
    let mut command = shell(plane, programs, line, leader);
    let status = command.stdout(output.try_clone().unwrap()).stderr(output).status().unwrap();
    (status.success(), fs::read_to_string(terminal).unwrap())
}

fn shell(plane: &ControlPlane, programs: &Path, line: &str, leader: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", plane.folder().join("home"))
        .env("NO_PROXY", "127.0.0.1")
        .env("leader", leader);
    command
}
