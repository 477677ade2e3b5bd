//! `examples/preference.rs`: the replica of the default revision takes over from a live one, also when the default changes
//! at run time. Without a default revision, the local replica does.

use std::process::Command;

use hustings_controlplane::{Process, shared};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::example::example;
use crate::replica::until;

#[tokio::test]
async fn the_replica_of_the_default_revision_takes_over_and_the_one_before_has_stopped() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("preference").await.unwrap();
    let kubeconfig = plane.kubeconfig_in(&namespace).unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(plane.admin(), &namespace);
    let default = json!({"metadata": {"name": "example-preference"}, "data": {"default": "stable"}});
    config_maps.create(&PostParams::default(), &serde_json::from_value(default).unwrap()).await.unwrap();
    let example = example("preference");
    let start = |name: &str, revision: &str, place: &str| -> Process {
        let mut command = Command::new(&example);
        command.args([name, revision, place]).env("KUBECONFIG", &kubeconfig);
        plane.spawn(&format!("{namespace}-{name}"), command).unwrap()
    };

    let canary = start("first", "canary", "local");
    says(&canary, "leading", 1).await;
    let stable = start("second", "stable", "remote");
    says(&stable, "leading", 1).await;
    says(&canary, "stopping", 1).await;

    let changed = json!({"data": {"default": "canary"}});
    config_maps.patch("example-preference", &PatchParams::default(), &Patch::Merge(changed)).await.unwrap();
    says(&canary, "leading", 2).await;
    says(&stable, "stopping", 1).await;

    // Without a default revision, the local replica still comes first.
    let changed = json!({"data": {"default": "stable"}});
    config_maps.patch("example-preference", &PatchParams::default(), &Patch::Merge(changed)).await.unwrap();
    says(&stable, "leading", 2).await;
    config_maps.delete("example-preference", &DeleteParams::default()).await.unwrap();
    says(&canary, "leading", 3).await;
    says(&stable, "stopping", 2).await;
    assert!(canary.stop().await.unwrap().success());
    says(&stable, "leading", 3).await;
}

/// Waits until the process has printed `word` this many times.
async fn says(process: &Process, word: &str, times: usize) {
    let log = || std::fs::read_to_string(process.log()).unwrap();
    let said = async || {
        let said = log().lines().filter(|line| line.starts_with(word)).count();
        (said == times).then_some(())
    };
    until(&format!("{word:?} for the time {times}"), log, said).await;
}
