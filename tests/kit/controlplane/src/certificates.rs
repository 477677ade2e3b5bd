//! The certificates and keys of one control plane.
//!
//! A certificate authority signs the API server's certificate, and clients verify it, so that the code under test never
//! needs an option to skip that. A second key signs the tokens of ServiceAccounts.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// The authority that signed the server's certificate, and whose clients the server accepts.
pub(crate) struct Authority {
    pub(crate) pem: String,
    pub(crate) der: Vec<u8>,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

impl Authority {
    /// A certificate of a user in these groups, for this time.
    pub(crate) fn client(&self, user: &str, groups: &[&str], validity: Duration) -> Result<ClientCertificate> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = (SystemTime::now() + validity).into();
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(ClientCertificate { certificate, key: key.serialize_pem() })
    }
}

/// Writes these files into a folder: `ca.crt`, the certificate and key `apiserver`, the certificate and key
/// `kubelet-client`, with which the API server calls a kubelet, `sa.key` and `sa.pub`.
pub(crate) fn write(folder: &Path) -> Result<Authority> {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "hustings-controlplane");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let names = ["127.0.0.1", "10.0.0.1", "10.66.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let mut serving = CertificateParams::new(names)?;
    serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let serving_key = KeyPair::generate()?;
    let serving = serving.signed_by(&serving_key, &authority)?;

    let mut calling = CertificateParams::default();
    calling.distinguished_name.push(DnType::CommonName, "kube-apiserver-kubelet-client");
    calling.distinguished_name.push(DnType::OrganizationName, "system:masters");
    calling.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let calling_key = KeyPair::generate()?;
    let calling = calling.signed_by(&calling_key, &authority)?;

    let service_accounts = KeyPair::generate()?;
    for (name, pem) in [
        ("ca.crt", authority.pem()),
        ("apiserver.crt", serving.pem()),
        ("apiserver.key", serving_key.serialize_pem()),
        ("kubelet-client.crt", calling.pem()),
        ("kubelet-client.key", calling_key.serialize_pem()),
        ("sa.key", service_accounts.serialize_pem()),
        ("sa.pub", service_accounts.public_key_pem()),
    ] {
        fs::write(folder.join(name), pem).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(Authority { pem: authority.pem(), der: authority.der().to_vec(), issuer: authority })
}
