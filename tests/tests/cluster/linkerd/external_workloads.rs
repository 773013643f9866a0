//! The policy of a port of an ExternalWorkload, which has no probes.

use super::expected::{
    admits_all, default_route, detect, exact_path, http1, is_default, is_server, labels, object,
    routes,
};
use super::world::{Watch, World, world};

/// An ExternalWorkload, in a namespace of the test's own, and a watch of its port, of which the
/// default policy has come.
async fn workload(world: &World, name: &str) -> (String, Watch) {
    let ns = world.cluster.namespace(name).await.unwrap();
    let workload = format!(
        "apiVersion: workload.linkerd.io/v1beta1\nkind: ExternalWorkload\n\
         metadata: {{name: wkld-1, namespace: {ns}, labels: {{app: ext}}}}\nspec:\n  \
         meshTLS: {{identity: some-identity, serverName: some-sni}}\n  \
         ports: [{{name: http, port: 80}}]\n  workloadIPs: [{{ip: 192.0.2.0}}]\n"
    );
    world.cluster.apply(&workload).await.unwrap();
    let token = format!("{{\"ns\":\"{ns}\",\"external_workload\":\"wkld-1\"}}");
    let mut watch = world.watch(&token, 80).await;
    is_default(&watch.next().await, &detect(vec![default_route()]));
    (ns, watch)
}

fn server(ns: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: external-http, namespace: {ns}}}\nspec:\n  \
         externalWorkloadSelector: {{matchLabels: {{app: ext}}}}\n  \
         port: http\n  proxyProtocol: HTTP/1\n"
    )
}

fn policy(ns: &str, kind: &str, name: &str, references: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: all-http, namespace: {ns}}}\nspec:\n  \
         targetRef: {{group: policy.linkerd.io, kind: {kind}, name: {name}}}\n  \
         requiredAuthenticationRefs: [{references}]\n"
    )
}

#[tokio::test]
async fn external_workload_srv_with_authorization_policy() {
    let Some(world) = world().await else { return };
    let (ns, mut watch) = workload(&world, "external-ap").await;
    let defaults = &http1(vec![default_route()], None);
    world.cluster.apply(&server(&ns)).await.unwrap();
    let closed = watch.next().await;
    is_server(&closed, "external-http", defaults);
    assert_eq!(closed.authorizations, []);

    // The kind of a target is compared without case.
    world.cluster.apply(&policy(&ns, "server", "external-http", "")).await.unwrap();
    let open = watch.next().await;
    is_server(&open, "external-http", defaults);
    admits_all(&open, &labels("policy.linkerd.io", "authorizationpolicy", "all-http"));

    world.cluster.delete(&server(&ns)).await.unwrap();
    is_default(&watch.next().await, &detect(vec![default_route()]));
    watch.is_quiet().await;
}

#[tokio::test]
async fn external_workload_srv_with_http_route() {
    let Some(world) = world().await else { return };
    let (ns, mut watch) = workload(&world, "external-route").await;
    let defaults = &http1(vec![default_route()], None);
    world.cluster.apply(&server(&ns)).await.unwrap();
    is_server(&watch.next().await, "external-http", defaults);

    let route = format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: http-route, namespace: {ns}}}\nspec:\n  \
         parentRefs: [{{group: policy.linkerd.io, kind: Server, name: external-http}}]\n  \
         rules:\n  - matches: [{{path: {{type: Exact, value: /endpoint}}, method: GET}}]\n"
    );
    world.cluster.apply(&route).await.unwrap();
    let routed = watch.next().await;
    let [only] = routes(&routed) else { panic!("{routed:#?}") };
    assert_eq!(only.authorizations, []);
    assert_eq!(only.metadata, object("HTTPRoute", "http-route"));
    assert_eq!(exact_path(only), "/endpoint");

    let networks = format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
         metadata: {{name: all-net, namespace: {ns}}}\n\
         spec: {{networks: [{{cidr: 0.0.0.0/0}}, {{cidr: '::/0'}}]}}\n"
    );
    world.cluster.apply(&networks).await.unwrap();
    let reference = "{group: policy.linkerd.io, kind: NetworkAuthentication, name: all-net}";
    world.cluster.apply(&policy(&ns, "HTTPRoute", "http-route", reference)).await.unwrap();
    let granted = watch.next().await;
    assert_eq!(routes(&granted)[0].authorizations.len(), 1, "{granted:#?}");

    world.cluster.delete(&route).await.unwrap();
    is_server(&watch.next().await, "external-http", defaults);
    watch.is_quiet().await;
}

#[tokio::test]
async fn external_workload_default_http_route() {
    let Some(world) = world().await else { return };
    let (_, mut watch) = workload(&world, "external-default").await;
    watch.is_quiet().await;
}
