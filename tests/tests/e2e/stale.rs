//! A right of the controller is withdrawn: one watch fails, and nothing else does.

use super::asked::Pods;
use super::away::controller_alone;
use super::clients::{Got, ask_at, server, start_server};
use super::world::{CONTROL_PLANE, eventually, meshed_namespace, node};
use policy_testkit::long_or;
use policy_tests::cluster::node::{Node, Place, Sandbox, ready};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// Seconds for which the watch fails. In the long form it becomes late.
const FAILS: usize = 0;

/// After how much silence the chart's controllers call a watch late.
const LATE: Duration = Duration::from_secs(150);

/// The kind whose watch fails, in rules and in metrics.
const RESOURCE: &str = "networkauthentications";
const KIND: &str = "NetworkAuthentication";

/// This machine may call `server`.
fn network(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {{name: machine, namespace: {namespace}}}
spec: {{networks: [{{cidr: {}/32}}]}}
",
        Sandbox::MACHINE
    )
}

fn grant(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: machine, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: machine}}
"
    )
}

fn selected(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
"
    )
}

/// The controller's rules, which are written anew.
struct Rights {
    node: &'static Node,
    role: Value,
    rules: Value,
}

impl Rights {
    async fn of(node: &'static Node) -> Self {
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "portcullis-policy-controller"},
        });
        let rules = node.objects().get(&role).await.unwrap().unwrap()["rules"].take();
        Self { node, role, rules }
    }

    async fn write(&self, rules: &Value) {
        self.node.objects().merge(&self.role, &json!({"rules": rules})).await.unwrap();
    }

    async fn withdraw(&self) {
        let mut rules = self.rules.clone();
        for rule in rules.as_array_mut().unwrap() {
            if let Some(resources) = rule["resources"].as_array_mut() {
                resources.retain(|resource| resource != RESOURCE);
            }
        }
        rules.as_array_mut().unwrap().retain(|rule| rule["resources"] != json!([]));
        assert_ne!(rules, self.rules, "the rules name it");
        self.write(&rules).await;
    }
}

/// A replica of the controller, asked from its node.
struct Replica {
    node: &'static Node,
    pod: String,
    address: String,
}

impl Replica {
    async fn all(node: &'static Node) -> Vec<Self> {
        let component = "app.kubernetes.io/component=policy-controller";
        let mut replicas = Vec::new();
        for pod in node.pods(CONTROL_PLANE, component).await.unwrap() {
            let found = node.pod(CONTROL_PLANE, &pod).await.unwrap();
            let address = found["status"]["podIP"].as_str().unwrap().to_owned();
            replicas.push(Self { node, pod, address });
        }
        assert_eq!(replicas.len(), 2);
        replicas
    }

    async fn page(&self, path: &str) -> String {
        let url = format!("http://{}:8080{path}", self.address);
        let ask = ["curl", "-sS", "--max-time", "30", &url];
        self.node.run_at(Place::Node, &ask).await.unwrap().output().unwrap()
    }

    /// True if the watch has failed for want of the right.
    async fn is_forbidden(&self) -> bool {
        let series = format!("kube_watch_errors_total{{kind=\"{KIND}\",");
        let forbidden =
            |line: &str| line.starts_with(&series) && line.contains("error=\"forbidden\"");
        self.page("/metrics").await.lines().any(forbidden)
    }

    async fn is_ready(&self) -> bool {
        ready(&self.node.pod(CONTROL_PLANE, &self.pod).await.unwrap())
    }

    /// Ends the API server's connections with the replica. A watch that runs is not asked for its
    /// rights again; one that begins anew is.
    async fn end_watches(&self) {
        let command = ["ss", "--kill", "--no-header", "--tcp", "dst", &self.address];
        self.node.run_at(Place::Node, &command).await.unwrap().output().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_watch_fails_for_a_right_pods_start_and_revocations_of_other_kinds_reach_them() {
    let Some(node) = node().await else { return };
    let _alone = controller_alone().await;
    let namespace = meshed_namespace(node, "stale", DENY).await;
    let objects = [selected(&namespace), network(&namespace), grant(&namespace)];
    node.apply(&objects.join("---")).await.unwrap();
    let (_, address) = start_server(node, &namespace, "server").await;
    let url = format!("http://{address}:8080/page");
    let asked = async || ask_at(node, Place::Machine, &[], &url).await;
    eventually("the grant", Got::Status(200), asked).await;

    let rights = Rights::of(node).await;
    let replicas = Replica::all(node).await;
    rights.withdraw().await;
    for replica in &replicas {
        replica.end_watches().await;
    }
    for replica in &replicas {
        eventually("the watch fails", true, || replica.is_forbidden()).await;
    }
    // Not before: the injector asks for Namespaces on the connections that have just ended.
    let (pods, begun) = (Pods::ask(node, &namespace), Instant::now());
    // What is known goes on, and pods start with it.
    let fails = Duration::from_secs(long_or("STALE", FAILS) as u64);
    let mut number = 0;
    while number == 0 || begun.elapsed() < fails {
        let name = format!("late-{number}");
        let (pod, late) = start_server(node, &namespace, &name).await;
        let late = format!("http://{late}:8080/page");
        assert_eq!(ask_at(node, Place::Machine, &[], &late).await, Got::Status(403), "{pod}");
        node.delete(&server(&namespace, &name)).await.unwrap();
        for replica in &replicas {
            assert!(replica.is_ready().await, "{}", replica.page("/ready?verbose").await);
        }
        assert_eq!(asked().await, Got::Status(200));
        number += 1;
        sleep(fails / 100).await;
    }
    for replica in &replicas {
        let told = replica.page("/ready?verbose").await;
        let late =
            told.contains(&format!("{RESOURCE}.policy.linkerd.io: no list, event or bookmark"));
        assert_eq!(late, fails > LATE, "{told}");
    }
    node.delete(&grant(&namespace)).await.unwrap();
    eventually("the revocation", Got::Status(403), asked).await;
    assert_eq!(pods.refused_since(begun).await, [""; 0]);

    // The right is back: the kind is followed again.
    rights.write(&rights.rules).await;
    node.delete(&network(&namespace)).await.unwrap();
    node.apply(&grant(&namespace)).await.unwrap();
    node.apply(&network(&namespace)).await.unwrap();
    eventually("the grant anew", Got::Status(200), asked).await;
    node.delete(&network(&namespace)).await.unwrap();
    eventually("a revocation by its kind", Got::Status(403), asked).await;
    node.remove_namespace(&namespace).await.unwrap();
}
