//! Authorization by identity, and changes of policy that reach running pods.

use super::away::controller_stays;
use super::clients::{Got, How, ask, start_client, start_server};
use super::world::{eventually, identity, meshed_namespace, node};

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";

/// Only `caller` may call `server`.
fn grant(namespace: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http, proxyProtocol: HTTP/1}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {{name: caller, namespace: {namespace}}}
spec: {{identityRefs: [{{kind: ServiceAccount, name: caller}}]}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {{name: caller, namespace: {namespace}}}
spec:
  targetRef: {{group: policy.linkerd.io, kind: Server, name: server}}
  requiredAuthenticationRefs:
  - {{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: caller}}
"
    )
}

#[tokio::test]
async fn the_granted_identity_gets_in_on_both_paths_and_others_do_not_until_the_grant_is_gone() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let namespace = meshed_namespace(node, "identities", DENY).await;
    node.apply(&grant(&namespace)).await.unwrap();
    let (_, address) = start_server(node, &namespace, "server").await;
    let caller = start_client(node, &namespace, "caller").await;
    let other = start_client(node, &namespace, "other").await;
    let caller = (namespace.as_str(), caller.as_str());
    let other = (namespace.as_str(), other.as_str());
    let server = identity(&namespace, "server");
    let url = format!("http://{address}:8080/page");
    let meshed = [How::Meshed(&server), How::Direct(&server)];

    for how in meshed {
        eventually("the caller", Got::Status(200), || ask(node, caller, how, &url)).await;
        assert_eq!(ask(node, other, how, &url).await, Got::Status(403), "{how:?}");
        // A server of that name is not there: the client itself hangs up.
        let wrong = identity(&namespace, "somebody-else");
        let wrong = match how {
            How::Direct(_) => How::Direct(&wrong),
            How::Meshed(_) | How::Plain => How::Meshed(&wrong),
        };
        assert_ne!(ask(node, caller, wrong, &url).await, Got::Status(200), "{wrong:?}");
    }
    assert_eq!(ask(node, caller, How::Plain, &url).await, Got::Status(403));

    // The grant goes: once a request is refused, none is let through any more.
    let yaml = grant(&namespace);
    let policy = yaml.rsplit("---").next().unwrap();
    node.delete(policy).await.unwrap();
    eventually("without the grant", Got::Status(403), || ask(node, caller, meshed[0], &url)).await;
    for _ in 0..10 {
        for how in meshed {
            assert_eq!(ask(node, caller, how, &url).await, Got::Status(403), "{how:?}");
        }
    }
    node.apply(policy).await.unwrap();
    eventually("with the grant", Got::Status(200), || ask(node, caller, meshed[0], &url)).await;
    node.remove_namespace(&namespace).await.unwrap();
}
