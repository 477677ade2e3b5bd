//! The connection of a command to the API server, with hints for the user when a request fails.

#[cfg(test)]
pub(crate) mod testing;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use http::HeaderValue;
use http::header::USER_AGENT;
use hustings_client::access::prepare;
use hustings_client::api::{NativeVersion, ReadCandidate, ReadLease, ReadNativeCandidate};
use hustings_client::store::{lacks_candidates, lease_client, reading_client};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Config, Resource};
use tokio_util::sync::CancellationToken;

use crate::base::access::{Access, cause};
use crate::base::hint::Hinted;
use crate::base::nearest;
use crate::base::signals;

/// How long a read may take that only improves an error message.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// The most Leases to read for a hint with the nearest names.
const NAMES: u32 = 500;

/// The client and the namespace of one process.
#[derive(Clone)]
pub struct Cluster {
    /// The configuration for further clients.
    pub config: Config,
    /// The client for all requests. It never retries on its own. It ends a request after 65 s of silence. Most commands
    /// limit a request further with [`limited`].
    pub leases: Client,
    /// `--namespace`, or else the namespace of the service account or context.
    pub namespace: String,
}

impl Cluster {
    /// Loads the configuration of `access`, gets its credentials, and builds a client whose User-Agent names `command`.
    /// Sends no request. A signal ends the process while a credential program runs, and the program with it.
    ///
    /// # Errors
    /// Fails with a hint if the configuration cannot be loaded or used.
    pub async fn connect(access: &Access, command: &str) -> anyhow::Result<Self> {
        Self::connect_until(access, command, None).await
    }

    /// Does the same for a command that handles signals by itself: they cancel `stop`.
    ///
    /// # Errors
    /// Fails with a hint if the configuration cannot be loaded or used, and with [`Stopped`] if `stop` is cancelled while
    /// a credential program runs.
    pub async fn connect_until(
        access: &Access,
        command: &str,
        stop: Option<&CancellationToken>,
    ) -> anyhow::Result<Self> {
        let mut config = access.load(command)?;
        let namespace = access.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let user_agent = format!("hustings-{command}/{}", env!("CARGO_PKG_VERSION"));
        config.headers.push((USER_AGENT, HeaderValue::from_str(&user_agent)?));
        let refused = |error: &(dyn Error + 'static), config: &Config| {
            Hinted::new("cannot use the cluster configuration", cause::hint(error, config))
        };
        let prepared = match stop {
            Some(stop) => stop.run_until_cancelled(prepare(&config)).await,
            None if config.auth_info.exec.is_some() && command != "completion" => {
                signals::exit_on_signals(hustings_client::access::stop)?;
                Some(prepare(&config).await)
            }
            None => Some(prepare(&config).await),
        };
        match prepared {
            Some(Err(error)) => {
                let refused = refused(&error, &config);
                return Err(anyhow::Error::from(error).context(refused));
            }
            Some(Ok(())) => {}
            None => return Err(Stopped.into()),
        }
        let leases = lease_client(config.clone()).map_err(|error| {
            let refused = refused(&error, &config);
            api_error(error).context(refused)
        })?;
        Ok(Self { config, leases, namespace })
    }

    /// Returns the same cluster with a client that retries. Such hidden retries would harm an elector. But they help a
    /// command that only reads, for example while the API server begins to serve a new CRD.
    ///
    /// # Errors
    /// Fails if the configuration cannot be used.
    pub fn for_reading(mut self) -> anyhow::Result<Self> {
        self.leases = reading_client(self.config.clone())
            .map_err(api_error)
            .context("cannot create a client from the cluster configuration")?;
        Ok(self)
    }

    /// An error that names the `attempt` that failed, quotes the server, and adds a hint where one applies.
    pub fn explain(&self, attempt: &str, error: kube::Error) -> anyhow::Error {
        let hint = match &error {
            kube::Error::Api(status) => match cause::of_status(status) {
                Some(hint) => hint,
                None => return api_error(error).context(attempt.to_owned()),
            },
            _ => cause::hint(&error, &self.config),
        };
        api_error(error).context(Hinted::new(attempt, hint))
    }

    /// A hint for a server that does not answer.
    pub fn hint_on_server(&self) -> String {
        cause::on_server(&self.config)
    }

    /// Returns the result of `reads`, which may take at most `limit`.
    pub async fn within<T>(
        &self,
        limit: Duration,
        reads: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let seconds = limit.as_secs();
        let silent = || Hinted::new(format!("the API server did not answer within {seconds} s"), self.hint_on_server());
        tokio::time::timeout(limit, reads).await.map_err(|_| silent())?
    }

    /// The error for a Lease that does not exist, with the nearest names.
    pub async fn no_such_lease(&self, name: &str) -> Hinted {
        let leases: Api<ReadLease> = Api::namespaced(self.leases.clone(), &self.namespace);
        let first = ListParams::default().limit(NAMES);
        let hint = match tokio::time::timeout(DISCOVERY_TIMEOUT, leases.list(&first)).await {
            Ok(Ok(list)) => {
                nearest::hint(name, "Leases", list.iter().filter_map(|lease| lease.metadata.name.as_deref()))
            }
            // The user may be allowed to read only some Leases.
            _ => "choose another name, or another --namespace".to_owned(),
        };
        Hinted::new(format!("Lease {name:?} does not exist in namespace {}", self.namespace), hint)
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
    /// even if there is no candidate or no such namespace. Without it, the server refuses (403) a user whose roles do not
    /// name the candidates. Any doubt, such as a timeout, counts as no.
    pub async fn lacks_candidates(&self, error: &kube::Error) -> bool {
        matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404)) && self.lacks_crd().await
    }

    /// Whether the cluster certainly lacks the CRD. Any doubt, such as a timeout, counts as no.
    pub async fn lacks_crd(&self) -> bool {
        let lacks = Box::pin(lacks_candidates(&self.leases));
        tokio::time::timeout(DISCOVERY_TIMEOUT, lacks).await.unwrap_or(false)
    }
}

/// The command was stopped before it was connected. This is no failure.
#[derive(Clone, Copy, Debug)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopped before the cluster was reached")
    }
}

impl std::error::Error for Stopped {}

/// Returns the answer to a request, which may take at most `limit`.
pub async fn limited<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let timed_out = |_| kube::Error::Service(format!("no answer within {} s", limit.as_secs()).into());
    // The futures of requests are large.
    tokio::time::timeout(limit, Box::pin(request)).await.map_err(timed_out)?
}

/// The API of a kind, in one namespace or in all namespaces.
pub fn scoped<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

/// The API of native candidates, in one namespace or in all namespaces.
pub fn scoped_native(client: Client, namespace: Option<&str>, version: NativeVersion) -> Api<ReadNativeCandidate> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &version),
        None => Api::all_with(client, &version),
    }
}

/// An error with the server's message and code. kube's own error prints the whole `Status` object, and repeats the cause
/// of a request that got no answer.
pub fn api_error(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => anyhow::anyhow!("{} ({})", status.message, status.code),
        kube::Error::Service(cause) => anyhow::Error::from_boxed(cause),
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::testing::{cluster, failure, list, silent_cluster};
    use super::*;

    /// A proxy that accepts every connection, to a server that is never available. Records the heads of its
    /// requests.
    async fn proxy(mut stream: TcpStream, requests: Arc<Mutex<Vec<String>>>) {
        let mut head = Vec::new();
        while let Ok(byte) = stream.read_u8().await {
            head.push(byte);
            if head.ends_with(b"\r\n\r\n") {
                let answer: &[u8] = if head.starts_with(b"CONNECT ") {
                    b"HTTP/1.1 200 OK\r\n\r\n"
                } else {
                    requests.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
                };
                stream.write_all(answer).await.unwrap();
                head.clear();
            }
        }
    }

    #[tokio::test]
    async fn a_list_of_leases_that_fails_is_no_proof_that_there_are_none() {
        let hint = async |status: u16| {
            let (cluster, _) = cluster(move |_| Some((status, list(&[]).1)));
            cluster.no_such_lease("a").await.hint().to_owned()
        };
        assert_eq!(hint(200).await, "there are no Leases here: choose another --namespace");
        assert_eq!(hint(403).await, "choose another name, or another --namespace");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_only_improves_a_message_ends_in_time() {
        let reads = async {
            let cluster = silent_cluster(|_| None);
            assert!(cluster.knows_candidates().await.is_ok(), "in doubt, the CRD is there");
            cluster.no_such_lease("a").await.hint().to_owned()
        };
        let hint = tokio::time::timeout(3 * DISCOVERY_TIMEOUT, reads).await.expect("both end");
        assert_eq!(hint, "choose another name, or another --namespace");
    }

    #[tokio::test(start_paused = true)]
    async fn reads_that_are_not_answered_end_in_time_with_a_hint() {
        let (cluster, _) = cluster(|_| None);
        let began = tokio::time::Instant::now();
        let error =
            cluster.within(Duration::from_secs(15), std::future::pending::<anyhow::Result<()>>()).await.unwrap_err();
        assert_eq!((began.elapsed().as_secs(), &*error.to_string()), (15, "the API server did not answer within 15 s"));
        assert_eq!(error.downcast_ref::<Hinted>().unwrap().hint(), cluster.hint_on_server());
    }

    #[tokio::test]
    async fn a_list_with_a_404_is_no_proof_that_the_crd_is_missing() {
        for (groups, is_missing) in [(&["apps", "hustings.io"][..], false), (&["apps"], true)] {
            let version = serde_json::json!([{ "groupVersion": "hustings.io/v1alpha1", "version": "v1alpha1" }]);
            let group = |name| serde_json::json!({ "name": name, "versions": version });
            let all: Vec<_> = groups.iter().map(group).collect();
            let apis = serde_json::json!({ "kind": "APIGroupList", "groups": all });
            let (cluster, _) = cluster(move |sent| (sent.path == "/apis").then(|| (200, apis.clone())));
            assert_eq!(cluster.knows_candidates().await.is_err(), is_missing, "{groups:?}");
        }
    }

    #[tokio::test]
    async fn the_namespace_of_the_context_is_used() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": "http://api.example.com" } }],
            "users": [{ "name": "c", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "c", "namespace": "shop" } }],
        });
        std::fs::write(file.path(), kubeconfig.to_string()).unwrap();
        let kubeconfig = file.path().to_str().unwrap().to_owned();
        let access = Access { kubeconfig: Some(kubeconfig), ..Access::default() };
        assert_eq!(Cluster::connect(&access, "status").await.unwrap().namespace, "shop");
    }

    #[tokio::test]
    async fn each_failure_of_a_request_has_its_own_hint() {
        let (cluster, _) = cluster(|_| None);
        let api = |code: u16| {
            let status = serde_json::from_value(failure(code).1).unwrap();
            kube::Error::Api(Box::new(status))
        };
        for (error, expected) in [
            (api(401), Some("log in again")),
            (api(403), Some("bind the ClusterRole hustings-view to your user")),
            (api(500), None),
            (kube::Error::Service("no route".into()), Some("check that http://api.example.com:6443/ is reachable")),
        ] {
            let explained = cluster.explain("cannot list Leases", error);
            let hint = explained.downcast_ref::<Hinted>().map(Hinted::hint);
            assert_eq!(hint.is_some(), expected.is_some(), "{explained:#}");
            assert!(hint.unwrap_or_default().contains(expected.unwrap_or_default()), "{hint:?}");
        }
        for (error, expected) in [
            (api(500), "cannot read: refused (500)"),
            (kube::Error::Service("no route".into()), "cannot read: no route"),
        ] {
            assert_eq!(format!("{:#}", cluster.explain("cannot read", error)), expected);
        }
    }

    #[tokio::test]
    async fn no_request_is_repeated_behind_a_proxy_and_each_has_the_user_agent_of_the_configuration() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::new("http://api.example.com:6443".parse().unwrap());
        config.proxy_url = Some(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        config.headers.push((USER_AGENT, HeaderValue::from_static("mine/1.0")));
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(proxy(stream, Arc::clone(&recorded)));
            }
        });
        assert!(lease_client(config).unwrap().apiserver_version().await.is_err());
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), 1);
        assert!(requests[0].to_ascii_lowercase().contains("user-agent: mine/1.0"), "{requests:?}");
    }
}
