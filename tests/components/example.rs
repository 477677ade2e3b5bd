//! `examples/controller.rs`: one replica works at a time, and what it writes carries the token of its term.

use std::path::{Path, PathBuf};
use std::process::Command;

use hustings_controlplane::{ControlPlane, Process};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::replica::{install, until};

#[tokio::test]
async fn the_example_controller_works_in_one_replica_at_a_time_and_is_succeeded_when_it_stops() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let _controller = install(&plane).await;
    // Where the example runs: the namespace of the administrator's kubeconfig.
    let config_maps: Api<ConfigMap> = Api::namespaced(plane.admin(), "default");
    let example = example("controller");
    let start = |name: &str| -> Process {
        let mut command = Command::new(&example);
        command.arg(name).env("KUBECONFIG", plane.kubeconfig());
        plane.spawn(name, command).unwrap()
    };

    let first = start("first");
    let before = stamped(&config_maps, "before", &first).await;
    let second = start("second");
    assert_eq!(stamped(&config_maps, "during", &second).await, before, "still the same term");
    assert_eq!(first.stop().await.unwrap().code(), Some(0));
    let after = stamped(&config_maps, "after", &second).await;
    assert!(after > before, "the token grows from term to term: {before}, {after}");
}

/// Creates a ConfigMap and waits for the token that the example writes on it.
async fn stamped(config_maps: &Api<ConfigMap>, name: &str, process: &Process) -> u64 {
    let config_map = json!({"metadata": {"name": name, "labels": {"example.com/managed": "true"}}});
    config_maps.create(&PostParams::default(), &serde_json::from_value(config_map).unwrap()).await.unwrap();
    let stamp = async || {
        let config_map = config_maps.get(name).await.unwrap();
        config_map.annotations().get("example.com/term").map(|token| token.parse().unwrap())
    };
    until(&format!("{name} is stamped"), || std::fs::read_to_string(process.log()).unwrap(), stamp).await
}

/// An example's binary. `cargo test` builds it; a run of this test alone does not, hence the second build, which
/// has nothing to do after the first.
pub(super) fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new(env!("CARGO")).args(["build", "--quiet", "--example", name]).current_dir(root).status();
    assert!(status.unwrap().success(), "the example does not build");
    Path::new(env!("CARGO_BIN_EXE_hustings")).with_file_name("examples").join(name)
}
