//! A pod with more ports than most.

use super::away::controller_stays;
use super::clients::CLI;
use super::world::{PATIENCE, eventually, meshed_namespace, node};
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

const PORTS: std::ops::Range<u16> = 10_000..10_200;

/// The only one that is open.
const OPEN: u16 = 10_123;

fn server(namespace: &str) -> String {
    let listens: Vec<_> = PORTS.map(|port| format!("--listen, '0.0.0.0:{port}'")).collect();
    let ports: Vec<_> = PORTS.map(|port| format!("{{containerPort: {port}}}")).collect();
    let (listens, ports) = (listens.join(", "), ports.join(", "));
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: open, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: {OPEN}, proxyProtocol: HTTP/1}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {{name: everybody, namespace: {namespace}}}
spec: {{networks: [{{cidr: 0.0.0.0/0}}]}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: open, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: open}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: everybody}}
---
apiVersion: v1
kind: Pod
metadata: {{name: server, namespace: {namespace}, labels: {{app: server}}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: {CLI}
    args: [echo, {listens}]
    ports: [{ports}]
"
    )
}

/// The status of a request; absent: there was no answer.
async fn status(to: SocketAddr) -> Option<u16> {
    let asked = async {
        let mut stream = TcpStream::connect(to).await?;
        let request = b"GET /page HTTP/1.1\r\nhost: server\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(PATIENCE, asked).await.ok()?.ok()?;
    answer.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

#[tokio::test]
async fn of_two_hundred_ports_exactly_the_one_that_policy_opens_is_open() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "ports", DENY).await;
    node.apply(&server(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "server").await.unwrap();
    let address: IpAddr = pod["status"]["podIP"].as_str().unwrap().parse().unwrap();
    let open = SocketAddr::new(address, OPEN);
    eventually("the open port", Some(200), || status(open)).await;
    for port in PORTS {
        let expected = if port == OPEN { 200 } else { 403 };
        assert_eq!(status(SocketAddr::new(address, port)).await, Some(expected), "port {port}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}
