//! A component that checks no flag and has no gate: once elected, it writes for ever under its first term. It is this test
//! binary, started again.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hustings_client::{Durations, Elector, lease_client};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::stage::{NAME, config, dry_run, fenced, patch};
use crate::replica::json_lines;

const NAMESPACE: &str = "FENCED_WRITER_NAMESPACE";
const POD: &str = "FENCED_WRITER_POD";

/// A lease that expires within a test's patience.
const TIMING: Durations = Durations {
    lease_duration_seconds: 5,
    renew_deadline: Duration::from_millis(4_900),
    retry_period: Duration::from_millis(500),
    jitter_percent: 20,
    request_timeout: Duration::from_secs(3),
    stop_grace: Duration::from_secs(30),
};

/// One write: its kind, when it was sent, and the reason if it was rejected.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Write {
    pub(crate) token: u64,
    pub(crate) kind: Kind,
    pub(crate) sent: Timestamp,
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Kind {
    /// A patch with the mark of the term.
    Marked,
    /// The creation of an object that is marked, as a dry run, so that it can be repeated.
    Creation,
    /// A patch that does not touch the mark.
    Unmarked,
    /// A deletion, as a dry run: the object is still needed.
    Deletion,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Marked, Self::Creation, Self::Unmarked, Self::Deletion];
}

pub(crate) fn command(kubeconfig: PathBuf, namespace: &str, pod: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "fencing::writer::writes_for_ever", "--ignored", "--nocapture"]);
    command.env("KUBECONFIG", kubeconfig).env(NAMESPACE, namespace).env(POD, pod);
    command
}

/// The lines of a writer.
pub(crate) fn writes(log: &str) -> Vec<Write> {
    json_lines(log).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
#[ignore = "it is the process that other tests start"]
async fn writes_for_ever() {
    let [Ok(namespace), Ok(pod), Ok(kubeconfig)] = [NAMESPACE, POD, "KUBECONFIG"].map(std::env::var) else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = config(kubeconfig.into()).await;
    let client = lease_client(config.clone()).unwrap();
    let elector = Elector::direct(client, &namespace, NAME).identity(&pod).timing(TIMING).build().unwrap();
    let campaign = elector.start();
    let term = campaign.leadership().wait_until_leader().await.unwrap();
    let config_maps = Api::<ConfigMap>::namespaced(lease_client(config).unwrap(), &namespace);
    let params = PatchParams::default();
    // As a component marks what it writes.
    let (mut metadata, mut new) = (ObjectMeta::default(), fenced("new", None));
    term.fence(&mut metadata);
    term.fence(&mut new.metadata);
    let marked = Patch::Merge(json!({"metadata": metadata, "data": {"data": pod}}));
    let deletion = DeleteParams::default().dry_run();
    loop {
        for kind in Kind::ALL {
            let sent = Timestamp::now();
            let answer = match kind {
                Kind::Marked => config_maps.patch(NAME, &params, &marked).await.map(drop),
                Kind::Creation => config_maps.create(&dry_run(), &new).await.map(drop),
                Kind::Unmarked => config_maps.patch(NAME, &params, &patch(None, &pod)).await.map(drop),
                Kind::Deletion => config_maps.delete(NAME, &deletion).await.map(drop),
            };
            let refused = answer.err().map(|error| error.to_string());
            println!("{}", serde_json::to_string(&Write { token: term.token, kind, sent, refused }).unwrap());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
