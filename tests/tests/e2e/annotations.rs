//! Annotations of pods: what they say counts before what their namespace says, and most of it while
//! they run.

use super::away::controller_stays;
use super::clients::{Got, How, Ports, Visitor, address, ask_at, pod, start_server};
use super::world::{eventually, identity, meshed_namespace, node};
use policy_tests::cluster::node::{Node, Place};
use serde_json::json;

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";
const OPEN: &str = "config.linkerd.io/default-inbound-policy: all-unauthenticated";

const REFUSED: Got = Got::Status(403);
const ADMITTED: Got = Got::Status(200);

/// One port, declared.
const ONE: Ports<'static> = Ports { listens: &[8080], declares: &[8080] };

/// Writes or, with `-` at the end, removes annotations of a pod.
async fn annotate(node: &Node, namespace: &str, pod: &str, annotations: &[&str]) {
    let arguments = ["annotate", "--overwrite", "pod", pod, "-n", namespace];
    let arguments: Vec<&str> = arguments.iter().chain(annotations).copied().collect();
    node.kubectl().run(&arguments).await.unwrap();
}

#[tokio::test]
async fn a_pods_default_policy_counts_before_its_namespaces_and_one_that_cannot_be_read_denies() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "defaults", OPEN).await;
    let wrong = "config.linkerd.io/default-inbound-policy: all-authenticate";
    let pods = [("silent", ""), ("closed", DENY), ("wrong", wrong)];
    for (name, annotations) in pods {
        node.apply(&pod(&namespace, name, annotations, ONE)).await.unwrap();
    }
    let visitor = Visitor::new(&identity(&namespace, "visitor"));
    let server = identity(&namespace, "default");
    // In plaintext and with an identity.
    let asked = async |address: &str| {
        let url = format!("http://{address}:8080/page");
        let plain = visitor.ask(node, How::Plain, &url).await;
        [plain, visitor.ask(node, How::Meshed(&server), &url).await]
    };
    let silent = address(node, &namespace, "silent").await;
    let closed = address(node, &namespace, "closed").await;
    let wrong = address(node, &namespace, "wrong").await;
    assert_eq!(asked(&silent).await, [ADMITTED, ADMITTED], "as the namespace says");
    assert_eq!(asked(&closed).await, [REFUSED, REFUSED], "as the pod says");
    assert_eq!(asked(&wrong).await, [REFUSED, REFUSED], "what cannot be read");

    let meshed = "config.linkerd.io/default-inbound-policy=all-authenticated";
    annotate(node, &namespace, "closed", &[meshed]).await;
    eventually("another one", [REFUSED, ADMITTED], || asked(&closed)).await;
    annotate(node, &namespace, "closed", &["config.linkerd.io/default-inbound-policy-"]).await;
    eventually("the namespace's again", [ADMITTED, ADMITTED], || asked(&closed)).await;
    annotate(node, &namespace, "silent", &["config.linkerd.io/default-inbound-policy=deyn"]).await;
    eventually("one that cannot be read", [REFUSED, REFUSED], || asked(&silent)).await;
    node.remove_namespace(&namespace).await.unwrap();
}

/// A port for each annotation: one that asks for an identity, one whose bytes are not looked at, one
/// that is not redirected, and one that nobody declared.
const IDENTITY: u16 = 8080;
const OPAQUE: u16 = 8081;
const SKIPPED: u16 = 8082;
const UNDECLARED: u16 = 8083;

const PORTS: Ports<'static> = Ports {
    listens: &[IDENTITY, OPAQUE, SKIPPED, UNDECLARED],
    declares: &[IDENTITY, OPAQUE, SKIPPED],
};

#[tokio::test]
async fn annotations_of_ports_hold_and_change_while_the_pod_runs() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "listed", OPEN).await;
    let annotations = "config.linkerd.io/proxy-require-identity-inbound-ports: '8080-8082', \
                       config.linkerd.io/opaque-ports: '8081', \
                       config.linkerd.io/skip-inbound-ports: '8082', \
                       portcullis.dev/undeclared-ports: deny";
    node.apply(&pod(&namespace, "server", annotations, PORTS)).await.unwrap();
    let address = address(node, &namespace, "server").await;
    let visitor = Visitor::new(&identity(&namespace, "visitor"));
    let server = identity(&namespace, "default");
    let asked_by = async |port: u16, meshed: How<'_>| {
        let url = format!("http://{address}:{port}/page");
        let plain = visitor.ask(node, How::Plain, &url).await;
        [plain, visitor.ask(node, meshed, &url).await]
    };
    let asked = async |port: u16| asked_by(port, How::Meshed(&server)).await;
    assert_eq!(asked(IDENTITY).await, [REFUSED, ADMITTED], "who asks for an identity");
    // Where bytes are not looked at, requests have no answer, and TLS is not terminated.
    let direct = asked_by(OPAQUE, How::Direct(&server)).await;
    assert_eq!(direct, [Got::Nothing, ADMITTED], "an opaque port");
    assert_eq!(asked(OPAQUE).await, [Got::Nothing, Got::Nothing], "an opaque port");
    // No policy holds there, and nobody speaks TLS.
    assert_eq!(asked(SKIPPED).await, [ADMITTED, Got::Nothing], "a port that is not redirected");
    assert_eq!(asked(UNDECLARED).await, [REFUSED, REFUSED], "a port that nobody declared");
    let found = node.pod(&namespace, "server").await.unwrap();
    let skipped = &found["metadata"]["annotations"]["portcullis.dev/skipped-inbound-ports"];
    assert_eq!(skipped, "8082");

    let changes = [
        "config.linkerd.io/proxy-require-identity-inbound-ports=8081",
        "config.linkerd.io/opaque-ports-",
        "config.linkerd.io/skip-inbound-ports-",
        "portcullis.dev/undeclared-ports-",
    ];
    annotate(node, &namespace, "server", &changes).await;
    eventually("no longer for it", [ADMITTED; 2], || asked(IDENTITY)).await;
    eventually("no longer opaque", [REFUSED, ADMITTED], || asked(OPAQUE)).await;
    eventually("no longer closed", [ADMITTED; 2], || asked(UNDECLARED)).await;
    // Redirection is what the init container was started with.
    assert_eq!(asked(SKIPPED).await, [ADMITTED, Got::Nothing], "still not redirected");

    // An item that cannot be read asks every port's clients for an identity, and a word that cannot
    // be read closes what it is about.
    let wrong = "config.linkerd.io/proxy-require-identity-inbound-ports=8081,8O8O";
    annotate(node, &namespace, "server", &[wrong]).await;
    for port in [IDENTITY, UNDECLARED] {
        eventually("what cannot be read", [REFUSED, ADMITTED], || asked(port)).await;
    }
    annotate(node, &namespace, "server", &["portcullis.dev/undeclared-ports=dney"]).await;
    eventually("what cannot be read", [REFUSED; 2], || asked(UNDECLARED)).await;
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_pod_whose_annotations_cannot_be_read_is_refused_with_what_was_meant() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "misspelt", DENY).await;
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    for (name, value, expected) in [
        ("config.linkerd.io/skip-inbound-ports", "80-", "80-"),
        ("portcullis.dev/access-log", "xml", "xml"),
        ("portcullis.dev/undeclared-port", "deny", "portcullis.dev/undeclared-ports"),
    ] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "pod", "annotations": {name: value}},
            "spec": {"containers": [{"name": "app", "image": "none.example/none"}]},
        });
        let refused = node.objects().post(&path, &pod).await;
        let refused = format!("{:#}", refused.expect_err(name));
        assert!(refused.contains(name) && refused.contains(expected), "{name}: {refused}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_running_sidecar_logs_as_the_annotations_of_its_pod_say() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "logs", OPEN).await;
    let (pod, address) = start_server(node, &namespace, "server").await;
    let log = async || node.kubectl().logs(&namespace, &pod, "portcullis-proxy").await.unwrap();
    // Each request has a path of its own. True: the access log has it.
    let logged = async |path: String| {
        let url = format!("http://{address}:8080{path}");
        assert_eq!(ask_at(node, Place::Machine, &[], &url).await, ADMITTED);
        log().await.contains(&path)
    };
    let count = std::sync::atomic::AtomicUsize::new(0);
    let next = || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        logged(format!("/page-{number}-"))
    };
    assert!(!next().await, "as it was started");

    annotate(node, &namespace, &pod, &["portcullis.dev/access-log=json"]).await;
    eventually("the access log", true, next).await;
    let entry = log().await;
    let entry = entry.lines().find(|line| line.contains("/page-")).unwrap();
    assert!(entry.starts_with('{') && entry.contains("\"uri\""), "{entry}");

    assert!(!log().await.contains("DEBUG"), "as it was started: {}", log().await);
    let loud = "config.linkerd.io/proxy-log-level=warn,policy_proxy=debug";
    annotate(node, &namespace, &pod, &[loud]).await;
    let says = async |words: &str| log().await.contains(words);
    eventually("another filter", true, || says("the log filter changes")).await;
    // The next facts about the workload are logged by it.
    annotate(node, &namespace, &pod, &["portcullis.dev/access-log=apache"]).await;
    eventually("more of the log", true, || says("DEBUG")).await;
    eventually("the other format", true, async || {
        next().await;
        says("- HTTP/1.1\" 200").await
    })
    .await;

    let gone = ["portcullis.dev/access-log-", "config.linkerd.io/proxy-log-level-"];
    annotate(node, &namespace, &pod, &gone).await;
    eventually("as it was started", false, next).await;
    assert!(!next().await, "as it was started");
    node.remove_namespace(&namespace).await.unwrap();
}
