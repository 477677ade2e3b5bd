//! TLS to the API server, with certificates and keys that may be replaced at any time.
//!
//! Agents such as kubelet, cert-manager or kubeadm replace the files of a client certificate and of a CA, and credential
//! programs return new certificates. So each new connection reads the files again.
//!
//! The rule that must hold: a connection uses the newest usable material. A file that is missing, half written, or that
//! does not fit its counterpart changes nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::AuthInfo;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme};

use tokio::time::Instant;

use super::AccessError;
use super::der;
use super::plugin::Plugin;

/// How often the files are compared while existing connections work.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The TLS of one client.
pub(crate) struct Tls {
    authority: Authority,
    identity: Identity,
    insecure: bool,
    server_name: Option<ServerName<'static>>,
    state: Mutex<TlsState>,
}

/// Which CAs sign the certificate of the server.
enum Authority {
    /// Those of the system.
    System,
    /// These.
    Fixed(Vec<Vec<u8>>),
    /// Those in this file.
    File(PathBuf),
}

/// The client certificate.
enum Identity {
    None,
    /// A certificate and its key, each as PEM or as the path of a file.
    Given(TlsSource, TlsSource),
    /// Those that a credential program returns, if it does.
    Plugin(Arc<Plugin>),
}

enum TlsSource {
    Data(Vec<u8>),
    File(PathBuf),
}

/// The content from which a TLS configuration is made.
#[derive(Clone, PartialEq)]
struct Material {
    /// `None` for the CAs of the system.
    authority: Option<Vec<Vec<u8>>>,
    /// The PEM of a certificate and its key.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

struct TlsState {
    material: Material,
    config: Arc<ClientConfig>,
    checked_at: Instant,
    /// Whether the material was replaced since the last answer of [`Tls::has_changed`].
    is_replaced: bool,
    /// The last failure that was logged.
    failure: Option<String>,
}

impl Tls {
    /// Reads the files of a configuration. They must be usable now.
    pub(crate) fn new(config: &Config, plugin: Option<Arc<Plugin>>) -> Result<Self, AccessError> {
        let authority = match (&config.root_cert_file, &config.root_cert) {
            (Some(path), _) => Authority::File(path.clone()),
            (None, Some(certificates)) => Authority::Fixed(certificates.clone()),
            (None, None) => Authority::System,
        };
        let identity = match (given(&config.auth_info)?, plugin) {
            (Some((certificate, key)), _) => Identity::Given(certificate, key),
            (None, Some(plugin)) => Identity::Plugin(plugin),
            (None, None) => Identity::None,
        };
        let server_name = config.tls_server_name.clone().map(ServerName::try_from).transpose();
        let insecure = config.accept_invalid_certs;
        // Nothing is compared with the name then.
        let server_name = server_name.or(if insecure { Ok(None) } else { Err(AccessError::ServerName) })?;
        let material = Material::read(&authority, &identity)?;
        let client = Arc::new(material.config(insecure)?);
        let state =
            TlsState { material, config: client, checked_at: Instant::now(), is_replaced: false, failure: None };
        Ok(Self { authority, identity, insecure, server_name, state: Mutex::new(state) })
    }

    /// The configuration of a new connection.
    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        self.refresh(&mut self.state());
        Arc::clone(&self.state().config)
    }

    /// The name that the server's certificate must have; `None` for that of the URL.
    pub(crate) const fn server_name(&self) -> Option<&ServerName<'static>> {
        self.server_name.as_ref()
    }

    /// Whether new material has been found, so that existing connections are outdated. Looks at most once in a while,
    /// unless it is `urgent`.
    pub(crate) fn has_changed(&self, urgent: bool) -> bool {
        let mut state = self.state();
        // A new certificate of a credential program costs no look at a file.
        let is_due =
            urgent || matches!(self.identity, Identity::Plugin(_)) || state.checked_at.elapsed() >= CHECK_INTERVAL;
        if is_due {
            self.refresh(&mut state);
        }
        std::mem::take(&mut state.is_replaced)
    }

    fn refresh(&self, state: &mut TlsState) {
        state.checked_at = Instant::now();
        let material = match Material::read(&self.authority, &self.identity) {
            Ok(material) if material == state.material => return,
            read => read,
        };
        let made = material.and_then(|material| Ok((material.config(self.insecure)?, material)));
        let failure = match made {
            Ok((config, material)) => {
                tracing::info!("the certificates for the API server were replaced: new connections use the new ones");
                state.config = Arc::new(config);
                state.material = material;
                state.is_replaced = true;
                state.failure = None;
                return;
            }
            Err(error) => error.to_string(),
        };
        if state.failure.as_ref() != Some(&failure) {
            tracing::warn!(
                error = failure,
                "cannot use the replaced certificates for the API server: the former ones stay"
            );
            state.failure = Some(failure);
        }
    }

    fn state(&self) -> MutexGuard<'_, TlsState> {
        // A panic while the lock is held leaves consistent values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client certificate and key that a configuration names, if any.
fn given(auth: &AuthInfo) -> Result<Option<(TlsSource, TlsSource)>, AccessError> {
    let source = |data: Option<&str>, path: Option<&String>, field| match (data, path) {
        (Some(data), _) => {
            STANDARD.decode(data).map(|pem| Some(TlsSource::Data(pem))).map_err(|_| AccessError::Base64(field))
        }
        (None, path) => Ok(path.map(|path| TlsSource::File(PathBuf::from(path)))),
    };
    let certificate =
        source(auth.client_certificate_data.as_deref(), auth.client_certificate.as_ref(), "client-certificate-data")?;
    let key = auth.client_key_data.as_ref().map(secrecy::ExposeSecret::expose_secret);
    let key = source(key, auth.client_key.as_ref(), "client-key-data")?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (Some(_), None) => Err(AccessError::NoKey),
        // A key alone means nothing to kubectl either.
        (None, _) => Ok(None),
    }
}

impl TlsSource {
    fn read(&self, field: &'static str) -> Result<Vec<u8>, AccessError> {
        match self {
            Self::Data(pem) => Ok(pem.clone()),
            Self::File(path) => std::fs::read(path).map_err(|error| AccessError::File {
                field,
                path: path.clone(),
                error: error.to_string(),
            }),
        }
    }
}

impl Material {
    fn read(authority: &Authority, identity: &Identity) -> Result<Self, AccessError> {
        let authority = match authority {
            Authority::System => None,
            Authority::Fixed(certificates) => Some(certificates.clone()),
            Authority::File(path) => Some(certificates(&TlsSource::File(path.clone()).read("certificate-authority")?)?),
        };
        let identity = match identity {
            Identity::None => None,
            Identity::Given(certificate, key) => {
                Some((certificate.read("client-certificate")?, key.read("client-key")?))
            }
            Identity::Plugin(plugin) => plugin.identity(),
        };
        Ok(Self { authority, identity })
    }

    fn config(&self, insecure: bool) -> Result<ClientConfig, AccessError> {
        let with = |verifier: Verifier| {
            let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(verifier));
            config.with_no_client_auth()
        };
        let mut config = match &self.authority {
            _ if insecure => with(Verifier { by_signature: None, listed: Vec::new() }),
            Some(certificates) => with(Verifier::new(certificates)?),
            // kube chooses the roots of the system.
            None => Config::new(http::Uri::default())
                .rustls_client_config()
                .map_err(|error| AccessError::SystemRoots(error.to_string()))?,
        };
        if let Some((certificate, key)) = &self.identity {
            let key = certified_key(certificate, key, config.crypto_provider())?;
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(key));
        }
        Ok(config)
    }
}

/// The certificates in a PEM text, as DER. Like kubectl, it ignores everything else.
///
/// # Errors
/// Fails if there is none.
pub fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, AccessError> {
    let is_readable = |certificate: &CertificateDer<'_>| der::facts(certificate).is_some();
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).filter(is_readable);
    let found: Vec<_> = found.map(|certificate| certificate.to_vec()).collect();
    if found.is_empty() { Err(AccessError::NoCertificate("certificate-authority")) } else { Ok(found) }
}

/// The certificate and key with which a client introduces itself. Unlike rustls' own function it takes certificates of
/// X.509 version 1, which servers accept from clients.
fn certified_key(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<CertifiedKey, AccessError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok).collect();
    if chain.is_empty() {
        return Err(AccessError::NoCertificate("client-certificate"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| AccessError::NoPrivateKey)?;
    let key = provider.key_provider.load_private_key(key).map_err(|_| AccessError::UnusableKey)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(AccessError::KeyMismatch),
        // Whether they match is unknown.
        Ok(()) | Err(_) => Ok(certified),
    }
}

/// Verifies certificates as Go does: besides those that a CA signed, it accepts a listed certificate itself.
#[derive(Debug)]
struct Verifier {
    /// `None` accepts every certificate, as `insecure-skip-tls-verify` asks.
    by_signature: Option<Arc<WebPkiServerVerifier>>,
    listed: Vec<Vec<u8>>,
}

impl Verifier {
    fn new(certificates: &[Vec<u8>]) -> Result<Self, AccessError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(CertificateDer::from(certificate.as_slice()).into_owned()).map_err(|_| AccessError::Authority)?;
        }
        let by_signature =
            WebPkiServerVerifier::builder(Arc::new(roots)).build().map_err(|_| AccessError::Authority)?;
        Ok(Self { by_signature: Some(by_signature), listed: certificates.to_vec() })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(by_signature) = &self.by_signature else { return Ok(ServerCertVerified::assertion()) };
        let verified = by_signature.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if verified.is_ok() || !self.listed.iter().any(|listed| **listed == **end_entity) {
            return verified;
        }
        let Some(facts) = der::facts(end_entity) else { return verified };
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now > facts.not_after {
            return Err(CertificateError::Expired.into());
        }
        if now < facts.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(by_signature) = &self.by_signature else { return Ok(HandshakeSignatureValid::assertion()) };
        by_signature.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(by_signature) = &self.by_signature else { return Ok(HandshakeSignatureValid::assertion()) };
        by_signature.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        // Those of `by_signature`, which has the same provider.
        let provider = CryptoProvider::get_default().map(|provider| provider.signature_verification_algorithms);
        provider.map(|algorithms| algorithms.supported_schemes()).unwrap_or_default()
    }
}
