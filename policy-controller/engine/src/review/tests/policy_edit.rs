//! Reviews of edits by which objects other than routes restrict less.

use super::*;

const WORLD: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: own, namespace: shop, labels: {app: own}}, \
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}}
---
{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: own, namespace: shop}, \
spec: {podSelector: {matchLabels: {app: own}}, port: http, proxyProtocol: HTTP/1, accessPolicy: deny}}
---
{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, metadata: {name: p, namespace: shop}, \
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: own}, requiredAuthenticationRefs: \
[{group: policy.linkerd.io, kind: NetworkAuthentication, name: net}, \
{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}]}}
---
{apiVersion: policy.linkerd.io/v1alpha1, kind: NetworkAuthentication, metadata: {name: net, namespace: shop}, \
spec: {networks: [{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}]}}
---
{apiVersion: policy.linkerd.io/v1alpha1, kind: MeshTLSAuthentication, metadata: {name: m, namespace: shop}, \
spec: {identities: [a.shop.serviceaccount.identity.linkerd.cluster.local]}}
---
{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteGroup, metadata: {name: g, namespace: shop}, \
spec: {routes: [{path: /admin/*rest, methods: [GET]}, {path: /books}]}}
";

/// The warnings that an edit of one of these objects permits more.
fn reported(before: &str, after: &str) -> Vec<String> {
    reported_of(WORLD, before, after)
}

fn reported_of(world: &str, before: &str, after: &str) -> Vec<String> {
    let mut engine = engine(true);
    let changes = testing::objects(world).into_iter().map(|one| Change::Apply(Arc::new(one)));
    engine.apply(&Batch { changes: changes.collect(), ..Batch::default() });
    let edited = world.split("---").find(|one| one.contains(before)).unwrap();
    let object = testing::objects(&edited.replacen(before, after, 1)).remove(0);
    let found = engine.snapshot().unwrap().review(object);
    let found = found.iter().map(ToString::to_string);
    found.filter(|one| one.contains("was refused before")).collect()
}

/// The one warning about an edit.
fn one(before: &str, after: &str) -> String {
    let [one] = &reported(before, after)[..] else { panic!("{after} is not reported once") };
    one.clone()
}

#[test]
fn a_restriction_that_is_taken_away_is_reported_with_what_is_permitted() {
    for (before, after, permitted) in [
        (
            "accessPolicy: deny",
            "accessPolicy: all-unauthenticated",
            "`DELETE /` in TLS for the application",
        ),
        ("port: http", "port: 9090", "`DELETE /` in TLS for the application"),
        ("app: own}}, port", "app: won}}, port", "`DELETE /` in TLS for the application"),
        ("except: [10.1.0.0/16]", "except: [10.1.1.0/24]", "with an identity that a policy names"),
        ("10.0.0.0/8, except: [10.1.0.0/16]", "0.0.0.0/0", "with an identity that a policy names"),
        (
            ", \
{group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}",
            "",
            "without an identity",
        ),
    ] {
        let warned = one(before, after);
        assert!(warned.contains(permitted), "{after}: {warned}");
        assert!(warned.starts_with("spec: permits what was refused before: "), "{warned}");
        assert!(!warned.contains("a.shop") && !warned.contains("10."), "{warned}");
    }
}

#[test]
fn what_an_edit_grants_by_name_is_meant_and_what_it_closes_opens_nothing() {
    let other = "b.shop.serviceaccount.identity.linkerd.cluster.local";
    for (before, after) in [
        ("identities: [", &*format!("identities: [{other}, ")),
        ("a.shop.serviceaccount.identity.linkerd.cluster.local", other),
        ("except: [10.1.0.0/16]", "except: [10.0.0.0/9]"),
        ("port: http", "port: 8080"),
        ("name: m}]", "name: m}, {kind: NetworkSet, name: cluster}]"),
    ] {
        assert_eq!(reported(before, after), [""; 0], "{after}");
    }
}

#[test]
fn a_route_of_a_group_that_no_longer_refuses_is_reported() {
    let bound = "
{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteBinding, metadata: {name: b, namespace: shop}, \
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: own}, routeRefs: [{name: g}]}}
---
{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteGroup, metadata: {name: all, namespace: shop}, \
spec: {routes: [{path: /*rest, labels: {open: yes-it-is}}]}}
---
{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteBinding, metadata: {name: all, namespace: shop}, \
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: own}, routeRefs: [{name: all}]}}
---
{apiVersion: portcullis.dev/v1alpha1, kind: HttpRouteClass, metadata: {name: open, namespace: shop}, \
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: own}, \
routeSelector: {matchLabels: {open: yes-it-is}}}}
---
{apiVersion: policy.linkerd.io/v1alpha1, kind: AuthorizationPolicy, metadata: {name: o, namespace: shop}, \
spec: {targetRef: {group: portcullis.dev, kind: HttpRouteClass, name: open}, \
requiredAuthenticationRefs: []}}
";
    let mut engine = engine(true);
    let all = [WORLD, bound].into_iter().flat_map(testing::objects);
    let changes = all.map(|object| Change::Apply(Arc::new(object))).collect();
    engine.apply(&Batch { changes, ..Batch::default() });
    let group = WORLD.split("---").find(|one| one.contains("HttpRouteGroup")).unwrap();
    let reported = |edited: String| {
        let found = engine.snapshot().unwrap().review(testing::objects(&edited).remove(0));
        let found = found.iter().map(ToString::to_string);
        found.filter(|one| one.contains("was refused before")).collect::<Vec<_>>()
    };
    let gone = reported(group.replace("{path: /admin/*rest, methods: [GET]}, ", ""));
    let [one] = &gone[..] else { panic!("reported once: {gone:?}") };
    assert!(one.contains("`GET /admin"), "{one}");
    assert_eq!(reported(group.replace("methods: [GET]", "methods: [GET, POST]")), [""; 0]);
}

#[test]
fn a_label_by_which_a_grant_selects_a_server_is_reported() {
    let grant = "---
{apiVersion: policy.linkerd.io/v1beta1, kind: ServerAuthorization, metadata: {name: s, namespace: shop}, \
spec: {server: {selector: {matchLabels: {open: all}}}, client: {unauthenticated: true}}}
";
    let found = reported_of(
        &format!("{WORLD}{grant}"),
        "kind: Server, metadata: {name: own, namespace: shop}",
        "kind: Server, metadata: {name: own, namespace: shop, labels: {open: all}}",
    );
    let [one] = &found[..] else { panic!("reported once: {found:?}") };
    assert!(one.contains("without an identity"), "{one}");
}

#[test]
fn an_edit_is_tried_on_the_servers_that_it_concerns_however_many_there_are() {
    let others: String = (0..9)
        .map(|at| {
            format!(
                "---\n{{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: \
                 {{name: a{at}, namespace: shop}}, spec: {{podSelector: {{}}, port: 9{at}}}}}\n"
            )
        })
        .collect();
    let world = format!("{WORLD}{others}");
    for (before, after) in [
        ("except: [10.1.0.0/16]", "except: [10.1.1.0/24]"),
        (", {group: policy.linkerd.io, kind: MeshTLSAuthentication, name: m}", ""),
    ] {
        assert_eq!(reported_of(&world, before, after).len(), 1, "{before}");
    }
}

#[test]
fn an_edit_is_tried_with_some_of_more_clients_than_can_be_tried() {
    let names: String = (0..3000).map(|at| format!("b{at}.shop, ")).collect();
    let world = WORLD.replace("identities: [", &format!("identities: [{names}"));
    let found = reported_of(&world, "10.0.0.0/8, except: [10.1.0.0/16]", "0.0.0.0/0");
    let [one] = &found[..] else { panic!("reported once: {found:?}") };
    assert!(one.contains("with an identity that a policy names"), "{one}");
}
