//! The controller's own ports on a real cluster that denies by default: who is let through to each,
//! by the policy that the controller carries and by Servers of the cluster.

use super::access::mesh::{Mesh, get, identity, watch};
use policy_testkit::wait_until;
use policy_tests::cluster::{Cluster, ControllerProcess, GroupCluster, skip};
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::Code;

/// Their controllers lead, all of them with one Lease.
static CLUSTER: GroupCluster = GroupCluster::new();

const PATIENCE: Duration = Duration::from_secs(60);

/// Namespace of the control plane.
const CONTROL: &str = "linkerd";

/// An application's pod, its ServiceAccount, and a viewer with the right to see its policies.
fn application(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n\
         ---\napiVersion: v1\nkind: ServiceAccount\n\
         metadata: {{name: viewer, namespace: {namespace}}}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web-0, namespace: {namespace}}}\n\
         spec: {{serviceAccountName: web, automountServiceAccountToken: false, \
         containers: [{{name: c, image: i, ports: [{{containerPort: 80}}]}}]}}\n\
         ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: policies, namespace: {namespace}}}\n\
         rules: [{{apiGroups: [portcullis.dev], resources: [policies], verbs: [get]}}]\n\
         ---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: policies, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: policies}}\n\
         subjects: [{{kind: ServiceAccount, name: viewer, namespace: {namespace}}}]\n"
    )
}

/// The controller's own pod.
fn own_pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {CONTROL}}}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {CONTROL}, \
         labels: {{pod: {name}}}}}\nspec: {{serviceAccountName: policy-controller, \
         automountServiceAccountToken: false, containers: [{{name: c, image: i}}]}}\n"
    )
}

/// A Server on the admin port of that pod, and who may come.
fn server(pod: &str, port: u16, network: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {pod}, namespace: {CONTROL}}}\n\
         spec: {{podSelector: {{matchLabels: {{pod: {pod}}}}}, port: {port}, \
         proxyProtocol: HTTP/1}}\n\
         ---\napiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\n\
         metadata: {{name: {pod}, namespace: {CONTROL}}}\n\
         spec: {{server: {{name: {pod}}}, client: {{unauthenticated: true, \
         networks: [{{cidr: {network}}}]}}}}\n"
    )
}

async fn viewer(cluster: &Cluster, namespace: &str) -> String {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": ["portcullis.dev/policy"], "expirationSeconds": 600},
    });
    let request =
        http::Request::post(format!("/api/v1/namespaces/{namespace}/serviceaccounts/viewer/token"))
            .header("content-type", "application/json")
            .body(request.to_string().into_bytes())
            .unwrap();
    let answer: Value = cluster.client().request(request).await.unwrap();
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn controller(cluster: &Cluster, mesh: &Mesh, flags: &[&str]) -> ControllerProcess {
    let file = |name: &str| mesh.files.path().join(name).display().to_string();
    let mut all = mesh.flags();
    all.push("--default-policy=deny".to_owned());
    all.push(format!("--server-tls-key={}", file("key.pem")));
    all.push(format!("--server-tls-certs={}", file("certs.pem")));
    for flag in ["--admin-addr", "--grpc-addr", "--server-addr"] {
        all.push(format!("{flag}=0.0.0.0:0"));
    }
    all.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let controller = ControllerProcess::start(cluster.kubeconfig(), &all).await.unwrap();
    controller.wait_ready().await.unwrap();
    controller
}

/// An address of this machine that is not loopback: whoever comes from there is a stranger to the
/// controller. Nothing is sent to find it. Absent: the test is to return, it has been counted as
/// skipped.
pub(crate) fn outside_or_skip() -> Option<IpAddr> {
    let found = || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("198.51.100.1:9").ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    };
    let found = found();
    if found.is_none() {
        skip("an IPv4 address of this machine beside loopback (a route to 198.51.100.1)");
    }
    found
}

/// A connection from and to this address of ours.
async fn from(address: IpAddr, port: u16) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((address, 0).into()).unwrap();
    let to = if address.is_loopback() { IpAddr::from([127, 0, 0, 1]) } else { address };
    socket.connect((to, port).into()).await.unwrap()
}

async fn over_tls(
    mesh: &Mesh,
    name: Option<&str>,
    stream: TcpStream,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let connector = TlsConnector::from(Arc::new(mesh.client(name)));
    let server = ServerName::try_from("policy.example").unwrap();
    timeout(PATIENCE, connector.connect(server, stream)).await.unwrap().unwrap()
}

/// One request over this connection: the status and the body.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> (u16, String) {
    let exchange = async {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // TLS that ends without goodbye is an error after the last byte.
        _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let answer = timeout(PATIENCE, exchange).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn page(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: controller\r\nConnection: close\r\n\r\n")
}

fn loopback(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

#[tokio::test(flavor = "multi_thread")]
async fn under_default_deny_the_policy_port_admits_identities_and_tokens_and_nobody_else() {
    let Some(cluster) = CLUSTER.get_or_skip().await else { return };
    let (namespace, mesh) = ("guard-grpc", Mesh::new());
    cluster.apply(&application(namespace)).await.unwrap();
    let controller = controller(&cluster, &mesh, &[]).await;
    let (workload, grpc) = (format!("{namespace}:web-0"), controller.grpc());
    let own = mesh.connect(grpc, Some(&identity("web", namespace))).await;
    let mut stream = watch(&own, &workload).await.unwrap();

    let stranger = mesh.connect(grpc, None).await;
    let token = viewer(&cluster, namespace).await;
    get(&stranger, &workload, Some(&token)).await.unwrap();
    let refused = [
        (get(&stranger, &workload, None).await, Code::Unauthenticated),
        (get(&stranger, &workload, Some("made-up")).await, Code::Unauthenticated),
        // A value that ends in a blank is malformed (RFC 9113 section 8.2.1).
        (get(&stranger, &workload, Some("")).await, Code::InvalidArgument),
    ];
    for (answer, code) in refused {
        let status = answer.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
    }
    // Reaching the port is one thing, and the right to see this workload another.
    let other = mesh.connect(grpc, Some(&identity("web", "elsewhere"))).await;
    let status = get(&other, &workload, None).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");
    assert!(status.message().contains("if it exists"), "the service's answer: {status:?}");

    // What was open stays open.
    cluster
        .apply(&application(namespace).replace(
            "metadata: {name: web-0,",
            "metadata: {annotations: {config.linkerd.io/default-inbound-policy: \
             all-unauthenticated}, name: web-0,",
        ))
        .await
        .unwrap();
    timeout(PATIENCE, stream.message()).await.unwrap().unwrap().expect("its own stream goes on");
}

#[tokio::test(flavor = "multi_thread")]
async fn under_default_deny_metrics_are_for_the_node_and_the_mesh_and_debug_for_loopback() {
    let Some(outside) = outside_or_skip() else { return };
    let Some(cluster) = CLUSTER.get_or_skip().await else { return };
    let mesh = Mesh::new();
    let controller = controller(&cluster, &mesh, &[]).await;
    let port = controller.admin().port();
    let debug = "/debug/policy?workload=none/none&port=80";
    let near = async |path: &str| ask(from(loopback(1), port).await, &page(path)).await;
    for path in ["/live", "/ready", "/metrics"] {
        assert_eq!(near(path).await.0, 200, "{path}");
    }
    assert_eq!(near(debug).await.0, 404, "no such workload");
    let far = async |path: &str| ask(from(outside, port).await, &page(path)).await;
    // Probes come from a node that the controller has not read yet.
    for path in ["/live", "/ready"] {
        assert_eq!(far(path).await.0, 200, "{path}");
    }
    for path in ["/metrics", debug, "/"] {
        assert_eq!(far(path).await, (403, "unauthorized\n".to_owned()), "{path}");
    }
    let by = async |name: Option<&str>, path: &str| {
        ask(over_tls(&mesh, name, from(outside, port).await).await, &page(path)).await
    };
    assert_eq!(by(None, "/metrics").await, (403, "unauthorized\n".to_owned()));
    let prometheus = identity("prometheus", "monitoring");
    let (status, metrics) = by(Some(&prometheus), "/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("# EOF"), "{metrics}");
    let (status, why) = by(Some(&prometheus), debug).await;
    assert_eq!((status, why.contains("loopback only")), (403, true), "{why}");
    // The node that the deployment names may scrape.
    let named = format!("--host-ips={outside}");
    let second = self::controller(&cluster, &mesh, &[&named]).await;
    let stream = from(outside, second.admin().port()).await;
    assert_eq!(ask(stream, &page("/metrics")).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_default_deny_the_webhook_answers_api_servers_that_say_nothing_of_who_they_are() {
    let Some(outside) = outside_or_skip() else { return };
    let Some(cluster) = CLUSTER.get_or_skip().await else { return };
    let mesh = Mesh::new();
    let controller = controller(&cluster, &mesh, &[]).await;
    let port = controller.admission().unwrap().port();
    let review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "kind": {"group": "policy.linkerd.io", "version": "v1beta3", "kind": "Server"},
            "resource": {"group": "policy.linkerd.io", "version": "v1beta3", "resource": "servers"},
            "namespace": "default",
            "name": "s",
            "object": {
                "apiVersion": "policy.linkerd.io/v1beta3",
                "kind": "Server",
                "metadata": {"name": "s", "namespace": "default"},
                "spec": {"podSelector": {}, "port": 80, "proxyProtocol": "HTTP/9"},
            },
        },
    })
    .to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: webhook\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{review}",
        review.len()
    );
    for address in [loopback(1), outside] {
        let stream = over_tls(&mesh, None, from(address, port).await).await;
        let (status, body) = ask(stream, &request).await;
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &answer["response"]["allowed"]), (200, &json!(false)), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_cluster_takes_the_place_of_the_local_policy_until_it_is_gone() {
    let Some(cluster) = CLUSTER.get_or_skip().await else { return };
    let (pod, mesh) = ("guarded-0", Mesh::new());
    cluster.apply(&own_pod(pod)).await.unwrap();
    let named = format!("--replica-name={pod}");
    let controller = controller(&cluster, &mesh, &[&named]).await;
    let port = controller.admin().port();
    let metrics = async |last| ask(from(loopback(last), port).await, &page("/metrics")).await.0;
    assert_eq!((metrics(1).await, metrics(2).await), (200, 200));
    let server = server(pod, port, "127.0.0.2/32");
    cluster.apply(&server).await.unwrap();
    wait_until("the Server decides", async || (metrics(1).await, metrics(2).await) == (403, 200))
        .await;
    // What it says of the admin port leaves the policy port as it was.
    let channel = mesh.connect(controller.grpc(), Some(&identity("web", "none"))).await;
    let status = get(&channel, "none:web-0", None).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "the service's answer: {status:?}");
    cluster.delete(&server).await.unwrap();
    wait_until("the local policy decides", async || metrics(1).await == 200).await;
}

/// No webhook is asked about objects of the control plane's namespace.
#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_server_of_the_cluster_leaves_the_local_policy_in_force() {
    let Some(cluster) = CLUSTER.get_or_skip().await else { return };
    let (pod, mesh) = ("guarded-1", Mesh::new());
    cluster.apply(&own_pod(pod)).await.unwrap();
    let named = format!("--replica-name={pod}");
    let controller = controller(&cluster, &mesh, &[&named]).await;
    let port = controller.admin().port();
    let metrics = async |last| ask(from(loopback(last), port).await, &page("/metrics")).await.0;
    let valid = server(pod, port, "127.0.0.2/32");
    cluster.apply(&valid).await.unwrap();
    wait_until("the Server decides", async || metrics(1).await == 403).await;
    let invalid = valid.replace("proxyProtocol: HTTP/1", "proxyProtocol: HTTP/9");
    cluster.apply(&invalid).await.unwrap();
    wait_until("the local policy decides", async || {
        (metrics(1).await, metrics(2).await) == (200, 200)
    })
    .await;
    // It owns every port that it might have meant, the policy port, too.
    let every = invalid.replace(&format!("port: {port},"), "port: \"\",");
    cluster.apply(&every).await.unwrap();
    let own = controller.grpc().port();
    let published = page(&format!("/debug/policy?workload={CONTROL}/{pod}&port={own}"));
    wait_until("it owns the policy port", async || {
        ask(from(loopback(1), port).await, &published).await.1.contains("server_invalid")
    })
    .await;
    let deadline = Duration::from_secs(3);
    let refused = timeout(deadline, async {
        loop {
            let channel = mesh.connect(controller.grpc(), Some(&identity("web", "none"))).await;
            let status = get(&channel, "none:web-0", None).await.unwrap_err();
            let statuses = (metrics(1).await, status.code());
            if statuses != (200, Code::NotFound) {
                return statuses;
            }
        }
    });
    assert_eq!(refused.await.ok(), None, "the controller's own ports are closed");
    cluster.delete(&valid).await.unwrap();
}
