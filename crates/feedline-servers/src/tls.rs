//! Certificates for [`Server::tls`](crate::Server::tls), made once and good for a hundred years.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Which certificate a server shows.
#[derive(Clone, Copy, Debug)]
pub enum Certificate {
    /// One that [`Certificate::AUTHORITY`] has signed.
    Signed,
    /// An authority's own ([`Certificate::OWN_AUTHORITY`]), as `openssl req -x509` makes them.
    OwnAuthority,
}

impl Certificate {
    /// The authority behind [`Certificate::Signed`], as PEM.
    pub const AUTHORITY: &str = include_str!("../certificates/authority.pem");
    /// What [`Certificate::OwnAuthority`] shows, as PEM.
    pub const OWN_AUTHORITY: &str = include_str!("../certificates/own-authority.pem");

    pub(crate) fn acceptor(self) -> TlsAcceptor {
        let (certificate, key) = match self {
            Certificate::Signed => {
                (include_str!("../certificates/server.pem"), include_str!("../certificates/server-key.pem"))
            }
            Certificate::OwnAuthority => {
                (Certificate::OWN_AUTHORITY, include_str!("../certificates/own-key.pem"))
            }
        };
        let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("they belong together");
        TlsAcceptor::from(Arc::new(config))
    }
}
