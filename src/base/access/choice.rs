//! Makes a client's configuration of the context that a command uses, with kubectl's checks and kubectl's meaning.
//!
//! The rule that must hold: what kubectl refuses, this module refuses, and names the field. No message quotes a secret.

use std::net::IpAddr;
use std::path::Path;

use kube::Config;
use kube::config::{AuthInfo, ExecAuthCluster};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::address::{self, Address};
use super::kubeconfig::{Context, Kubeconfig, KubeconfigCluster};
use super::proxy::{self, Proxy};
use super::user;

/// The hint for an unknown context.
const CONTEXTS: &str = "`kubectl config get-contexts` lists the available contexts";

/// What is escaped in a segment of a path.
const NO_SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':').remove(b'@');

/// Why a kubeconfig cannot be used, and how to fix it.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) cause: String,
    pub(super) hint: String,
}

impl Refusal {
    pub(super) fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into() }
    }
}

/// The process in which a credential program would run.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessSurroundings {
    /// Whether standard input is a terminal that the program may read.
    pub(super) has_terminal: bool,
}

/// A configuration, and what the context and its user are called, for messages.
pub(super) struct AccessChoice {
    pub(super) config: Config,
    /// The namespace of the context, if it sets one.
    pub(super) namespace: Option<String>,
}

/// Chooses the context `named` on the command line, or else the current one.
pub(super) fn choose(
    kubeconfig: &Kubeconfig,
    named: Option<&str>,
    surroundings: AccessSurroundings,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<AccessChoice, Refusal> {
    // An entry without a name has the empty one, here and below.
    let name = named.or(kubeconfig.current_context.as_deref()).unwrap_or_default();
    let Some(context) = kubeconfig.contexts.get(name) else {
        if name.is_empty() {
            let hint = "pass --context, or set current-context in the kubeconfig file";
            return Err(Refusal::new("no context is chosen", hint));
        }
        let source = if named.is_some() { "--context" } else { "current-context" };
        let files: Vec<_> = kubeconfig.files.iter().map(|path| path.display().to_string()).collect();
        let cause = format!("{source} names the context {name:?}, which is not in {}", files.join(" or "));
        return Err(Refusal::new(cause, CONTEXTS));
    };
    let Context { cluster, user, namespace } = context;
    let (cluster_name, user) = (cluster.as_deref().unwrap_or_default(), user.as_deref().unwrap_or_default());
    let Some(cluster) = kubeconfig.clusters.get(cluster_name) else {
        if cluster_name.is_empty() {
            return Err(Refusal::new(format!("context {name:?} names no cluster"), "set `cluster` of the context"));
        }
        let hint = "correct `cluster` of the context, or add the entry to `clusters`";
        return Err(Refusal::new(format!("cluster {cluster_name:?} of context {name:?} does not exist"), hint));
    };
    let server = server(cluster, cluster_name)?;
    let mut config = Config::new(uri(&server, &format!("server of cluster {cluster_name:?}"))?);
    config.default_namespace = namespace.clone().unwrap_or_else(|| "default".to_owned());
    let proxy = match &cluster.proxy_url {
        Some(proxy_url) => proxy::of_cluster(proxy_url, cluster_name).map(Some),
        None => proxy::of_environment(&server, variable),
    };
    let proxy = proxy.map_err(|cause| Refusal::new(cause, "write it as http://HOST:PORT"))?;
    config.proxy_url = proxy.as_ref().map(proxy_uri).transpose()?;
    check_cluster(cluster, cluster_name)?;
    let entry = kubeconfig.users.get(user);
    if let Some(entry) = entry {
        user::check(entry, user)?;
        config.headers = user::impersonation(entry, user)?;
    }
    // Like kubectl, no credential of the user is ever sent without TLS.
    if server.scheme == "https" {
        config.tls_server_name.clone_from(&cluster.tls_server_name);
        config.accept_invalid_certs = cluster.insecure;
        authority(&mut config, cluster, cluster_name)?;
        let Some(entry) = entry else {
            if user.is_empty() {
                return Err(Refusal::new(format!("context {name:?} names no user"), "set `user` of the context"));
            }
            let hint = "correct `user` of the context, or add the entry to `users`";
            return Err(Refusal::new(format!("user {user:?} of context {name:?} does not exist"), hint));
        };
        user::credentials(&mut config.auth_info, entry, user, surroundings)?;
        if let Some(exec) = &mut config.auth_info.exec
            && exec.provide_cluster_info
        {
            exec.cluster = Some(cluster_info(cluster, cluster_name)?);
        }
    }
    if let Some((username, password)) = server.login {
        // Go sends these instead of any other Authorization.
        let AuthInfo { client_certificate, client_certificate_data, client_key, client_key_data, .. } =
            config.auth_info;
        config.auth_info = AuthInfo {
            client_certificate,
            client_certificate_data,
            client_key,
            client_key_data,
            username: Some(username),
            password: Some(password.into()),
            ..AuthInfo::default()
        };
    }
    Ok(AccessChoice { config, namespace: namespace.clone() })
}

fn server(cluster: &KubeconfigCluster, name: &str) -> Result<Address, Refusal> {
    let field = format!("server of cluster {name:?}");
    let Some(text) = &cluster.server else {
        return Err(Refusal::new(format!("{field} is not set"), "set it to https://HOST:PORT"));
    };
    let refused = || Refusal::new(format!("{field} is not a URL or HOST:PORT"), "write it as https://HOST:PORT");
    let parsed = Address::parse(text).filter(|server| !server.scheme.is_empty() && !server.host.is_empty());
    let mut server = match parsed {
        Some(server) => server,
        // A path needs a scheme before it.
        None => Address::parse(&format!("http://{text}"))
            .filter(|server| matches!(&*server.path, "" | "/") && !server.host.is_empty())
            .ok_or_else(refused)?,
    };
    // Go knows one form of such an address, and cleans the path.
    if let Ok(ip) = server.host.parse::<IpAddr>() {
        server.host = ip.to_canonical().to_string();
    }
    server.path = clean(&server.path).ok_or_else(refused)?;
    if matches!(&*server.scheme, "http" | "https") { Ok(server) } else { Err(refused()) }
}

/// The path without empty segments, `.` and `..`; `None` if an escape in it is malformed.
fn clean(path: &str) -> Option<String> {
    let path = address::unescape(path)?;
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(format!("/{}", utf8_percent_encode(segment, NO_SEGMENT))),
        }
    }
    Some(segments.concat())
}

fn uri(address: &Address, field: &str) -> Result<http::Uri, Refusal> {
    let malformed = |_| Refusal::new(format!("{field} has characters that a URL cannot have"), "correct it");
    address.url().parse().map_err(malformed)
}

/// The URL of a proxy. Its user and password are encoded again, so that each character is valid.
fn proxy_uri(Proxy { address, source }: &Proxy) -> Result<http::Uri, Refusal> {
    let url = uri(address, source)?.to_string();
    let Some((user, password)) = &address.login else { return uri(address, source) };
    let encode =
        |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let login = format!("://{}:{}@", encode(user), encode(password));
    let malformed = |_| Refusal::new(format!("the user or password of {source} cannot be used"), "shorten it");
    url.replacen("://", &login, 1).parse().map_err(malformed)
}

fn check_cluster(cluster: &KubeconfigCluster, name: &str) -> Result<(), Refusal> {
    let KubeconfigCluster { authority, authority_data, .. } = cluster;
    if authority.is_some() && authority_data.is_some() {
        let cause = format!("cluster {name:?} has both certificate-authority and certificate-authority-data");
        return Err(Refusal::new(cause, "remove one of them"));
    }
    authority.as_ref().map_or(Ok(()), |path| readable(path, &format!("certificate-authority of cluster {name:?}")))
}

pub(super) fn readable(path: &Path, field: &str) -> Result<(), Refusal> {
    let unreadable =
        |error| Refusal::new(format!("{field} is {}: {error}", path.display()), "correct the path, or its permissions");
    std::fs::File::open(path).map(drop).map_err(unreadable)
}

fn authority(config: &mut Config, cluster: &KubeconfigCluster, name: &str) -> Result<(), Refusal> {
    let field = match (&cluster.authority, &cluster.authority_data) {
        (Some(_), _) => "certificate-authority",
        (None, Some(_)) => "certificate-authority-data",
        (None, None) => return Ok(()),
    };
    if cluster.insecure {
        let cause = format!("cluster {name:?} has insecure-skip-tls-verify beside {field}");
        return Err(Refusal::new(cause, "remove insecure-skip-tls-verify"));
    }
    let bytes = bytes(cluster.authority.as_deref(), cluster.authority_data.as_ref(), field)?;
    let certificates = hustings_client::access::certificates(&bytes).map_err(|_| {
        let cause = format!("{field} of cluster {name:?} contains no certificate in PEM form");
        Refusal::new(cause, "set it to the CA that signed the server's certificate")
    })?;
    config.root_cert = Some(certificates);
    config.root_cert_file.clone_from(&cluster.authority);
    Ok(())
}

fn bytes(path: Option<&Path>, data: Option<&Vec<u8>>, field: &str) -> Result<Vec<u8>, Refusal> {
    match (path, data) {
        (Some(path), _) => std::fs::read(path).map_err(|error| {
            Refusal::new(format!("{field} is {}: {error}", path.display()), "correct the path, or its permissions")
        }),
        (None, data) => Ok(data.cloned().unwrap_or_default()),
    }
}

fn cluster_info(cluster: &KubeconfigCluster, name: &str) -> Result<ExecAuthCluster, Refusal> {
    let field = format!("certificate-authority of cluster {name:?}");
    let authority = bytes(cluster.authority.as_deref(), cluster.authority_data.as_ref(), &field)?;
    Ok(ExecAuthCluster {
        server: cluster.server.clone(),
        insecure_skip_tls_verify: Some(cluster.insecure).filter(|insecure| *insecure),
        certificate_authority_data: Some(authority).filter(|bytes| !bytes.is_empty()),
        proxy_url: cluster.proxy_url.clone(),
        tls_server_name: cluster.tls_server_name.clone(),
        config: cluster.exec_extension.clone(),
    })
}
