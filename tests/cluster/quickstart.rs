//! The commands of docs/quickstart.md and of the README's section on the installation, in their order, on a real API server.
//!
//! No pod runs here, so the commands that build the image, load it or need a pod are left out: `tests/node` runs the
//! quickstart with pods. The output of those that need no pod must be the one that the page shows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use hustings_controlplane::{ControlPlane, Tool};

use crate::page::{commands, compare};
use crate::replica::hustings;

/// Marks of the commands that are left out.
const LEFT_OUT: [&str; 10] = [
    "cargo run",
    "kind ",
    "export PATH",
    "rollout status",
    "hustings status hello",
    "kubectl logs",
    "leader=",
    "kubectl delete pod",
    "kubectl exec",
    "kubectl wait",
];

/// Marks of the commands whose output is the same without pods.
const COMPARED: [&str; 4] = ["kubectl apply", "kubectl delete -f", "kubectl delete crd", "helm uninstall"];

#[tokio::test]
async fn quickstart_runs_as_written() {
    assert_eq!(run(include_str!("../../docs/quickstart.md")).await, 9);
}

#[tokio::test]
async fn installation_in_the_readme_runs_as_written() {
    let readme = include_str!("../../README.md");
    let section = readme.split("\n## ").find(|section| section.starts_with("Install\n")).unwrap();
    assert_eq!(run(section).await, 5);
}

/// Runs the commands of a page and returns how many there were.
async fn run(page: &str) -> usize {
    let plane = ControlPlane::builder().start().await.unwrap();
    let programs = plane.folder().join("programs");
    fs::create_dir(&programs).unwrap();
    symlink(plane.tool(Tool::Kubectl).await.unwrap(), programs.join("kubectl")).unwrap();
    symlink(plane.tool(Tool::Helm).await.unwrap(), programs.join("helm")).unwrap();
    symlink(hustings().get_program(), programs.join("hustings")).unwrap();
    let commands = commands(page);
    let commands: Vec<_> =
        commands.iter().filter(|(line, _)| !LEFT_OUT.iter().any(|mark| line.contains(mark))).collect();
    for (line, shown) in &commands {
        let output = shell(&plane, &programs, &line.replace(" --wait", ""));
        let printed = String::from_utf8_lossy(&output.stdout);
        let context = format!("{line}\n{printed}\n{}", String::from_utf8_lossy(&output.stderr));
        // The check finds that no controller runs.
        assert!(output.status.success() || *line == "hustings check", "{context}");
        if COMPARED.iter().any(|mark| line.contains(mark)) {
            compare(shown, &printed).unwrap_or_else(|difference| panic!("{line}\n{difference}"));
        }
    }
    commands.len()
}

fn shell(plane: &ControlPlane, programs: &Path, line: &str) -> Output {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", line])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("PATH", path)
        .env("KUBECONFIG", plane.kubeconfig())
        .env("HOME", plane.folder().join("home"))
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap()
}
