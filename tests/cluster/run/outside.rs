//! A wrapper outside a cluster, as on a laptop.

use std::fs;
use std::path::Path;

use hustings_client::host_name;
use hustings_controlplane::shared;
use serde_json::{Value, json};

use super::support::{DIRECT, Wrapper, worker};
use crate::replica::{hustings, lease, until};

#[tokio::test]
async fn outside_of_a_pod_the_context_names_the_namespace_and_the_host_the_identity() {
    let plane = shared().await.unwrap();
    let namespace = plane.create_namespace("laptop").await.unwrap();
    let kubeconfig = plane.folder().join(format!("{namespace}.kubeconfig"));
    fs::write(&kubeconfig, in_namespace(&plane.kubeconfig(), &namespace)).unwrap();
    let mut command = hustings();
    command.args(["run", "--lease=work"]).args(DIRECT).arg("--").args(worker(&[]));
    command.env("KUBECONFIG", kubeconfig).env_remove("POD_NAME").env_remove("HOSTNAME");
    let one = Wrapper::spawn(&plane, &namespace, "one", command);
    let environment = one.says("begins", 0).await["environment"].clone();
    let name = host_name().unwrap();
    assert_eq!(environment["LEADER_IDENTITY"], name);
    assert_eq!(environment["LEADER_LEASE"], format!("{namespace}/work"));
    let held = async || (lease(&plane, &namespace, "work").await["spec"]["holderIdentity"] == name).then_some(());
    until("the Lease names the host", || one.log(), held).await;
}

/// A kubeconfig file whose context names this namespace.
fn in_namespace(kubeconfig: &Path, namespace: &str) -> String {
    let mut kubeconfig: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
    kubeconfig["contexts"][0]["context"]["namespace"] = json!(namespace);
    kubeconfig.to_string()
}
