//! A release of some namespaces: its policies hold there, and nothing elsewhere is read or written.

use super::super::clients::{Got, How};
use super::super::flip::in_force;
use super::super::world::eventually;
use super::release::{Release, namespace, release};
use policy_tests::cluster::node::Node;
use serde_json::Value;

const REFUSED: Got = Got::Status(403);
const ADMITTED: Got = Got::Status(200);

/// The service account `caller` may call `server`.
fn policy(namespace: &str, caller: &str) -> String {
    format!(
        "
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {{name: server, namespace: {namespace}}}
spec: {{podSelector: {{matchLabels: {{app: server}}}}, port: http}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: MeshTLSAuthentication
metadata: {{name: caller, namespace: {namespace}}}
spec: {{identities: ['{caller}']}}
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

/// Objects that a control plane could write in a namespace, with the version of each.
async fn versions(node: &Node, namespace: &str) -> Vec<[String; 3]> {
    let kinds = "servers.policy.linkerd.io,meshtlsauthentications,authorizationpolicies,pods,\
                 configmaps,secrets,events,leases,roles,rolebindings";
    let get = ["get", kinds, "-n", namespace, "-ojson"];
    let list: Value = serde_json::from_str(&node.kubectl().run(&get).await.unwrap()).unwrap();
    let get = ["get", "namespace", namespace, "-ojson"];
    let own: Value = serde_json::from_str(&node.kubectl().run(&get).await.unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = |object: &Value| {
        let metadata = &object["metadata"];
        [text(&object["kind"]), text(&metadata["name"]), text(&metadata["resourceVersion"])]
    };
    list["items"].as_array().unwrap().iter().chain([&own]).map(version).collect()
}

/// True if a service account of the release's control plane may do so.
async fn may(release: &Release, account: &str, request: &[&str]) -> bool {
    let user = format!("--as=system:serviceaccount:{}:{account}", release.home);
    let arguments: Vec<&str> =
        ["auth", "can-i", &user].into_iter().chain(request.iter().copied()).collect();
    release.node.kubectl().ended(&arguments).await.unwrap().code == Some(0)
}

#[tokio::test]
async fn a_release_of_one_namespace_decides_there_and_touches_nothing_elsewhere() {
    let Some(release) = release().await else { return };
    let _turn = release.turn.read().await;
    let (node, watched) = (release.node, release.watched.as_str());
    let elsewhere = namespace(node, "elsewhere").await;
    let caller = release.identity_of("caller");
    node.apply(&policy(&elsewhere, &caller)).await.unwrap();
    let inject = ["annotate", "namespace", &elsewhere, "portcullis.dev/inject=enabled"];
    node.kubectl().run(&inject).await.unwrap();
    let account = async || {
        let get = ["get", "configmap/kube-root-ca.crt", "-n", &elsewhere];
        node.kubectl().ended(&get).await.unwrap().code
    };
    eventually("the cluster's own objects", Some(0), account).await;
    let before = versions(node, &elsewhere).await;
    assert!(before.len() >= 5, "{before:?}");

    for (account, verb, resource) in [
        ("policy-controller", "list", "servers.policy.linkerd.io"),
        ("policy-controller", "list", "pods"),
        ("portcullis-issuer", "update", "configmaps/portcullis-identity-trust-roots"),
    ] {
        let there = may(&release, account, &[verb, resource, "-n", watched]).await;
        let here = may(&release, account, &[verb, resource, "-n", &elsewhere]).await;
        assert_eq!((there, here), (true, false), "{account}: {verb} {resource}");
    }
    assert!(!may(&release, "policy-controller", &["list", "nodes"]).await);
    let manifest = release.manifest();
    let roles = manifest.lines().filter(|line| *line == "kind: ClusterRole").count();
    assert_eq!(roles, 1, "to ask whose a token is");

    let (_, address) = release.start_server("server").await;
    let visitor = release.visitor("caller").await;
    let stranger = release.visitor("stranger").await;
    let server = release.identity_of("server");
    let (url, meshed) = (format!("http://{address}:8080/page"), How::Meshed(&server));
    node.apply(&policy(watched, &caller)).await.unwrap();
    in_force(node, watched, "caller").await;
    assert_eq!(visitor.ask(node, meshed, &url).await, ADMITTED);
    assert_eq!(visitor.ask(node, How::Plain, &url).await, REFUSED);
    assert_eq!(stranger.ask(node, meshed, &url).await, REFUSED);
    let revoke = ["delete", "authorizationpolicies.policy.linkerd.io/caller", "-n", watched];
    node.kubectl().run(&revoke).await.unwrap();
    eventually("revoked", REFUSED, || visitor.ask(node, meshed, &url)).await;

    assert_eq!(versions(node, &elsewhere).await, before, "elsewhere");
    node.remove_namespace(&elsewhere).await.unwrap();
}
