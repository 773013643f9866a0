//! SMI on a real API server: its objects come, change and go while a client of the mesh asks a sidecar.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use policy_cli::echo::{self, EchoServer};
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_proxy::discover::{self, DiscoverConfig};
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use policy_testkit::{Authority, Leaf, free_port, http1_client, soon, wait_within};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{Credentials, IdentityHandle, TlsIdentity};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Most that anything may take that is waited for here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that keeps one connection.
type Client = SendRequest<Full<Bytes>>;

/// The pod `web`: an application behind a sidecar that follows the controller.
struct Pod {
    sidecar: Sidecar,
    authority: Authority,
    /// The namespaces of the control plane and of the pod.
    namespaces: [String; 2],
    _application: EchoServer,
    _discovery: DropGuard,
}

fn identity([home, shop]: &[String; 2], account: &str) -> String {
    format!("{account}.{shop}.serviceaccount.identity.{home}.cluster.local")
}

impl Pod {
    async fn start(home: &str, shop: &str, controller: SocketAddr) -> Self {
        let namespaces = [home.to_owned(), shop.to_owned()];
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = echo::EchoOptions { name: Some("web".into()), ..Default::default() };
        let application = echo::start(loopback, options).await.unwrap();
        let own_name = identity(&namespaces, "web");
        let authority = Authority::new();
        let Leaf { chain, key, .. } = authority.certify(&own_name);
        let credentials =
            Credentials { server_name: own_name.into(), roots: vec![authority.root()], chain, key };
        let handle = IdentityHandle::new(TlsIdentity::new(credentials).unwrap());
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        let controller = ControllerAddress::loopback(controller).unwrap();
        let config = DiscoverConfig::new(controller, &format!("{shop}:web"));
        let stop = CancellationToken::new();
        tokio::spawn(discover::run(config, store.clone(), handle.clone(), stop.clone()));
        let mut config = SidecarConfig::new(&format!("{shop}/web"));
        let port = NonZeroU16::new(8080).unwrap();
        let target = Target::Fixed { port, upstream: application.address() };
        config.listeners.push(Listener { address: loopback, target });
        let sidecar = Sidecar::start(config, store.clone(), handle, None).unwrap();
        store.port(port).ready(PATIENCE).await.expect("the policy arrives");
        let _discovery = stop.drop_guard();
        Self { sidecar, authority, namespaces, _application: application, _discovery }
    }

    async fn plaintext(&self) -> Client {
        let stream = TcpStream::connect(self.sidecar.addresses()[0]).await.unwrap();
        soon(Box::pin(http1_client(stream))).await
    }

    /// A client with the certificate of a ServiceAccount.
    async fn meshed(&self, account: &str) -> Client {
        let Leaf { chain, key, .. } = self.authority.certify(&identity(&self.namespaces, account));
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.root()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .unwrap();
        let stream = TcpStream::connect(self.sidecar.addresses()[0]).await.unwrap();
        let name = ServerName::try_from(identity(&self.namespaces, "web")).unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        soon(Box::pin(http1_client(stream))).await
    }
}

async fn ask(client: &mut Client, path: &str) -> u16 {
    let request = Request::get(path).header("host", "web").body(Full::default()).unwrap();
    soon(client.ready()).await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
    let answer = soon(client.send_request(request)).await.unwrap();
    let status = answer.status().as_u16();
    soon(answer.into_body().collect()).await.unwrap();
    status
}

fn target(namespace: &str, source: &str, rules: &str) -> String {
    format!(
        "apiVersion: access.smi-spec.io/v1alpha3\nkind: TrafficTarget\n\
         metadata: {{name: web, namespace: {namespace}}}\n\
         spec:\n  destination: {{kind: ServiceAccount, name: web, namespace: {namespace}}}\n\
         \x20 rules: {rules}\n\
         \x20 sources: [{{kind: ServiceAccount, name: {source}, namespace: {namespace}}}]\n"
    )
}

fn group(namespace: &str, path: &str) -> String {
    format!(
        "apiVersion: specs.smi-spec.io/v1alpha4\nkind: HTTPRouteGroup\n\
         metadata: {{name: web, namespace: {namespace}}}\n\
         spec: {{matches: [{{name: books, pathRegex: '{path}', methods: [GET]}}]}}\n"
    )
}

/// Waits until the three clients are answered with these statuses: `/books/1` asked by `cart`, by `bank`, and
/// without an identity.
async fn until(what: &str, clients: &mut [Client; 3], expected: [u16; 3]) {
    wait_within(what, PATIENCE, async || {
        let mut found = [0; 3];
        for (status, client) in found.iter_mut().zip(clients.iter_mut()) {
            *status = ask(client, "/books/1").await;
        }
        found == expected
    })
    .await;
}

/// The notes of the Events about the TrafficTarget.
async fn notes(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let request = Request::get(path).body(Vec::new()).unwrap();
    let found: Value = cluster.client().request(request).await.unwrap();
    let events = found["items"].as_array().unwrap().iter();
    let about = events.filter(|event| event["regarding"]["kind"] == "TrafficTarget");
    about.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

const HTTP: &str = "[{kind: HTTPRouteGroup, name: web, matches: [books]}]";

#[tokio::test(flavor = "multi_thread")]
async fn smi_is_followed_while_traffic_flows() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    // SMI comes later: the controller starts without its definitions.
    cluster.install_linkerd_crds().await.unwrap();
    let home = cluster.namespace("control").await.unwrap();
    let shop = cluster.namespace("shop").await.unwrap();
    let pod = format!(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: web, namespace: {shop}}}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: {shop}, labels: {{app: web, \
         portcullis.dev/proxy: injected}}}}\nspec: {{serviceAccountName: web, \
         automountServiceAccountToken: false, containers: [{{name: app, image: app, ports: \
         [{{containerPort: 8080}}]}}]}}\n"
    );
    cluster.apply(&pod).await.unwrap();
    let own = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let started = ControllerProcess::builder(cluster.kubeconfig()).flags([
        format!("--grpc-addr={own}"),
        "--lease-duration=5".to_owned(),
        format!("--control-plane-namespace={home}"),
        "--proxy-ports=".to_owned(),
    ]);
    let controller = started.start().await.unwrap();
    controller.wait_ready().await.unwrap();
    let web = Pod::start(&home, &shop, own).await;
    let mut clients = [web.meshed("cart").await, web.meshed("bank").await, web.plaintext().await];
    until("open without a TrafficTarget", &mut clients, [200, 200, 200]).await;

    cluster.install_smi().await.unwrap();
    let objects = cluster.objects();
    // Its group is missing: closed to everybody.
    objects.apply(&target(&shop, "cart", HTTP)).await.unwrap();
    until("closed by a TrafficTarget that grants nothing", &mut clients, [403, 403, 403]).await;
    objects.apply(&group(&shop, "/books/.*")).await.unwrap();
    until("the group comes", &mut clients, [200, 403, 403]).await;
    assert_eq!(ask(&mut clients[0], "/other").await, 403);
    objects.apply(&group(&shop, "/films/.*")).await.unwrap();
    until("the group changes", &mut clients, [403, 403, 403]).await;
    objects.apply(&group(&shop, "/books/[0-9]+")).await.unwrap();
    until("the group changes back", &mut clients, [200, 403, 403]).await;
    objects.apply(&target(&shop, "bank", HTTP)).await.unwrap();
    until("the source changes", &mut clients, [403, 200, 403]).await;
    // An invalid target closes its pods to everybody.
    objects.apply(&target(&shop, "bank", "[]")).await.unwrap();
    until("the rules go", &mut clients, [403, 403, 403]).await;
    wait_within("an Event says so", PATIENCE, async || {
        notes(&cluster, &shop).await.iter().any(|note| note.contains("spec.rules"))
    })
    .await;
    objects.apply(&target(&shop, "cart", HTTP)).await.unwrap();
    until("valid again", &mut clients, [200, 403, 403]).await;

    definitions_go_and_come(&cluster, &shop, &mut clients).await;
}

/// The definition goes, and opens nothing; it comes again, and another target takes the place of the one that
/// was kept.
async fn definitions_go_and_come(cluster: &Cluster, shop: &str, clients: &mut [Client; 3]) {
    let objects = cluster.objects();
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                            "metadata": {"name": "traffictargets.access.smi-spec.io"}});
    objects.delete(&definition.to_string()).await.unwrap();
    for _ in 0..40 {
        assert_eq!(ask(&mut clients[0], "/books/1").await, 200);
        assert_eq!(ask(&mut clients[1], "/books/1").await, 403);
        assert_eq!(ask(&mut clients[2], "/books/1").await, 403);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.install_smi().await.unwrap();
    // Another of its name takes its place, and ends when it is deleted.
    objects.apply(&target(shop, "bank", HTTP)).await.unwrap();
    until("another TrafficTarget of its name", clients, [403, 200, 403]).await;
    objects.delete(&target(shop, "bank", HTTP)).await.unwrap();
    until("open again", clients, [200, 200, 200]).await;
}
