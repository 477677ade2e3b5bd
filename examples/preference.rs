//! A better replica takes over from a live one: the default revision comes before all others, and local replicas before
//! remote ones. `docs/guides/preference.md` has the permissions that direct mode needs.
//!
//! The ConfigMap `example-preference` names the default revision, and may change at any time:
//!
//! ```sh
//! kubectl create configmap example-preference --from-literal=default=stable
//! cargo run --example preference -- first canary local
//! cargo run --example preference -- second stable remote
//! kubectl patch configmap example-preference -p '{"data":{"default":"canary"}}'
//! ```

use std::pin::pin;

use anyhow::Context;
use futures::TryStreamExt;
use hustings_client::istio_key;
use hustings_client::{Elector, lease_client};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const NAME: &str = "example-preference";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let (name, revision) = arguments.next().zip(arguments.next()).context("give a name and a revision")?;
    let is_local = arguments.next().is_none_or(|place| place == "local");
    let config = Config::infer().await?;

    // While the default revision is unknown, this replica asks no holder to hand over.
    let (key, receiver) = watch::channel(None);
    tokio::spawn(follow_default(Client::try_from(config.clone())?, revision, is_local, key));

    let shutdown = CancellationToken::new();
    let elector = Elector::builder(lease_client(config.clone())?, &config.default_namespace, NAME)
        .identity(name)
        .direct()
        .key(receiver)
        .shutdown(&shutdown)
        .build()?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        shutdown.cancel();
    });
    elector
        .run(|term| async move {
            println!("leading, token {}", term.token);
            // A holder that is asked to hand over leads until its work has stopped.
            term.cancelled().await;
            println!("stopping, token {}", term.token);
        })
        .await?;
    Ok(())
}

/// Publishes this replica's key whenever the default revision changes.
async fn follow_default(client: Client, revision: String, is_local: bool, key: watch::Sender<Option<i64>>) {
    let only = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let config_maps = watcher(Api::<ConfigMap>::default_namespaced(client), only).default_backoff();
    let mut config_maps = pin!(config_maps.applied_objects());
    loop {
        match config_maps.try_next().await {
            Ok(Some(config_map)) => {
                let default = config_map.data.and_then(|data| data.get("default").cloned());
                key.send_replace(istio_key(default.map(|default| default == revision), is_local));
            }
            Ok(None) => return,
            // The watch retries, and the last key stays.
            Err(error) => tracing::warn!(%error, "cannot see the default revision"),
        }
    }
}
