//! Hints by the cause of a failure. Each names the field or the variable to correct.

use std::error::Error;
use std::io::{self, ErrorKind};

use hustings_client::access::{AccessError, tls_error};
use hustings_client::store::WrongAnswer;
use kube::Config;
use kube::core::Status;
use rustls::{AlertDescription, CertificateError};

/// The user of requests without a valid credential.
const ANONYMOUS: &str = "system:anonymous";

/// The hint for a failure to reach the API server, or to prepare that.
pub(crate) fn hint(error: &(dyn Error + 'static), config: &Config) -> String {
    if let Some(error) = find::<AccessError>(error) {
        return of_access(error).to_owned();
    }
    if find::<WrongAnswer>(error).is_some() {
        let server = server(config);
        return format!(
            "something else than an API server answers at {server}: log in, or correct `server` of the cluster"
        );
    }
    if let Some(error) = tls_error(error) {
        return of_tls(error, config).unwrap_or_else(|| on_server(config));
    }
    let text = texts(error);
    let io = find::<io::Error>(error).map(io::Error::kind);
    let server = server(config);
    let is_of_proxy = ["tunnel error", "SOCKS error", "socks error"].iter().any(|sign| text.contains(sign));
    if let Some(proxy) = &config.proxy_url
        && (is_of_proxy || io.is_some() || text.contains("dns error"))
    {
        let proxy = proxy.authority().map(|it| it.as_str().rsplit('@').next().unwrap_or_default()).unwrap_or_default();
        return format!(
            "the proxy {proxy} does not lead to {server}: correct proxy-url of the cluster, or the variable HTTPS_PROXY or \
             HTTP_PROXY, or except the server in NO_PROXY"
        );
    }
    if text.contains("dns error") {
        return format!("the host of {server} is not known here: correct `server` of the cluster");
    }
    match io {
        Some(ErrorKind::ConnectionRefused) => {
            format!("nothing listens at {server}: start the API server, or correct `server` of the cluster")
        }
        _ => on_server(config),
    }
}

/// The hint for a rejection by the API server, if there is a general one.
pub(crate) fn of_status(status: &Status) -> Option<String> {
    let text = &status.message;
    let hint = match status.code {
        401 => {
            "the API server rejected the credentials: log in again, or correct token, tokenFile, client-certificate or \
             exec of the user in the kubeconfig file"
        }
        403 if text.contains(ANONYMOUS) => {
            "the API server took the request for anonymous: correct token, tokenFile, client-certificate or exec of the \
             user in the kubeconfig file, or replace username and password, which most servers ignore"
        }
        403 if text.contains("\" cannot impersonate") => {
            "the user in the kubeconfig file may not act as another: remove `as`, or grant the verb impersonate"
        }
        403 => "bind the ClusterRole hustings-view to your user, or grant the verb that the answer names",
        400 if text.contains("HTTP request to an HTTPS server") => {
            "`server` of the cluster in the kubeconfig file must begin with https://"
        }
        404 if text == "404 page not found" => {
            "`server` of the cluster in the kubeconfig file leads to no API server: correct its path"
        }
        404 if text.starts_with("namespaces ") => {
            "create the namespace, or correct --namespace or the context's namespace"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The hint for a server that does not answer.
pub(crate) fn on_server(config: &Config) -> String {
    format!("check that {} is reachable from here, or choose another --kubeconfig or --context", config.cluster_url)
}

fn of_access(error: &AccessError) -> &'static str {
    match error {
        AccessError::Server => "write `server` of the cluster as https://HOST:PORT",
        AccessError::ServerName => "correct tls-server-name of the cluster",
        AccessError::Proxy => "correct proxy-url of the cluster, or the variable HTTPS_PROXY or HTTP_PROXY",
        AccessError::SystemRoots(_) => "set certificate-authority of the cluster",
        AccessError::NoCertificate("certificate-authority") | AccessError::Authority => {
            "set certificate-authority of the cluster to the CA that signed the server's certificate"
        }
        AccessError::NoKey | AccessError::NoPrivateKey | AccessError::UnusableKey | AccessError::KeyMismatch => {
            "correct client-certificate and client-key of the user, which belong together"
        }
        AccessError::Token(_) => "write the token on one line",
        AccessError::PluginMissing { .. } => {
            "install the program that exec.command of the user names, or add its folder to PATH"
        }
        AccessError::PluginStart { .. } => "exec.command of the user must be an executable program",
        AccessError::PluginFailed { .. } | AccessError::PluginSlow { .. } | AccessError::PluginAnswer { .. } => {
            "run the program that exec of the user names by hand; it may ask you to log in"
        }
        _ => "correct this field of the kubeconfig file",
    }
}

fn of_tls(error: &rustls::Error, config: &Config) -> Option<String> {
    let server = server(config);
    let hint = match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            match &config.root_cert {
                Some(_) => format!(
                    "certificate-authority of the cluster is not the CA that signed the certificate of {server}: it may be \
                     that of another cluster, or a server's own certificate"
                ),
                None => format!(
                    "no CA of this system signed the certificate of {server}: set certificate-authority of the cluster"
                ),
            }
        }
        rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            format!(
                "the certificate of {server} has expired, or the clock of this machine is wrong: renew the certificate"
            )
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => format!("the certificate of {server} is not valid yet: check the clocks of both machines"),
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            format!("set tls-server-name of the cluster to a name in the certificate of {server}, or correct `server`")
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) if is(other, "UnsupportedCertVersion") => {
            format!("{server} has a certificate of X.509 version 1: issue one of version 3, with subjectAltName")
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) if is(other, "CaUsedAsEndEntity") => {
            format!(
                "{server} uses the certificate of a CA as its own: put that into certificate-authority of the cluster"
            )
        }
        rustls::Error::AlertReceived(alert) if is_about_client(*alert) => {
            format!(
                "{server} refused client-certificate of the user: renew it, or set one that the server's CA has signed"
            )
        }
        rustls::Error::InvalidMessage(_) => {
            format!("{server} does not use TLS: check the port in `server` of the cluster")
        }
        _ => return None,
    };
    Some(hint)
}

/// Whether an alert of the server is about the client's certificate.
const fn is_about_client(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied
            | AlertDescription::DecodeError
            | AlertDescription::DecryptError
            | AlertDescription::IllegalParameter
    )
}

fn is(error: &rustls::OtherError, name: &str) -> bool {
    format!("{error:?}").contains(name)
}

fn server(config: &Config) -> String {
    config.cluster_url.to_string().trim_end_matches('/').to_owned()
}

/// The first error of a type among an error and its causes.
fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // kube and tower box their causes.
        if let Some(kube::Error::Service(cause)) = error.downcast_ref::<kube::Error>() {
            return find(&**cause);
        }
        next = error.source();
    }
    None
}

fn texts(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
