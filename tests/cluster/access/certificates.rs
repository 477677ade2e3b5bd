//! Client certificates that are replaced under a holder, as kubelet, cert-manager and kubeadm replace theirs.

use std::{fs, path::PathBuf, time::Duration};

use hustings_controlplane::ClientCertificate;
use serde_json::{Value, json};

use super::stage::{Stage, credential};
use crate::replica::{Replica, campaign, until};

/// How long the first certificate is valid. A busy machine needs some of it to start.
const SHORT: Duration = Duration::from_secs(30);

const FLAGS: [&str; 4] = ["--direct", "--lease-duration=15s", "--renew-deadline=12s", "--retry-period=500ms"];

const V1: &str = "client.authentication.k8s.io/v1";

fn admin_certificate(stage: &Stage, validity: Duration) -> ClientCertificate {
    stage.plane.client_certificate("holder", &["system:masters"], validity).unwrap()
}

/// A holder with this user leads. Its certificate is replaced, and the former one expires: the term goes on.
async fn keeps_its_term(stage: &Stage, user: Value, replace: impl FnOnce()) {
    let mut config = stage.base();
    config["users"][0]["user"] = user;
    let kubeconfig = stage.write("kubeconfig", &config.to_string());
    let command = campaign(&kubeconfig, &stage.namespace, "work", "a", &FLAGS);
    let began = std::time::Instant::now();
    let replica = Replica::start(&stage.plane, &stage.namespace, "a", command);
    replica.says("leading", 0).await;
    assert!(began.elapsed() < SHORT, "the machine is too busy for this test");
    replace();
    // Longer than a lease after the end of the former certificate.
    let is_over = async || (began.elapsed() > SHORT + Duration::from_secs(17)).then_some(());
    until("the former certificate has expired", || replica.log(), is_over).await;
    assert!(replica.leads() && replica.terms().len() == 1, "{}", replica.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_keeps_its_term_when_the_files_of_its_certificate_are_replaced() {
    let stage = Stage::new("replaced").await;
    let write = |certificate: &ClientCertificate| -> [PathBuf; 2] {
        [("client.crt", &certificate.certificate), ("client.key", &certificate.key)].map(|(name, pem)| {
            let new = stage.write(&format!("{name}.new"), pem);
            fs::rename(new, stage.path(name)).unwrap();
            stage.path(name)
        })
    };
    let [certificate, key] = write(&admin_certificate(&stage, SHORT));
    let user = json!({ "client-certificate": certificate, "client-key": key });
    keeps_its_term(&stage, user, || drop(write(&admin_certificate(&stage, Duration::from_hours(1))))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_keeps_its_term_when_its_program_returns_another_certificate() {
    let stage = Stage::new("returned").await;
    let write = |certificate: &ClientCertificate| {
        let status = json!({ "clientCertificateData": certificate.certificate, "clientKeyData": certificate.key });
        stage.write("answer", &credential(V1, &status).to_string())
    };
    let answer = write(&admin_certificate(&stage, SHORT));
    // Without an expirationTimestamp, only the rejection by the server tells that the certificate has expired.
    let user = json!({ "exec": { "apiVersion": V1, "command": "cat", "args": [answer], "interactiveMode": "Never" } });
    keeps_its_term(&stage, user, || drop(write(&admin_certificate(&stage, Duration::from_hours(1))))).await;
}
