//! The chart renders the committed files, rejects invalid values, is accepted by a real API server, and leaves behind
//! what its README lists. The binary needs no other file, since the image has none.

mod accepted;
mod admission;
mod deploy;
mod image;
mod install;
mod network;
mod overload;
mod pod;
mod privileges;
mod reinstall;
mod release;
mod rendering;
mod static_pod;
mod subchart;
mod values;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use hustings_controlplane::{Tool, Tools};

/// A path of this repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a file of this repository.
fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// The versions of Helm that the chart works with.
const HELMS: [Tool; 2] = [Tool::Helm, Tool::Helm3];

/// Runs Helm 4 at the root of this repository, without a cluster.
fn helm(arguments: &[&str]) -> Output {
    run_helm(Tool::Helm, arguments)
}

/// Runs one version of Helm at the root of this repository, without a cluster.
fn run_helm(helm: Tool, arguments: &[&str]) -> Output {
    Command::new(Tools::from_env().path(helm).unwrap())
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("KUBECONFIG", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The standard output of a program that must succeed.
#[track_caller]
fn succeed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    text
}

/// Fails if the committed file `path` differs from `content`. Under `REWRITE=1` it writes the file instead.
#[track_caller]
fn assert_committed(path: &str, content: &str) {
    if env::var_os("REWRITE").is_some() {
        fs::write(repository(path), content).unwrap();
    }
    let committed = fs::read_to_string(repository(path)).unwrap_or_default();
    assert!(committed == content, "{path} is not up to date: run the tests with REWRITE=1, and read the difference");
}
