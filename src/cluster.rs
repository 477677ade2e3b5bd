//! The connection of a command to the API server: configuration, client, and hints for people when it fails.

use std::time::Duration;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use hustings_client::api::ReadCandidate;
use hustings_client::requests::{lacks_candidates, lease_client};
use hyper_util::client::proxy::matcher::Matcher;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use crate::cli::{GlobalFlags, Hinted};

/// How long [`Cluster::knows_candidates`] may take.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The client and the namespace of one process.
#[derive(Clone)]
pub struct Cluster {
    /// The configuration for further clients, with kube's hidden retries turned off.
    pub config: Config,
    /// The client for all requests. It never retries on its own; each request has its own deadline.
    pub leases: Client,
    /// `--namespace`, or else the namespace of the service account or context.
    pub namespace: String,
}

impl Cluster {
    /// Loads the configuration that `flags` name and builds a client whose User-Agent names `command`. It sends no
    /// request.
    ///
    /// # Errors
    /// Fails with a hint if the configuration cannot be loaded or used.
    pub async fn connect(flags: &GlobalFlags, command: &str) -> anyhow::Result<Self> {
        let mut config = config(flags).await.map_err(|error| {
            error.context(Hinted::new("cannot load the cluster configuration", hint_on_configuration(flags)))
        })?;
        drop_exempt_proxy(&mut config, |name| std::env::var(name).ok());
        let namespace = flags.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        config.default_retry = false;
        let user_agent = format!("hustings-{command}/{}", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_str(&user_agent)?));
        let leases = lease_client(config.clone()).context(Hinted::new(
            "cannot create a client from the cluster configuration",
            "the context's user in the kubeconfig file may need a program that is not installed here, or a file that \
             cannot be read",
        ))?;
        Ok(Self { config, leases, namespace })
    }

    /// An error that says which `attempt` failed, quotes the server, and adds a hint where one applies.
    pub fn explain(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        let hint = match &error {
            kube::Error::Api(status) if status.code == 401 => {
                "the API server rejected the credentials: log in again, or choose another --kubeconfig or --context"
                    .to_owned()
            }
            kube::Error::Api(status) if status.code == 403 => {
                "grant the verb list on leases.coordination.k8s.io and leasecandidates.hustings.io in a Role".to_owned()
            }
            kube::Error::Api(_) => return api_error(error).context(attempt.to_owned()),
            _ => self.hint_on_server(),
        };
        api_error(error).context(Hinted::new(attempt, hint))
    }

    /// A hint for a server that does not answer.
    pub fn hint_on_server(&self) -> String {
        let server = &self.config.cluster_url;
        format!("check that {server} is reachable from here, or choose another --kubeconfig or --context")
    }

    /// Fails if the cluster certainly lacks the LeaseCandidate CRD. Any doubt, such as a timeout, counts as success.
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

    /// Whether a list of candidates failed because the cluster certainly lacks the CRD. With the CRD, a list succeeds
    /// even if there is no candidate or no such namespace.
    pub async fn lacks_candidates(&self, error: &kube::Error) -> bool {
        matches!(error, kube::Error::Api(status) if status.code == 404) && lacks_candidates(&self.leases).await
    }
}

/// An error with the server's message and code. kube's own would print the whole `Status` object.
pub fn api_error(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{} ({})", status.message, status.code),
        error => error.into(),
    }
}

/// The error for a cluster that lacks the LeaseCandidate CRD.
pub fn candidates_unknown() -> Hinted {
    Hinted::new(
        "the LeaseCandidate CRD is not installed in this cluster",
        "install the chart, or run `hustings crds | kubectl apply -f -`",
    )
}

/// `--context`. An empty value, as from an empty environment variable, counts as absent.
fn context(flags: &GlobalFlags) -> Option<&str> {
    flags.context.as_deref().filter(|context| !context.is_empty())
}

fn hint_on_configuration(flags: &GlobalFlags) -> &'static str {
    match (&flags.kubeconfig, context(flags)) {
        (_, Some(_)) => "`kubectl config get-contexts` lists the available contexts",
        (Some(_), None) => "set --kubeconfig to the path of a readable kubeconfig file",
        (None, None) => "pass --kubeconfig, set KUBECONFIG, or run in a pod with a service account",
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

/// Drops a proxy of the environment if `NO_PROXY` exempts the API server. kube compares `NO_PROXY` with the address of
/// the proxy instead. As with kubectl, `proxy-url` of the kubeconfig has no exemptions.
fn drop_exempt_proxy(config: &mut Config, variable: impl Fn(&str) -> Option<String>) {
    let first_of = |names: [&str; 2]| names.into_iter().filter_map(&variable).find(|value| !value.is_empty());
    let Some(proxy) = first_of(["HTTPS_PROXY", "https_proxy"]) else { return };
    let exempt = first_of(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let matcher = Matcher::builder().all("http://proxy").no(exempt).build();
    if config.proxy_url == proxy.parse().ok() && matcher.intercept(&config.cluster_url).is_none() {
        config.proxy_url = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_exempts_the_server_from_the_proxy_of_the_environment_alone() {
        let of_environment = "http://proxy.example:3128";
        for (no_proxy, proxy_url, is_kept) in [
            ("", of_environment, true),
            ("other.example", of_environment, true),
            ("proxy.example", of_environment, true),
            ("example.com", of_environment, false),
            (".example.com", of_environment, false),
            ("*", of_environment, false),
            ("*", "http://bastion.example:8888", true),
        ] {
            let mut config = Config::new("https://api.example.com:6443".parse().unwrap());
            config.proxy_url = Some(proxy_url.parse().unwrap());
            drop_exempt_proxy(&mut config, |name| match name {
                "https_proxy" => Some(of_environment.to_owned()),
                "NO_PROXY" => Some(no_proxy.to_owned()),
                _ => None,
            });
            assert_eq!(config.proxy_url.is_some(), is_kept, "NO_PROXY={no_proxy} with {proxy_url}");
        }
    }
}
