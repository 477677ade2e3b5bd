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
//! kubectl delete configmap example-preference
//! ```
//!
//! Without the ConfigMap, there is no default revision, and local replicas still come before remote ones. For Istio's own
//! default revision, use `hustings_client::follow_istio_key` instead of `follow_default`.

use std::pin::pin;

use anyhow::Context;
use futures::TryStreamExt;
use hustings_client::{DefaultRevision, Elector, istio_key, lease_client};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config as WatchConfig, Event, watcher};
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
    let elector = Elector::direct(lease_client(config.clone())?, &config.default_namespace, NAME)
        .identity(name)
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
    let only = WatchConfig::default().fields(&format!("metadata.name={NAME}"));
    let mut events = pin!(watcher(Api::<ConfigMap>::default_namespaced(client), only).default_backoff());
    let mut default = DefaultRevision::Unknown;
    loop {
        match events.try_next().await {
            Ok(Some(Event::Init)) => default = DefaultRevision::None,
            Ok(Some(Event::InitApply(config_map))) => default = default_of(config_map),
            Ok(Some(Event::InitDone)) => publish(&key, &default, &revision, is_local),
            Ok(Some(Event::Apply(config_map))) => publish(&key, &default_of(config_map), &revision, is_local),
            Ok(Some(Event::Delete(_))) => publish(&key, &DefaultRevision::None, &revision, is_local),
            Ok(None) => return,
            // The watch retries, and the last key stays.
            Err(error) => tracing::warn!(%error, "cannot see the default revision"),
        }
    }
}

fn default_of(config_map: ConfigMap) -> DefaultRevision {
    let default = config_map.data.and_then(|mut data| data.remove("default"));
    default.map_or(DefaultRevision::None, DefaultRevision::Revision)
}

fn publish(key: &watch::Sender<Option<i64>>, default: &DefaultRevision, revision: &str, is_local: bool) {
    key.send_replace(istio_key(default, revision, is_local));
}
