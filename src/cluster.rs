//! How this process reaches the API server.
//!
//! A watch wants patience: retries by the server's word, and a read that may be silent for a minute. A Lease wants none:
//! an answer that comes late is worse than none, and a retry that the caller does not know of is a write that he cannot
//! time. So there are two clients.

use std::time::Duration;

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::cli::{GlobalFlags, Hinted};

/// How long a watch stays open before it is resumed.
pub const WATCH_TIMEOUT: Duration = Duration::from_mins(1);

/// How long any other request may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The clients of one process, and the namespace in which it is.
#[derive(Clone)]
pub struct Cluster {
    /// For lists and watches.
    pub watches: Client,
    /// For all reads and writes whose time counts: no hidden retries, and a bound on every answer.
    pub leases: Client,
    /// `--namespace`, or else that of the service account or context.
    pub namespace: String,
}

impl Cluster {
    /// Reads the configuration that `flags` name; nothing is asked of the server yet.
    pub async fn connect(flags: &GlobalFlags) -> anyhow::Result<Self> {
        let config = config(flags).await.map_err(|error| {
            error.context(Hinted::new(
                "there is no way to reach a cluster",
                "give --kubeconfig, set KUBECONFIG, or run in a pod with a service account",
            ))
        })?;
        let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self {
            watches: client(config.clone(), WATCH_TIMEOUT + REQUEST_TIMEOUT, true)?,
            leases: client(config, REQUEST_TIMEOUT, false)?,
            namespace,
        })
    }
}

fn client(mut config: Config, read_timeout: Duration, retries: bool) -> anyhow::Result<Client> {
    config.connect_timeout = Some(REQUEST_TIMEOUT);
    config.write_timeout = Some(REQUEST_TIMEOUT);
    config.read_timeout = Some(read_timeout);
    // Otherwise the time in which a pooled connection lay idle would count against the next answer.
    config.reset_reader_on_write = true;
    config.default_retry = retries;
    Client::try_from(config).context("the configuration of the cluster cannot be used")
}

async fn config(flags: &GlobalFlags) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: flags.context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = flags.kubeconfig.as_deref().filter(|path| !path.is_empty()) {
        let kubeconfig = Kubeconfig::read_from(path)?;
        return Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?);
    }
    let named = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    if !named
        && flags.context.is_none()
        && let Ok(config) = Config::incluster()
    {
        return Ok(config);
    }
    Ok(Config::from_kubeconfig(&options).await?)
}
