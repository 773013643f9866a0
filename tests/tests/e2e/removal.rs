//! Removing the chart, as docs/install.md says, and what stays.

use super::away::controller_alone;
use super::clients::{Got, ask_at, start_server};
use super::world::{CONTROL_PLANE, eventually, install, meshed_namespace, node};
use policy_tests::chart::{Helm, succeeded};
use policy_tests::cluster::node::{Node, Place, Sandbox};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// This machine may call `server`.
fn grant(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {{name: machine, namespace: {namespace}}}
spec: {{networks: [{{cidr: {}/32}}]}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: machine, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: machine}}
",
        Sandbox::MACHINE
    )
}

async fn there(node: &Node, object: &[&str]) -> bool {
    let arguments: Vec<&str> = ["get"].into_iter().chain(object.iter().copied()).collect();
    node.kubectl().ended(&arguments).await.unwrap().code == Some(0)
}

#[tokio::test]
async fn without_the_chart_pods_that_were_restarted_are_free_and_the_others_keep_their_policy() {
    let Some(node) = node().await else { return };
    let Some(helm) = Helm::or_skip(CONTROL_PLANE) else { return };
    let _alone = controller_alone().await;
    let leaving = meshed_namespace(node, "leaving", DENY).await;
    let staying = meshed_namespace(node, "staying", DENY).await;
    start_server(node, &leaving, "server").await;
    let (pod, address) = start_server(node, &staying, "server").await;
    node.apply(&grant(&staying)).await.unwrap();
    let kept = format!("http://{address}:8080/page");
    let ask = async |place, url: &str| ask_at(node, place, &[], url).await;
    eventually("the grant", Got::Status(200), || ask(Place::Machine, &kept)).await;
    assert_eq!(ask(Place::Second, &kept).await, Got::Status(403));

    // As the guide says, for one of the two.
    let name = format!("namespace/{leaving}");
    let annotate = ["annotate", &name, "portcullis.dev/inject-"];
    node.kubectl().run(&annotate).await.unwrap();
    let label = ["label", &name, "portcullis.dev/inject-"];
    node.kubectl().run(&label).await.unwrap();
    let restart = ["rollout", "restart", "-n", &leaving, "deployment"];
    node.kubectl().run(&restart).await.unwrap();
    node.wait_rolled_out(&leaving, "deployment/server").await.unwrap();
    let release = ["uninstall", "portcullis", "--wait", "--timeout", "240s"];
    succeeded(&helm.clone().on(node.kubeconfig()).call(&release).unwrap()).unwrap();

    let pods = node.pods(&leaving, "app=server").await.unwrap();
    let [free] = pods.as_slice() else { panic!("{pods:?}") };
    let free = node.pod(&leaving, free).await.unwrap();
    assert!(free["metadata"]["labels"]["portcullis.dev/proxy"].is_null(), "{free}");
    let free = format!("http://{}:8080/page", free["status"]["podIP"].as_str().unwrap());
    for place in [Place::Machine, Place::Second] {
        assert_eq!(ask(place, &free).await, Got::Status(200), "{place:?}");
    }
    // Who was not restarted enforces what it had, and its probes pass.
    assert_eq!(ask(Place::Machine, &kept).await, Got::Status(200));
    assert_eq!(ask(Place::Second, &kept).await, Got::Status(403));
    node.wait_ready(&staying, &pod).await.unwrap();
    for object in [
        ["server.policy.linkerd.io", "server", "-n", &staying],
        ["secret", "policy-admission-tls", "-n", CONTROL_PLANE],
        ["lease", "portcullis-policy-controller", "-n", CONTROL_PLANE],
        ["configmap", "portcullis-identity-trust-roots", "-n", &leaving],
    ] {
        assert!(there(node, &object).await, "stays: {object:?}");
    }
    let gone = ["mutatingwebhookconfigurations,validatingwebhookconfigurations", "-o", "name"];
    let arguments: Vec<&str> = ["get"].into_iter().chain(gone).collect();
    assert_eq!(node.kubectl().run(&arguments).await.unwrap(), "", "webhooks");

    // A later installation takes all of it up again, and its sidecars with it.
    install(node, helm).await.unwrap();
    let yaml = grant(&staying);
    node.delete(yaml.rsplit("---").next().unwrap()).await.unwrap();
    eventually("policy moves again", Got::Status(403), || ask(Place::Machine, &kept)).await;
    for namespace in [&leaving, &staying] {
        node.remove_namespace(namespace).await.unwrap();
    }
}
