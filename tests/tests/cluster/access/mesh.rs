//! A mesh of the test's own: an authority, the controller's files, and clients with identities and
//! tokens.

use hyper_util::rt::TokioIo;
use linkerd2_proxy_api::inbound::inbound_server_policies_client::InboundServerPoliciesClient;
use linkerd2_proxy_api::inbound::{PortSpec, Server};
use policy_core::Identity;
use policy_testkit::Authority;
use policy_tls::identity::{Credentials, TlsIdentity, anonymous_client};
use rustls_pki_types::ServerName;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

const SUFFIX: &str = "serviceaccount.identity.linkerd.cluster.local";

pub(crate) struct Mesh {
    authority: Authority,
    pub(crate) files: TempDir,
}

/// The mesh identity of a ServiceAccount.
pub(crate) fn identity(account: &str, namespace: &str) -> String {
    format!("{account}.{namespace}.{SUFFIX}")
}

fn controller() -> String {
    identity("policy-controller", "linkerd")
}

impl Mesh {
    pub(crate) fn new() -> Self {
        let (authority, files) = (Authority::new(), tempfile::tempdir().unwrap());
        authority.certify(&controller()).write(files.path(), "certs.pem", "key.pem");
        std::fs::write(files.path().join("roots.pem"), authority.pem()).unwrap();
        Self { authority, files }
    }

    /// Writes a certificate of `name` and its key, and returns both files.
    pub(crate) fn certify(&self, name: &str) -> [PathBuf; 2] {
        self.authority.certify(name).write(self.files.path(), "leaf.pem", "leaf-key.pem");
        ["leaf.pem", "leaf-key.pem"].map(|file| self.files.path().join(file))
    }

    /// The file of the roots.
    pub(crate) fn roots(&self) -> PathBuf {
        self.files.path().join("roots.pem")
    }

    /// The identity that the controller proves.
    pub(crate) fn controller(&self) -> String {
        controller()
    }

    /// The flags that make a controller serve this mesh.
    pub(crate) fn flags(&self) -> Vec<String> {
        [("key", "key.pem"), ("certs", "certs.pem"), ("roots", "roots.pem")]
            .map(|(flag, file)| {
                format!("--grpc-tls-{flag}={}", self.files.path().join(file).display())
            })
            .to_vec()
    }

    /// A client that proves `name` and accepts the controller alone; none: without certificate.
    pub(crate) fn client(&self, name: Option<&str>) -> rustls::ClientConfig {
        let expected = Identity::Dns(controller().as_str().into());
        let roots = vec![self.authority.root()];
        let Some(name) = name else { return anonymous_client(roots, expected).unwrap() };
        let leaf = self.authority.certify(name);
        let credentials = Credentials {
            server_name: "client.example".into(),
            roots,
            chain: leaf.chain,
            key: leaf.key,
        };
        TlsIdentity::new(credentials).unwrap().client(expected).unwrap()
    }

    /// A connection that proves `name`; none: no certificate.
    pub(crate) async fn connect(&self, address: SocketAddr, name: Option<&str>) -> Channel {
        let mut config = self.client(name);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let connecting = move |_: http::Uri| {
            let connector = connector.clone();
            async move {
                let stream = TcpStream::connect(address).await?;
                let name = ServerName::try_from("policy.example").unwrap();
                connector.connect(name, stream).await.map(TokioIo::new)
            }
        };
        let endpoint = Endpoint::from_static("http://policy.example");
        endpoint.connect_with_connector(tower::service_fn(connecting)).await.unwrap()
    }
}

fn spec(workload: &str, token: Option<&str>) -> Request<PortSpec> {
    let mut request = Request::new(PortSpec { workload: workload.into(), port: 80 });
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    request
}

pub(crate) async fn get(
    channel: &Channel,
    workload: &str,
    token: Option<&str>,
) -> Result<Server, Status> {
    let mut client = InboundServerPoliciesClient::new(channel.clone());
    Ok(client.get_port(spec(workload, token)).await?.into_inner())
}

/// An open stream, of which the first message has come.
pub(crate) async fn watch(channel: &Channel, workload: &str) -> Result<Streaming<Server>, Status> {
    let mut client = InboundServerPoliciesClient::new(channel.clone());
    let mut stream = client.watch_port(spec(workload, None)).await?.into_inner();
    stream.message().await?.expect("a first message");
    Ok(stream)
}
