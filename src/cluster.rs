//! How this process reaches the API server.

use std::time::Duration;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use hustings_client::api::ReadCandidate;
use hustings_client::requests::{lacks_candidates, lease_client};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::cli::{GlobalFlags, Hinted};

/// How long it may take to find out whether LeaseCandidates are known.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The client of one process, and the namespace in which it is.
#[derive(Clone)]
pub struct Cluster {
    /// What further clients are made from: without hidden retries.
    pub config: Config,
    /// For everything. It sends nothing twice of its own accord, and requests have their own deadlines.
    pub leases: Client,
    /// `--namespace`, or else that of the service account or context.
    pub namespace: String,
}

impl Cluster {
    /// Reads the configuration that `flags` name, for the command of this name; nothing is asked of the server yet.
    pub async fn connect(flags: &GlobalFlags, command: &str) -> anyhow::Result<Self> {
        let mut config = config(flags).await.map_err(|error| {
            error.context(Hinted::new("there is no way to reach a cluster", hint_on_configuration(flags)))
        })?;
        let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        config.default_retry = false;
        let user_agent = format!("hustings-{command}/{}", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_str(&user_agent)?));
        let leases = lease_client(config.clone()).context(Hinted::new(
            "the configuration of the cluster cannot be used",
            "the context's user in the kubeconfig file may need a program that is not installed here, or a file that \
             cannot be read",
        ))?;
        Ok(Self { config, leases, namespace })
    }

    /// The failure of an `attempt` in the server's own words, with the way out where there is one.
    pub fn explain(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        let hint = match &error {
            kube::Error::Api(status) if status.code == 401 => {
                "the credentials have expired or are not known here: log in again, or choose another --kubeconfig or \
                 --context"
                    .to_owned()
            }
            kube::Error::Api(status) if status.code == 403 => {
                "a Role must allow the verb list on leases.coordination.k8s.io and leasecandidates.hustings.io"
                    .to_owned()
            }
            kube::Error::Api(_) => return told(error).context(attempt.to_owned()),
            _ => self.hint_on_server(),
        };
        told(error).context(Hinted::new(attempt, hint))
    }

    /// What to do about a server that does not answer.
    pub fn hint_on_server(&self) -> String {
        let server = &self.config.cluster_url;
        format!("see that {server} can be reached from here, or choose another --kubeconfig or --context")
    }

    /// Fails if the cluster certainly does not know LeaseCandidates.
    pub async fn knows_candidates(&self) -> Result<(), Hinted> {
        let candidates: Api<ReadCandidate> = Api::namespaced(self.leases.clone(), &self.namespace);
        let first = ListParams::default().limit(1);
        let lacks =
            async { matches!(candidates.list(&first).await, Err(error) if self.lacks_candidates(&error).await) };
        match tokio::time::timeout(DISCOVERY_TIMEOUT, lacks).await {
            Ok(true) => Err(candidates_unknown()),
            _ => Ok(()),
        }
    }

    /// Whether a list of candidates failed because the cluster certainly has none; a list of nothing in no namespace
    /// succeeds.
    pub async fn lacks_candidates(&self, error: &kube::Error) -> bool {
        matches!(error, kube::Error::Api(status) if status.code == 404) && lacks_candidates(&self.leases).await
    }
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

/// An empty one, as an empty variable leaves it, names none.
fn context(flags: &GlobalFlags) -> Option<&str> {
    flags.context.as_deref().filter(|context| !context.is_empty())
}

fn hint_on_configuration(flags: &GlobalFlags) -> &'static str {
    match (&flags.kubeconfig, context(flags)) {
        (_, Some(_)) => "`kubectl config get-contexts` shows the contexts there are",
        (Some(_), None) => "give the path of a readable kubeconfig file by --kubeconfig",
        (None, None) => "give --kubeconfig, set KUBECONFIG, or run in a pod with a service account",
    }
}

async fn config(flags: &GlobalFlags) -> anyhow::Result<Config> {
    let context = context(flags).map(str::to_owned);
    let is_context_named = context.is_some();
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    if let Some(path) = flags.kubeconfig.as_deref().filter(|path| !path.is_empty()) {
        let kubeconfig = Kubeconfig::read_from(path)?;
        return Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?);
    }
    let named = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    if !named
        && !is_context_named
        && let Ok(config) = Config::incluster()
    {
        return Ok(config);
    }
    Ok(Config::from_kubeconfig(&options).await?)
}
