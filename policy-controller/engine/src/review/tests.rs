//! Reviews of objects before they exist, by example.

use crate::config::{ControllerConfig, Limits};
use crate::engine::Engine;
use crate::handles::{MAX_CONCURRENT_REVIEWS, ReviewHandle};
use crate::request::{Request, Requests};
use crate::source::{Batch, Change};
use crate::testing;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
mod bindings;
mod policy_edit;
mod widened;

const WORLD: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}}
spec: {containers: [{name: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: quiet-0, namespace: shop, labels: {app: quiet}}
spec: {containers: [{name: a}]}
---
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {podSelector: {matchLabels: {app: web}}, port: http, proxyProtocol: HTTP/1}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: first, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: web}]
  rules: [{matches: [{path: {value: /a}}]}]
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: limit, namespace: shop, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 9}}
";

fn engine(synced: bool) -> Engine {
    let mut engine = Engine::new(Arc::default());
    let mut changes: Vec<Change> =
        testing::objects(WORLD).into_iter().map(|o| Change::Apply(Arc::new(o))).collect();
    changes.extend(synced.then_some(Change::Synced));
    engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
    engine
}

fn told(manifest: &str) -> Vec<String> {
    let object = testing::objects(manifest).remove(0);
    let snapshot = engine(true).snapshot().unwrap();
    snapshot.review(object).iter().map(ToString::to_string).collect()
}

fn server(name: &str, labels: &str, port: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
          metadata: {{name: {name}, namespace: shop}}, \
          spec: {{podSelector: {{matchLabels: {labels}}}, port: {port}, accessPolicy: audit}}}}"
    )
}

#[test]
fn nothing_is_told_before_everything_has_been_listed() {
    assert!(engine(false).snapshot().is_none());
}

#[test]
fn servers_are_told_what_they_do_not_select() {
    assert_eq!(told(&server("s", "{app: quiet}", "80")), Vec::<String>::new());
    assert!(told(&server("web", "{app: web}", "8080"))[0].starts_with("spec: permits what"));
    assert_eq!(
        told(&server("s", "{app: wbe}", "http")),
        ["spec.podSelector: selects no pod of namespace `shop`; is `app: web` meant?"]
    );
    assert_eq!(
        told(&server("s", "{app: web}", "grpc")),
        ["spec.port: no selected pod has a port named `grpc`; they have `http` (8080)"]
    );
    assert_eq!(
        told(&server("s", "{app: web}", "80")),
        ["spec.port: no selected pod declares port 80; they have `http` (8080)"]
    );
}

#[test]
fn that_a_server_grants_nobody_is_told_once_it_is_there() {
    let deny = |name, labels, port| server(name, labels, port).replace("audit", "deny");
    let nobody = "spec.accessPolicy: grants nobody: every connection and request to its port is refused \
                  until a policy grants it";
    assert_eq!(told(&deny("web", "{app: web}", "8080")), [nobody]);
    // Its policies may come after it.
    assert_eq!(told(&deny("s", "{app: quiet}", "80")), Vec::<String>::new());
}

#[test]
fn a_server_that_does_not_exist_yet_is_the_youngest() {
    // By name it would come first.
    assert_eq!(
        told(&server("a", "{app: web}", "8080")),
        [
            "spec.port: takes no effect: what it selects is owned by Server shop/web (the older Server \
          counts, then the first by name)"
        ]
    );
    assert_eq!(
        told(&server("a", "{}", "8080")),
        [
            "spec.port: takes no effect on some workloads: what it selects is owned by Server shop/web \
          (the older Server counts, then the first by name)"
        ]
    );
}

#[test]
fn dangling_references_are_told_with_their_field() {
    let policy = |target: &str, refs: &str| {
        format!(
            "{{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
              metadata: {{name: p, namespace: shop}}, \
              spec: {{targetRef: {{group: policy.linkerd.io, kind: Server, name: {target}}}, \
              requiredAuthenticationRefs: [{refs}]}}}}"
        )
    };
    assert_eq!(told(&policy("wbe", "")), ["spec.targetRef: Server shop/wbe does not exist"]);
    let missing = "{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: friends}";
    assert_eq!(
        told(&policy("web", missing)),
        ["spec.requiredAuthenticationRefs: MeshTLSAuthentication shop/friends does not exist"]
    );
    let account = "{kind: ServiceAccount, name: caller}";
    assert_eq!(
        told(&policy("web", account)),
        ["spec.requiredAuthenticationRefs: ServiceAccount shop/caller does not exist"]
    );
    let elsewhere = "{kind: ServiceAccount, name: caller, namespace: other}";
    assert_eq!(told(&policy("web", elsewhere)), Vec::<String>::new());
}

#[test]
fn a_second_rate_limit_is_told_of_the_first() {
    let second = "{apiVersion: policy.linkerd.io/v1alpha1, kind: HTTPLocalRateLimitPolicy, \
         metadata: {name: a, namespace: shop}, spec: {targetRef: \
         {group: policy.linkerd.io, kind: Server, name: web}, total: {requestsPerSecond: 1}}}";
    assert_eq!(
        told(second),
        ["spec.targetRef: HTTPLocalRateLimitPolicy shop/limit limits Server shop/web already"]
    );
}

#[test]
fn routes_that_no_request_reaches_are_told() {
    let route = |kind: &str, rules: &str| {
        format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: {kind}, \
              metadata: {{name: r, namespace: shop}}, spec: {{parentRefs: \
              [{{group: policy.linkerd.io, kind: Server, name: web}}], rules: {rules}}}}}"
        )
    };
    assert_eq!(
        told(&route("HTTPRoute", "[{matches: [{path: {type: PathPrefix, value: /a}}]}]")),
        ["spec.rules[0].matches[0]: never reached: HTTPRoute shop/first matches `* /a/…` first"]
    );
    let twice = "[{matches: [{path: {value: /b}}]}, {matches: [{path: {value: /c}}, \
                 {path: {value: /b}}]}]";
    assert_eq!(
        told(&route("HTTPRoute", twice)),
        [
            "spec.rules[1].matches[1]: never reached: an earlier rule of this route matches `* /b/…` \
             first"
        ]
    );
    assert_eq!(
        told(&route("HTTPRoute", "[{}, {matches: [{path: {value: /}}]}, {}]")),
        ["spec.rules[1].matches[0]", "spec.rules[2].matches[0]"].map(|field| format!(
            "{field}: never reached: an earlier rule of this route matches `* /…` first"
        ))
    );
    assert_eq!(
        told(&route("GRPCRoute", "[{matches: [{method: {service: a}}]}]")),
        ["spec.parentRefs: Server shop/web has the proxyProtocol `HTTP/1`, on which a GRPCRoute \
          takes no effect"]
    );
}

#[test]
fn deleting_a_route_is_told_where_nothing_else_binds_a_server_that_grants() {
    let told = |others: &[&str]| {
        let mut engine = engine(true);
        let others = others.iter().flat_map(|other| testing::objects(other));
        let changes = others.map(|object| Change::Apply(Arc::new(object))).collect();
        engine.apply(&Batch { changes, ..Batch::default() });
        let first = WORLD.split("---").find(|text| text.contains("name: first")).unwrap();
        let snapshot = engine.snapshot().unwrap();
        let findings = snapshot.review_deletion(testing::objects(first).remove(0));
        findings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let grant = "{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, \
                 metadata: {name: p, namespace: shop}, \
                 spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: web}, \
                 requiredAuthenticationRefs: [{kind: ServiceAccount, name: cart}]}}";
    let open = "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
                metadata: {name: web, namespace: shop}, \
                spec: {podSelector: {}, port: 80, accessPolicy: all-authenticated}}";
    let route = |rules: &str| {
        format!(
            "{{apiVersion: policy.linkerd.io/v1beta3, kind: HTTPRoute, \
              metadata: {{name: other, namespace: shop}}, spec: {{parentRefs: \
              [{{group: policy.linkerd.io, kind: Server, name: web}}], rules: {rules}}}}}"
        )
    };
    let opens = "spec.parentRefs: is the only route of Server shop/web: without it, what is granted on \
                 the Server holds for every request, not only for what it matches";
    assert_eq!(told(&[grant]), [opens]);
    assert_eq!(told(&[open]), [opens]);
    let none: [&str; 0] = [];
    assert_eq!(told(&[]), none, "nothing is granted");
    assert_eq!(told(&[grant, &route("[{}]")]), none, "another route is left");
    // One that breaks a rule keeps its Server closed.
    assert_eq!(told(&[grant, &route("nonsense")]), none);
}

/// The warnings of a deletion, in a world with these objects besides.
fn told_of_deletion(deleted: &str, others: &[&str]) -> Vec<String> {
    let mut engine = engine(true);
    let all = others.iter().chain([&deleted]).flat_map(|other| testing::objects(other));
    let changes = all.map(|object| Change::Apply(Arc::new(object))).collect();
    engine.apply(&Batch { changes, ..Batch::default() });
    let snapshot = engine.snapshot().unwrap();
    let findings = snapshot.review_deletion(testing::objects(deleted).remove(0));
    findings.iter().map(ToString::to_string).collect()
}

/// A Server that no route of the world names.
fn api(access: &str) -> String {
    format!(
        "{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, \
          metadata: {{name: api, namespace: shop}}, \
          spec: {{podSelector: {{}}, port: 90, accessPolicy: {access}, proxyProtocol: HTTP/1}}}}"
    )
}

fn inbound(name: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: portcullis.dev/v1alpha1, kind: InboundRoute, \
          metadata: {{name: {name}, namespace: shop}}, spec: {spec}}}"
    )
}

fn root(name: &str, host: &str, routes: &str) -> String {
    let target = "targetRef: {group: policy.linkerd.io, kind: Server, name: api}";
    inbound(name, &format!("{{virtualhost: {{fqdn: {host}, {target}}}, routes: [{routes}]}}"))
}

fn own_route(more: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, \
          metadata: {{name: own, namespace: shop}}, spec: {{{more}, \
          rules: [{{matches: [{{path: {{value: /b}}}}]}}]}}}}"
    )
}

const SERVE: &str = "{match: /a, serve: {}}";
const VERTEX: &str =
    "{delegatedFrom: [{fqdn: a.example}], routes: [{match: /a, servers: [{name: api}]}]}";
const OPENS: &str = "spec: without it Server shop/api is in no tree: what is granted on the Server \
                     holds for every request then, not only for the paths that were handed out";
const TO_API: &str = "{group: policy.linkerd.io, kind: Server, name: api}";

#[test]
fn deleting_what_keeps_an_open_server_in_trees_is_told() {
    let (open, closed) = (api("all-authenticated"), api("deny"));
    let none: [&str; 0] = [];
    let last = root("last", "a.example", SERVE);
    assert_eq!(told_of_deletion(&last, &[&open]), [OPENS]);
    assert_eq!(told_of_deletion(&last, &[&closed]), none, "nothing is granted");
    let vertex = inbound("vertex", VERTEX);
    assert_eq!(told_of_deletion(&last, &[&open, &vertex]), none, "another one is left");
    assert_eq!(told_of_deletion(&vertex, &[&open]), [OPENS]);
    // One that breaks a rule keeps its Server closed, and opens it when it goes.
    let broken = root("broken", "a.example", "");
    assert_eq!(told_of_deletion(&last, &[&open, &broken]), none);
    assert_eq!(told_of_deletion(&broken, &[&open]), [OPENS]);
    // A child that is a route keeps its Server in the tree, too.
    let child = own_route(&format!(
        "parentRefs: [{TO_API}, {{group: portcullis.dev, kind: InboundRoute, namespace: prod, \
         name: root}}], hostnames: [a.example]"
    ));
    assert_eq!(told_of_deletion(&child, &[&open]), [OPENS]);
    assert_eq!(told_of_deletion(&child, &[&open, &vertex]), none);
}

#[test]
fn deleting_a_tree_is_told_where_other_routes_permit_requests_for_its_hosts() {
    let (open, closed) = (api("all-authenticated"), api("deny"));
    let none: [&str; 0] = [];
    let last = root("last", "a.example", SERVE);
    let (same, other) = (root("more", "a.example", SERVE), root("more", "b.example", SERVE));
    let hostless = own_route(&format!("parentRefs: [{TO_API}]"));
    let routes = "spec: without it no tree decides about a.example on Server shop/api: its other \
                  routes do";
    assert_eq!(told_of_deletion(&last, &[&open, &hostless]), [routes]);
    assert_eq!(told_of_deletion(&last, &[&open, &hostless, &other]), [routes]);
    assert_eq!(told_of_deletion(&last, &[&open, &hostless, &same]), none);
    assert_eq!(told_of_deletion(&last, &[&closed, &hostless]), none, "they permit nothing");
    let elsewhere = own_route(&format!("parentRefs: [{TO_API}], hostnames: [c.example]"));
    assert_eq!(told_of_deletion(&last, &[&open, &elsewhere]), none, "they are for another host");
}

#[test]
fn nothing_is_said_of_workloads_that_were_not_all_looked_at() {
    // The one that has the port comes last.
    let pod = |i: usize| {
        let port = if i == 600 { "late" } else { "http" };
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p{i:04}, namespace: shop, labels: \
              {{app: many}}}}, spec: {{containers: [{{name: a, ports: [{{name: {port}, \
              containerPort: 80}}]}}]}}}}"
        )
    };
    let pods: Vec<String> = (0..=600).map(pod).collect();
    let mut engine = engine(true);
    let pods = testing::objects(&pods.join("\n---\n"));
    let changes = pods.into_iter().map(|o| Change::Apply(Arc::new(o))).collect();
    engine.apply(&Batch { changes, ..Batch::default() });
    let object = testing::objects(&server("s", "{app: many}", "late")).remove(0);
    assert_eq!(engine.snapshot().unwrap().review(object), []);
}

#[tokio::test]
async fn a_review_that_cannot_have_its_turn_is_given_up_before_the_api_server_does() {
    let object = || testing::objects(&server("a", "{app: web}", "8080")).remove(0);
    let (requests, mut owner) = Requests::channel();
    let handle = ReviewHandle::new(requests);
    let began = std::time::Instant::now();
    // The task that owns the index does not answer: the first reviews wait for it, the others for
    // these.
    let asking = futures_util::future::join_all((0..20).map(|_| handle.review(object())));
    let asked = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        std::iter::from_fn(|| owner.try_recv().ok()).collect::<Vec<_>>()
    };
    let (told, asked) = tokio::join!(asking, asked);
    assert_eq!(told, vec![None; 20]);
    assert_eq!(asked.len(), MAX_CONCURRENT_REVIEWS);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    // Their turns are free again.
    let answer = async {
        while let Some(Request::Snapshot(reply)) = owner.recv().await {
            if reply.send(engine(true).snapshot()).is_ok() {
                return;
            }
        }
    };
    let (told, ()) = tokio::join!(handle.review(object()), answer);
    assert_eq!(told.unwrap().len(), 1);
}

#[test]
fn a_review_changes_nothing() {
    let mut engine = engine(true);
    let before = engine.conditions().clone();
    let object = testing::objects(&server("a", "{app: web}", "8080")).remove(0);
    engine.snapshot().unwrap().review(object);
    assert_eq!(engine.conditions(), &before);
    assert!(engine.apply(&Batch::default()).policies.is_empty());
}

#[test]
fn grants_that_permit_much_are_told_what_they_permit() {
    let grant = |from: &str, to: &str| {
        told(&format!(
            "{{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, \
              metadata: {{name: g, namespace: shop}}, spec: {{from: [{from}], to: [{to}]}}}}"
        ))
    };
    let policies = "{group: policy.linkerd.io, kind: AuthorizationPolicy, namespace: team}";
    let routes = "{group: policy.linkerd.io, kind: HTTPRoute, namespace: team}";
    let meshed = "{group: policy.linkerd.io, kind: MeshTLSAuthentication}";
    let servers = "{group: policy.linkerd.io, kind: Server}";
    let named = |entry: &str| entry.replace('}', ", name: a}");
    assert_eq!(grant(policies, &named(meshed)), Vec::<String>::new());
    assert_eq!(
        grant(policies, &format!("{}, {meshed}", named(meshed))),
        ["spec.to[1]: has no `name`: permits references to every MeshTLSAuthentication of \
              namespace `shop`, later ones too"]
    );
    let trusts = "spec.from[1]: trusts namespace `team` in full: on a Server that it may attach to, \
                  each HTTPRoute.policy.linkerd.io from there with a host or a longer path wins over \
                  the Server's own routes, and policies of `team` grant its requests; an InboundRoute that delegates a path of a host bounds the trust to that path";
    assert_eq!(grant(&format!("{policies}, {routes}"), &named(servers)), [trusts]);
    assert_eq!(grant(&format!("{policies}, {routes}"), servers).len(), 2);
    // What others follow is theirs to judge, and no policy names a Server.
    assert_eq!(grant(policies, servers), Vec::<String>::new());
    assert_eq!(grant(routes, "{group: core, kind: Service}"), Vec::<String>::new());
}

#[test]
fn backends_that_may_not_be_named_are_told_and_take_nothing_away() {
    let route = |namespace: &str| {
        told(&format!(
            "{{apiVersion: policy.linkerd.io/v1beta3, kind: HTTPRoute, \
              metadata: {{name: r, namespace: shop}}, spec: {{\
              parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}], \
              rules: [{{matches: [{{path: {{value: /b}}}}], \
              backendRefs: [{{name: web, namespace: {namespace}, port: 80}}]}}]}}}}"
        ))
    };
    assert_eq!(route("shop"), Vec::<String>::new());
    assert_eq!(
        route("bank"),
        ["spec.rules.backendRefs: Service bank/web cannot be used from this namespace: no \
              ReferenceGrant there permits it"]
    );
}

#[test]
fn who_makes_a_port_pass_half_of_a_message_is_warned() {
    let of = |limit: usize| {
        let value = "v".repeat(1000);
        let header = |n: usize| format!("{{name: x{n}, value: {value}}}");
        let headers: Vec<String> = (0..10).map(header).collect();
        let route = format!(
            "apiVersion: policy.linkerd.io/v1beta3\nkind: HTTPRoute\n\
             metadata: {{name: large, namespace: shop}}\n\
             spec:\n  parentRefs: [{{group: policy.linkerd.io, kind: Server, name: web}}]\n\
             \x20 rules: [{{matches: [{{path: {{value: /b}}, headers: [{}]}}]}}]",
            headers.join(", ")
        );
        let limits = Limits { update_bytes: limit, ..Limits::default() };
        let config = ControllerConfig { limits, ..ControllerConfig::default() };
        let mut engine = Engine::new(Arc::new(config));
        let world = testing::objects(WORLD).into_iter().map(|o| Change::Apply(Arc::new(o)));
        let changes = world.chain([Change::Synced]).collect();
        engine.apply(&Batch { changes, versions: BTreeMap::new(), ..Batch::default() });
        let review = engine.snapshot().unwrap().review(testing::objects(&route).remove(0));
        let told = review.iter().map(ToString::to_string);
        told.filter(|words| words.contains("half of what is sent")).collect::<Vec<_>>()
    };
    assert_eq!(of(1_000_000), [""; 0]);
    let told = of(16_000);
    assert!(told[0].starts_with("spec: the policy of Server shop/web has some 10"), "{told:?}");
}
