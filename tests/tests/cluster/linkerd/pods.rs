//! The policy of a port of a pod, as objects come, change and go. Each change that matters is one
//! message.

use super::expected::{
    admits_all, default_route, detect, exact_path, http1, is_default, is_server, labels, object,
    probe_route, routes,
};
use super::world::{Watch, World, world};
use linkerd2_proxy_api::inbound::http_local_rate_limit::{Limit, Override, r#override};
use linkerd2_proxy_api::inbound::{HttpLocalRateLimit, HttpRoute, Identity, ProxyProtocol};
use policy_testkit::wait_for;
use std::time::Duration;
use tokio::time::sleep;

/// The admin port of Linkerd's proxy, which every pod of a mesh has.
const ADMIN: u32 = 4191;

/// A second, because creation times have no fractions.
const SECOND: Duration = Duration::from_secs(1);

/// A pod with Linkerd's proxy, in a namespace of the test's own.
async fn pod(world: &World, name: &str) -> String {
    let ns = world.cluster.namespace(name).await.unwrap();
    world.cluster.apply(&pause(&ns)).await.unwrap();
    ns
}

fn pause(ns: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: pause\n  namespace: {ns}\n  \
         labels: {{linkerd.io/control-plane-ns: linkerd}}\nspec:\n  containers:\n  \
         - {{name: pause, image: pause}}\n  \
         - name: linkerd-proxy\n    image: proxy\n    \
         ports: [{{name: linkerd-admin, containerPort: {ADMIN}}}]\n    \
         livenessProbe: {{httpGet: {{path: /live, port: {ADMIN}}}}}\n    \
         readinessProbe: {{httpGet: {{path: /ready, port: {ADMIN}}}}}\n"
    )
}

async fn watch(world: &World, ns: &str) -> Watch {
    world.watch(&format!("{ns}:pause"), ADMIN).await
}

/// A watch of the pod, of which the default policy has come.
async fn watch_default(world: &World, ns: &str) -> Watch {
    let mut watch = watch(world, ns).await;
    is_default(&watch.next().await, &detect(vec![default_route(), probe_route()]));
    watch
}

/// Applies a Server that nobody may call yet, and returns it.
async fn closed(
    world: &World,
    ns: &str,
    watch: &mut Watch,
    protocol: &Option<ProxyProtocol>,
) -> String {
    let admin = server(ns, "linkerd-admin", "");
    world.cluster.apply(&admin).await.unwrap();
    let closed = watch.next().await;
    is_server(&closed, "linkerd-admin", protocol);
    assert_eq!(closed.authorizations, []);
    admin
}

fn server(ns: &str, name: &str, more: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: {name}, namespace: {ns}}}\n\
         spec: {{podSelector: {{}}, port: {ADMIN}, proxyProtocol: HTTP/1{more}}}\n"
    )
}

fn all_networks(ns: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: NetworkAuthentication\n\
         metadata: {{name: all-admin, namespace: {ns}}}\n\
         spec: {{networks: [{{cidr: 0.0.0.0/0}}, {{cidr: '::/0'}}]}}\n"
    )
}

fn policy(ns: &str, kind: &str, name: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: AuthorizationPolicy\n\
         metadata: {{name: all-admin, namespace: {ns}}}\nspec:\n  \
         targetRef: {{group: policy.linkerd.io, kind: {kind}, name: {name}}}\n  \
         requiredAuthenticationRefs:\n  \
         - {{group: policy.linkerd.io, kind: NetworkAuthentication, name: all-admin}}\n"
    )
}

fn route(ns: &str, name: &str, path: &str) -> String {
    format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
         metadata: {{name: {name}, namespace: {ns}}}\nspec:\n  \
         parentRefs: [{{group: policy.linkerd.io, kind: Server, name: linkerd-admin}}]\n  \
         rules:\n  - matches: [{{path: {{type: Exact, value: {path}}}, method: GET}}]\n"
    )
}

#[tokio::test]
async fn server_with_server_authorization() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "saz").await;
    let mut watch = watch_default(&world, ns).await;
    let defaults = &http1(vec![default_route(), probe_route()], None);
    let admin = closed(&world, ns, &mut watch, defaults).await;

    let authorization = format!(
        "apiVersion: policy.linkerd.io/v1beta1\nkind: ServerAuthorization\n\
         metadata: {{name: all-admin, namespace: {ns}}}\n\
         spec: {{server: {{name: linkerd-admin}}, client: {{unauthenticated: true}}}}\n"
    );
    world.cluster.apply(&authorization).await.unwrap();
    let open = watch.next().await;
    is_server(&open, "linkerd-admin", defaults);
    admits_all(&open, &labels("policy.linkerd.io", "serverauthorization", "all-admin"));

    world.cluster.delete(&admin).await.unwrap();
    is_default(&watch.next().await, &detect(vec![default_route(), probe_route()]));
    watch.is_quiet().await;
}

#[tokio::test]
async fn server_with_authorization_policy() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "ap").await;
    let mut watch = watch_default(&world, ns).await;
    let defaults = &http1(vec![default_route(), probe_route()], None);
    closed(&world, ns, &mut watch, defaults).await;

    world.cluster.apply(&all_networks(ns)).await.unwrap();
    world.cluster.apply(&policy(ns, "Server", "linkerd-admin")).await.unwrap();
    let open = watch.next().await;
    is_server(&open, "linkerd-admin", defaults);
    admits_all(&open, &labels("policy.linkerd.io", "authorizationpolicy", "all-admin"));
    watch.is_quiet().await;
}

#[tokio::test]
async fn servers_ordered_by_creation() {
    let Some(world) = world().await else { return };
    let ns = &*world.cluster.namespace("order").await.unwrap();
    // The first one by time is the last one by name.
    let first = server(ns, "linkerd-admin-1", "");
    world.cluster.apply(&first).await.unwrap();
    sleep(SECOND).await;
    world.cluster.apply(&server(ns, "linkerd-admin-0", "")).await.unwrap();
    // Pods and Servers come by separate watches.
    sleep(SECOND).await;
    world.cluster.apply(&pause(ns)).await.unwrap();
    let mut watch = watch(&world, ns).await;
    let defaults = &http1(vec![default_route(), probe_route()], None);
    is_server(&watch.next().await, "linkerd-admin-1", defaults);
    world.cluster.delete(&first).await.unwrap();
    is_server(&watch.next().await, "linkerd-admin-0", defaults);
}

#[tokio::test]
async fn server_with_audit_policy() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "audit").await;
    let mut watch = watch_default(&world, ns).await;
    world.cluster.apply(&server(ns, "linkerd-admin", ", accessPolicy: audit")).await.unwrap();
    let audited = watch.next().await;
    is_server(&audited, "linkerd-admin", &http1(vec![default_route(), probe_route()], None));
    admits_all(&audited, &labels("", "default", "audit"));
}

#[tokio::test]
async fn http_local_rate_limit_policy() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "limit").await;
    world.cluster.apply(&server(ns, "linkerd-admin", ", accessPolicy: audit")).await.unwrap();
    let limit = format!(
        "apiVersion: policy.linkerd.io/v1alpha1\nkind: HTTPLocalRateLimitPolicy\n\
         metadata: {{name: rl-0, namespace: {ns}}}\nspec:\n  \
         targetRef: {{group: policy.linkerd.io, kind: Server, name: linkerd-admin}}\n  \
         total: {{requestsPerSecond: 1000}}\n  overrides:\n  \
         - {{requestsPerSecond: 200, clientRefs: [{{kind: ServiceAccount, name: sa-0}}]}}\n"
    );
    world.cluster.apply(&limit).await.unwrap();
    wait_for("the limit is accepted", || async {
        let object = super::status::get(&world, "HTTPLocalRateLimitPolicy", ns, "rl-0").await;
        let conditions = object["status"]["conditions"].as_array()?.clone();
        let accepted = |c: &serde_json::Value| c["type"] == "Accepted" && c["status"] == "True";
        conditions.iter().any(accepted).then_some(())
    })
    .await;
    let clients = r#override::ClientIdentities {
        identities: vec![Identity {
            name: format!("sa-0.{ns}.serviceaccount.identity.linkerd.cluster.local"),
        }],
    };
    let expected = HttpLocalRateLimit {
        metadata: object("HTTPLocalRateLimitPolicy", "rl-0"),
        total: Some(Limit { requests_per_second: 1000 }),
        identity: None,
        overrides: vec![Override {
            limit: Some(Limit { requests_per_second: 200 }),
            clients: Some(clients),
        }],
    };
    let limited = watch(&world, ns).await.next().await;
    let routes = vec![default_route(), probe_route()];
    is_server(&limited, "linkerd-admin", &http1(routes, Some(expected)));
}

#[tokio::test]
async fn server_with_http_route() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "route").await;
    let mut watch = watch_default(&world, ns).await;
    let defaults = &http1(vec![default_route(), probe_route()], None);
    closed(&world, ns, &mut watch, defaults).await;

    let metrics = route(ns, "metrics-route", "/metrics");
    world.cluster.apply(&metrics).await.unwrap();
    let routed = watch.next().await;
    let [only] = routes(&routed) else { panic!("{routed:#?}") };
    assert_eq!(only.authorizations, []);
    assert_eq!(only.metadata, object("HTTPRoute", "metrics-route"));
    assert_eq!(exact_path(only), "/metrics");

    world.cluster.apply(&all_networks(ns)).await.unwrap();
    world.cluster.apply(&policy(ns, "HTTPRoute", "metrics-route")).await.unwrap();
    let granted = watch.next().await;
    assert_eq!(routes(&granted)[0].authorizations.len(), 1, "{granted:#?}");

    world.cluster.delete(&metrics).await.unwrap();
    is_server(&watch.next().await, "linkerd-admin", defaults);
    watch.is_quiet().await;
}

/// Linkerd has no test of it, but its tests of status have such routes.
#[tokio::test]
async fn a_route_without_rules_is_sent_as_it_is_and_nothing_else_is_left() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "no-rules").await;
    let mut watch = watch_default(&world, ns).await;
    world.cluster.apply(&server(ns, "linkerd-admin", "")).await.unwrap();
    let defaults = &http1(vec![default_route(), probe_route()], None);
    is_server(&watch.next().await, "linkerd-admin", defaults);
    let whole = route(ns, "empty", "/");
    let (without, _) = whole.split_once("rules:").unwrap();
    world.cluster.apply(&format!("{without}rules: []\n")).await.unwrap();
    let metadata = object("HTTPRoute", "empty");
    let empty = HttpRoute { metadata, ..HttpRoute::default() };
    is_server(&watch.next().await, "linkerd-admin", &http1(vec![empty], None));
}

#[tokio::test]
async fn http_routes_ordered_by_creation() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "routes").await;
    let mut watch = watch_default(&world, ns).await;
    world.cluster.apply(&server(ns, "linkerd-admin", "")).await.unwrap();
    let defaults = &http1(vec![default_route(), probe_route()], None);
    is_server(&watch.next().await, "linkerd-admin", defaults);
    let mut paths: Vec<&str> = Vec::new();
    let all = [("d", "/metrics"), ("a", "/ready"), ("c", "/shutdown"), ("b", "/proxy-log-level")];
    for (name, path) in all {
        world.cluster.apply(&route(ns, name, path)).await.unwrap();
        paths.push(path);
        let message = watch.next().await;
        let found: Vec<&str> = routes(&message).iter().map(exact_path).collect();
        assert_eq!(found, paths);
        sleep(SECOND).await;
    }
    world.cluster.delete(&route(ns, "c", "/shutdown")).await.unwrap();
    let message = watch.next().await;
    let found: Vec<&str> = routes(&message).iter().map(exact_path).collect();
    assert_eq!(found, ["/metrics", "/ready", "/proxy-log-level"]);
}

#[tokio::test]
async fn default_http_routes() {
    let Some(world) = world().await else { return };
    let ns = &pod(&world, "default").await;
    watch_default(&world, ns).await.is_quiet().await;
}
