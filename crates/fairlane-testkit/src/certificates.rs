//! Certificates for servers and clients on this machine.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// A CA, with its certificate and those that it issued in a folder of their own.
pub struct CertificateAuthority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

impl CertificateAuthority {
    /// A CA that programs trust only if they are configured to.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "a CA for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("it is written");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// The certificate of the CA.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A certificate for this machine and its key, as files.
    pub fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        self.issue_until(name, false)
    }

    /// A certificate that has expired, and its key, as files.
    pub fn issue_expired(&self, name: &str) -> (PathBuf, PathBuf) {
        self.issue_until(name, true)
    }

    fn issue_until(&self, name: &str, is_expired: bool) -> (PathBuf, PathBuf) {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        if is_expired {
            (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 1, 1));
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |ending: &str| self.folder.path().join(format!("{name}.{ending}"));
        std::fs::write(file("pem"), certificate.pem()).expect("it is written");
        std::fs::write(file("key"), key.serialize_pem()).expect("it is written");
        (file("pem"), file("key"))
    }
}
