//! A controller that works in one replica at a time. If the replicas have several versions, the oldest works.
//!
//! It needs the CRD (`hustings crds | kubectl apply -f -`). Run it twice, then stop the one that leads:
//!
//! ```sh
//! cargo run --example controller -- first
//! cargo run --example controller -- second
//! ```
//!
//! In a pod, omit the argument: the identity is then the pod's name. The environment sets the versions:
//! `BINARY_VERSION`, and `EMULATION_VERSION` to behave as an older version.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures::StreamExt;
use hustings_client::{Elector, Term, WriteGate, lease_client};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

const ANNOTATION: &str = "example.com/term";

/// How long a write may take. A leader that has less time left than this does not begin one.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Config::infer().await?;

    // The elector has a client of its own, without hidden retries.
    let shutdown = CancellationToken::new();
    let version = env::var("BINARY_VERSION").unwrap_or_else(|_| env!("CARGO_PKG_VERSION").to_owned());
    let mut elector =
        Elector::coordinated(lease_client(config.clone())?, &config.default_namespace, "example-controller", version)
            .shutdown(&shutdown);
    if let Ok(version) = env::var("EMULATION_VERSION") {
        elector = elector.emulation_version(version);
    }
    if let Some(identity) = env::args().nth(1) {
        elector = elector.identity(identity);
    }
    let elector = elector.build()?;

    // Reads through this client always pass. Writes pass while this process leads.
    let client = WriteGate::new(elector.leadership(), WRITE_DEADLINE)?.client(config)?;

    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        shutdown.cancel();
    });

    // Returns after the shutdown, when the work has ended and the Lease is given up.
    elector.run(|term| work(client.clone(), term)).await?;
    Ok(())
}

struct Shared {
    client: Client,
    token: u64,
}

/// The work of one term.
async fn work(client: Client, term: Term) {
    let context = Arc::new(Shared { client: client.clone(), token: term.token });
    let config_maps = watcher::Config::default().labels("example.com/managed=true");
    Controller::new(Api::<ConfigMap>::default_namespaced(client), config_maps)
        .graceful_shutdown_on(term.cancellation().cancelled_owned())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), context)
        .for_each(|outcome| async move {
            match outcome {
                Ok((config_map, _)) => tracing::info!(%config_map, "reconciled"),
                Err(error) => tracing::warn!(%error, "reconciliation failed"),
            }
        })
        .await;
}

/// Marks each ConfigMap with the token of the term that first observed it. Tokens grow from term to term, so a reader can
/// distinguish a stale write from a new one.
async fn reconcile(config_map: Arc<ConfigMap>, context: Arc<Shared>) -> Result<Action, kube::Error> {
    if !config_map.annotations().contains_key(ANNOTATION) {
        let config_maps = Api::<ConfigMap>::default_namespaced(context.client.clone());
        let patch = json!({ "metadata": { "annotations": { ANNOTATION: context.token.to_string() } } });
        config_maps.patch(&config_map.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}
