//! Where policies count, by what they name.

use super::*;
use policy_core::Protocol;

const BOUND: &str = "from the request to the end of the response";

fn bound(seconds: u64, name: &str) -> String {
    format!("{BOUND} {seconds}s: TimeoutPolicy shop/{name}")
}

/// Probes and requests that no route matches have no rule, and are on the Server nonetheless.
#[test]
fn policies_on_a_server_hold_for_every_request_that_is_permitted() {
    let server = timeout("server", 1, WEB, "request: 10s");
    let plain = compiled(&[&server]);
    assert_eq!(effects(&plain, "/", "web", &[]), [bound(10, "server")], "no routes");
    let closed = common::server("HTTP/2", "deny");
    let probed = common::compiled(&[POD, &closed, &server]);
    assert_eq!(effects(&probed, "/ready", "web", &[]), [bound(10, "server")], "a probe");
    assert_eq!(effects(&probed, "/", "web", &[]), ["unauthorized"]);
    let cart = route("HTTPRoute", "cart", CART);
    let on_cart = timeout("cart", 2, ON_CART, "request: 3s");
    let routed = compiled(&[&server, &cart, &on_cart]);
    assert_eq!(effects(&routed, "/cart", "web", &[]), [bound(3, "cart")]);
    assert_eq!(effects(&routed, "/ready", "web", &[]), [bound(10, "server")], "a probe");
    assert_eq!(effects(&routed, "/", "web", &[]), ["no_route"]);
}

#[test]
fn policies_on_a_grpcroute_hold_for_its_calls() {
    let calls = route("GRPCRoute", "calls", "matches: [{method: {service: s}}]");
    let target = "group: gateway.networking.k8s.io, kind: GRPCRoute, name: calls";
    let all = common::compiled(&[
        POD,
        &server("gRPC", "all-unauthenticated"),
        &calls,
        &timeout("calls", 1, target, "request: 3s"),
    ]);
    let rules: Vec<_> =
        web(&all, 8080).routes.routes.iter().flat_map(|r| r.rules.to_vec()).collect();
    let effects: Vec<String> = rules
        .iter()
        .flat_map(|rule| &rule.effects)
        .map(|effect| effect.source.to_string())
        .collect();
    assert_eq!(effects, ["TimeoutPolicy shop/calls"]);
}

/// They hold for the rules that Servers answer for the object, and do not flow down.
#[test]
fn policies_on_an_inboundroute_hold_for_its_own_rules() {
    let root = "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
                metadata: {name: www, namespace: shop}\n\
                spec: {virtualhost: {fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, \
                name: web}}, routes: [{match: /own, serve: {}}, {match: /down, delegate: {name: below}}]}";
    let below = "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
                 metadata: {name: below, namespace: shop}\n\
                 spec: {delegatedFrom: [{fqdn: a.io}], routes: [{match: /down, serve: {}}]}";
    let on = |name: &str| format!("kind: InboundRoute, name: {name}");
    let top = timeout("top", 1, &on("www"), "request: 3s");
    let under = timeout("under", 2, &on("below"), "request: 20s");
    let server = timeout("server", 3, WEB, "request: 10s");
    let all = compiled(&[root, below, &top]);
    assert_eq!(effects(&all, "/own", "a.io", &[]), [bound(3, "top")]);
    assert_eq!(effects(&all, "/down", "a.io", &[]), Vec::<String>::new());
    let all = compiled(&[root, below, &top, &under, &server]);
    assert_eq!(effects(&all, "/own", "a.io", &[]), [bound(3, "top")]);
    assert_eq!(effects(&all, "/down", "a.io", &[]), [bound(10, "server")]);
    let wanted = lines([
        ("server", &["Server shop/web: Accepted=True (Accepted)"]),
        ("top", &["InboundRoute shop/www: Accepted=True (Accepted)"]),
        ("under", &["InboundRoute shop/below: Accepted=True (Accepted)"]),
    ]);
    assert_eq!(told(&all, Kind::TimeoutPolicy), wanted);
}

/// A route in a tree brings its policies along.
#[test]
fn policies_on_a_route_hold_in_a_tree() {
    let root = "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
                metadata: {name: www, namespace: shop}\n\
                spec: {virtualhost: {fqdn: a.io, targetRef: {group: policy.linkerd.io, kind: Server, \
                name: web}}, routes: [{match: /, delegate: {kind: HTTPRoute, \
                name: cart}}]}";
    let cart = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
                metadata: {name: cart, namespace: shop}\n\
                spec:\n  hostnames: [a.io]\n\
                \x20 parentRefs: [{group: portcullis.dev, kind: InboundRoute, name: www}]\n\
                \x20 rules: [{matches: [{path: {value: /cart}}]}]";
    let all = compiled(&[root, cart, &timeout("cart", 1, ON_CART, "request: 3s")]);
    assert_eq!(effects(&all, "/cart", "a.io", &[]), [bound(3, "cart")]);
}

#[test]
fn a_port_without_requests_has_no_effects() {
    for protocol in ["opaque", "TLS"] {
        let server = server(protocol, "all-unauthenticated");
        let bounded = timeout("t", 1, WEB, "request: 3s");
        let changed = rewrite("h", 2, WEB, "{clear: [x-a]}");
        let all = common::compiled(&[POD, &server, &bounded, &changed]);
        assert_eq!(web(&all, 8080).effects, [], "{protocol}");
        let mismatch = "Server shop/web: Accepted=False (ProtocolMismatch): Server shop/web carries no \
                        requests, by its proxyProtocol";
        assert_eq!(told(&all, Kind::TimeoutPolicy), lines([("t", &[mismatch])]));
        assert_eq!(told(&all, Kind::HeaderRewritePolicy), lines([("h", &[mismatch])]));
    }
    let all = common::compiled(&[
        POD,
        &server("unknown", "all-unauthenticated"),
        &timeout("t", 1, WEB, "request: 3s"),
    ]);
    assert!(matches!(web(&all, 8080).protocol, Protocol::Detect { .. }));
    assert_eq!(effects(&all, "/", "web", &[]), [bound(3, "t")]);
}

#[test]
fn a_target_that_does_not_exist_is_told() {
    let cart = route("HTTPRoute", "cart", CART);
    let all = compiled(&[
        &cart,
        &timeout("found", 1, ON_CART, "request: 3s"),
        &timeout("gone", 2, "kind: Server, name: gone", "request: 3s"),
        &timeout("class", 3, "kind: HttpRouteClass, name: gone", "request: 3s"),
        &timeout(
            "group",
            4,
            &ON_CART.replace("gateway.networking.k8s.io", "policy.linkerd.io"),
            "request: 3s",
        ),
    ]);
    assert_eq!(effects(&all, "/cart", "web", &[]), [bound(3, "found")]);
    let wanted = lines([
        (
            "class",
            &[
                "HttpRouteClass shop/gone: Accepted=False (NoMatchingTarget): HttpRouteClass shop/gone does \
               not exist",
            ],
        ),
        ("found", &["HTTPRoute shop/cart: Accepted=True (Accepted)"]),
        (
            "gone",
            &[
                "Server shop/gone: Accepted=False (NoMatchingTarget): Server shop/gone does not exist",
            ],
        ),
        (
            "group",
            &[
                "HTTPRoute shop/cart: Accepted=False (NoMatchingTarget): HTTPRoute.policy.linkerd.io \
               shop/cart does not exist; there is one of gateway.networking.k8s.io; is that meant?",
            ],
        ),
    ]);
    assert_eq!(told(&all, Kind::TimeoutPolicy), wanted);
}

/// A route with a filter that is not supported denies, whatever policies are on it.
#[test]
fn a_route_that_denies_denies() {
    let mirror =
        "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}}}]";
    let cart = route("HTTPRoute", "cart", &format!("{CART}, {mirror}"));
    let rest = route("HTTPRoute", "rest", "matches: [{path: {value: /}}]");
    let all = compiled(&[&cart, &rest, &timeout("t", 1, ON_CART, "request: 3s")]);
    assert_eq!(effects(&all, "/cart", "web", &[]), ["unauthorized"]);
}

const GROUP: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteGroup\n\
                     metadata: {name: books, namespace: shop}\n\
                     spec: {routes: [{path: '/books/:id'}, {path: /other}]}";
const BINDING: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteBinding\n\
                       metadata: {name: books, namespace: shop}\n\
                       spec: {targetRef: {kind: Server, name: web}, routeRefs: [{name: books}]}";
const CLASS: &str = "apiVersion: portcullis.dev/v1alpha1\nkind: HttpRouteClass\n\
                     metadata: {name: some, namespace: shop}\n\
                     spec: {targetRef: {kind: Server, name: web}, routeSelector: {matchExpressions: \
                     [{key: path.http.linkerd.io/id, operator: In, values: ['42']}]}}";
const ON_BINDING: &str = "kind: HttpRouteBinding, name: books";
const ON_CLASS: &str = "kind: HttpRouteClass, name: some";

/// On the Server 10 s, on the class 3 s, on the binding 5 s.
#[test]
fn policies_on_a_class_hold_for_the_requests_that_it_selects() {
    let server = timeout("server", 3, WEB, "request: 10s");
    let class = timeout("class", 2, ON_CLASS, "request: 3s");
    let binding = timeout("binding", 1, ON_BINDING, "request: 5s");
    for policies in [[&server, &class, &binding], [&binding, &server, &class]] {
        let [a, b, c] = policies;
        let all = compiled(&[GROUP, BINDING, CLASS, a, b, c]);
        assert_eq!(effects(&all, "/books/42", "web", &[]), [bound(3, "class")]);
        assert_eq!(effects(&all, "/books/42/", "web", &[]), [bound(3, "class")]);
        assert_eq!(effects(&all, "/books/43", "web", &[]), [bound(5, "binding")]);
        assert_eq!(effects(&all, "/other", "web", &[]), [bound(5, "binding")]);
    }
}

/// First those of bindings, then those of classes, then those of the Server, whatever their age.
#[test]
fn policies_about_headers_overlap_where_their_targets_meet() {
    let server = rewrite("server", 1, WEB, "{add: {x-b: '1'}}");
    let class = rewrite("class", 2, ON_CLASS, "{set: {x-a: class}}");
    let binding = rewrite("binding", 3, ON_BINDING, "{set: {x-a: binding}}, {clear: [x-b]}");
    let all = compiled(&[GROUP, BINDING, CLASS, &server, &class, &binding]);
    let wanted = [
        "set x-a: binding: HeaderRewritePolicy shop/binding",
        "clear x-b: HeaderRewritePolicy shop/binding",
        "set x-a: class: HeaderRewritePolicy shop/class",
        "add x-b: 1: HeaderRewritePolicy shop/server",
    ];
    assert_eq!(effects(&all, "/books/42", "web", &[]), wanted);
    assert_eq!(effects(&all, "/books/43", "web", &[]), [wanted[0], wanted[1], wanted[3]]);
    let after = |target: &str, header: &str| {
        format!(
            "{target}: Overlaps=True (Overlaps): the order matters to some requests, and it is applied \
             after HeaderRewritePolicy shop/binding (`{header}`)"
        )
    };
    let of_class = after("HttpRouteClass shop/some", "x-a");
    let of_server = after("Server shop/web", "x-b");
    let wanted = lines([
        ("binding", &["HttpRouteBinding shop/books: Accepted=True (Accepted)"]),
        ("class", &["HttpRouteClass shop/some: Accepted=True (Accepted)", &of_class]),
        ("server", &["Server shop/web: Accepted=True (Accepted)", &of_server]),
    ]);
    assert_eq!(told(&all, Kind::HeaderRewritePolicy), wanted);
}
