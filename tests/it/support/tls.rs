//! A certificate authority of the test's own, and a server's TLS configuration that it vouches for.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;

/// An authority that nobody knows yet.
pub struct Authority {
    /// Its certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// What a server needs that is called `localhost`.
    pub fn server(&self) -> Arc<rustls::ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key.into());
        Arc::new(config.unwrap())
    }
}
