//! A client's certificate, key and roots, read from PEM files.

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Credentials and trust roots of a client.
#[derive(Clone, Debug)]
pub struct Credentials {
    roots: Arc<RootCertStore>,
    client: Option<Arc<ClientIdentity>>,
}

#[derive(Debug)]
struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Error of reading credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file is not readable, or not PEM of the expected type.
    #[error("cannot read {what} from `{}`: {error}", .path.display())]
    Unreadable {
        /// Expected content: a certificate, a private key.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The PEM reader's error.
        error: rustls_pki_types::pem::Error,
    },
    /// The file holds no certificate.
    #[error("`{}` holds no certificate", .0.display())]
    Empty(PathBuf),
    /// A root that cannot be used.
    #[error("`{}` holds a certificate that cannot be a root: {error}", .path.display())]
    Root {
        /// The file.
        path: PathBuf,
        /// The TLS library's error.
        error: rustls::Error,
    },
    /// Certificate and key do not match, or have an unsupported type.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
}

impl Credentials {
    /// Trusts `roots` and proves no identity.
    pub fn anonymous(roots: Arc<RootCertStore>) -> Self {
        Self { roots, client: None }
    }

    /// Trusts `roots` and proves the identity of the first certificate of `chain`.
    pub fn new(
        roots: Arc<RootCertStore>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Self {
        Self { roots, client: Some(Arc::new(ClientIdentity { chain, key })) }
    }

    /// Reads PEM files. `client` is the certificate chain and the key.
    pub fn read(roots: &Path, client: Option<(&Path, &Path)>) -> Result<Self, CredentialsError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(roots)? {
            store
                .add(certificate)
                .map_err(|error| CredentialsError::Root { path: roots.to_owned(), error })?;
        }
        let roots = Arc::new(store);
        let Some((chain, key_path)) = client else { return Ok(Self::anonymous(roots)) };
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| {
            CredentialsError::Unreadable { what: "a private key", path: key_path.to_owned(), error }
        })?;
        Ok(Self::new(roots, chain, key))
    }

    /// The TLS configuration: TLS 1.2 or 1.3, no resumption, no application protocol.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, CredentialsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&self.roots));
        let mut config = match &self.client {
            None => builder.with_no_client_auth(),
            Some(client) => {
                builder.with_client_auth_cert(client.chain.clone(), client.key.clone_key())?
            }
        };
        // Each request stands for another client.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// Reads the certificates of a PEM file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let unreadable = |error| CredentialsError::Unreadable {
        what: "a certificate",
        path: path.to_owned(),
        error,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(CredentialsError::Empty(path.to_owned()));
    }
    Ok(certificates)
}
