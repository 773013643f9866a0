//! The outbound half: pods that call each other as applications do, what is on the wire between them,
//! who tries to come around it, and what outlives what.

mod applications;
mod emojivoto;
mod endings;
mod endpoints;
mod failure;
mod frames;
mod greeting;
mod hostile;
mod mode;
mod wire;

use super::clients::{CLI, Got, ask_in};
use super::world::meshed_namespace;
use policy_tests::cluster::node::Node;
use std::net::IpAddr;

/// Annotations of a namespace whose pods have the outbound half and admit nobody without a grant.
const CLOSED: &str =
    "portcullis.dev/outbound: enabled, config.linkerd.io/default-inbound-policy: deny";

/// Annotations of a namespace whose pods have the outbound half and admit whoever has an identity.
const AUTHENTICATED: &str = "portcullis.dev/outbound: enabled, \
     config.linkerd.io/default-inbound-policy: all-authenticated";

/// A pod of `portcullis echo` under its own service account, and a Service of the same name whose port
/// 80 is the pod's 8080.
fn workload(namespace: &str, name: &str, annotations: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}}}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  ipFamilyPolicy: PreferDualStack
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: 8080}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}, annotations: {{{annotations}}}}}
spec:
  serviceAccountName: {name}
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: {CLI}
    args: [echo, --name, {name}, --listen, '[::]:8080']
    ports: [{{containerPort: 8080}}]
    readinessProbe: {{httpGet: {{path: /ready, port: 8080}}, periodSeconds: 1}}
"
    )
}

/// A Server of a workload, and a policy that admits these service accounts of the namespace alone.
fn admits(namespace: &str, name: &str, accounts: &[&str]) -> String {
    let refs: Vec<_> = accounts
        .iter()
        .map(|account| format!("{{kind: ServiceAccount, name: {account}}}"))
        .collect();
    format!(
        "
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: {name}}}}}, port: 8080}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{identityRefs: [{refs}]}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: {name}}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: {name}}}
",
        refs = refs.join(", ")
    )
}

/// Asks in plaintext from the application of a [`workload`].
async fn call(node: &Node, namespace: &str, from: &str, url: &str) -> Got {
    ask_in(node, (namespace, from, "app"), &[], url).await
}

/// The address of a pod.
async fn address_of(node: &Node, namespace: &str, pod: &str) -> String {
    let pod = node.pod(namespace, pod).await.unwrap();
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

/// The addresses of a pod, of both families.
async fn addresses_of(node: &Node, namespace: &str, pod: &str) -> Vec<IpAddr> {
    let pod = node.pod(namespace, pod).await.unwrap();
    let addresses = pod["status"]["podIPs"].as_array().unwrap().iter();
    addresses.map(|own| own["ip"].as_str().unwrap().parse().unwrap()).collect()
}

/// A namespace with these workloads, all of them ready.
async fn workloads(node: &Node, prefix: &str, annotations: &str, names: &[(&str, &str)]) -> String {
    let namespace = meshed_namespace(node, prefix, annotations).await;
    for (name, own) in names {
        node.apply(&workload(&namespace, name, own)).await.unwrap();
    }
    for (name, _) in names {
        node.wait_ready(&namespace, name).await.unwrap();
    }
    namespace
}
