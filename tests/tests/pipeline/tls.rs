//! Certificates for clients of all sorts.

use policy_testkit::{Authority, Leaf};
use policy_tls::identity::{Credentials, TlsIdentity};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::ServerName;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// Certificates of a mesh, as an authority makes them.
pub(crate) trait Mesh {
    /// Credentials and roots of a sidecar with this ServiceAccount.
    fn workload(&self, account: &str) -> TlsIdentity;

    /// A client that trusts this authority, presents `leaf`, and speaks one version of TLS.
    fn client(
        &self,
        leaf: Option<Leaf>,
        version: &'static SupportedProtocolVersion,
    ) -> TlsConnector;
}

impl Mesh for Authority {
    fn workload(&self, account: &str) -> TlsIdentity {
        let Leaf { chain, key, .. } = self.certify(&name(account));
        let server_name = name(account).into();
        TlsIdentity::new(Credentials { server_name, roots: vec![self.root()], chain, key }).unwrap()
    }

    fn client(
        &self,
        leaf: Option<Leaf>,
        version: &'static SupportedProtocolVersion,
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.root()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let config = match leaf {
            Some(Leaf { chain, key, .. }) => config.with_client_auth_cert(chain, key).unwrap(),
            None => config.with_no_client_auth(),
        };
        TlsConnector::from(Arc::new(config))
    }
}

/// The mesh identity of a ServiceAccount of the pod's namespace.
pub(crate) fn name(account: &str) -> String {
    format!("{account}.shop.serviceaccount.identity.linkerd.cluster.local")
}

/// The pod's own name, as clients ask for it.
pub(crate) fn web() -> ServerName<'static> {
    ServerName::try_from(name("web")).unwrap()
}
