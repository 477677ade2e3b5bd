//! A controller whose replicas all watch and reconcile, while only one of them writes.
//!
//! Every replica has warm caches and correct metrics, and a new leader does all pending work at once. Run it a few times
//! with `RUST_LOG=info`, label a ConfigMap `example.com/managed=true`, then stop the leader:
//!
//! ```sh
//! cargo run --example write_gate -- first
//! cargo run --example write_gate -- second
//! ```
//!
//! In a pod, omit the argument: the identity is then the pod's name.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hustings_client::gate::is_not_leading;
use hustings_client::{Elector, Leadership, WriteGate, lease_client};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;

const ANNOTATION: &str = "example.com/leader";

struct Context {
    client: Client,
    leadership: Leadership,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::infer().await?;

    // The first replica that finds the Lease free claims it. With `Elector::coordinated`, the controller elects the replica
    // with the oldest version.
    let mut elector = Elector::direct(lease_client(config.clone())?, &config.default_namespace, "example-write-gate");
    if let Some(identity) = std::env::args().nth(1) {
        elector = elector.identity(identity);
    }
    let campaign = elector.build()?.start();
    let leadership = campaign.leadership();

    // Reads always pass. Writes pass while this process leads, and may take 5 s.
    let client = WriteGate::new(leadership.clone(), Duration::from_secs(5))?.client(config)?;
    let context = Arc::new(Context { client: client.clone(), leadership: leadership.clone() });
    let config_maps = watcher::Config::default().labels("example.com/managed=true");
    Controller::new(Api::<ConfigMap>::default_namespaced(client), config_maps)
        // When this replica begins to lead, it does all the work that it skipped as a follower.
        .reconcile_all_on(leadership.promotions().map(drop))
        .shutdown_on_signal()
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), context)
        .for_each(|outcome| async move {
            if let Err(error) = outcome {
                tracing::warn!(%error, "reconciliation failed");
            }
        })
        .await;

    // The controller has stopped. Now the elector gives the Lease up, so that the next replica leads at once.
    campaign.stop().await?;
    Ok(())
}

/// Writes the name of the leading replica to each ConfigMap.
async fn reconcile(config_map: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let (name, identity) = (config_map.name_any(), context.leadership.identity());
    if config_map.annotations().get(ANNOTATION).is_some_and(|leader| leader == identity) {
        return Ok(Action::await_change());
    }
    let config_maps = Api::<ConfigMap>::default_namespaced(context.client.clone());
    let patch = json!({ "metadata": { "annotations": { ANNOTATION: identity } } });
    match config_maps.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => tracing::info!("{name} is written"),
        // The gate also rejects writes of a leader that could not renew for a while: it retries after a pause.
        Err(error) if is_not_leading(&error) && !context.leadership.is_leader() => {
            tracing::info!("{name} is left to the leader: {error}");
        }
        Err(error) => return Err(error),
    }
    Ok(Action::await_change())
}
