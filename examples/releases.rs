//! Hustings on the API server of each supported Kubernetes release: `cargo run --example releases`, or `-- oldest current`
//! or `-- 1.35.4` for some of them.
//!
//! The first run builds the servers of the earlier releases, which takes about five minutes of CPU time each. The table is on
//! standard output. The exit code is 0 only if everything works on every release. The section "Status" of the README
//! reports the results.

#![allow(clippy::unwrap_used, reason = "a step fails like a test")]

#[path = "../tests/kit/replica.rs"]
mod replica;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use futures::FutureExt as _;
use hustings_controlplane::{ControlPlane, ElectedComponent, NativeElection, Tools, serve};
use replica::{Replica, campaign, candidate_account, controller, lease, until};
use serde_json::{Value, json};

/// Before the release that all other tests run on. Each is the newest one whose Go modules build.
const EARLIER: [&str; 3] = ["1.34.4", "1.35.4", "1.36.3"];
const STEPS: [&str; 4] = ["CRD validates", "chart", "election of hustings.io", "election of native candidates"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(code) = replica::run_as_hustings() {
        return code;
    }
    let current = Tools::own_release().unwrap();
    let named = |argument| match argument {
        "oldest" => EARLIER[0],
        "current" => &current,
        version => version,
    };
    let mut releases: Vec<&str> = arguments.iter().skip(1).map(|argument| named(argument)).collect();
    if releases.is_empty() {
        releases = EARLIER.into_iter().chain([current.as_str()]).collect();
    }
    let tools: Vec<_> = releases.iter().map(|release| Tools::from_env().of_release(release).unwrap()).collect();
    let mut all_work = true;
    println!("| Kubernetes | {} |\n|---|{}", STEPS.join(" | "), "---|".repeat(STEPS.len()));
    for (release, tools) in releases.iter().zip(tools) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let results = runtime.block_on(try_out(release, tools));
        all_work &= results.iter().all(|works| *works);
        let results = results.map(|works| if works { "works" } else { "fails" });
        println!("| {release} | {} |", results.join(" | "));
    }
    if all_work { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether each step works. The reason why one fails is on standard error.
async fn try_out(release: &str, tools: Tools) -> [bool; 4] {
    let builder = ControlPlane::builder().native_election(NativeElection::Served).tools(tools);
    let plane = builder.start().await.unwrap();
    let version = plane.admin().apiserver_version().await.unwrap().git_version;
    assert_eq!(version, format!("v{release}"), "the server is of another release");
    let mut results = [false; 4];
    results[0] = works(crd(&plane)).await;
    results[1] = works(chart(&plane)).await;
    let controller = controller(&plane, "controller", &["--native"]).await;
    results[2] = works(election(&plane)).await;
    results[3] = works(native_election(&plane)).await;
    drop(controller);
    results
}

async fn works(step: impl Future<Output = ()>) -> bool {
    AssertUnwindSafe(step).catch_unwind().await.is_ok()
}

/// The server accepts the CRD and its rules, and they reject a candidate that breaks them.
async fn crd(plane: &ControlPlane) {
    serve(&plane.admin(), &hustings_client::api::crd()).await.unwrap();
    let create = async |emulation: &str| {
        let candidate = json!({"apiVersion": "hustings.io/v1alpha1", "kind": "LeaseCandidate",
            "metadata": {"name": "a"}, "spec": {"leaseName": "a", "binaryVersion": "1.35.0", "emulationVersion": emulation}});
        let file = plane.folder().join("candidate.json");
        std::fs::write(&file, candidate.to_string()).unwrap();
        plane.kubectl(["create", "--filename", file.to_str().unwrap()]).await.unwrap()
    };
    let rejected = create("1.36").await;
    assert!(!rejected.status.success(), "an emulation version above the binary version is accepted");
    let created = create("v1.34").await;
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    // The chart brings its own.
    let deleted = plane.kubectl(["delete", "crd", "leasecandidates.hustings.io"]).await.unwrap();
    assert!(deleted.status.success(), "{}", String::from_utf8_lossy(&deleted.stderr));
}

async fn chart(plane: &ControlPlane) {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/hustings");
    let arguments = ["install", "hustings", chart, "--namespace=hustings-system", "--create-namespace"];
    let output = plane.helm(arguments.into_iter().chain(["--set=native.enabled=true"])).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

async fn election(plane: &ControlPlane) {
    let namespace = plane.create_namespace("election").await.unwrap();
    let kubeconfig = candidate_account(plane, &namespace, "web").await;
    let flags = ["--binary-version=1.0.0", "--fallback=false"];
    let replica = Replica::start(plane, &namespace, "a", campaign(&kubeconfig, &namespace, "web", "a", &flags));
    replica.says("leading", 0).await;
}

async fn native_election(plane: &ControlPlane) {
    let component = ElectedComponent::KubeControllerManager;
    let process = plane.spawn("kcm", plane.elected_component(component, &[]).await.unwrap()).unwrap();
    let log = || std::fs::read_to_string(process.log()).unwrap();
    until("kube-controller-manager leads", log, async || {
        let lease = lease(plane, "kube-system", component.lease()).await;
        let holder: &Value = &lease["spec"]["holderIdentity"];
        let works = log().contains("Successfully acquired lease");
        (works && holder.as_str().is_some_and(|holder| !holder.is_empty())).then_some(())
    })
    .await;
}
