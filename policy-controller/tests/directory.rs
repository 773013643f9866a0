//! A directory that is followed, from its files to subscribers.
#![allow(clippy::unwrap_used, reason = "a test")]

use policy_controller::directory::DirectorySource;
use policy_core::WorkloadKey;
use policy_engine::{ControllerConfig, start};
use std::num::NonZeroU16;
use std::time::Duration;

/// A namespace with one pod, scheduled to a node.
const POD: &str = "
apiVersion: v1
kind: Node
metadata: {name: node-1}
spec: {podCIDR: 10.42.1.0/24}
status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  nodeName: node-1
  serviceAccountName: web
  containers:
  - name: app
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /ready, port: http}}
    livenessProbe: {grpc: {port: 8080}}
    startupProbe: {httpGet: {path: /start, port: http, scheme: HTTPS}}
    lifecycle: {preStop: {httpGet: {path: /stop, port: http}}}
status: {podIPs: [{ip: 10.42.1.7}]}
";

/// A Server for the pod's port.
const SERVER: &str = "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1, accessPolicy: all-unauthenticated}
";

#[tokio::test]
async fn a_directory_is_followed_to_its_subscribers() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("pod.yaml"), POD).unwrap();
    std::fs::write(root.path().join("server.yaml"), SERVER).unwrap();
    let config = ControllerConfig::default();
    let source = DirectorySource::new(root.path(), config.limits);
    let controller = start(config, source);
    let (web, port) = (WorkloadKey::pod("shop", "web"), NonZeroU16::new(8080).unwrap());
    let mut synced = controller.policies.synced();
    synced.wait_for(|synced| *synced).await.unwrap();
    let mut watched = controller.policies.port(&web, port).await.unwrap();
    assert_eq!(watched.read().policy.authorizations.len(), 1);
    std::fs::write(root.path().join("server.yaml"), "spec: [").unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(4), watched.changed()).await.unwrap());
    let denied = watched.read().policy.deny;
    assert_eq!(denied, Some(policy_core::decision::Denied::ServerInvalid));
    assert!(!controller.diagnostics.borrow().is_empty());
    std::fs::remove_file(root.path().join("pod.yaml")).unwrap();
    assert!(!tokio::time::timeout(Duration::from_secs(4), watched.changed()).await.unwrap());
}
