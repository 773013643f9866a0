//! `portcullis check --outbound`, as people run it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::process::Command;

const MANIFESTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  template:
    metadata:
      labels: {app: db}
      annotations: {config.linkerd.io/opaque-ports: '5432'}
    spec:
      containers:
      - {name: db, image: db, ports: [{name: sql, containerPort: 5432}, {name: http, containerPort: 8080}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress: [{ports: [{port: 5432}, {port: 8080}]}]
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}, port: http, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: db, namespace: shop}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: db}
  identity: {requestsPerSecond: 10}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: office, namespace: shop}
spec:
  server: {name: db}
  client: {unauthenticated: true, networks: [{cidr: 10.0.0.0/8}]}
";

/// What the outbound half changes according to `check`.
fn changes(manifests: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    // A file of NetworkPolicies alone counts as well.
    let documents = manifests.split("---\n");
    let (network, others): (Vec<&str>, Vec<&str>) =
        documents.partition(|document| document.contains("kind: NetworkPolicy"));
    for (name, documents) in [("all.yaml", others), ("network.yaml", network)] {
        std::fs::write(folder.path().join(name), documents.join("---\n")).unwrap();
    }
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        let arguments = ["check", "-o", "json", folder.path().to_str().unwrap()];
        let output = command.args(arguments).args(more).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        let text = |finding: &serde_json::Value, key: &str| {
            finding[key].as_str().unwrap_or_default().to_owned()
        };
        let line = |finding: &serde_json::Value| {
            ["severity", "object", "field", "message"].map(|key| text(finding, key)).join("|")
        };
        findings.map(line).collect::<Vec<String>>()
    };
    let before = run(&[]);
    run(&["--outbound"]).into_iter().filter(|line| !before.contains(line)).collect()
}

#[test]
fn what_the_outbound_half_changes_is_told_of_each_object_once() {
    let limit = "note|HTTPLocalRateLimitPolicy shop/db|spec.identity|10 requests a second are what all \
                 clients without an identity have together; with the outbound half each has an identity, \
                 and 10 of its own unless an override names it";
    let grant = "note|ServerAuthorization shop/office||admits clients by their addresses, and goes on to: a \
                 pod with the outbound half keeps its address. It then proves an identity, by which it can \
                 be named instead";
    let network = "warning|Deployment shop/db||clients with the outbound half reach its opaque ports (5432) \
                   by port 4143, which no NetworkPolicy that selects it admits (shop/db): admit 4143 there";
    assert_eq!(changes(MANIFESTS), [network, limit, grant]);
    let admitted = MANIFESTS.replace("{port: 5432}, ", "{port: 5432}, {port: proxy-inbound}, ");
    assert_eq!(changes(&admitted), [limit, grant]);
    let elsewhere = MANIFESTS.replace("{app: db}}\n  ingress", "{app: web}}\n  ingress");
    assert_eq!(changes(&elsewhere), [limit, grant]);
}

#[test]
fn senders_that_may_not_reach_the_port_of_opaque_ports_are_told() {
    let client = "---\n\
        apiVersion: apps/v1\n\
        kind: Deployment\n\
        metadata: {name: web, namespace: shop}\n\
        spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}\n\
        ---\n\
        apiVersion: networking.k8s.io/v1\n\
        kind: NetworkPolicy\n\
        metadata: {name: out, namespace: shop}\n\
        spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{ports: [{port: 5432}]}]}\n";
    let (deployment, _) = MANIFESTS.split_once("---").unwrap();
    let told = "warning|Deployment shop/web||with the outbound half it reaches opaque ports of others by port \
                4143, to which no NetworkPolicy that selects it lets it send (shop/out): admit 4143 there if \
                it calls such";
    assert_eq!(changes(&[deployment, client].concat()), [told]);
    let admitted = client.replace("{port: 5432}", "{port: 5432}, {port: 4143}");
    assert_eq!(changes(&[deployment, &admitted].concat()), Vec::<String>::new());
    let none_opaque = deployment.replace("opaque-ports", "skip-inbound-ports");
    assert_eq!(changes(&[&none_opaque, client].concat()), Vec::<String>::new());
}

#[test]
fn where_nothing_changes_nothing_is_told() {
    let (deployment, _) = MANIFESTS.split_once("---").unwrap();
    assert_eq!(changes(deployment), Vec::<String>::new());
}
