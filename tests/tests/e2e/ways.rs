//! Every way to reach a pod is under the same policy, and the node's exemption is the node's alone.

use super::away::controller_stays;
use super::clients::{CLI, Got, How, ask, ask_at, start_client};
use super::protocols::{bracketed, hosts};
use super::world::{eventually, identity, meshed_namespace, node};
use policy_tests::cluster::node::{Node, Place, Sandbox};
use serde_json::{Value, json};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// A server, which is also a client that may prove to be `granted`, with a Service of each kind, and a
/// policy that admits `granted` alone.
fn server(namespace: &str) -> String {
    let mut yaml = format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {{name: granted, namespace: {namespace}}}
spec: {{identities: ['{granted}']}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: granted, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: granted}}
---
apiVersion: v1
kind: Pod
metadata: {{name: server, namespace: {namespace}, labels: {{app: server}}}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: identity, secret: {{secretName: client-granted}}}}]
  containers:
  - name: client
    image: {CLI}
    args: [echo, --listen, '[::]:8080']
    ports: [{{name: http, containerPort: 8080}}]
    readinessProbe: {{httpGet: {{path: /ready, port: http}}, periodSeconds: 1}}
    volumeMounts: [{{name: identity, mountPath: /identity}}]
",
        granted = identity(namespace, "granted"),
    );
    for (name, more) in [
        ("by-address", "type: ClusterIP"),
        ("headless", "clusterIP: None"),
        ("by-node", "type: NodePort"),
    ] {
        yaml += &format!(
            "---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {{app: server}}
  ports: [{{name: http, port: 8080, targetPort: http}}]
  {more}
"
        );
    }
    yaml
}

async fn service(node: &Node, namespace: &str, name: &str) -> Value {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
    });
    node.objects().get(&service).await.unwrap().unwrap()
}

/// The addresses of a Service, as URLs have them.
fn addresses(service: &Value) -> Vec<String> {
    let addresses = service["spec"]["clusterIPs"].as_array().into_iter().flatten();
    addresses.filter_map(Value::as_str).map(bracketed).collect()
}

#[tokio::test]
async fn every_way_to_reach_a_pod_is_decided_alike() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "ways", DENY).await;
    let granted = start_client(node, &namespace, "granted").await;
    let stranger = start_client(node, &namespace, "stranger").await;
    node.apply(&server(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "server").await.unwrap();

    let by_address = service(node, &namespace, "by-address").await;
    let by_node = service(node, &namespace, "by-node").await;
    let port = by_node["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    let through = addresses(&by_address).into_iter().chain(addresses(&by_node));
    let mut services: Vec<_> = through.map(|host| format!("{host}:8080")).collect();
    assert_eq!(services.len(), 4, "both families: {services:?}");
    services.push(format!("by-address.{namespace}.svc:8080"));
    services.push(format!("{}:{port}", Sandbox::NODE));
    services.push(format!("[{}]:{port}", Sandbox::NODE_V6));
    let mut ways: Vec<_> = hosts(&pod).iter().map(|host| format!("{host}:8080")).collect();
    assert_eq!(ways.len(), 2, "both families: {ways:?}");
    ways.push(format!("headless.{namespace}.svc:8080"));
    ways.extend_from_slice(&services);

    let is = identity(&namespace, "default");
    let meshed = How::Meshed(&is);
    for way in &ways {
        let url = format!("http://{way}/page");
        let asks = async |client: &str, how| ask(node, (&namespace, client), how, &url).await;
        // A Service is reachable once kube-proxy and DNS know of it.
        eventually(way, Got::Status(200), || asks(&granted, meshed)).await;
        assert_eq!(asks(&granted, How::Plain).await, Got::Status(403), "plaintext, {way}");
        assert_eq!(asks(&stranger, meshed).await, Got::Status(403), "a stranger, {way}");
        assert_eq!(asks(&stranger, How::Plain).await, Got::Status(403), "plaintext, {way}");
    }
    // The pod to itself, which comes back from the node.
    for way in &services {
        let url = format!("http://{way}/page");
        let asks = async |how| ask(node, (&namespace, "server"), how, &url).await;
        assert_eq!(asks(meshed).await, Got::Status(200), "itself, {way}");
        assert_eq!(asks(How::Plain).await, Got::Status(403), "itself in plaintext, {way}");
    }
    // From outside the cluster, by its node.
    let url = format!("http://{}:{port}/page", Sandbox::ADDRESS);
    assert_eq!(ask_at(node, Place::Machine, &[], &url).await, Got::Status(403));
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn probes_are_exempt_from_addresses_of_the_pods_own_node_alone_in_both_families() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "exempt", DENY).await;
    let neighbour = start_client(node, &namespace, "granted").await;
    node.apply(&server(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "server").await.unwrap();
    let hosts = hosts(&pod);
    assert_eq!(hosts.len(), 2, "an IPv4 and an IPv6 address: {hosts:?}");
    for host in hosts {
        let probe = format!("http://{host}:8080/ready");
        let page = format!("http://{host}:8080/page");
        assert_eq!(ask_at(node, Place::Node, &[], &probe).await, Got::Status(200), "{probe}");
        assert_eq!(ask_at(node, Place::Node, &[], &page).await, Got::Status(403), "{page}");
        assert_eq!(ask_at(node, Place::Second, &[], &probe).await, Got::Status(403), "{probe}");
        let asked = ask(node, (&namespace, &neighbour), How::Plain, &probe).await;
        assert_eq!(asked, Got::Status(403), "a neighbour, {probe}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}
