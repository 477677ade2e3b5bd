//! The token of a ServiceAccount rotates: its file gets a new one, and the former token is revoked.
//!
//! A client reads the file again once it is 10 s old. The test takes about 70 s, because the terms must last for longer
//! than the leases. A kubelet replaces a token long before the API server rejects it.

use std::fs;
use std::path::{Path, PathBuf};

use hustings_controlplane::ControlPlane;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use crate::replica::{Replica, campaign, candidate_account, hustings, install_chart, lease, token, until};

/// A kubeconfig file whose token is in a file of its own, first that of one pod and then that of another.
struct Rotating {
    kubeconfig: PathBuf,
    file: PathBuf,
    account: (String, &'static str),
}

impl Rotating {
    async fn new(plane: &ControlPlane, namespace: &str, account: &'static str) -> Self {
        let first = plane.kubeconfig_for_pod(namespace, account, "first").await.unwrap();
        let mut kubeconfig: Value = serde_json::from_slice(&fs::read(&first).unwrap()).unwrap();
        let file = first.with_extension("token");
        fs::write(&file, token_of(&first)).unwrap();
        kubeconfig["users"][0]["user"] = json!({ "tokenFile": file });
        let path = first.with_extension("rotating");
        fs::write(&path, kubeconfig.to_string()).unwrap();
        Self { kubeconfig: path, file, account: (namespace.to_owned(), account) }
    }

    /// Replaces the token by that of another pod, as a kubelet does: by a rename.
    async fn rotate(&self, plane: &ControlPlane) {
        let (namespace, account) = &self.account;
        let second = plane.kubeconfig_for_pod(namespace, account, "second").await.unwrap();
        let new = self.file.with_extension("new");
        fs::write(&new, token_of(&second)).unwrap();
        fs::rename(new, &self.file).unwrap();
    }

    /// Revokes the first token, and waits until the API server rejects it.
    async fn revoke(&self, plane: &ControlPlane, first: &Path) {
        let (namespace, _) = &self.account;
        let now = DeleteParams::default().grace_period(0);
        Api::<Pod>::namespaced(plane.admin(), namespace).delete("first", &now).await.unwrap();
        let kubeconfig = Kubeconfig::read_from(first).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = Client::try_from(config).unwrap();
        let rejected = async || {
            let answer = client.apiserver_version().await;
            matches!(answer, Err(kube::Error::Api(status)) if status.code == 401).then_some(())
        };
        until("the first token is rejected", String::new, rejected).await;
    }

    /// The kubeconfig file with the first token itself.
    fn first(&self) -> PathBuf {
        self.kubeconfig.with_extension("kubeconfig")
    }
}

fn token_of(kubeconfig: &Path) -> String {
    let kubeconfig: Value = serde_json::from_slice(&fs::read(kubeconfig).unwrap()).unwrap();
    kubeconfig["users"][0]["user"]["token"].as_str().unwrap().to_owned()
}

/// How many requests of this user the server has received with the token of this pod.
fn requests(plane: &ControlPlane, account: &(String, &str), pod: &str) -> usize {
    let user = format!("system:serviceaccount:{}:{}", account.0, account.1);
    let is_of_pod = |names: &Vec<String>| names.iter().any(|name| name == pod);
    let events = plane.audit_events().unwrap();
    let of_user = events.iter().filter(|event| event.user.username == user);
    of_user.filter(|event| event.user.extra.get("authentication.kubernetes.io/pod-name").is_some_and(is_of_pod)).count()
}

#[tokio::test]
#[ignore = "takes 70 s, and more on a busy machine"]
async fn a_holder_and_a_controller_whose_tokens_rotate_keep_their_terms() {
    let plane = ControlPlane::builder().audit(true).start().await.unwrap();
    install_chart(&plane, &[]).await;
    let namespace = plane.create_namespace("rotation").await.unwrap();
    candidate_account(&plane, &namespace, "program").await;
    let of_controller = Rotating::new(&plane, "hustings-system", "hustings").await;
    let of_holder = Rotating::new(&plane, &namespace, "program").await;

    let mut command = hustings();
    command.args(["controller", "--namespace=hustings-system", "--admin-address=127.0.0.1:0"]);
    command.env("POD_NAME", "controller").arg("--kubeconfig").arg(&of_controller.kubeconfig);
    let controller = plane.spawn("controller", command).unwrap();
    let flags = ["--binary-version=1.0.0"];
    let command = campaign(&of_holder.kubeconfig, &namespace, "work", "a", &flags);
    let holder = Replica::start(&plane, &namespace, "a", command);
    holder.says("leading", 0).await;
    let log = || fs::read_to_string(controller.log()).unwrap();
    let terms = async || {
        let controllers = lease(&plane, "hustings-system", "hustings-controller").await;
        [&controllers, &lease(&plane, &namespace, "work").await].map(|lease| token(lease).to_owned())
    };
    let before = terms().await;

    for rotating in [&of_controller, &of_holder] {
        rotating.rotate(&plane).await;
    }
    for rotating in [&of_controller, &of_holder] {
        let uses_second = async || (requests(&plane, &rotating.account, "second") > 0).then_some(());
        until("the second token is used", log, uses_second).await;
        rotating.revoke(&plane, &rotating.first()).await;
    }
    for rotating in [&of_controller, &of_holder] {
        // Longer than the leases.
        let so_far = requests(&plane, &rotating.account, "second");
        let goes_on = async || (requests(&plane, &rotating.account, "second") > so_far + 10).then_some(());
        until("requests go on", log, goes_on).await;
    }
    assert_eq!(terms().await, before);
    assert!(holder.leads(), "{}", holder.log());
}
