//! Connections while servers are replaced, while their caller drains, and while they are half closed.

use super::super::away::controller_stays;
use super::super::clients::Got;
use super::super::world::{PATIENCE, eventually, node};
use super::{AUTHENTICATED, call, workload, workloads};
use policy_testkit::long_or;
use policy_tests::cluster::node::{Node, TOOLS};
use tokio::time::{Duration, sleep};

/// Seconds for which connections are half closed. The system forgets the redirection of one that is
/// silent after 60.
const HALF_CLOSED: usize = 75;

/// Seconds for which the draining application goes on calling.
const DRAINS: u32 = 20;

/// Calls that the draining application makes in this time.
const CALLS: u32 = 10;

/// A pod of the tools that runs `script`, and has so many seconds to end.
fn script(namespace: &str, name: &str, script: &str, grace: u32) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: {grace}
  containers:
  - {{name: app, image: {TOOLS}, command: [sh, -c, '{script}']}}
"
    )
}

/// Two pods of `portcullis echo` that end as the documentation of Kubernetes says: they serve until
/// everybody knows that they end.
fn replaced(namespace: &str) -> String {
    let pod = workload(namespace, "replaced", "");
    let (others, _) = pod.rsplit_once("---").unwrap();
    format!(
        "{others}---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: replaced, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: replaced}}}}
  strategy: {{rollingUpdate: {{maxUnavailable: 0, maxSurge: 1}}}}
  template:
    metadata: {{labels: {{app: replaced}}}}
    spec:
      serviceAccountName: replaced
      terminationGracePeriodSeconds: 10
      containers:
      - name: app
        image: {image}
        args: [echo, --listen, '[::]:8080']
        ports: [{{containerPort: 8080}}]
        readinessProbe: {{httpGet: {{path: /ready, port: 8080}}, periodSeconds: 1}}
        lifecycle: {{preStop: {{sleep: {{seconds: 5}}}}}}
",
        image = super::CLI,
    )
}

/// New connections from a meshed pod, one after the other, while all pods of the server are replaced.
async fn replaces_its_server(node: &Node, namespace: &str) {
    node.apply(&replaced(namespace)).await.unwrap();
    node.wait_rolled_out(namespace, "deployment/replaced").await.unwrap();
    let url = format!("http://replaced.{namespace}/page");
    eventually("replaced", Got::Status(200), || call(node, namespace, "caller", &url)).await;
    let calls = format!(
        "while :; do curl -s -o /dev/null -w \"%{{http_code}} %{{errormsg}}\\n\" --max-time 10 {url}; done"
    );
    node.apply(&script(namespace, "load", &calls, 1)).await.unwrap();
    node.wait_ready(namespace, "load").await.unwrap();
    let codes = async || node.kubectl().logs(namespace, "load", "app").await.unwrap();
    let some = async || codes().await.lines().count() > 10;
    eventually("load", true, some).await;
    let restart = ["rollout", "restart", "-n", namespace, "deployment/replaced"];
    node.kubectl().run(&restart).await.unwrap();
    node.wait_rolled_out(namespace, "deployment/replaced").await.unwrap();
    let before = codes().await.lines().count();
    eventually("goes on", true, async || codes().await.lines().count() > before + 10).await;
    let codes = codes().await;
    let failed: Vec<_> = codes.lines().filter(|code| *code != "200 ").collect();
    assert!(failed.is_empty(), "{failed:?} of {}", codes.lines().count());
}

/// An application that calls others after it was told to end.
async fn drains(node: &Node, namespace: &str) {
    let url = format!("http://web.{namespace}/page");
    let pause = DRAINS / CALLS;
    let drain = format!(
        "trap : TERM; echo started; sleep 1000000 & wait; \
         for call in $(seq {CALLS}); do sleep {pause}; \
         curl -s -o /dev/null -w \"%{{http_code}} %{{errormsg}}\\n\" --max-time 10 {url}; done"
    );
    node.apply(&script(namespace, "drains", &drain, 60)).await.unwrap();
    node.wait_ready(namespace, "drains").await.unwrap();
    let mut log = node.kubectl().command(&["logs", "-f", "-n", namespace, "drains", "-c", "app"]);
    let log = tokio::task::spawn_blocking(move || log.output());
    let started = async || node.kubectl().logs(namespace, "drains", "app").await.unwrap();
    eventually("drains", "started\n".to_owned(), started).await;
    let delete = ["delete", "pod", "-n", namespace, "drains", "--wait=false"];
    node.kubectl().run(&delete).await.unwrap();
    let told = String::from_utf8(log.await.unwrap().unwrap().stdout).unwrap();
    let expected = format!("started\n{}", "200 \n".repeat(usize::try_from(CALLS).unwrap()));
    assert_eq!(told, expected);
}

/// A client that has sent everything and waits for the answer, longer than the system remembers
/// connections that are closed on one side.
async fn half_closes(node: &Node, namespace: &str) {
    let seconds = long_or("HALF_CLOSED", HALF_CLOSED);
    let late =
        format!("exec nc -ll -p 9000 -e sh -c \"cat > /dev/null; sleep {seconds}; echo at last\"");
    node.apply(&script(namespace, "late", &late, 1)).await.unwrap();
    node.wait_ready(namespace, "late").await.unwrap();
    let found = node.pod(namespace, "late").await.unwrap();
    let url = format!("tcp://{}:9000", found["status"]["podIP"].as_str().unwrap());
    // The server listens a moment after its container runs.
    sleep(Duration::from_secs(1)).await;
    let patience = (Duration::from_secs(u64::try_from(seconds).unwrap()) + PATIENCE).as_secs();
    let command = [
        "/usr/bin/portcullis",
        "request",
        "--timeout",
        &patience.to_string(),
        "-d",
        "all there is",
        &url,
    ];
    let ended = node.kubectl().exec(namespace, "caller", "app", &command).await.unwrap();
    assert!(ended.stdout.contains("at last"), "{ended:?}");
}

#[tokio::test]
async fn connections_outlive_replaced_servers_draining_callers_and_closed_halves() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = workloads(node, "endings", AUTHENTICATED, &[("web", ""), ("caller", "")]).await;
    let (own, web) = (&*namespace, format!("http://web.{namespace}/page"));
    eventually("meshed", Got::Status(200), || call(node, own, "caller", &web)).await;
    tokio::join!(replaces_its_server(node, own), drains(node, own), half_closes(node, own));
    node.remove_namespace(&namespace).await.unwrap();
}
