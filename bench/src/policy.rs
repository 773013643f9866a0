//! The policy that is measured with, and the real controller that makes it of manifests.

use crate::child::{Launch, Process};
use anyhow::Context;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// The identity of the workload.
pub const IDENTITY: &str = "web.bench.serviceaccount.identity.linkerd.cluster.local";

/// Workload token of the proxy.
pub const WORKLOAD: &str = "bench:web";

/// Workload token of its client's proxy.
pub const CLIENT: &str = "bench:client";

/// Addresses of the Services that the client dials: of HTTP, of raw TCP.
pub const SERVICES: [&str; 2] = ["10.96.0.1:80", "10.96.0.2:80"];

/// Ports of the workload.
pub const HTTP1: u16 = 8080;
/// HTTP/2.
pub const HTTP2: u16 = 8081;
/// gRPC.
pub const GRPC: u16 = 8082;
/// Opaque.
pub const RAW: u16 = 8083;
/// HTTP/1.1 for callers with an identity alone.
pub const MESHED: u16 = 8084;

/// Most that a start may take, with ten thousand routes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The manifests: a pod, a Server per port, and on ports of HTTP as many routes as there are rules,
/// each with an AuthorizationPolicy. `/zz/` is the last of them, and the one that requests match.
pub fn manifests(rules: usize) -> String {
    let mut text = FRAME.to_owned();
    for (name, port, protocol) in PORTS {
        // Writing to a string cannot fail.
        _ = write!(
            text,
            "---\napiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
             metadata: {{name: {name}, namespace: bench}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: {port}, \
             proxyProtocol: {protocol}}}\n"
        );
        match protocol {
            "opaque" => grant(&mut text, "Server", name, "anybody"),
            "gRPC" => route(&mut text, "GRPCRoute", name, "{method: {service: zz}}", "anybody"),
            _ => {
                let who = if name == "meshed" { "caller" } else { "anybody" };
                // One port has all the rules; on the others it is the protocol that is measured.
                let others = if name == "http1" { rules.saturating_sub(1) } else { 0 };
                for other in 0..others {
                    let path = format!("{{path: {{type: PathPrefix, value: /svc{other}/}}}}");
                    route(&mut text, "HTTPRoute", &format!("{name}-{other}"), &path, who);
                }
                let path = "{path: {type: PathPrefix, value: /zz/}}";
                route(&mut text, "HTTPRoute", name, path, who);
            }
        }
    }
    text
}

const PORTS: [(&str, u16, &str); 5] = [
    ("http1", HTTP1, "HTTP/1"),
    ("http2", HTTP2, "HTTP/2"),
    ("grpc", GRPC, "gRPC"),
    ("raw", RAW, "opaque"),
    ("meshed", MESHED, "HTTP/1"),
];

const FRAME: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: bench, annotations: {config.linkerd.io/default-inbound-policy: deny}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: bench, labels: {app: web}}
spec:
  serviceAccountName: web
  containers:
  - name: web
    ports: [{containerPort: 8080}, {containerPort: 8081}, {containerPort: 8082}, {containerPort: 8083}, {containerPort: 8084}]
status: {phase: Running, podIP: 127.0.0.1, podIPs: [{ip: 127.0.0.1}]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: anybody, namespace: bench}
spec: {networks: [{cidr: 127.0.0.0/8}]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {name: caller, namespace: bench}
spec: {identities: [load.bench.serviceaccount.identity.linkerd.cluster.local]}
";

/// The manifests of the client's side: two pods in the mesh, and a Service of each of the addresses,
/// which are those of the pod that serves. With the port of its sidecar the raw port is opaque: it is
/// reached by the sidecar's port and a transport header.
pub fn destinations(http: SocketAddr, raw: SocketAddr, sidecar: Option<u16>) -> String {
    let mut text = MESH.replace("4143", &sidecar.unwrap_or(4143).to_string());
    if sidecar.is_some() {
        let port = raw.port();
        // Writing to a string cannot fail.
        _ = write!(
            text,
            "---\napiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
             metadata: {{name: anybody, namespace: bench}}\n\
             spec: {{networks: [{{cidr: 127.0.0.0/8}}]}}\n\
             ---\napiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
             metadata: {{name: raw, namespace: bench}}\n\
             spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: {port}, \
             proxyProtocol: opaque}}\n"
        );
        grant(&mut text, "Server", "raw", "anybody");
    }
    let [first, second] = SERVICES;
    for (name, address, to) in [("http", first, http), ("raw", second, raw)] {
        let cluster = address.split(':').next().unwrap_or(address);
        let (ip, port) = (to.ip(), to.port());
        // Writing to a string cannot fail.
        _ = write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: bench}}\n\
             spec: {{clusterIP: {cluster}, clusterIPs: [{cluster}], ports: [{{port: 80}}]}}\n\
             ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: {name}-1, namespace: bench, \
             labels: {{kubernetes.io/service-name: {name}}}}}\naddressType: IPv4\n\
             ports: [{{name: '', port: {port}, protocol: TCP}}]\n\
             endpoints: [{{addresses: [{ip}], conditions: {{ready: true}}, \
             targetRef: {{kind: Pod, name: web, namespace: bench}}}}]\n"
        );
    }
    text
}

const MESH: &str = "\
apiVersion: v1
kind: Namespace
metadata: {name: bench}
---
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: bench
  labels: {app: web, portcullis.dev/proxy: injected}
  annotations:
    portcullis.dev/sidecar: '{\"capture\":\"init-container\",\"inboundPort\":4143,\"outbound\":\"on\",\"version\":\"bench\"}'
spec:
  serviceAccountName: web
  containers: [{name: web}]
status: {phase: Running, podIP: 127.0.0.1, podIPs: [{ip: 127.0.0.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: bench, labels: {app: client}}
spec:
  serviceAccountName: load
  containers: [{name: client}]
status: {phase: Running, podIP: 127.0.0.2, podIPs: [{ip: 127.0.0.2}]}
";

fn route(text: &mut String, kind: &str, name: &str, matched: &str, who: &str) {
    let server = name.split('-').next().unwrap_or(name);
    let version = if kind == "GRPCRoute" {
        "gateway.networking.k8s.io/v1"
    } else {
        "policy.linkerd.io/v1beta3"
    };
    _ = write!(
        text,
        "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: bench}}\n\
         spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: {server}}}]\n  \
         rules: [{{matches: [{matched}]}}]\n"
    );
    grant(text, kind, name, who);
}

fn grant(text: &mut String, kind: &str, name: &str, who: &str) {
    let group = if kind == "GRPCRoute" { "gateway.networking.k8s.io" } else { "policy.linkerd.io" };
    let authentication =
        if who == "caller" { "MeshTLSAuthentication" } else { "NetworkAuthentication" };
    _ = write!(
        text,
        "---\napiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: {name}-grant, namespace: bench}}\n\
         spec:\n  targetRef: {{group: {group}, kind: {kind}, name: {name}}}\n  \
         requiredAuthenticationRefs: [{{group: policy.linkerd.io, kind: {authentication}, \
         name: {who}}}]\n"
    );
}

/// The real controller, reading the manifests of a folder. It ends when this is dropped.
#[derive(Debug)]
pub struct Controller {
    /// The process.
    pub process: Process,
    /// Address at which it serves policies.
    pub grpc: SocketAddr,
}

impl Controller {
    /// Writes the manifests to the folder and starts the program on them.
    pub fn start(program: &Path, folder: &Path, manifests: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("policy.yaml"), manifests)?;
        let launch = Launch::new(program)
            .args(["run", "--log-format", "json", "--grpc-addr", "127.0.0.1:0"])
            .args(["--admin-addr", "127.0.0.1:0", "--max-file-bytes", "100000000"])
            .args(["--cluster-networks", "10.0.0.0/8,127.0.0.0/8", "--manifests"])
            .args([folder]);
        let mut process = launch.with_stderr().start()?;
        let grpc = process.told(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).ok()?;
            entry.pointer("/fields/grpc")?.as_str()?.parse().ok()
        });
        let grpc = grpc.context("the controller's address")?;
        process.wait_for(grpc, PATIENCE)?;
        Ok(Self { process, grpc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_leads_to_the_address_it_is_made_for() {
        let to = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = destinations(to(4001), to(4002), None);
        for (service, port) in [("10.96.0.1", 4001), ("10.96.0.2", 4002)] {
            assert_eq!(text.matches(&format!("clusterIPs: [{service}]")).count(), 1);
            assert_eq!(text.matches(&format!("port: {port},")).count(), 1);
        }
        assert!(text.contains(r#""inboundPort":4143"#) && !text.contains("opaque"));
        let text = destinations(to(4001), to(4002), Some(5000));
        assert!(text.contains(r#""inboundPort":5000"#) && text.contains("proxyProtocol: opaque"));
    }

    #[test]
    fn there_are_as_many_routes_on_a_port_as_rules() {
        let text = manifests(100);
        let of_port = text.matches("name: http1}]\n").count();
        assert_eq!(of_port, 100);
        assert!(text.contains("value: /svc98/") && !text.contains("value: /svc99/"));
    }
}
