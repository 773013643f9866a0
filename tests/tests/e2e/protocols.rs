//! What is not HTTP over IPv4: IPv6, opaque ports and the application's own TLS.

use super::away::controller_stays;
use super::clients::{CLI, Got, ask_at};
use super::world::{authority, eventually, meshed_namespace, node};
use policy_tests::cluster::node::{Place, Sandbox};
use serde_json::{Value, json};

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
    let (certificate, key) = authority().certify(APPLICATION);
    let own = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own", "namespace": namespace},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    node.objects().apply_one(&own).await.unwrap();
    node.apply(&policy(&namespace)).await.unwrap();
    node.apply(&server(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "server").await.unwrap();
    let hosts = hosts(&pod);
    assert_eq!(hosts.len(), 2, "an IPv4 and an IPv6 address: {hosts:?}");

    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("ca.crt");
    std::fs::write(&roots, &authority().root).unwrap();
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
fn hosts(pod: &Value) -> Vec<String> {
    let addresses = pod["status"]["podIPs"].as_array().into_iter().flatten();
    let addresses = addresses.filter_map(|address| address["ip"].as_str());
    let bracketed = |address: &str| match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    };
    addresses.map(bracketed).collect()
}
