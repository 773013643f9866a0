//! A workload's certificate is renewed while it serves.

use super::away::controller_alone;
use super::clients::{come_from, start_server};
use super::flip::{Load, goes_on, only};
use super::world::{CONTROL_PLANE, authority, identity, meshed_namespace, node};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Incoming;
use policy_testkit::http1_client;
use policy_tests::chart::{Helm, folder, succeeded};
use policy_tests::cluster::node::Node;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

const AUTHENTICATED: &str = "config.linkerd.io/default-inbound-policy: all-authenticated";

/// Address of the client without an identity.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 9, 1));

/// The shortest life there is takes less than this to be renewed.
const RENEWED: Duration = Duration::from_secs(120);

/// A meshed client of the server.
struct Client {
    connector: TlsConnector,
    name: ServerName<'static>,
    to: SocketAddr,
}

impl Client {
    fn new(namespace: &str, to: SocketAddr) -> Self {
        let leaf = authority().certify(&identity(namespace, "caller"));
        let mut roots = RootCertStore::empty();
        roots.add(authority().root()).unwrap();
        let config = ClientConfig::builder_with_provider(policy_tls::identity::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(leaf.chain, leaf.key)
            .unwrap();
        let name = ServerName::try_from(identity(namespace, "server")).unwrap();
        Self { connector: TlsConnector::from(Arc::new(config)), name, to }
    }

    /// The answer to a request on a connection of its own, and the certificate that the server proved
    /// itself with.
    async fn ask(&self, request: Request<Empty<Bytes>>) -> (u16, Incoming, Vec<u8>) {
        let stream = TcpStream::connect(self.to).await.unwrap();
        let stream = self.connector.connect(self.name.clone(), stream).await.unwrap();
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
        let mut sender = http1_client(stream).await;
        let answer = sender.send_request(request).await.unwrap();
        (answer.status().as_u16(), answer.into_body(), certificate)
    }

    /// The certificate of the server, which answers a request.
    async fn page(&self) -> Vec<u8> {
        let request = Request::get("/page").header("host", "server").body(Empty::new()).unwrap();
        let (status, body, certificate) = self.ask(request).await;
        assert_eq!(status, 200);
        body.collect().await.unwrap();
        certificate
    }
}

async fn lifetime(node: &Node, helm: &Helm, lifetime: &str) {
    let (chart, setting) =
        (folder().display().to_string(), format!("issuer.issuanceLifetime={lifetime}"));
    let upgrade = ["upgrade", "portcullis", &chart, "--reuse-values", "--set", &setting];
    succeeded(&helm.call(&upgrade).unwrap()).unwrap();
    node.wait_rolled_out(CONTROL_PLANE, "deployment/portcullis-issuer").await.unwrap();
}

#[tokio::test]
async fn under_load_a_renewed_certificate_is_for_new_connections_and_open_ones_go_on() {
    let Some(node) = node().await else { return };
    let Some(helm) = Helm::or_skip(CONTROL_PLANE) else { return };
    let helm = helm.on(node.kubeconfig());
    let _alone = controller_alone().await;
    lifetime(node, &helm, "60s").await;
    let namespace = meshed_namespace(node, "rotation", AUTHENTICATED).await;
    come_from(node, STRANGER).await;
    let (_, address) = start_server(node, &namespace, "server").await;
    let to = SocketAddr::new(address.parse().unwrap(), 8080);
    let begun = Instant::now();
    let stranger = Load::start(STRANGER, to);
    let client = Client::new(&namespace, to);
    let lines = Request::get("/lines")
        .header("host", "server")
        .header("echo-stream", "1000000")
        .header("echo-interval-ms", "20")
        .body(Empty::new());
    let (status, mut open, first) = client.ask(lines.unwrap()).await;
    assert_eq!(status, 200);

    let renewed = async {
        loop {
            assert!(goes_on(&mut open).await, "the open connection");
            let certificate = client.page().await;
            if certificate != first {
                return;
            }
        }
    };
    timeout(RENEWED, renewed).await.expect("the certificate is renewed");
    for _ in 0..20 {
        assert_ne!(client.page().await, first, "the old certificate");
        assert!(goes_on(&mut open).await, "the open connection");
    }
    only(&stranger.since(begun).await, 403);
    node.remove_namespace(&namespace).await.unwrap();
    lifetime(node, &helm, "24h").await;
}
