//! Certificates for clients of all sorts.

use policy_proxy::{Credentials, TlsIdentity};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// A certificate authority of a mesh.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
pub(crate) struct Leaf {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn leaf(&self, names: &[SanType]) -> Leaf {
        self.leaf_with(names, |_| {})
    }

    pub(crate) fn leaf_with(
        &self,
        names: &[SanType],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Leaf {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Leaf { chain: vec![certificate.der().clone()], key }
    }

    /// What a sidecar of this ServiceAccount proves and trusts.
    pub(crate) fn workload(&self, account: &str) -> TlsIdentity {
        let Leaf { chain, key } = self.leaf(&[dns(&name(account))]);
        let server_name = name(account).into();
        TlsIdentity::new(Credentials { server_name, roots: vec![self.0.der().clone()], chain, key })
            .unwrap()
    }

    /// A client that trusts this authority, presents `leaf`, and speaks one version of TLS.
    pub(crate) fn client(
        &self,
        leaf: Option<Leaf>,
        version: &'static SupportedProtocolVersion,
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let config = match leaf {
            Some(Leaf { chain, key }) => config.with_client_auth_cert(chain, key).unwrap(),
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

pub(crate) fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

pub(crate) fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}
