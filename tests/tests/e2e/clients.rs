//! Clients: in pods with and without an identity, and at places of the network.

use super::world::{authority, identity};
use policy_tests::cluster::node::{Ended, Node, Place, Sandbox};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::Path;
use tempfile::TempDir;

/// The image of `portcullis echo` and `portcullis request`.
pub(crate) const CLI: &str = "ghcr.io/portcullis/cli:0.1.0";

/// Outcome of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Got {
    /// An HTTP status, or for gRPC its own status plus 1000.
    Status(u64),
    /// No answer: refused, closed, or too late.
    Nothing,
}

/// Credentials of a client and the address it connects to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How<'a> {
    /// Plaintext.
    Plain,
    /// Mutual TLS to the workload's port, for a server of this identity.
    Meshed(&'a str),
    /// Mutual TLS to the sidecar's own port, for a server of this identity.
    Direct(&'a str),
}

impl How<'_> {
    /// As arguments of `portcullis request`, with the credentials in `folder`.
    pub(crate) fn arguments(self, folder: &str) -> Vec<String> {
        let (server, direct) = match self {
            Self::Plain => return Vec::new(),
            Self::Meshed(server) => (server, false),
            Self::Direct(server) => (server, true),
        };
        let mut arguments = vec![
            format!("--cert={folder}/tls.crt"),
            format!("--key={folder}/tls.key"),
            format!("--roots={folder}/ca.crt"),
            format!("--server-name={server}"),
        ];
        if direct {
            arguments.push("--direct".to_owned());
        }
        arguments
    }
}

/// A pod without a sidecar that asks with the identity of a service account which the issuer would
/// certify: `portcullis echo`, in which `portcullis request` is run.
pub(crate) async fn start_client(node: &Node, namespace: &str, account: &str) -> String {
    let pod = format!("client-{account}");
    let leaf = authority().certify(&identity(namespace, account));
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": pod, "namespace": namespace},
            "stringData": {
                "tls.crt": leaf.certificate_pem, "tls.key": leaf.key_pem, "ca.crt": authority().pem(),
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": pod, "namespace": namespace,
                "labels": {"app": pod},
                "annotations": {"portcullis.dev/inject": "disabled"},
            },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "client", "image": CLI, "args": ["echo", "--listen", "0.0.0.0:8080"],
                    "volumeMounts": [{"name": "identity", "mountPath": "/identity"}],
                }],
                "volumes": [{"name": "identity", "secret": {"secretName": pod}}],
            },
        }),
    ];
    for object in &objects {
        node.objects().apply_one(object).await.unwrap();
    }
    node.wait_ready(namespace, &pod).await.unwrap();
    pod
}

/// Asks from a client pod.
pub(crate) async fn ask(node: &Node, client: (&str, &str), how: How<'_>, url: &str) -> Got {
    let credentials = how.arguments("/identity");
    let credentials: Vec<&str> = credentials.iter().map(String::as_str).collect();
    ask_in(node, (client.0, client.1, "client"), &credentials, url).await
}

/// Asks from a container of the image [`CLI`].
pub(crate) async fn ask_in(
    node: &Node,
    container: (&str, &str, &str),
    more: &[&str],
    url: &str,
) -> Got {
    let (namespace, pod, container) = container;
    let mut command = vec!["/usr/bin/portcullis", "request", "-o", "json", "--timeout", "20"];
    command.extend(more);
    command.push(url);
    got(&node.kubectl().exec(namespace, pod, container, &command).await.unwrap())
}

/// A client that is no pod and has credentials of the mesh.
pub(crate) struct Visitor {
    folder: TempDir,
    place: Place,
    from: Option<String>,
}

impl Visitor {
    /// On this machine, with an identity from the authority of the tests.
    pub(crate) fn new(identity: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_credentials(folder.path(), identity);
        Self::with(folder)
    }

    /// On this machine, with the credentials in a folder.
    pub(crate) fn with(folder: TempDir) -> Self {
        Self { folder, place: Place::Machine, from: None }
    }

    /// The same at another place of the network.
    pub(crate) fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The same from an address that [`come_from`] gave to this machine.
    pub(crate) fn from(self, address: IpAddr) -> Self {
        Self { from: Some(format!("--from={address}")), ..self }
    }

    /// Folder of `tls.crt`, `tls.key` and `ca.crt`.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) async fn ask(&self, node: &Node, how: How<'_>, url: &str) -> Got {
        let mut arguments = how.arguments(&self.folder().display().to_string());
        arguments.extend(self.from.clone());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        ask_at(node, self.place, &arguments, url).await
    }
}

/// Writes credentials of an identity, from the authority of the tests, into a folder.
pub(crate) fn write_credentials(folder: &Path, identity: &str) {
    authority().certify(identity).write(folder, "tls.crt", "tls.key");
    std::fs::write(folder.join("ca.crt"), authority().pem()).unwrap();
}

/// Asks in plaintext from a place of the network that is no pod.
pub(crate) async fn ask_at(node: &Node, place: Place, more: &[&str], url: &str) -> Got {
    let mut command = vec![env!("CARGO_BIN_EXE_portcullis-under-test"), "request", "-o", "json"];
    command.extend(["--timeout", "20"]);
    command.extend(more);
    command.push(url);
    got(&node.run_at(place, &command).await.unwrap())
}

/// Gives this machine an address that clients on it may come from.
pub(crate) async fn come_from(node: &Node, address: IpAddr) {
    let add = ["ip", "address", "replace", &format!("{address}/32"), "dev", Sandbox::LINK];
    node.run_at(Place::Machine, &add).await.unwrap().output().unwrap();
}

/// Outcome that `portcullis request -o json` reports.
fn got(ended: &Ended) -> Got {
    // 2 is wrong use, and anything above 4 not from it at all.
    assert!(matches!(ended.code, Some(0 | 1 | 3 | 4)), "{ended:?}");
    let Ok(answer) = serde_json::from_str::<Value>(&ended.stdout) else {
        // Nor is what kubectl says when it cannot run the command.
        assert!(!ended.stderr.contains("command terminated") || ended.code != Some(1), "{ended:?}");
        return Got::Nothing;
    };
    match (answer["grpcStatus"].as_u64(), answer["status"].as_u64()) {
        (Some(status), _) => Got::Status(status + 1000),
        (None, Some(status)) => Got::Status(status),
        (None, None) => match answer["outcome"].as_str() {
            Some("ok") => Got::Status(200),
            _ => Got::Nothing,
        },
    }
}

/// A Deployment of `portcullis echo` with probes, under its own service account, and where its first
/// pod is.
pub(crate) fn server(namespace: &str, name: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      serviceAccountName: {name}
      terminationGracePeriodSeconds: 3
      containers:
      - name: server
        image: {CLI}
        args: [echo, --listen, '0.0.0.0:8080']
        ports: [{{name: http, containerPort: 8080}}]
        readinessProbe: {{httpGet: {{path: /ready, port: http}}, periodSeconds: 1}}
        livenessProbe: {{httpGet: {{path: /live, port: 8080}}, periodSeconds: 1}}
        startupProbe: {{tcpSocket: {{port: 8080}}, periodSeconds: 1, failureThreshold: 60}}
"
    )
}

/// Starts [`server`] and tells its pod and that pod's address.
pub(crate) async fn start_server(node: &Node, namespace: &str, name: &str) -> (String, String) {
    node.apply(&server(namespace, name)).await.unwrap();
    started(node, namespace, name).await
}

/// Waits until [`server`] is rolled out and tells its pod and that pod's address.
pub(crate) async fn started(node: &Node, namespace: &str, name: &str) -> (String, String) {
    node.wait_rolled_out(namespace, &format!("deployment/{name}")).await.unwrap();
    let pods = node.pods(namespace, &format!("app={name}")).await.unwrap();
    let [pod] = pods.as_slice() else { panic!("{pods:?}") };
    let found = node.pod(namespace, pod).await.unwrap();
    (pod.clone(), found["status"]["podIP"].as_str().unwrap().to_owned())
}

/// A pod of `portcullis echo` with annotations (`key: value`).
pub(crate) fn pod(namespace: &str, name: &str, annotations: &str, ports: Ports<'_>) -> String {
    let listens: Vec<_> =
        ports.listens.iter().map(|port| format!("--listen, '0.0.0.0:{port}'")).collect();
    let declares: Vec<_> =
        ports.declares.iter().map(|port| format!("{{containerPort: {port}}}")).collect();
    let (listens, declares) = (listens.join(", "), declares.join(", "));
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: {namespace}
  labels: {{app: {name}}}
  annotations: {{{annotations}}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: server
    image: {CLI}
    args: [echo, {listens}]
    ports: [{declares}]
"
    )
}

/// Ports of a [`pod`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports<'a> {
    pub(crate) listens: &'a [u16],
    pub(crate) declares: &'a [u16],
}

/// Waits until a pod is Ready and tells its address.
pub(crate) async fn address(node: &Node, namespace: &str, pod: &str) -> String {
    let pod = node.wait_ready(namespace, pod).await.unwrap();
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}
