//! `examples/controller.rs`: one replica works at a time, its writes carry the token of its term, and the oldest version
//! leads.

use std::path::{Path, PathBuf};
use std::process::Command;

use hustings_client::api::ReadCandidate;
use hustings_controlplane::Process;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::history::History;
use crate::installed::installed;
use crate::replica::until;

#[tokio::test]
async fn the_example_controller_works_in_one_replica_at_a_time_and_is_succeeded_when_it_stops() {
    let plane = installed().await;
    let namespace = plane.create_namespace("example").await.unwrap();
    // The example runs in the namespace of its kubeconfig.
    let kubeconfig = plane.kubeconfig_in(&namespace).unwrap();
    let config_maps: Api<ConfigMap> = Api::namespaced(plane.admin(), &namespace);
    let example = example("controller");
    let start = |name: &str| -> Process {
        let mut command = Command::new(&example);
        command.arg(name).env("KUBECONFIG", &kubeconfig);
        plane.spawn(&format!("{namespace}-{name}"), command).unwrap()
    };

    let first = start("first");
    let before = stamped(&config_maps, "before", &first).await;
    let second = start("second");
    assert_eq!(stamped(&config_maps, "during", &second).await, before, "still the same term");
    assert_eq!(first.stop().await.unwrap().code(), Some(0));
    let after = stamped(&config_maps, "after", &second).await;
    assert!(after > before, "the token grows from term to term: {before}, {after}");
}

#[tokio::test]
async fn during_an_upgrade_the_old_version_leads_until_its_last_replica_is_gone() {
    let plane = installed().await;
    let namespace = plane.create_namespace("upgrade").await.unwrap();
    let kubeconfig = plane.kubeconfig_in(&namespace).unwrap();
    let example = example("controller");
    let start = |name: &str, binary: &str, emulation: &str| -> Process {
        let mut command = Command::new(&example);
        command.arg(name).env("KUBECONFIG", &kubeconfig);
        command.env("BINARY_VERSION", binary).env("EMULATION_VERSION", emulation);
        plane.spawn(&format!("{namespace}-{name}"), command).unwrap()
    };
    let leases = History::of(Api::<Lease>::namespaced(plane.admin(), &namespace)).await;
    // The holders in their order, without repetition.
    let holders = || {
        let seen = leases.read(|lease| lease.spec.as_ref()?.holder_identity.clone());
        let mut seen: Vec<_> =
            seen.into_iter().filter_map(|(_, holder)| holder.filter(|name| !name.is_empty())).collect();
        seen.dedup();
        seen
    };
    let logs = |process: &Process| std::fs::read_to_string(process.log()).unwrap();
    let candidates = Api::<ReadCandidate>::namespaced(plane.admin(), &namespace);
    let stands = async |name: &str, process: &Process| {
        let looked_at = async || candidates.get_opt(name).await.unwrap()?.record.status.state;
        until(&format!("the controller has judged {name}"), || logs(process), looked_at).await
    };

    let old_1 = start("old-1", "1.31.0", "1.31.0");
    until("old-1 leads", || logs(&old_1), async || (holders() == ["old-1"]).then_some(())).await;
    let old_2 = start("old-2", "1.31.0", "1.31.0");
    stands("old-2", &old_2).await;
    // The rollout: the first new replica behaves as the new version at once, the other as the guide recommends.
    let bold = start("bold", "1.32.0", "1.32.0");
    stands("bold", &bold).await;
    let new = start("new", "1.32.0", "1.31.0");
    stands("new", &new).await;
    assert!(old_1.stop().await.unwrap().success(), "{}", logs(&old_1));
    let second = async || (holders() == ["old-1", "old-2"]).then_some(());
    until("another old one leads", || format!("{:?}", holders()), second).await;
    assert!(old_2.stop().await.unwrap().success(), "{}", logs(&old_2));
    let third = async || (holders() == ["old-1", "old-2", "new"]).then_some(());
    until("a new one leads, which behaves as the old ones did", || format!("{:?}", holders()), third).await;
    assert!(new.stop().await.unwrap().success(), "{}", logs(&new));
    let config_maps: Api<ConfigMap> = Api::namespaced(plane.admin(), &namespace);
    stamped(&config_maps, "upgraded", &bold).await;
    assert_eq!(holders(), ["old-1", "old-2", "new", "bold"]);
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

/// An example's binary. `cargo test` builds it. A run of this test alone does not, so the test builds it, which does
/// nothing if it is up to date.
pub(super) fn example(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--example", name]).current_dir(root);
    // The variables name this test's package. Build scripts that read them, as `ring`'s does, would run again. cargo would
    // build everything that depends on them twice: here, and in the next manual build.
    let of_package = |name: &str| name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
        cargo.env_remove(name);
    }
    assert!(cargo.status().unwrap().success(), "the example does not build");
    Path::new(env!("CARGO_BIN_EXE_hustings")).with_file_name("examples").join(name)
}
