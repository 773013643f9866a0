//! Protocols, each allowed and refused: HTTP of every kind, IPv6, opaque ports and the application's
//! own TLS.

use super::away::controller_stays;
use super::clients::{CLI, Got, ask_at, come_from, start_server};
use super::flip::Call;
use super::world::{PATIENCE, authority, eventually, meshed_namespace, node};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::Request;
use hyper_util::rt::TokioIo;
use policy_cli::request::connect;
use policy_testkit::http1_client;
use policy_tests::cluster::node::{Place, Sandbox, TOOLS};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// The name in the certificate of the application.
const APPLICATION: &str = "application.example";

/// One pod with a port of each kind.
fn server(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: server, namespace: {namespace}, labels: {{app: server}}}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: own, secret: {{secretName: own}}}}]
  containers:
  - name: server
    image: {CLI}
    args: [echo, --listen, '[::]:8080', --listen, '[::]:9000']
    ports: [{{name: http, containerPort: 8080}}, {{name: opaque, containerPort: 9000}}]
  - name: tls
    image: {CLI}
    args: [echo, --listen, '[::]:9443', --cert, /own/tls.crt, --key, /own/tls.key]
    ports: [{{name: tls, containerPort: 9443}}]
    volumeMounts: [{{name: own, mountPath: /own}}]
"
    )
}

/// Only the second node gets in.
fn policy(namespace: &str) -> String {
    let mut yaml = format!(
        "
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {{name: second, namespace: {namespace}}}
spec: {{networks: [{{cidr: {}/32}}, {{cidr: '{}/128'}}]}}
",
        Sandbox::SECOND,
        Sandbox::SECOND_V6
    );
    for (port, protocol) in [("http", "HTTP/1"), ("opaque", "opaque"), ("tls", "TLS")] {
        yaml += &format!(
            "---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: {port}, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: {port}, proxyProtocol: {protocol}}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: {port}, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: {port}}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: second}}
"
        );
    }
    yaml
}

#[tokio::test]
async fn ipv6_opaque_ports_and_the_applications_own_tls_are_open_to_whom_policy_names_alone() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "protocols", DENY).await;
    let leaf = authority().certify(APPLICATION);
    let own = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own", "namespace": namespace},
        "stringData": {"tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem},
    });
    node.objects().apply_one(&own).await.unwrap();
    node.apply(&policy(&namespace)).await.unwrap();
    node.apply(&server(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "server").await.unwrap();
    let hosts = hosts(&pod);
    assert_eq!(hosts.len(), 2, "an IPv4 and an IPv6 address: {hosts:?}");

    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("ca.crt");
    std::fs::write(&roots, authority().pem()).unwrap();
    let trust = format!("--roots={}", roots.display());
    // The certificate that the client sees is the application's, not the sidecar's.
    let expects = format!("--server-name={APPLICATION}");
    let tls = [trust.as_str(), expects.as_str()];
    for host in &hosts {
        for (scheme, port, more, refused) in [
            ("http", 8080, [].as_slice(), Got::Status(403)),
            ("tcp", 9000, &[], Got::Nothing),
            ("https", 9443, &tls, Got::Nothing),
        ] {
            let url = match scheme {
                "tcp" => format!("tcp://{host}:{port}"),
                _ => format!("{scheme}://{host}:{port}/page"),
            };
            let asked = || ask_at(node, Place::Second, more, &url);
            eventually(&url, Got::Status(200), asked).await;
            assert_eq!(ask_at(node, Place::Node, more, &url).await, refused, "the node, {url}");
        }
    }
    node.remove_namespace(&namespace).await.unwrap();
}

/// The pod's addresses, as URLs have them.
pub(crate) fn hosts(pod: &Value) -> Vec<String> {
    let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
    addresses.filter_map(|address| address["ip"].as_str()).map(bracketed).collect()
}

/// An address as URLs have it.
pub(crate) fn bracketed(address: &str) -> String {
    match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    }
}

/// Address of the client that HTTP policy admits.
const GRANTED: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 8, 1));

/// Address of the client that it does not admit.
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 8, 2));

/// A policy that admits [`GRANTED`] to whatever protocol is detected.
fn by_network(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {{name: granted, namespace: {namespace}}}
spec: {{networks: [{{cidr: {GRANTED}/32}}]}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: granted, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: granted}}
"
    )
}

/// The status of the answer to the opening of a WebSocket, and what comes back from the tunnel for the
/// frame that is sent into it; absent: there is no tunnel.
async fn web_socket(from: IpAddr, to: SocketAddr) -> (u16, Option<Vec<u8>>) {
    let connection = connect(to, Some(from)).await.unwrap();
    let mut sender = http1_client(connection).await;
    let request = Request::get("/chat")
        .header("host", "server")
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(Empty::<Bytes>::new());
    let mut answer = sender.send_request(request.unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    if status != 101 {
        return (status, None);
    }
    let mut tunnel = TokioIo::new(hyper::upgrade::on(&mut answer).await.unwrap());
    tunnel.write_all(FRAME).await.unwrap();
    let mut back = vec![0; FRAME.len()];
    tunnel.read_exact(&mut back).await.unwrap();
    (status, Some(back))
}

/// `Hello` as a client's frame (RFC 6455 5.7).
const FRAME: &[u8] = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";

#[tokio::test]
async fn http_of_every_kind_is_open_to_whom_policy_names_alone() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "http", DENY).await;
    for address in [GRANTED, STRANGER] {
        come_from(node, address).await;
    }
    node.apply(&by_network(&namespace)).await.unwrap();
    let (_, address) = start_server(node, &namespace, "server").await;
    for (scheme, path, granted, refused) in [
        ("http", "page", 200, 403),
        ("h2", "page", 200, 403),
        // OK and PERMISSION_DENIED.
        ("grpc", "grpc.health.v1.Health/Check", 1000, 1007),
    ] {
        let url = format!("{scheme}://{address}:8080/{path}");
        let asks = async |from: IpAddr| {
            ask_at(node, Place::Machine, &["--from", &from.to_string()], &url).await
        };
        eventually(&url, Got::Status(granted), || asks(GRANTED)).await;
        assert_eq!(asks(STRANGER).await, Got::Status(refused), "{url}");
    }
    let to = SocketAddr::new(address.parse().unwrap(), 8080);
    let exchanges = async {
        let mut call = Call::open(GRANTED, to).await;
        assert!(call.talks().await && call.talks().await, "a gRPC call that stays open");
        assert!(!Call::open(STRANGER, to).await.talks().await, "a stranger's gRPC call");
        assert_eq!(web_socket(GRANTED, to).await, (101, Some(FRAME.to_vec())));
        assert_eq!(web_socket(STRANGER, to).await, (403, None));
    };
    timeout(PATIENCE, exchanges).await.expect("in time");
    node.remove_namespace(&namespace).await.unwrap();
}

/// A server that greets before it listens, as those of mail and databases do.
fn greeter(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: greeter, namespace: {namespace}, labels: {{app: server}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: {TOOLS}
    command: [nc, -ll, -p, '7000', -e, sh, -c, 'echo hello; exec cat']
    ports: [{{name: http, containerPort: 7000}}]
"
    )
}

/// Greeting that a server sends first, and its answer to `ping`; none without a connection.
async fn greeted(from: IpAddr, to: SocketAddr) -> Option<String> {
    let mut stream = connect(to, Some(from)).await.ok()?;
    let mut heard = vec![0; 6];
    stream.read_exact(&mut heard).await.ok()?;
    stream.write_all(b"ping").await.ok()?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.ok()?;
    heard.extend(answer);
    String::from_utf8(heard).ok()
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_by_whom_policy_names_alone() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "greeter", DENY).await;
    for address in [GRANTED, STRANGER] {
        come_from(node, address).await;
    }
    let opaque = "port: http, proxyProtocol: opaque}";
    let policy = by_network(&namespace).replace("port: http}", opaque);
    assert!(policy.contains(opaque), "{policy}");
    node.apply(&policy).await.unwrap();
    node.apply(&greeter(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "greeter").await.unwrap();
    let to = SocketAddr::new(pod["status"]["podIP"].as_str().unwrap().parse().unwrap(), 7000);
    let asks =
        async |from| timeout(PATIENCE, greeted(from, to)).await.expect("an answer or an end");
    eventually("a greeting", Some("hello\nping".to_owned()), || asks(GRANTED)).await;
    assert_eq!(asks(STRANGER).await, None);
    node.remove_namespace(&namespace).await.unwrap();
}
