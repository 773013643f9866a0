//! The node under test is a real one: what the tests in real pods take for granted of it.

mod endpoints;
mod rules;

use policy_tests::cluster::node::{Node, Place, Sandbox, SharedNode, TOOLS};
use serde_json::Value;

static NODE: SharedNode = SharedNode::new();

/// A web server behind a Service, with an init container and a native sidecar, and a client.
fn web(namespace: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {namespace}}}
spec:
  selector: {{app: web}}
  ipFamilyPolicy: RequireDualStack
  ports: [{{port: 80, targetPort: 8080}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: {namespace}, labels: {{app: web}}}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: page
    image: {TOOLS}
    command: [sh, -c, 'echo hello > /www/index.html']
    volumeMounts: [{{name: www, mountPath: /www}}]
  - name: sidecar
    image: {TOOLS}
    restartPolicy: Always
    command: [sh, -c, 'echo first; exec sleep 1000000']
  containers:
  - name: web
    image: {TOOLS}
    command: [httpd, -f, -v, -p, '8080', -h, /www]
    readinessProbe: {{httpGet: {{path: /, port: 8080}}, periodSeconds: 1}}
    volumeMounts:
    - {{name: www, mountPath: /www}}
    - {{name: token, mountPath: /token}}
  volumes:
  - {{name: www, emptyDir: {{}}}}
  - name: token
    projected:
      sources: [{{serviceAccountToken: {{audience: of-the-test, path: token}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: client, namespace: {namespace}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: client, image: {TOOLS}, command: [sleep, '1000000']}}]
"
    )
}

/// The page by every name it has, from the client pod.
async fn fetch(node: &Node, namespace: &str, url: &str) -> String {
    let command = ["curl", "-sS", "--max-time", "30", "--retry", "20", "--retry-connrefused", url];
    let ended = node.kubectl().exec(namespace, "client", "client", &command).await.unwrap();
    ended.output().unwrap_or_else(|error| panic!("{url}: {error:#}"))
}

#[tokio::test]
async fn pods_have_probes_sidecars_services_names_tokens_and_both_families() {
    let Some(node) = NODE.get_or_skip().await else { return };
    let namespace = node.namespace("node").await.unwrap();
    node.apply(&web(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "web").await.unwrap();
    node.wait_ready(&namespace, "client").await.unwrap();

    // Services through kube-proxy and names through CoreDNS, IPv4 and IPv6.
    let name = format!("http://web.{namespace}.svc.cluster.local/");
    for url in ["http://web/", &name] {
        assert_eq!(fetch(node, &namespace, url).await, "hello\n");
    }
    for family in ["-4", "-6"] {
        let command = ["curl", "-sS", family, "--max-time", "30", "http://web/"];
        let ended = node.kubectl().exec(&namespace, "client", "client", &command).await.unwrap();
        assert_eq!(ended.output().unwrap(), "hello\n", "{family}");
    }
    let addresses: Vec<&str> = pod["status"]["podIPs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|address| address["ip"].as_str())
        .collect();
    let [v4, v6] = addresses.as_slice() else { panic!("{addresses:?}") };
    assert_eq!(fetch(node, &namespace, &format!("http://{v4}:8080/")).await, "hello\n");
    assert_eq!(fetch(node, &namespace, &format!("http://[{v6}]:8080/")).await, "hello\n");

    // Logs, the native sidecar's too; the token is for its audience.
    assert_eq!(node.kubectl().logs(&namespace, "web", "sidecar").await.unwrap(), "first\n");
    let token = ["cat", "/token/token"];
    let token = node.kubectl().exec(&namespace, "web", "web", &token).await.unwrap();
    let review = serde_json::json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token.output().unwrap(), "audiences": ["of-the-test"]},
    });
    let arguments = ["create", "-ojson", "-f", "-"];
    let reviewed = node.kubectl().run_with(&arguments, &review.to_string()).await.unwrap();
    let reviewed: Value = serde_json::from_str(&reviewed).unwrap();
    let user = format!("system:serviceaccount:{namespace}:default");
    assert_eq!(reviewed["status"]["user"]["username"], Value::String(user));
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn each_place_has_an_address_of_its_own() {
    let Some(node) = NODE.get_or_skip().await else { return };
    let namespace = node.namespace("places").await.unwrap();
    node.apply(&web(&namespace)).await.unwrap();
    let pod = node.wait_ready(&namespace, "web").await.unwrap();
    let url = format!("http://{}:8080/", pod["status"]["podIP"].as_str().unwrap());
    let places = [
        (Place::Machine, Sandbox::MACHINE.to_string()),
        // As with kubenet and flannel, and not from an address of the Node object.
        (Place::Node, Sandbox::BRIDGE.to_string()),
        (Place::Second, Sandbox::SECOND.to_string()),
    ];
    for (place, address) in places {
        let asked = node.run_at(place, &["curl", "-sS", "--max-time", "30", &url]).await.unwrap();
        assert_eq!(asked.output().unwrap(), "hello\n", "{place:?}");
        // BusyBox' httpd logs who asked.
        let from = format!("{address}]:");
        let log = node.kubectl().logs(&namespace, "web", "web").await.unwrap();
        assert!(log.contains(&from), "{place:?} is not {address}:\n{log}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_pod_that_is_never_ready_is_reported_with_all_that_is_known_of_it() {
    let Some(node) = NODE.get_or_skip().await else { return };
    let namespace = node.namespace("report").await.unwrap();
    let manifest = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: broken, namespace: {namespace}}}
spec:
  restartPolicy: Never
  containers: [{{name: broken, image: {TOOLS}, command: [sh, -c, 'echo its last words; exit 3']}}]
"
    );
    node.apply(&manifest).await.unwrap();
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = node.wait_pod(&namespace, "broken", "Failed", failed).await.unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    let report = node.report(&namespace, "broken").await;
    for word in ["its last words", "Exit Code:    3", "Successfully assigned"] {
        assert!(report.contains(word), "no `{word}` in\n{report}");
    }
    node.remove_namespace(&namespace).await.unwrap();
}
