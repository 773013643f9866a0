//! Services of axum, tonic and hyper in mesh TLS: who a client is, is what its certificate proves.

use crate::support::*;
use axum::Router;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use policy_embed::{Application, Denied, Identity, MeshTls, Record, Recorder, Verdict};
use policy_testkit::{Authority, http1_client, http2_client, soon};
use policy_tls::identity::{Credentials, TlsIdentity, anonymous_client};
use rustls::pki_types::ServerName;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

const NAME: &str = "web.shop.example";

/// A folder as the example of tonic reads it.
fn world(mesh: &Authority) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("policies")).unwrap();
    std::fs::write(folder.path().join("policies/base.yaml"), MANIFESTS).unwrap();
    std::fs::write(folder.path().join("policies/open.yaml"), OPEN).unwrap();
    std::fs::write(folder.path().join("ca.crt"), mesh.pem()).unwrap();
    mesh.certify(NAME).write(folder.path(), "tls.crt", "tls.key");
    folder
}

async fn serve_tls(folder: &Path, application: impl Application) -> SocketAddr {
    let file = |name| folder.join(name);
    let tls = MeshTls::from_files(file("tls.crt"), file("tls.key"), file("ca.crt"), NAME).await;
    let policies = policies(&folder.join("policies")).await;
    let (listener, address) = listener().await;
    tokio::spawn(policies.server(8080).unwrap().tls(tls.unwrap()).serve(listener, application));
    address
}

/// A connection of a client with this identity; ALPN as its HTTP library asks for.
async fn connect(
    mesh: &Authority,
    identity: &str,
    address: SocketAddr,
    alpn: &[&[u8]],
) -> TlsStream<TcpStream> {
    let leaf = mesh.certify(identity);
    let (chain, key, roots) = (leaf.chain, leaf.key, vec![mesh.root()]);
    let own = TlsIdentity::new(Credentials { server_name: identity.into(), roots, chain, key });
    let mut config = own.unwrap().client(Identity::Dns(NAME.into())).unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// The statuses of `/open/x` and `/admin/x`, for a client without an identity in plaintext, a stranger
/// and the boss, over both versions of HTTP.
async fn decisions(mesh: &Authority, address: SocketAddr) -> Vec<(String, u16, u16)> {
    let mut decided = vec![(
        "nobody".to_owned(),
        status(address, "/open/x").await,
        status(address, "/admin/x").await,
    )];
    for identity in ["stranger.shop.example", "boss.shop.example"] {
        let mut client = http1_client(connect(mesh, identity, address, &[]).await).await;
        let mut one = async |path| client.send_request(get(path)).await.unwrap().status().as_u16();
        decided.push((format!("{identity} 1"), one("/open/x").await, one("/admin/x").await));
        let mut client = http2_client(connect(mesh, identity, address, &[b"h2"]).await).await;
        let mut one = async |path: &str| {
            let uri = format!("http://web.example{path}");
            let request = Request::get(uri).body(Empty::<bytes::Bytes>::new()).unwrap();
            client.send_request(request).await.unwrap().status().as_u16()
        };
        decided.push((format!("{identity} 2"), one("/open/x").await, one("/admin/x").await));
    }
    decided
}

fn expected() -> Vec<(String, u16, u16)> {
    [
        ("nobody", 200, 403),
        ("stranger.shop.example 1", 200, 403),
        ("stranger.shop.example 2", 200, 403),
        ("boss.shop.example 1", 200, 200),
        ("boss.shop.example 2", 200, 200),
    ]
    .map(|(who, open, admin)| (who.to_owned(), open, admin))
    .into()
}

#[tokio::test]
async fn services_of_axum_and_of_hyper_are_decided_alike() {
    let mesh = Authority::new();
    let folder = world(&mesh);
    let router = Router::new().route("/{a}/{b}", axum::routing::get(|| async { "axum" }));
    let address = serve_tls(folder.path(), router).await;
    assert_eq!(decisions(&mesh, address).await, expected());
    let plain = tower::service_fn(async |_: Request<Incoming>| {
        Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::from_static(b"hyper"))))
    });
    let address = serve_tls(folder.path(), plain).await;
    assert_eq!(decisions(&mesh, address).await, expected());
}

#[tokio::test]
async fn the_application_learns_who_the_client_is_and_is_told_no_lies() {
    let mesh = Authority::new();
    let folder = world(&mesh);
    let said = tower::service_fn(async |request: Request<Incoming>| {
        let said = request.headers().get("l5d-client-id").cloned();
        let said = said.map_or_else(bytes::Bytes::new, |said| said.as_bytes().to_vec().into());
        Ok::<_, Infallible>(Response::new(Full::new(said)))
    });
    let address = serve_tls(folder.path(), said).await;
    let lie = || {
        let mut request = get("/open/x");
        request.headers_mut().insert("l5d-client-id", "boss.shop.example".parse().unwrap());
        request
    };
    let mut client = http1_client(connect(&mesh, "a.example", address, &[]).await).await;
    let body = client.send_request(lie()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "a.example");
    let mut client = http1_client(TcpStream::connect(address).await.unwrap()).await;
    let body = client.send_request(lie()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "");
}

/// A client of gRPC with this identity.
async fn channel(mesh: &Authority, identity: &str, address: SocketAddr) -> Channel {
    let mut stream = Some(TokioIo::new(connect(mesh, identity, address, &[b"h2"]).await));
    let connector = tower::service_fn(move |_| {
        let stream = stream.take().ok_or_else(|| std::io::Error::other("one connection"));
        async move { stream }
    });
    let endpoint = Endpoint::from_static("http://web.example");
    endpoint.connect_with_connector(connector).await.unwrap()
}

#[tokio::test]
async fn a_revocation_ends_a_stream_of_tonic_within_a_second() {
    let mesh = Authority::new();
    let folder = world(&mesh);
    let (_reporter, health) = tonic_health::server::health_reporter();
    let address = serve_tls(folder.path(), Routes::new(health).prepare()).await;
    let boss = || channel(&mesh, "boss.shop.example", address);
    let watched = HealthClient::new(boss().await).watch(HealthCheckRequest::default()).await;
    let mut watched = watched.unwrap().into_inner();
    assert!(watched.message().await.unwrap().is_some());
    let others = MANIFESTS.replace("boss.shop.example", "chief.shop.example");
    std::fs::write(folder.path().join("policies/base.yaml"), others).unwrap();
    let revoked = async {
        loop {
            let asked = HealthClient::new(boss().await).check(HealthCheckRequest::default()).await;
            match asked {
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(refused) => break refused.code(),
            }
        }
    };
    assert_eq!(soon(revoked).await, Code::PermissionDenied);
    let ended = tokio::time::timeout(Duration::from_secs(1), watched.message()).await;
    assert_eq!(ended.expect("a second").unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn the_example_of_tonic_serves_whom_policy_permits() {
    let mesh = Authority::new();
    let folder = world(&mesh);
    let (listener, address) = listener().await;
    let path = folder.path().to_owned();
    tokio::spawn(async move { crate::protected_tonic::serve(&path, listener).await.unwrap() });
    let mut said = Vec::new();
    for identity in ["boss.shop.example", "stranger.shop.example"] {
        let channel = channel(&mesh, identity, address).await;
        let asked = HealthClient::new(channel).check(HealthCheckRequest::default()).await;
        said.push(asked.map_or_else(|status| status.code(), |_| Code::Ok));
    }
    assert_eq!(said, [Code::Ok, Code::PermissionDenied]);
}

/// The pod states a probe over HTTPS, and has an address of its node.
const PROBED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: web
    ports: [{containerPort: 8080}]
    readinessProbe: {httpGet: {path: /ready, port: 8080, scheme: HTTPS}}
status: {hostIP: 127.0.0.1}
---";

#[tokio::test]
async fn a_probe_over_the_applications_own_tls_passes_from_the_node() {
    let mesh = Authority::new();
    let folder = world(&mesh);
    let pod = MANIFESTS.split_once("---").unwrap().1;
    let write = |text: String| std::fs::write(folder.path().join("policies/base.yaml"), text);
    write(format!("{PROBED}{pod}")).unwrap();
    let router = Router::new().fallback(async || "ready");
    let address = serve_tls(folder.path(), router).await;
    let roots = || vec![mesh.root()];
    let ask = async |server: ServerName<'static>| {
        let config = anonymous_client(roots(), Identity::Dns(NAME.into())).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(server, stream).await.unwrap();
        let mut client = http1_client(stream).await;
        client.send_request(get("/ready")).await.unwrap().status().as_u16()
    };
    // The kubelet names nobody. What names the workload speaks the mesh's TLS, and is no probe.
    let kubelet = ServerName::IpAddress(address.ip().into());
    assert_eq!(ask(kubelet).await, 200);
    assert_eq!(ask(ServerName::try_from(NAME).unwrap()).await, 404);
    assert_eq!(status(address, "/ready").await, 404, "nor is plaintext");
}

/// The decisions of a server, by the names of this crate alone.
#[derive(Default)]
struct Decided(Mutex<Vec<(String, Verdict)>>);

impl Recorder for Decided {
    fn record(&self, record: &Record<'_>) {
        let target = record.request.as_ref().map_or("", |request| request.target);
        self.0.lock().unwrap().push((target.to_owned(), record.verdict));
    }
}

#[tokio::test]
async fn an_application_records_the_decisions_of_its_server() {
    let folder = manifests();
    let (listener, address) = listener().await;
    let decided = Arc::<Decided>::default();
    let server = policies(folder.path()).await.server(8080).unwrap().recorder(decided.clone());
    let router = Router::new().fallback(async || "here");
    tokio::spawn(server.serve(listener, router));
    assert_eq!(status(address, "/open/x").await, 200);
    assert_eq!(status(address, "/admin/x").await, 403);
    let expected = [
        ("/open/x".to_owned(), Verdict::Allowed),
        ("/admin/x".to_owned(), Verdict::Denied(Denied::Unauthorized)),
    ];
    assert_eq!(*decided.0.lock().unwrap(), expected);
}
