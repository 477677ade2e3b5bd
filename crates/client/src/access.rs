//! Access to the API server: credentials, TLS and proxies of a client, as kubectl has them.
//!
//! kube reads a credential once for each client, and runs a credential program inside a request. A program that is slower
//! than the request then costs a holder its term, and so does a certificate that an agent has replaced. This module
//! replaces those parts of kube. The rest of a client is in [`store`](crate::store).
//!
//! The rules that must hold:
//!
//! - A request uses the former credential while it is valid. One task refreshes it, and its result outlives the request.
//! - Each new connection uses the newest certificates and CAs.
//! - No error, no log line and no `Debug` output contains a token, a password, a key, or what a credential program
//!   receives or prints.

mod connector;
mod credentials;
mod der;
mod plugin;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::{Client, Config};

pub use credentials::tls_error;
pub use plugin::credential_programs;
pub use tls::certificates;

pub(crate) use credentials::{Authorized, ReplaceConnections};

use crate::store::connections;

/// Why a client cannot be created, or a request cannot be sent. Nothing has been sent then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The URL of the server lacks its scheme or its host.
    #[error("the URL of the server is not of the form https://HOST:PORT")]
    Server,
    /// `tls-server-name` is not a name.
    #[error("tls-server-name is not a host name")]
    ServerName,
    /// The URL of the proxy lacks its scheme or its host, or has an unknown scheme.
    #[error("the URL of the proxy is not of the form http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")]
    Proxy,
    /// A file cannot be read.
    #[error("cannot read {field} {}: {error}", .path.display())]
    File {
        /// The field of the kubeconfig that names the file.
        field: &'static str,
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        error: String,
    },
    /// A field is not valid base64.
    #[error("{0} is not valid base64")]
    Base64(&'static str),
    /// A field contains no certificate.
    #[error("{0} contains no certificate in PEM form")]
    NoCertificate(&'static str),
    /// A certificate of a CA is malformed.
    #[error("certificate-authority contains a malformed certificate")]
    Authority,
    /// The system has no CA certificates.
    #[error("cannot use the CA certificates of the system: {0}")]
    SystemRoots(String),
    /// There is a client certificate, but no key.
    #[error("client-certificate is set without client-key")]
    NoKey,
    /// The client's key is malformed.
    #[error("client-key contains no private key in PEM form")]
    NoPrivateKey,
    /// The algorithm of the client's key is unknown.
    #[error("client-key has an algorithm that is not supported: use RSA, ECDSA P-256 or P-384, or Ed25519")]
    UnusableKey,
    /// The client's key belongs to another certificate.
    #[error("client-key does not belong to client-certificate")]
    KeyMismatch,
    /// The token cannot be sent.
    #[error("{0} has a line end or another character that a header cannot carry")]
    Token(&'static str),
    /// The token file is empty.
    #[error("tokenFile {} is empty", .0.display())]
    EmptyToken(PathBuf),
    /// The credential program is not installed.
    #[error("the credential program {command:?} is not installed{}", hint(.install_hint.as_deref()))]
    PluginMissing {
        /// `exec.command`.
        command: String,
        /// `exec.installHint`.
        install_hint: Option<String>,
    },
    /// The credential program cannot be started.
    #[error("cannot start the credential program {command:?}: {error}")]
    PluginStart {
        /// `exec.command`.
        command: String,
        /// The error of the operating system.
        error: String,
    },
    /// The credential program has failed.
    #[error("the credential program {command:?} failed with {status}: run it yourself to see why")]
    PluginFailed {
        /// `exec.command`.
        command: String,
        /// Its exit status.
        status: String,
    },
    /// The credential program took too long and was killed.
    #[error("the credential program {command:?} did not end within {} s", .limit.as_secs())]
    PluginSlow {
        /// `exec.command`.
        command: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The credential program printed something else.
    #[error("the credential program {command:?} {problem}")]
    PluginAnswer {
        /// `exec.command`.
        command: String,
        /// What is wrong with its answer.
        problem: &'static str,
    },
    /// The process ends.
    #[error("there is no credential, and the process ends")]
    Stopped,
}

fn hint(install_hint: Option<&str>) -> String {
    install_hint.map(|hint| format!(": {hint}")).unwrap_or_default()
}

impl From<AccessError> for kube::Error {
    fn from(error: AccessError) -> Self {
        Self::Service(Box::new(error))
    }
}

/// Creates a client with the connections of a [`lease_client`](crate::lease_client) for any kind of traffic. It repeats
/// a request as `default_retry` and has the timeouts of the configuration.
///
/// # Errors
/// Fails if the configuration cannot be used.
pub fn client(config: Config) -> Result<Client, kube::Error> {
    connections::client(config)
}

/// Gets the credential of a configuration, so that a later client need not wait for a credential program. All clients
/// of a process with the same program share its credential.
///
/// # Errors
/// Fails if the program fails or takes too long. Dropping the future does not end the program, but [`stop`] does.
pub async fn prepare(config: &Config) -> Result<(), AccessError> {
    match plugin::Plugin::of(&config.auth_info) {
        Some(plugin) => plugin.current().await.map(drop),
        None => Ok(()),
    }
}

/// Ends the credential programs that run. Programs that start later are not run. Call it before the process ends.
pub fn stop() {
    plugin::stop();
}

/// The parts of a client that depend on its configuration.
pub(crate) struct Parts {
    pub(crate) connector: connector::Connector,
    pub(crate) credentials: Arc<credentials::Credentials>,
}

/// Reads the credentials and the certificates of a configuration. `tcp` connects.
pub(crate) fn parts(config: &Config, tcp: connections::AddressConnector) -> Result<Parts, AccessError> {
    if config.cluster_url.scheme().is_none() || config.cluster_url.host().is_none_or(str::is_empty) {
        return Err(AccessError::Server);
    }
    let plugin = plugin::Plugin::of(&config.auth_info);
    let tls = Arc::new(tls::Tls::new(config, plugin.clone())?);
    let connector = connector::Connector::new(config, tcp, Arc::clone(&tls))?;
    let credentials = Arc::new(credentials::Credentials::new(&config.auth_info, plugin, tls)?);
    Ok(Parts { connector, credentials })
}
