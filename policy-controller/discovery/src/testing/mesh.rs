//! A server with TLS on a real socket, and clients with certificates of a test's own authority.

use crate::serve::{
    AckRegistry, AuthzConfig, BoundListener, ServeConfig, ServeMetrics, Server, StaleNotice,
    Transport,
};
use crate::testing::{Index, policy};
use hyper_util::rt::TokioIo;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{self, PortSpec};
use policy_core::Identity;
use policy_enforce::PolicyLayer;
use policy_engine::handles::Policies;
use policy_proto::compat::EncodeOptions;
use policy_server::{TlsFiles, TlsHandle};
use policy_tls::identity::{Credentials, TlsIdentity, anonymous_client};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// Suffix of the identities of ServiceAccounts in these tests.
pub const SUFFIX: &str = "serviceaccount.identity.linkerd.cluster.local";

/// The identity of pods made by [`Index::pod`].
pub const OWN: &str = "default.ns.serviceaccount.identity.linkerd.cluster.local";

/// The controller's own.
pub const CONTROLLER: &str =
    "policy-controller.linkerd.serviceaccount.identity.linkerd.cluster.local";

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate.
    pub root: rcgen::Certificate,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Authorities of one name would be tried for each other's leaves.
        let key = KeyPair::generate().unwrap();
        let name = format!("test {:?}", &key.public_key_raw()[..8]);
        params.distinguished_name.push(DnType::CommonName, name);
        let root = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// A leaf with these names, `spiffe://` URIs or DNS names, valid for `seconds` from now.
    fn leaf(&self, names: &[&str], seconds: i64) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        let name = |name: &&str| match name.starts_with("spiffe://") {
            true => SanType::URI((*name).try_into().unwrap()),
            false => SanType::DnsName((*name).try_into().unwrap()),
        };
        params.subject_alt_names = names.iter().map(name).collect();
        let now = std::time::SystemTime::now();
        params.not_before = (now - std::time::Duration::from_secs(3600)).into();
        params.not_after = match u64::try_from(seconds) {
            Ok(seconds) => now + std::time::Duration::from_secs(seconds),
            Err(_) => now - std::time::Duration::from_secs(seconds.unsigned_abs()),
        }
        .into();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A client with this identity, which accepts the controller alone.
    pub fn client(&self, name: &str, seconds: i64, roots: &Authority) -> ClientConfig {
        self.client_of(&[name], seconds, roots)
    }

    /// A client with a certificate of these names.
    pub fn client_of(&self, names: &[&str], seconds: i64, roots: &Authority) -> ClientConfig {
        let (leaf, key) = self.leaf(names, seconds);
        let identity = TlsIdentity::new(Credentials {
            server_name: "client.example".into(),
            roots: vec![roots.root.der().clone()],
            chain: vec![leaf.der().clone()],
            key: PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        });
        identity.unwrap().client(Identity::Dns(CONTROLLER.into())).unwrap()
    }

    /// A client without certificate.
    pub fn stranger(&self) -> ClientConfig {
        let roots = vec![self.root.der().clone()];
        anonymous_client(roots, Identity::Dns(CONTROLLER.into())).unwrap()
    }

    /// Writes the credentials of a server with this identity.
    pub fn write(&self, directory: &Path, name: &str) -> TlsFiles {
        let (leaf, key) = self.leaf(&[name], 3600);
        let file = |name: &str, text: String| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            key: file("key.pem", key.serialize_pem()),
            certs: file("certs.pem", leaf.pem()),
            roots: file("roots.pem", self.root.pem()),
        }
    }
}

/// A server with TLS over an [`Index`] that has the pod `web-0`, declaring port 80.
pub struct Mesh {
    /// The index that is served.
    pub index: Index,
    /// The handle on it.
    pub policies: Policies,
    /// The trusted authority.
    pub authority: Authority,
    /// Its address.
    pub address: SocketAddr,
    /// Its metrics.
    pub metrics: ServeMetrics,
    /// The policies that clients have in force.
    pub applied: AckRegistry,
    /// The credentials of the server.
    pub tls: TlsHandle,
    /// Reports that a watch became stale.
    pub stale: watch::Sender<StaleNotice>,
    /// Directory of the credentials.
    pub directory: tempfile::TempDir,
    _stop: DropGuard,
}

impl Mesh {
    /// A server with this authorization.
    pub async fn start(access: AuthzConfig) -> Self {
        Self::with(access, ServeConfig::default()).await
    }

    /// A server with this authorization and these settings.
    pub async fn with(access: AuthzConfig, config: ServeConfig) -> Self {
        Self::behind(None, access, config).await
    }

    /// A server behind a policy.
    pub async fn behind(
        guard: Option<PolicyLayer>,
        access: AuthzConfig,
        config: ServeConfig,
    ) -> Self {
        Self::made(access, config, |server, _| match guard {
            Some(guard) => server.guarded_by(guard),
            None => server,
        })
        .await
    }

    /// A server that `finish` has the last word on, given its credentials.
    pub async fn made(
        access: AuthzConfig,
        config: ServeConfig,
        finish: impl FnOnce(Server, TlsHandle) -> Server,
    ) -> Self {
        let (index, policies) = Index::start();
        let pod = index.pod("web-0", &[80]);
        index.set(&pod, 80, &policy("web"), 1);
        let options = EncodeOptions::default();
        let access = AuthzConfig { identity_suffix: SUFFIX.into(), ..access };
        let (stale, stale_receiver) = watch::channel(StaleNotice::default());
        let server =
            Server::with_access(policies.clone(), config, options, access, Some(stale_receiver))
                .with_destinations(index.destinations.handle());
        let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
        let tls = server.load_tls(authority.write(directory.path(), CONTROLLER)).await.unwrap();
        let server = finish(server, tls.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (metrics, applied) = (server.metrics(), server.applied());
        let transport = Transport::Tls(tls.clone());
        let listening = vec![BoundListener { listener, transport }];
        tokio::spawn(server.serve_on(listening, stop.clone()));
        let _stop = stop.drop_guard();
        Self { index, policies, authority, address, metrics, applied, tls, stale, directory, _stop }
    }

    /// A connection with an identity.
    pub async fn channel(&self, name: &str) -> Channel {
        self.connect(self.authority.client(name, 3600, &self.authority)).await.unwrap()
    }

    /// A connection by this configuration.
    pub async fn connect(&self, config: ClientConfig) -> Result<Channel, tonic::transport::Error> {
        connect(self.address, config).await
    }
}

/// A connection to `address` by this configuration.
pub async fn connect(
    address: SocketAddr,
    mut config: ClientConfig,
) -> Result<Channel, tonic::transport::Error> {
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let connecting = move |_: http::Uri| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from(CONTROLLER).unwrap();
            connector.connect(name, stream).await.map(TokioIo::new)
        }
    };
    let endpoint = Endpoint::from_static("http://policy.example");
    endpoint.connect_with_connector(tower::service_fn(connecting)).await
}

/// The policy of a port, by Linkerd's API.
pub async fn get(channel: Channel, workload: &str) -> Result<inbound::Server, Status> {
    let spec = PortSpec { workload: workload.into(), port: 80 };
    Ok(InboundServerPoliciesClient::new(channel).get_port(spec).await?.into_inner())
}

/// Opens a stream by Linkerd's API and awaits its first message.
pub async fn watch_port(
    channel: Channel,
    workload: &str,
) -> Result<Streaming<inbound::Server>, Status> {
    let spec = PortSpec { workload: workload.into(), port: 80 };
    let mut stream = InboundServerPoliciesClient::new(channel).watch_port(spec).await?.into_inner();
    stream.message().await?.expect("a first message");
    Ok(stream)
}
