//! A port that is too large with what others contributed: controller, gRPC and a real sidecar. The owner's routes
//! go on answering, and the sidecar's acknowledgement of what is left counts.

use super::{PATIENCE, free, grant, leader, shop, until_programmed};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use policy_cli::echo::{self, EchoServer};
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_proxy::discover::{self, DiscoverConfig};
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use policy_testkit::{Authority, Leaf, http1_client, soon};
use policy_tests::cluster::{Cluster, ControllerProcess, cluster_or_skip};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::{Credentials, IdentityHandle, TlsIdentity};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Bytes that an update may have: a fifth of what the hostile child contributes.
const MOST: usize = 65_536;

/// The pod `a`: an application behind a sidecar that follows the controller.
struct Pod {
    sidecar: Sidecar,
    _application: EchoServer,
    _discovery: DropGuard,
}

impl Pod {
    async fn start(shop: &str, controller: SocketAddr) -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let options = echo::EchoOptions { name: Some("a".into()), ..Default::default() };
        let application = echo::start(loopback, options).await.unwrap();
        let server_name = format!("a.{shop}.serviceaccount.identity.linkerd.cluster.local");
        let authority = Authority::new();
        let Leaf { chain, key, .. } = authority.certify(&server_name);
        let credentials = Credentials {
            server_name: server_name.into(),
            roots: vec![authority.root()],
            chain,
            key,
        };
        let identity = IdentityHandle::new(TlsIdentity::new(credentials).unwrap());
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        let controller = ControllerAddress::loopback(controller).unwrap();
        let config = DiscoverConfig::new(controller, &format!("{shop}:a"));
        let stop = CancellationToken::new();
        tokio::spawn(discover::run(config, store.clone(), identity.clone(), stop.clone()));
        let mut config = SidecarConfig::new(&format!("{shop}/a"));
        let port = NonZeroU16::new(8080).unwrap();
        let target = Target::Fixed { port, upstream: application.address() };
        config.listeners.push(Listener { address: loopback, target });
        let sidecar = Sidecar::start(config, store.clone(), identity, None).unwrap();
        store.port(port).ready(PATIENCE).await.expect("the policy arrives");
        Self { sidecar, _application: application, _discovery: stop.drop_guard() }
    }

    async fn client(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.sidecar.addresses()[0]).await.unwrap();
        soon(Box::pin(http1_client(stream))).await
    }
}

async fn ask(client: &mut SendRequest<Full<Bytes>>, path: &str) -> u16 {
    let request = Request::get(path).header("host", "www.io").body(Full::default()).unwrap();
    soon(client.ready()).await.unwrap_or_else(|error| panic!("{path}: {error:?}"));
    let answer = soon(client.send_request(request)).await.unwrap();
    let status = answer.status().as_u16();
    soon(answer.into_body().collect()).await.unwrap();
    status
}

/// The root of `www.io`, who hands `/finance` to one namespace and `/legal` to another.
fn root(shop: &str, bb: &str, legal: &str) -> String {
    let hand = |path: &str, team: &str| {
        format!("{{match: {path}, delegate: {{name: team, namespace: {team}}}}}")
    };
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: www, namespace: {shop}}}\n\
         spec:\n  virtualhost: {{fqdn: www.io, \
         targetRef: {{group: policy.linkerd.io, kind: Server, name: web}}}}\n\
         \x20 routes: [{{match: /, serve: {{}}}}, {}, {}]\n---\n",
        hand("/finance", bb),
        hand("/legal", legal)
    )
}

fn child(shop: &str, team: &str, routes: &str) -> String {
    format!(
        "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
         metadata: {{name: team, namespace: {team}}}\n\
         spec: {{delegatedFrom: [{{fqdn: www.io}}], routes: [{routes}]}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
         metadata: {{name: g, namespace: {team}}}\n\
         spec:\n  from: [{{group: portcullis.dev, kind: InboundRoute, namespace: {shop}}}]\n\
         \x20 to: [{{group: portcullis.dev, kind: InboundRoute}}]\n---\n"
    )
}

/// HTTPRoutes of a child, each with its path, and with that and eight header values of two kilobytes.
fn routes(shop: &str, team: &str, number: usize) -> String {
    let rule = |n| format!("{{match: /finance/r{n}, delegate: {{kind: HTTPRoute, name: r{n}}}}}");
    let rules: Vec<String> = (0..number).map(rule).collect();
    let value = "v".repeat(2000);
    let headers: Vec<String> = (0..8).map(|h| format!("{{name: x{h}, value: {value}}}")).collect();
    let route = |n| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
             metadata: {{name: r{n}, namespace: {team}}}\n\
             spec:\n  hostnames: [www.io]\n\
             \x20 parentRefs: [{{group: portcullis.dev, kind: InboundRoute, name: team}}]\n\
             \x20 rules: [{{matches: [{{path: {{value: /finance/r{n}}}}}, {{path: {{value: /finance/r{n}}}, headers: [{}]}}]}}]\n---\n",
            headers.join(", ")
        )
    };
    child(shop, team, &rules.join(", ")) + &(0..number).map(route).collect::<String>()
}

/// An InboundRoute by its name, or an HTTPRoute of [`routes`].
fn route(namespace: &str, name: &str) -> Value {
    let (version, kind) = match name.starts_with('r') {
        true => ("gateway.networking.k8s.io/v1", "HTTPRoute"),
        false => ("portcullis.dev/v1alpha1", "InboundRoute"),
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}})
}

/// `Status Reason` of a condition of a route, if that is about its generation.
async fn told(cluster: &Cluster, namespace: &str, name: &str, kind: &str) -> Option<String> {
    let found = cluster.objects().get(&route(namespace, name)).await.unwrap()?;
    let parent = &found["status"]["parents"][0]["conditions"];
    let all = if parent.is_array() { parent } else { &found["status"]["conditions"] };
    let condition = all.as_array()?.iter().find(|it| it["type"] == kind)?;
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let is_current = condition["observedGeneration"] == found["metadata"]["generation"];
    is_current.then(|| format!("{} {}", text("status"), text("reason")))
}

async fn until_told(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    kind: &str,
    expected: Option<&str>,
) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = told(cluster, namespace, name, kind).await;
        if found.as_deref() == expected {
            return;
        }
        if Instant::now() > deadline {
            let object = cluster.objects().get(&route(namespace, name)).await.unwrap();
            let status = object.map(|object| object["status"].to_string());
            panic!("{kind} of {namespace}/{name}: {found:?} instead of {expected:?}: {status:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_others_made_too_large_answers_for_its_owner_and_counts_as_in_force() {
    let Some(cluster) = cluster_or_skip(Cluster::builder()).await else { return };
    cluster.install_crds().await.unwrap();
    let (home, shop) = shop(&cluster, &["a"]).await;
    let bb = cluster.namespace("bb").await.unwrap();
    let legal = cluster.namespace("legal").await.unwrap();
    let serves =
        |team: &str, path: &str| child(&shop, team, &format!("{{match: {path}, serve: {{}}}}"));
    let small = [
        grant(&shop),
        "---\n".to_owned(),
        root(&shop, &bb, &legal),
        routes(&shop, &bb, 1),
        serves(&legal, "/legal"),
    ];
    cluster.apply(&small.concat()).await.unwrap();
    let [own, ..] = free();
    let started = ControllerProcess::builder(cluster.kubeconfig()).flags([
        format!("--grpc-addr={own}"),
        format!("--max-update-bytes={MOST}"),
        format!("--replica-name=replica-{}", own.port()),
        "--lease-duration=5".to_owned(),
        format!("--control-plane-namespace={home}"),
        "--proxy-ports=".to_owned(),
    ]);
    let replicas = [started.start().await.unwrap()];
    replicas[0].wait_ready().await.unwrap();
    leader(&replicas).await;
    let pod = Pod::start(&shop, own).await;
    let mut client = pod.client().await;
    let in_force = "True Programmed: in force on 1 of 1 proxies";
    until_programmed(&cluster, &shop, in_force).await;
    for path in ["/", "/legal/contracts", "/finance/r0"] {
        assert_eq!(ask(&mut client, path).await, 200, "{path}");
    }
    until_told(&cluster, &bb, "r0", "Programmed", Some("True Programmed")).await;

    // The connection stays open, and the owner and a sibling are answered all the time.
    cluster.apply(&routes(&shop, &bb, 20)).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut closed = 0;
    while closed < 20 {
        assert!(Instant::now() < deadline, "the contribution is never cut");
        for path in ["/", "/x", "/legal/contracts"] {
            assert_eq!(ask(&mut client, path).await, 200, "{path}");
        }
        let status = ask(&mut client, "/finance/r0").await;
        assert!([200, 403].contains(&status), "{status}");
        closed = if status == 403 { closed + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_told(&cluster, &bb, "r0", "ProxyUnsupported", Some("True Denied")).await;
    until_told(&cluster, &bb, "r0", "Programmed", Some("False Pending")).await;
    until_programmed(&cluster, &shop, in_force).await;
    until_told(&cluster, &shop, "www", "Programmed", Some("True Programmed")).await;
    until_told(&cluster, &legal, "team", "Programmed", Some("True Programmed")).await;

    // It fits again.
    cluster.apply(&routes(&shop, &bb, 1)).await.unwrap();
    while ask(&mut client, "/finance/r0").await != 200 {
        assert!(Instant::now() < deadline + PATIENCE, "the contribution is never back");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    until_told(&cluster, &bb, "r0", "Programmed", Some("True Programmed")).await;
    until_told(&cluster, &bb, "r0", "ProxyUnsupported", None).await;
}
