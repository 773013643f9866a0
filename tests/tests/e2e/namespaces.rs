//! Objects of one namespace mean nothing to another that has objects of the same names.

use super::away::controller_stays;
use super::clients::{Got, How, ask, start_client, start_server};
use super::world::{eventually, identity, meshed_namespace, node};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// The service account `client` of the same namespace gets in.
fn policy(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {{name: callers, namespace: {namespace}}}
spec: {{identityRefs: [{{kind: ServiceAccount, name: client}}]}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: callers, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: callers}}
"
    )
}

#[tokio::test]
async fn namespaces_with_equal_names_of_objects_do_not_touch_each_other() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let mut namespaces = Vec::new();
    for prefix in ["one", "other"] {
        let namespace = meshed_namespace(node, prefix, DENY).await;
        node.apply(&policy(&namespace)).await.unwrap();
        let client = start_client(node, &namespace, "client").await;
        let (_, address) = start_server(node, &namespace, "server").await;
        namespaces.push((namespace, client, address));
    }
    let [one, other] = namespaces.as_slice() else { panic!("two") };
    let asks = async |client: &(String, String, String), server: &(String, String, String)| {
        let is = identity(&server.0, "server");
        let url = format!("http://{}:8080/page", server.2);
        ask(node, (&client.0, &client.1), How::Meshed(&is), &url).await
    };
    for (own, foreign) in [(one, other), (other, one)] {
        eventually("its own", Got::Status(200), || asks(own, own)).await;
        assert_eq!(asks(foreign, own).await, Got::Status(403), "{} of {}", foreign.0, own.0);
    }
    // What goes in one namespace goes there alone.
    let delete = ["delete", "meshtlsauthentication/callers", "-n", &other.0];
    node.kubectl().run(&delete).await.unwrap();
    eventually("no longer its own", Got::Status(403), || asks(other, other)).await;
    assert_eq!(asks(one, one).await, Got::Status(200), "what the other namespace deleted");
    for (namespace, _, _) in &namespaces {
        node.remove_namespace(namespace).await.unwrap();
    }
}
