//! How this process reaches the API server: by one client for requests, whose deadlines are set by whoever sends them,
//! and by one for watches, which are silent for long and bounded by the silence of their connection.

use std::time::Duration;

use anyhow::Context as _;
use hustings_client::api::ReadCandidate;
use hustings_client::requests::lease_client;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::cli::{GlobalFlags, Hinted};

/// How long a connection of a watch may be silent: a watch ends after a minute.
const LONGEST_SILENCE: Duration = Duration::from_secs(65);

/// How long it may take to find out whether LeaseCandidates are known.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// The clients of one process, and the namespace in which it is.
#[derive(Clone)]
pub struct Cluster {
    /// What further clients are made from: without hidden retries.
    pub config: Config,
    /// For all requests whose time counts. It sends nothing twice of its own accord, and has no deadlines either.
    pub leases: Client,
    /// For lists and watches.
    pub watches: Client,
    /// `--namespace`, or else that of the service account or context.
    pub namespace: String,
}

impl Cluster {
    /// Reads the configuration that `flags` name; nothing is asked of the server yet.
    pub async fn connect(flags: &GlobalFlags) -> anyhow::Result<Self> {
        let mut config = config(flags).await.map_err(|error| {
            error.context(Hinted::new(
                "there is no way to reach a cluster",
                "give --kubeconfig, set KUBECONFIG, or run in a pod with a service account",
            ))
        })?;
        let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        config.default_retry = false;
        let mut patient = config.clone();
        patient.read_timeout = Some(LONGEST_SILENCE);
        // Otherwise the time in which a pooled connection lay idle would count against the next answer.
        patient.reset_reader_on_write = true;
        let client = |config| lease_client(config).context("the configuration of the cluster cannot be used");
        Ok(Self { leases: client(config.clone())?, config, watches: client(patient)?, namespace })
    }

    /// Fails if the cluster certainly does not know LeaseCandidates.
    pub async fn knows_candidates(&self) -> Result<(), Hinted> {
        let candidates: Api<ReadCandidate> = Api::namespaced(self.leases.clone(), &self.namespace);
        let first = ListParams::default().limit(1);
        match tokio::time::timeout(LOOK_LIMIT, candidates.list(&first)).await {
            Ok(Err(error)) if is_unknown(&error) => Err(candidates_unknown()),
            _ => Ok(()),
        }
    }
}

/// Whether a list failed because the kind is not known; a list of nothing in no namespace succeeds.
pub fn is_unknown(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// A failure in the server's own words; kube prints the whole status.
pub fn told(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{} ({})", status.message, status.code),
        error => error.into(),
    }
}

/// What to say if LeaseCandidates are not known.
pub fn candidates_unknown() -> Hinted {
    Hinted::new(
        "this cluster does not know LeaseCandidates",
        "install the chart, or run `hustings crds | kubectl apply -f -`",
    )
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
