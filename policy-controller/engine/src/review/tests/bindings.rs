//! Reviews of bindings, and of groups that they bind.

use super::*;

const GROUP: &str = "{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteGroup, \
                     metadata: {name: group, namespace: shop}, \
                     spec: {routes: [{path: /a}, {path: /b}, {path: /c}]}}";

/// A binding of either kind, for the Server of this name. What it binds may be missing.
fn binding(kind: &str, name: &str, server: &str) -> String {
    let refs = if kind == "HttpRouteBinding" { "routeRefs" } else { "serviceRefs" };
    format!(
        "{{apiVersion: portcullis.dev/v1alpha1, kind: {kind}, \
          metadata: {{name: {name}, namespace: shop}}, spec: {{targetRef: \
          {{group: policy.linkerd.io, kind: Server, name: {server}}}, {refs}: [{{name: group}}]}}}}"
    )
}

const BINDINGS: [&str; 2] = ["HttpRouteBinding", "GrpcServiceBinding"];

#[test]
fn deleting_the_last_binding_of_a_server_that_grants_is_told() {
    let (open, closed) = (api("all-authenticated"), api("deny"));
    let none: [&str; 0] = [];
    let opens = "spec.targetRef: is the only binding of Server shop/api: without it, what is granted \
                 on the Server holds for every request, not only for what it matches";
    for kind in BINDINGS {
        let last = binding(kind, "last", "api");
        assert_eq!(told_of_deletion(&last, &[&open, GROUP]), [opens], "{kind}");
        assert_eq!(told_of_deletion(&last, &[&open]), [opens], "{kind} without what it binds");
        assert_eq!(told_of_deletion(&last, &[&closed, GROUP]), none, "nothing is granted");
        // One that breaks a rule keeps its Server closed, and opens it when it goes.
        let broken = binding(kind, "broken", "api").replace("name: group", "name: 7");
        let unread = binding(kind, "broken", "[]");
        for broken in [&broken, &unread] {
            assert_eq!(told_of_deletion(&last, &[&open, GROUP, broken]), none, "{kind}");
            assert_eq!(told_of_deletion(broken, &[&open, GROUP]), [opens], "{kind}");
        }
        for other in BINDINGS {
            let other = binding(other, "other", "api");
            assert_eq!(told_of_deletion(&last, &[&open, GROUP, &other]), none, "{kind}");
        }
        let route = own_route(&format!("parentRefs: [{TO_API}]"));
        assert_eq!(told_of_deletion(&last, &[&open, GROUP, &route]), none, "a route is left");
        assert_eq!(told_of_deletion(&route, &[&open, GROUP, &last]), none, "a binding is left");
        let tree = root("root", "a.example", SERVE);
        assert_eq!(told_of_deletion(&last, &[&open, GROUP, &tree]), none, "a tree is left");
    }
    // Without its group the binding denies; without the grant of a namespace, too.
    let last = binding("HttpRouteBinding", "last", "api");
    assert_eq!(told_of_deletion(GROUP, &[&open, &last]), none);
}

#[test]
fn an_edit_by_which_nothing_binds_a_server_that_grants_any_longer_is_told() {
    let told = |edited: &str, others: &[&str]| {
        let mut engine = engine(true);
        let all = others.iter().flat_map(|other| testing::objects(other));
        let changes = all.map(|object| Change::Apply(Arc::new(object))).collect();
        engine.apply(&Batch { changes, ..Batch::default() });
        let snapshot = engine.snapshot().unwrap();
        let found = snapshot.review(testing::objects(edited).remove(0));
        let all = found.iter().map(ToString::to_string);
        all.filter(|found| found.contains("was the only")).collect::<Vec<_>>()
    };
    let (open, closed) = (api("all-authenticated"), api("deny"));
    let none: [&str; 0] = [];
    for kind in BINDINGS {
        let [before, after] = ["api", "web"].map(|server| binding(kind, "last", server));
        let opens = "spec.targetRef: was the only binding of Server shop/api: what is granted on the \
                     Server holds for every request now, not only for what it matched";
        assert_eq!(told(&after, &[&open, GROUP, &before]), [opens], "{kind}");
        assert_eq!(told(&after, &[&closed, GROUP, &before]), none, "nothing is granted");
        assert_eq!(told(&before, &[&open, GROUP, &before]), none, "it names the Server still");
        assert_eq!(told(&after, &[&open, GROUP]), none, "it is new");
        let other = binding(kind, "other", "api");
        assert_eq!(told(&after, &[&open, GROUP, &before, &other]), none, "another is left");
    }
    let route = |server: &str| own_route(&format!("parentRefs: [{TO_API}]").replace("api", server));
    let opens = "spec.parentRefs: was the only route of Server shop/api: what is granted on the Server \
                 holds for every request now, not only for what it matched";
    assert_eq!(told(&route("web"), &[&open, &route("api")]), [opens]);
}

/// By variations of the group its author could find out what others have.
#[test]
fn a_review_of_a_shared_group_tells_nothing_of_the_servers_that_have_it() {
    let route = "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: \
                 {name: acquisition, namespace: shop, creationTimestamp: '2020-01-01T00:00:00Z'}, \
                 spec: {parentRefs: [{group: policy.linkerd.io, kind: Server, name: api}], \
                 rules: [{matches: [{path: {type: Exact, value: /a}}, {path: {type: Exact, value: /a/}}]}]}}";
    let grant = "{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant, \
                 metadata: {name: g, namespace: lib}, spec: {from: [{group: portcullis.dev, \
                 kind: HttpRouteBinding, namespace: shop}], \
                 to: [{group: portcullis.dev, kind: HttpRouteGroup, name: group}]}}";
    let shared = GROUP.replace("namespace: shop", "namespace: lib");
    let own = binding("HttpRouteBinding", "web", "api");
    let foreign = own.replace("name: group", "name: group, namespace: lib");
    let told = |group: &str, binding: &str| {
        let mut engine = engine(true);
        let all = [&api("deny"), route, grant, group, binding];
        let all = all.into_iter().flat_map(testing::objects);
        let changes = all.map(|object| Change::Apply(Arc::new(object))).collect();
        engine.apply(&Batch { changes, ..Batch::default() });
        let found = engine.snapshot().unwrap().review(testing::objects(group).remove(0));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(told(&shared, &foreign), none);
    assert_eq!(
        told(GROUP, &own),
        [
            "spec.routes[0]: never reached: HTTPRoute shop/acquisition matches the same requests first"
        ]
    );
}
