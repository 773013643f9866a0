//! Manifests, servers and clients of these tests.

use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use policy_embed::{Application, Policies, WorkloadKey};
use policy_testkit::{http1_client, soon};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

/// The pod, its Server, and who may have which path: `/open` everybody, `/admin` one identity.
pub(crate) const MANIFESTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec: {containers: [{name: web, ports: [{containerPort: 8080}]}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: admin, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {value: /admin}}]}, {matches: [{path: {value: /grpc.health.v1.Health}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: admin, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: admin}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: boss}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: boss, namespace: shop}
spec: {identities: [boss.shop.example]}
";

/// Everything that `/admin` is not: the path of a nested router's own part is among it.
pub(crate) const OPEN: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: open, namespace: shop}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {value: /open}}, {path: {value: /x}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: open, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: HTTPRoute, name: open}
  requiredAuthenticationRefs: [{group: policy.linkerd.io, kind: NetworkAuthentication, name: all}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: all, namespace: shop}
spec: {networks: [{cidr: 0.0.0.0/0}]}
";

/// A folder with both.
pub(crate) fn manifests() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.yaml"), MANIFESTS).unwrap();
    std::fs::write(folder.path().join("open.yaml"), OPEN).unwrap();
    folder
}

pub(crate) fn workload() -> WorkloadKey {
    WorkloadKey::pod("shop", "web-0")
}

pub(crate) async fn policies(folder: &Path) -> Policies {
    let policies = Policies::from_directory(folder, &workload()).await.unwrap();
    policies.ready().await;
    policies
}

pub(crate) async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves `application` in plaintext behind these policies.
pub(crate) async fn serve(policies: &Policies, application: impl Application) -> SocketAddr {
    let (listener, address) = listener().await;
    let server = policies.server(8080).unwrap();
    tokio::spawn(server.serve(listener, application));
    address
}

pub(crate) fn get(path: &str) -> Request<Empty<bytes::Bytes>> {
    Request::get(path).header("host", "web.example").body(Empty::new()).unwrap()
}

/// Asks for a path on a connection of its own, in plaintext.
pub(crate) async fn ask(address: SocketAddr, path: &str) -> Response<Incoming> {
    let mut client = http1_client(TcpStream::connect(address).await.unwrap()).await;
    client.send_request(get(path)).await.unwrap()
}

pub(crate) async fn status(address: SocketAddr, path: &str) -> u16 {
    ask(address, path).await.status().as_u16()
}

/// Waits until a path is answered so: the edit is in force.
pub(crate) async fn wait_for_status(address: SocketAddr, path: &str, want: u16) {
    soon(async {
        while status(address, path).await != want {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
