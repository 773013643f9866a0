//! Filters of children: what an owner allows, and what nobody has without it.

use super::children::{answer, compiled, open};
use super::common;

/// A root of `shop` that hands `/f` to HTTPRoute `bb/h` with these further fields of the delegation.
fn www(allowed: &str) -> String {
    super::children::root(
        "www",
        "fqdn: a.io",
        &format!(
            "{{match: /, serve: {{}}}}, \
             {{match: /f, delegate: {{kind: HTTPRoute, name: h, namespace: bb{allowed}}}}}"
        ),
    )
}

/// HTTPRoute `h` with a filter.
fn route(namespace: &str, filter: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{name: h, namespace: {namespace}}}\n\
         spec:\n  hostnames: [a.io]\n\
         \x20 parentRefs: [{{group: portcullis.dev, kind: InboundRoute, name: www, namespace: shop}}]\n\
         \x20 rules: [{{matches: [{{path: {{value: /f}}}}], filters: [{filter}]}}]"
    )
}

const GRANT: &str = "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
                     metadata: {name: g, namespace: bb}\nspec:\n\
                     \x20 from: [{group: portcullis.dev, kind: InboundRoute, namespace: shop}]\n\
                     \x20 to: [{group: gateway.networking.k8s.io, kind: HTTPRoute}, \
                     {group: portcullis.dev, kind: InboundRoute}]";

fn request(name: &str) -> String {
    format!(
        "{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: {name}, value: v}}]}}}}"
    )
}

fn cookie(value: &str) -> String {
    format!(
        "{{type: ResponseHeaderModifier, \
         responseHeaderModifier: {{add: [{{name: set-cookie, value: '{value}'}}]}}}}"
    )
}

fn redirect(host: &str) -> String {
    format!("{{type: RequestRedirect, requestRedirect: {{hostname: {host}}}}}")
}

/// A child set `x-original-url: /admin`, a cookie for the whole host, and a redirect to a host of its own.
#[test]
fn a_child_of_another_namespace_has_no_filter_that_the_root_does_not_allow() {
    let closed = "not_delegated";
    let kinds = |kinds: &str| format!(", allowFilters: [{kinds}]");
    let requests = "{kind: RequestHeaderModifier}";
    let responses = "{kind: ResponseHeaderModifier}";
    let redirects = "{kind: RequestRedirect}";
    let cases = [
        (String::new(), request("x-team"), closed),
        (kinds(requests), request("x-team"), "h"),
        (kinds(responses), request("x-team"), closed),
        (kinds(requests), request("x-original-url"), closed),
        (kinds(requests), request("X-Forwarded-Prefix"), closed),
        (kinds(requests), request("authorization"), closed),
        (kinds(requests), request("cookie"), closed),
        (
            kinds("{kind: RequestHeaderModifier, headers: [x-forwarded-prefix]}"),
            request("x-forwarded-prefix"),
            "h",
        ),
        (String::new(), cookie("a=b; Path=/f"), closed),
        (kinds(responses), cookie("a=b; Path=/f"), "h"),
        (kinds(responses), cookie("a=b; Path=/"), closed),
        (kinds(responses), cookie("a=b"), closed),
        (
            kinds("{kind: ResponseHeaderModifier, headers: [Set-Cookie]}"),
            cookie("a=b; Path=/"),
            "h",
        ),
        (kinds(redirects), redirect("evil.io"), closed),
        (kinds(redirects), redirect("a.io"), "h"),
        (kinds("{kind: RequestRedirect, hosts: [login.io]}"), redirect("login.io"), "h"),
    ];
    for (allowed, filter, expected) in cases {
        let compiled = compiled(&[&open("HTTP/1"), &www(&allowed), &route("bb", &filter), GRANT]);
        assert_eq!(answer(&compiled, "a.io", "GET /f"), expected, "{allowed} {filter}");
        assert_eq!(answer(&compiled, "a.io", "GET /x"), "www");
        let refused = common::conditions(&compiled, "www")
            .contains(&"ResolvedRefs=false FilterNotAllowed".to_owned());
        assert_eq!(refused, expected == closed, "{allowed} {filter}");
    }
}

/// The owner's own routes are its own affair.
#[test]
fn a_child_of_the_roots_namespace_has_its_filters() {
    let www = www("").replace("namespace: bb", "namespace: shop");
    let own = route("shop", &request("x-original-url"));
    let compiled = compiled(&[&open("HTTP/1"), &www, &own]);
    assert_eq!(answer(&compiled, "a.io", "GET /f"), "h");
}

/// A policy changed what a filter may not.
#[test]
fn a_policy_on_a_child_changes_no_header_that_the_root_does_not_allow() {
    let child = "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
                 metadata: {name: h, namespace: bb}\n\
                 spec: {delegatedFrom: [{fqdn: a.io}], routes: [{match: /f, serve: {}}]}";
    let rewrite = |header: &str| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: HeaderRewritePolicy\n\
             metadata: {{name: r, namespace: bb}}\n\
             spec:\n  targetRef: {{group: portcullis.dev, kind: InboundRoute, name: h}}\n\
             \x20 rules: [{{set: {{{header}: v}}}}]"
        )
    };
    let www = |allowed: &str| www(allowed).replace("kind: HTTPRoute, ", "");
    let allowed = ", allowFilters: [{kind: HeaderRewritePolicy}]";
    for (allowed, header, expected) in [
        ("", "x-team", "not_delegated"),
        (allowed, "x-team", "h"),
        (allowed, "x-http-method-override", "not_delegated"),
    ] {
        let compiled = compiled(&[&open("HTTP/1"), &www(allowed), child, &rewrite(header), GRANT]);
        assert_eq!(answer(&compiled, "a.io", "GET /f"), expected, "{allowed} {header}");
    }
}

/// Selected objects answered the paths of one beside them that a policy took out of the tree.
#[test]
fn a_selected_object_that_is_refused_keeps_its_paths_from_the_others() {
    let selected = |name: &str, path: &str| {
        format!(
            "apiVersion: portcullis.dev/v1alpha1\nkind: InboundRoute\n\
             metadata: {{name: {name}, namespace: bb, labels: {{part: all}}}}\n\
             spec: {{delegatedFrom: [{{fqdn: a.io}}], routes: [{{match: {path}, serve: {{}}}}]}}"
        )
    };
    let policy = "apiVersion: portcullis.dev/v1alpha1\nkind: HeaderRewritePolicy\n\
                  metadata: {name: r, namespace: bb}\n\
                  spec:\n  targetRef: {group: portcullis.dev, kind: InboundRoute, name: admin}\n\
                  \x20 rules: [{set: {x-team: v}}]";
    let www = www("").replace(
        "kind: HTTPRoute, name: h, namespace: bb",
        "selector: {matchLabels: {part: all}}, namespace: bb",
    );
    let (wide, admin) = (selected("wide", "/f"), selected("admin", "/f/admin"));
    let answers = |documents: &[&str]| {
        let compiled =
            compiled(&[&[&open("HTTP/1"), &www, &wide, &admin, GRANT], documents].concat());
        ["/f", "/f/x", "/f/admin", "/f/admin/keys"]
            .map(|path| answer(&compiled, "a.io", &format!("GET {path}")))
    };
    assert_eq!(answers(&[]), ["wide", "wide", "admin", "admin"]);
    let closed = "not_delegated";
    assert_eq!(answers(&[policy]), ["wide", "wide", closed, closed]);
}
